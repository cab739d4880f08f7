#include "runtime/ptx/check_shared.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace driftc::runtime::ptx {
namespace {

constexpr std::uint32_t kLastInterval = (1u << (32 - kThreadBits)) - 1;
constexpr std::uint32_t kAllLanes = 0xFFFF;
constexpr std::size_t kMaxPending = std::size_t{1} << 22;  // addresses kept: 16 MiB

constexpr auto kAllGroups = [] {
  std::array<std::uint16_t, kMaxGroups> out{};
  out.fill(kAllLanes);
  return out;
}();

bool is_access(const Inst& i) {
  return i.op == Op::kLoad || i.op == Op::kLoadMatrix || i.op == Op::kStore || i.op == Op::kAtomic;
}

// The width of the narrowest access that may reach shared memory.
std::uint32_t narrowest(const Code& code) {
  std::uint32_t bytes = 4;
  for (const Block& b : code.blocks)
    for (const Inst& i : b.code)  // the loads of regions are 4 bytes wide
      if (is_access(i) && (i.memory.space == Space::kShared || i.memory.space == Space::kNone))
        bytes = std::min<std::uint32_t>(bytes, i.memory.bytes);
  return bytes;
}

// Accesses whose readers cannot be told by instruction: atomics, and generic addresses.
bool has_unusual(const Code& code) {
  for (const Block& b : code.blocks)
    for (const Inst& i : b.code)
      if (is_access(i) && (i.memory.space == Space::kNone ||
                           (i.memory.space == Space::kShared && i.op == Op::kAtomic)))
        return true;
  return false;
}

std::uint32_t thread_of(std::uint32_t stamp) { return stamp & kThreadMask; }
std::int64_t wrapped(std::uint32_t address) {
  return std::int64_t{static_cast<std::int32_t>(address)};
}

}  // namespace

SharedShadow::SharedShadow(const ProgramCode& program, const Frame& frame, FaultList& faults)
    : frame_(frame),
      faults_(faults),
      lanes_(lane_functions()),
      ordered_warps_(program.has_warp_barriers),
      all_stamped_(has_unusual(program.code)) {
  element_shift_ = static_cast<std::uint32_t>(std::countr_zero(narrowest(program.code)));
  const std::size_t elements = (frame.shared_bytes >> element_shift_) + 1;
  for (auto* stamps : {&written_, &read_, &read_other_}) stamps->assign(elements, 0);
  if (all_stamped_)
    for (auto* stamps : {&atomic_, &atomic_other_}) stamps->assign(elements, 0);
}

void SharedShadow::begin_block() {
  barrier();
  first_interval_ = interval_;
}

void SharedShadow::barrier() {
  pending_.clear();
  addresses_.clear();
  masks_.clear();
  pending_ranges_.clear();
  stamped_ = false;
  if (interval_ < kLastInterval) {
    ++interval_;
    return;
  }
  // The counter is used up: "written by this block" is all that is kept.
  for (std::uint32_t& w : written_)
    w = (w >> kThreadBits) >= first_interval_ ? 1u << kThreadBits : 0;
  for (auto* stamps : {&read_, &read_other_, &atomic_, &atomic_other_})
    std::fill(stamps->begin(), stamps->end(), 0u);
  first_interval_ = 1;
  interval_ = 2;
}

// A stamp of this interval left by another thread.
bool SharedShadow::foreign(std::uint32_t stamp, std::uint32_t lane) const {
  if (stamp < now() || stamp == (now() | lane)) return false;
  return !ordered_warps_ || thread_of(stamp) / 32 != lane / 32;
}

const std::uint32_t* SharedShadow::row(const BoundInst& in) const {
  return reinterpret_cast<const std::uint32_t*>(frame_.regs + in.src[0].offset);
}

// ---- element by element: every report comes from here

void SharedShadow::check_read(const BoundInst& in, std::uint32_t lane, std::uint32_t e,
                              std::uint32_t bytes) {
  const std::uint64_t address = std::uint64_t{e} << element_shift_;
  if ((written_[e] >> kThreadBits) < first_interval_) {
    faults_.report(FaultKind::kUninitialized, in, lane, address, bytes, Access::kRead);
    written_[e] = now() | lane;
  }
  if (all_stamped_)
    for (const auto* s : {&atomic_, &atomic_other_})
      if (foreign((*s)[e], lane))
        faults_.report(FaultKind::kMixedAtomic, in, lane, address, bytes, Access::kRead,
                       thread_of((*s)[e]));
  if (foreign(written_[e], lane))
    faults_.report(FaultKind::kRace, in, lane, address, bytes, Access::kRead,
                   thread_of(written_[e]));
}

void SharedShadow::one(const BoundInst& in, std::uint32_t lane, std::int64_t address,
                       std::uint32_t bytes, Access how) {
  // Out of bounds, or misaligned: the executor says so.
  if (address < 0 || address + std::int64_t{bytes} > std::int64_t{frame_.shared_bytes} ||
      (address & (bytes - 1)))
    return;
  const std::uint32_t mine = now() | lane;
  const std::uint32_t begin = static_cast<std::uint32_t>(address) >> element_shift_,
                      end = (static_cast<std::uint32_t>(address) + bytes - 1) >> element_shift_;
  auto race = [&](FaultKind kind, std::uint32_t e, std::uint32_t stamp) {
    faults_.report(kind, in, lane, std::uint64_t{e} << element_shift_, bytes, how,
                   thread_of(stamp));
  };
  for (std::uint32_t e = begin; e <= end; ++e) {
    if (how == Access::kRead) {
      check_read(in, lane, e, bytes);
      continue;
    }
    if (how == Access::kAtomic) {
      if ((written_[e] >> kThreadBits) < first_interval_) {
        faults_.report(FaultKind::kUninitialized, in, lane, std::uint64_t{e} << element_shift_,
                       bytes, how);
        written_[e] = mine;
      }
      for (const auto* s : {&written_, &read_, &read_other_})
        if (foreign((*s)[e], lane)) race(FaultKind::kMixedAtomic, e, (*s)[e]);
      if (atomic_[e] < now())
        atomic_[e] = mine;
      else if (atomic_[e] != mine)
        atomic_other_[e] = mine;
      continue;
    }
    if (all_stamped_)
      for (const auto* s : {&atomic_, &atomic_other_})
        if (foreign((*s)[e], lane)) race(FaultKind::kMixedAtomic, e, (*s)[e]);
    if (foreign(written_[e], lane)) race(FaultKind::kRace, e, written_[e]);
    for (const auto* s : {&read_, &read_other_})
      if (foreign((*s)[e], lane)) race(FaultKind::kRaceWithRead, e, (*s)[e]);
    written_[e] = mine;
  }
  if (how == Access::kRead && all_stamped_) stamp_read(address, bytes, lane);
}

void SharedShadow::one_by_one(const BoundInst& in, const AccessLanes& lanes, std::uint32_t bytes,
                              Access how) {
  const std::uint32_t* const a = row(in);
  for (std::uint32_t g = lanes.first; g < lanes.last; ++g) {
    auto at = [&](std::uint32_t j) {
      return wrapped(a[in.src[0].mask & (g * kGroupLanes + j)]) + in.imm;
    };
    for (std::uint32_t rest = lanes.masks[g]; rest; rest &= rest - 1) {
      const auto j = static_cast<std::uint32_t>(std::countr_zero(rest));
      one(in, g * kGroupLanes + j, at(j), bytes, how);
    }
  }
}

// ---- readers

void SharedShadow::stamp_read(std::int64_t address, std::uint32_t bytes, std::uint32_t lane) {
  const std::uint32_t mine = now() | lane;
  const auto begin = static_cast<std::uint32_t>(address) >> element_shift_,
             end = (static_cast<std::uint32_t>(address) + bytes - 1) >> element_shift_;
  for (std::uint32_t e = begin; e <= end; ++e) {
    if (read_[e] < now())
      read_[e] = mine;
    else if (read_[e] != mine)
      read_other_[e] = mine;
  }
}

void SharedShadow::stamp_group(const BoundInst& in, const std::uint32_t* a, bool same,
                               std::uint32_t mask, std::uint32_t group, std::uint32_t bytes) {
  for (std::uint32_t rest = mask; rest; rest &= rest - 1) {
    const auto j = static_cast<std::uint32_t>(std::countr_zero(rest));
    const std::int64_t address = wrapped(a[same ? 0 : j]) + in.imm;
    stamp_read(address, bytes, group * kGroupLanes + j);
  }
}

void SharedShadow::make_stamps() {
  for (const PendingRead& read : pending_) {
    if (read.in) {
      for (std::uint32_t g = read.first; g < read.last; ++g)
        stamp_group(*read.in,
                    addresses_.data() + read.addresses +
                        (read.same ? 0 : std::size_t{g - read.first} * kGroupLanes),
                    read.same, masks_[read.masks + (g - read.first)], g, read.bytes);
      continue;
    }
    const std::vector<LoadBase>& bases = bases_of(*read.region);
    for (const BoundInst& load : read.region->fallback) {
      if (load.inst->op != Op::kLoad) continue;
      const auto base = std::find_if(bases.begin(), bases.end(),
                                     [&](const LoadBase& b) { return b.reg == load.inst->src[0]; });
      const std::uint32_t* const a =
          addresses_.data() + read.addresses +
          static_cast<std::size_t>(base - bases.begin()) * frame_.groups * kGroupLanes;
      for (std::uint32_t g = 0; g < frame_.groups; ++g)
        stamp_group(load, a + std::size_t{g} * kGroupLanes, false, kAllLanes, g,
                    std::uint32_t{load.memory.bytes} * load.memory.count);
    }
  }
  stamped_ = stamped_ || !pending_.empty();
  pending_.clear();
  addresses_.clear();
  masks_.clear();
  pending_ranges_.clear();
}

void SharedShadow::note(const BoundInst& in, const AccessLanes& lanes, std::uint32_t bytes,
                        Range range) {
  if (addresses_.size() > kMaxPending) make_stamps();
  PendingRead read;
  read.in = &in;
  read.bytes = bytes;
  read.first = lanes.first;
  read.last = lanes.last;
  read.same = in.src[0].mask == 0;
  read.addresses = addresses_.size();
  read.masks = masks_.size();
  masks_.insert(masks_.end(), lanes.masks + lanes.first, lanes.masks + lanes.last);
  const std::uint32_t* const a = row(in);
  if (read.same)
    addresses_.push_back(a[0]);
  else
    addresses_.insert(addresses_.end(), a + std::size_t{lanes.first} * kGroupLanes,
                      a + std::size_t{lanes.last} * kGroupLanes);
  pending_.push_back(read);
  pending_ranges_.push_back(range);
}

// ---- whole instructions

// Where the lanes' accesses lie; false when one is out of bounds or misaligned.
bool SharedShadow::usual_extent(const BoundInst& in, const AccessLanes& lanes, std::uint32_t bytes,
                                Range& range) const {
  const std::uint32_t* const a = row(in);
  LaneExtent e{wrapped(a[0]), wrapped(a[0]), (a[0] & (bytes - 1)) == 0};
  if (in.src[0].mask != 0) e = lanes_.extent32(a, lanes.masks, lanes.first, lanes.last, bytes);
  range = {e.low + in.imm, e.high + in.imm + std::int64_t{bytes}};
  return range.low >= 0 && range.high <= std::int64_t{frame_.shared_bytes} && e.aligned &&
         (in.imm & (bytes - 1)) == 0;
}

// Every element of [low, high) was written by this block before this interval.
bool SharedShadow::clean(std::int64_t low, std::int64_t high) const {
  const std::size_t begin = static_cast<std::size_t>(low) >> element_shift_,
                    end = ((static_cast<std::size_t>(high) - 1) >> element_shift_) + 1;
  return lanes_.within(written_.data() + begin, end - begin, first_interval_ << kThreadBits, now());
}

bool SharedShadow::clean_lanes(const BoundInst& in, const AccessLanes& lanes,
                               std::uint32_t bytes) const {
  const std::uint32_t* const a = row(in);
  const std::uint32_t each = bytes >> element_shift_, least = first_interval_ << kThreadBits;
  for (std::uint32_t g = lanes.first; g < lanes.last; ++g)
    for (std::uint32_t rest = lanes.masks[g]; rest; rest &= rest - 1) {
      const std::uint32_t i = g * kGroupLanes + static_cast<std::uint32_t>(std::countr_zero(rest));
      const std::uint32_t* const w =
          written_.data() +
          (static_cast<std::size_t>(wrapped(a[in.src[0].mask & i]) + in.imm) >> element_shift_);
      for (std::uint32_t k = 0; k < each; ++k)
        if (w[k] < least || (w[k] >= now() && w[k] != (now() | i))) return false;
    }
  return true;
}

void SharedShadow::read(const BoundInst& in, const AccessLanes& lanes, std::uint32_t bytes) {
  Range range;
  const bool usual = usual_extent(in, lanes, bytes, range);
  // A range much wider than what is read says little.
  const std::int64_t most = std::int64_t{lanes.last - lanes.first} * kGroupLanes * bytes * 4;
  const bool fine = usual && ((range.high - range.low <= most && clean(range.low, range.high)) ||
                              clean_lanes(in, lanes, bytes));
  if (!fine) one_by_one(in, lanes, bytes, Access::kRead);
  if (usual) note(in, lanes, bytes, range);
}

// A write of the active lanes to elements of their own. False: somebody else wrote one of them in
// this interval.
bool SharedShadow::write_group(const BoundInst& in, std::uint32_t g, std::uint32_t mask,
                               std::uint32_t bytes) {
  if (in.src[0].mask == 0) return false;
  const std::uint32_t* const a = row(in) + std::size_t{g} * kGroupLanes;
  const std::uint32_t each = bytes >> element_shift_;
  auto element = [&](std::uint32_t j) {
    return static_cast<std::size_t>(wrapped(a[j]) + in.imm) >> element_shift_;
  };
  for (std::uint32_t rest = mask; rest; rest &= rest - 1) {
    const auto j = static_cast<std::uint32_t>(std::countr_zero(rest));
    std::uint32_t* const w = written_.data() + element(j);
    const std::uint32_t mine = now() | (g * kGroupLanes + j);
    for (std::uint32_t k = 0; k < each; ++k) {
      if (w[k] >= now() && w[k] != mine) return false;
      w[k] = mine;
    }
  }
  return true;
}

void SharedShadow::write(const BoundInst& in, const AccessLanes& lanes, std::uint32_t bytes) {
  Range range;
  if (!usual_extent(in, lanes, bytes, range)) {
    make_stamps();
    return one_by_one(in, lanes, bytes, Access::kWrite);
  }
  for (const Range& r : pending_ranges_) {
    if (range.low >= r.high || r.low >= range.high) continue;
    make_stamps();
    break;
  }
  if (stamped_) return one_by_one(in, lanes, bytes, Access::kWrite);
  const auto log_each = static_cast<std::uint32_t>(std::countr_zero(bytes >> element_shift_));
  for (std::uint32_t g = lanes.first; g < lanes.last; ++g) {
    if (in.src[0].mask != 0)
      g = lanes_.stamp_rows(written_.data(), row(in), lanes.masks, g, lanes.last, in.imm,
                            element_shift_, log_each, now());
    if (g == lanes.last) return;
    if (lanes.masks[g] == 0 || write_group(in, g, lanes.masks[g], bytes)) continue;
    AccessLanes group;
    group.masks[g] = lanes.masks[g];
    group.first = g;
    group.last = g + 1;
    one_by_one(in, group, bytes, Access::kWrite);
  }
}

void SharedShadow::access(const BoundInst& in, const AccessLanes& lanes, std::uint32_t bytes,
                          Access how) {
  if (all_stamped_ || how == Access::kAtomic) return one_by_one(in, lanes, bytes, how);
  if (how == Access::kRead)
    read(in, lanes, bytes);
  else
    write(in, lanes, bytes);
}

// ---- regions

const std::vector<SharedShadow::LoadBase>& SharedShadow::bases_of(const BoundRegion& region) {
  const auto [at, fresh] = bases_.try_emplace(&region);
  std::vector<LoadBase>& bases = at->second;
  if (!fresh) return bases;
  for (const BoundInst& load : region.fallback) {
    if (load.inst->op != Op::kLoad) continue;
    auto base = std::find_if(bases.begin(), bases.end(),
                             [&](const LoadBase& b) { return b.reg == load.inst->src[0]; });
    if (base == bases.end())
      base = bases.insert(bases.end(), LoadBase{load.inst->src[0], load.src[0], {}});
    for (int e = 0; e < load.memory.count; ++e) base->offsets.push_back(load.imm + 4 * e);
    const std::uint32_t bytes = 4u * load.memory.count;
    base->widest = std::max(base->widest, bytes);
    base->offsets_aligned = base->offsets_aligned && (load.imm & (bytes - 1)) == 0;
  }
  for (LoadBase& base : bases) {
    std::sort(base.offsets.begin(), base.offsets.end());
    base.offsets.erase(std::unique(base.offsets.begin(), base.offsets.end()), base.offsets.end());
  }
  return bases;
}

// Everything loaded from a base was written before this interval. For tiles with gaps between what
// is read: the words that lanes read at one offset, as runs.
bool SharedShadow::clean_loads(const LoadBase& base, const LaneExtent& extent) {
  const auto* a = reinterpret_cast<const std::uint32_t*>(frame_.regs + base.place.offset);
  const std::size_t words = static_cast<std::size_t>(extent.high - extent.low) / 4 + 1;
  footprint_.assign((words + 63) / 64, 0);
  const std::uint32_t lanes = base.place.mask == 0 ? 1 : frame_.groups * kGroupLanes;
  for (std::uint32_t i = 0; i < lanes; ++i) {
    const auto w = static_cast<std::size_t>(wrapped(a[i]) - extent.low) / 4;
    footprint_[w / 64] |= std::uint64_t{1} << (w % 64);
  }
  auto marked = [&](std::size_t w) { return (footprint_[w / 64] >> (w % 64) & 1) != 0; };
  for (std::size_t begin = 0; begin < words;) {
    if (!marked(begin)) {
      ++begin;
      continue;
    }
    std::size_t end = begin + 1;
    while (end < words && marked(end)) ++end;
    for (const std::int64_t offset : base.offsets)
      if (!clean(extent.low + offset + static_cast<std::int64_t>(4 * begin),
                 extent.low + offset + static_cast<std::int64_t>(4 * end)))
        return false;
    begin = end;
  }
  return true;
}

bool SharedShadow::region(const BoundRegion& region) {
  if (all_stamped_) return false;
  if (addresses_.size() > kMaxPending) make_stamps();
  const std::size_t ranges = pending_ranges_.size(), addresses = addresses_.size();
  auto refuse = [&] {
    pending_ranges_.resize(ranges);
    addresses_.resize(addresses);
    return false;
  };
  for (const LoadBase& base : bases_of(region)) {
    const auto* a = reinterpret_cast<const std::uint32_t*>(frame_.regs + base.place.offset);
    LaneExtent e{wrapped(a[0]), wrapped(a[0]), (a[0] & (base.widest - 1)) == 0};
    if (base.place.mask != 0)
      e = lanes_.extent32(a, kAllGroups.data(), 0, frame_.groups, base.widest);
    const Range range = {e.low + base.offsets.front(), e.high + base.offsets.back() + 4};
    if (range.low < 0 || range.high > std::int64_t{frame_.shared_bytes}) return refuse();
    // Vectors must be aligned as a whole, which the executor of regions does not ask for.
    if (!base.offsets_aligned || !e.aligned) return refuse();
    if (!clean(range.low, range.high) && !clean_loads(base, e)) return refuse();
    pending_ranges_.push_back(range);
    const std::size_t lanes = std::size_t{frame_.groups} * kGroupLanes;
    if (base.place.mask == 0)
      addresses_.insert(addresses_.end(), lanes, a[0]);
    else
      addresses_.insert(addresses_.end(), a, a + lanes);
  }
  PendingRead read;
  read.region = &region;
  read.addresses = addresses;
  pending_.push_back(read);
  return true;
}

}  // namespace driftc::runtime::ptx
