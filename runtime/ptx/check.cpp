#include "runtime/ptx/check.h"

#include <algorithm>
#include <bit>

namespace driftc::runtime::ptx {
namespace {

constexpr std::size_t kMaxReports = 8;  // per block; more of them say little
constexpr std::uint32_t kThreadBits = 10;
constexpr std::uint32_t kThreadMask = (1u << kThreadBits) - 1;
constexpr std::uint32_t kLastInterval = (1u << (32 - kThreadBits)) - 1;
constexpr std::uint32_t kAllLanes = 0xFFFF;

// The width of the narrowest access that may reach shared memory.
std::uint32_t narrowest(const Code& code) {
  std::uint32_t bytes = 4;
  auto look = [&](const Inst& i) {
    const bool memory =
        i.op == Op::kLoad || i.op == Op::kLoadMatrix || i.op == Op::kStore || i.op == Op::kAtomic;
    if (memory && (i.memory.space == Space::kShared || i.memory.space == Space::kNone))
      bytes = std::min<std::uint32_t>(bytes, i.memory.bytes);
  };
  for (const Block& b : code.blocks)
    for (const Inst& i : b.code) look(i);  // the loads of regions are 4 bytes wide
  return bytes;
}

std::uint32_t thread_of(std::uint32_t stamp) { return stamp & kThreadMask; }

}  // namespace

Checker::Checker(const ProgramCode& program, const Frame& frame)
    : program_(program), frame_(frame), groups_(frame.groups) {
  const std::vector<RegInfo>& regs = program.code.regs;
  defined_.resize(regs.size() * groups_);
  all_defined_.resize(regs.size());
  for (Reg r = 0; r < regs.size(); ++r)
    if (regs[r].is_constant || regs[r].is_special) presets_.push_back(r);
  full_.assign(groups_, 0);
  for (std::uint32_t i = 0; i < frame.lanes; ++i)
    full_[i / kGroupLanes] |= static_cast<std::uint16_t>(1u << (i % kGroupLanes));
  element_shift_ = static_cast<std::uint32_t>(std::countr_zero(narrowest(program.code)));
  const std::size_t elements = (frame.shared_bytes >> element_shift_) + 1;
  for (auto* stamps : {&written_, &read_, &read_other_, &atomic_, &atomic_other_})
    stamps->assign(elements, 0);
}

void Checker::begin_block(std::uint64_t block_number) {
  block_number_ = block_number;
  faults_.clear();
  std::fill(defined_.begin(), defined_.end(), std::uint16_t{0});
  std::fill(all_defined_.begin(), all_defined_.end(), std::uint8_t{0});
  for (Reg r : presets_) {
    std::fill_n(defined(r), groups_, std::uint16_t{0xFFFF});
    all_defined_[r] = 1;
  }
  next_interval();
  first_interval_ = interval_;
}

void Checker::next_interval() {
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

void Checker::report(FaultKind kind, const Inst* inst, std::uint32_t lane, std::uint64_t address,
                     std::uint32_t bytes, Access how, std::int64_t other) {
  if (faults_.size() >= kMaxReports) return;
  for (const Fault& f : faults_)
    if (f.kind == kind && f.inst == inst) return;
  Fault fault{kind, inst, lane, address, bytes, how != Access::kRead};
  fault.other = other;
  faults_.push_back(fault);
}

// ---- registers ----------------------------------------------------------------------------------

std::uint32_t Checker::lanes_of(const BoundInst& in, std::uint32_t g) const {
  std::uint32_t m = frame_.active[g];
  if (in.guarded) {
    const std::uint32_t guard =
        reinterpret_cast<const std::uint16_t*>(frame_.regs + in.guard.offset)[in.guard.mask & g];
    m &= in.guard_negated ? ~guard : guard;
  }
  return m;
}

std::uint32_t Checker::defined_in(Reg r, std::uint32_t g) const {
  return all_defined_[r] ? kAllLanes : defined_[std::size_t{r} * groups_ + g];
}

// Lanes in which the result of a plain operation is defined: where its operands are, and where an
// operand that is not does not matter.
std::uint32_t Checker::defined_result(const BoundInst& in, std::uint32_t g) const {
  const Inst& i = *in.inst;
  auto bits = [&](std::uint8_t s) -> std::uint32_t {
    return reinterpret_cast<const std::uint16_t*>(frame_.regs +
                                                  in.src[s].offset)[in.src[s].mask & g];
  };
  if (i.op == Op::kSelp32 || i.op == Op::kSelp64) {
    const std::uint32_t chosen = bits(2), a = defined_in(i.src[0], g), b = defined_in(i.src[1], g);
    return defined_in(i.src[2], g) & ((chosen & a) | (~chosen & b));
  }
  if (i.op == Op::kAndPred || i.op == Op::kOrPred) {
    const std::uint32_t a = defined_in(i.src[0], g), b = defined_in(i.src[1], g);
    const std::uint32_t flip = i.op == Op::kAndPred ? 0 : kAllLanes;  // what decides alone
    return (a & b) | (a & ~(bits(0) ^ flip)) | (b & ~(bits(1) ^ flip));
  }
  std::uint32_t d = kAllLanes;
  for (std::uint8_t s = 0; s < i.sources; ++s) d &= defined_in(i.src[s], g);
  return d;
}

void Checker::define(const BoundInst& in, std::uint32_t g, std::uint32_t lanes,
                     std::uint32_t value) {
  for (std::uint8_t d = 0; d < in.destinations; ++d) {
    std::uint16_t& row = defined(in.inst->dst[d])[g];
    row = static_cast<std::uint16_t>((row & ~lanes) | (value & lanes));
  }
}

void Checker::propagate(const BoundInst& in, std::uint32_t first, std::uint32_t last) {
  const Inst& i = *in.inst;
  if (i.destinations == 0) return;
  // Loads and the exchanges between lanes give defined values; what they read is checked apart.
  bool all = true;
  if (in.plain)
    for (std::uint8_t s = 0; s < i.sources; ++s) all = all && all_defined_[i.src[s]];
  if (all && i.guard != kNoReg) all = all_defined_[i.guard];
  if (all) {
    for (std::uint8_t d = 0; d < i.destinations; ++d) all = all && all_defined_[i.dst[d]];
    if (all) return;
  }
  if (in.uniform) {
    std::uint32_t d = in.plain ? defined_result(in, 0) & 1 : 1;
    if (in.guarded) {
      const bool on = *reinterpret_cast<const std::uint16_t*>(frame_.regs + in.guard.offset) & 1;
      if (on == in.guard_negated) return;
      d &= defined_in(i.guard, 0) & 1;
    }
    for (std::uint8_t k = 0; k < i.destinations; ++k) {
      std::fill_n(defined(i.dst[k]), groups_, static_cast<std::uint16_t>(d ? kAllLanes : 0));
      all_defined_[i.dst[k]] = d != 0;
    }
    return;
  }
  for (std::uint8_t k = 0; k < i.destinations; ++k) {
    if (!all_defined_[i.dst[k]]) continue;
    std::fill_n(defined(i.dst[k]), groups_, std::uint16_t{0xFFFF});
  }
  // Results are looked up before any flag changes: a destination may be a source.
  std::uint32_t value[kMaxGroups], lanes[kMaxGroups];
  for (std::uint32_t g = first; g < last; ++g) {
    value[g] = in.plain ? defined_result(in, g) : kAllLanes;
    lanes[g] = lanes_of(in, g);
    if (in.guarded) {
      const std::uint32_t known = defined_in(i.guard, g);
      lanes[g] |= frame_.active[g] & ~known;  // whether it ran is not known
      value[g] &= known;
    }
  }
  for (std::uint32_t g = first; g < last; ++g) define(in, g, lanes[g], value[g]);
  for (std::uint8_t k = 0; k < i.destinations; ++k) {
    const std::uint16_t* row = defined(i.dst[k]);
    bool full = true;
    for (std::uint32_t g = 0; g < groups_; ++g) full = full && (full_[g] & ~row[g]) == 0;
    all_defined_[i.dst[k]] = full;
  }
}

void Checker::require(Reg r, const BoundInst& in, std::uint32_t g, std::uint32_t lanes,
                      Access how) {
  if (all_defined_[r]) return;
  if (const std::uint32_t bad = lanes & ~defined_in(r, g))
    report(FaultKind::kUndefinedRegister, in.inst,
           g * kGroupLanes + static_cast<std::uint32_t>(std::countr_zero(bad)), 0, 0, how);
}

bool Checker::branch(Reg condition, const Inst& at, std::uint32_t first, std::uint32_t last) {
  if (condition == kNoReg || all_defined_[condition]) return true;
  for (std::uint32_t g = first; g < last; ++g)
    if (const std::uint32_t bad = frame_.active[g] & ~defined_in(condition, g)) {
      report(FaultKind::kUndefinedRegister, &at,
             g * kGroupLanes + static_cast<std::uint32_t>(std::countr_zero(bad)), 0, 0,
             Access::kRead);
      return false;
    }
  return true;
}

// ---- memory -------------------------------------------------------------------------------------

void Checker::shared_access(const BoundInst& in, std::uint32_t lane, std::int64_t address,
                            std::uint32_t bytes, Access how) {
  // Out of bounds, or misaligned: the executor says so.
  if (address < 0 || address + std::int64_t{bytes} > std::int64_t{frame_.shared_bytes} ||
      (address & (bytes - 1)))
    return;
  const std::uint32_t now = interval_ << kThreadBits, mine = now | lane;
  const std::uint32_t begin = static_cast<std::uint32_t>(address) >> element_shift_,
                      end = (static_cast<std::uint32_t>(address) + bytes - 1) >> element_shift_;
  // A stamp of this interval left by another thread. Threads of one warp are ordered where the
  // kernel has warp barriers.
  auto foreign = [&](std::uint32_t stamp) {
    if (stamp < now || stamp == mine) return false;
    return !program_.has_warp_barriers || thread_of(stamp) / 32 != lane / 32;
  };
  auto race = [&](FaultKind kind, std::uint32_t e, std::uint32_t stamp) {
    report(kind, in.inst, lane, std::uint64_t{e} << element_shift_, bytes, how, thread_of(stamp));
  };
  for (std::uint32_t e = begin; e <= end; ++e) {
    if (how != Access::kWrite && (written_[e] >> kThreadBits) < first_interval_) {
      report(FaultKind::kUninitialized, in.inst, lane, std::uint64_t{e} << element_shift_, bytes,
             how);
      written_[e] = mine;
    }
    if (how == Access::kAtomic) {
      for (const std::vector<std::uint32_t>* s : {&written_, &read_, &read_other_})
        if (foreign((*s)[e])) race(FaultKind::kMixedAtomic, e, (*s)[e]);
      if (atomic_[e] < now)
        atomic_[e] = mine;
      else if (atomic_[e] != mine)
        atomic_other_[e] = mine;
      continue;
    }
    for (const std::vector<std::uint32_t>* s : {&atomic_, &atomic_other_})
      if (foreign((*s)[e])) race(FaultKind::kMixedAtomic, e, (*s)[e]);
    if (foreign(written_[e])) race(FaultKind::kRace, e, written_[e]);
    if (how == Access::kRead) {
      if (read_[e] < now)
        read_[e] = mine;
      else if (read_[e] != mine)
        read_other_[e] = mine;
      continue;
    }
    for (const std::vector<std::uint32_t>* s : {&read_, &read_other_})
      if (foreign((*s)[e])) race(FaultKind::kRaceWithRead, e, (*s)[e]);
    written_[e] = mine;
  }
}

void Checker::host_access(const BoundInst& in, std::uint32_t lane, std::uint64_t address,
                          std::uint32_t bytes, Access how) {
  if (address & (bytes - 1)) return;  // the executor reports it
  const std::uint64_t shared = reinterpret_cast<std::uint64_t>(frame_.shared);
  if (in.memory.space == Space::kNone && address >= shared &&
      address - shared < frame_.shared_bytes)
    return shared_access(in, lane, static_cast<std::int64_t>(address - shared), bytes, how);
  if (!buffer_ || address < buffer_->begin || address + bytes > buffer_->end) {
    buffer_ = frame_.memory->find(address, bytes);
    if (!buffer_) return;  // a constant, local memory, or out of bounds
  }
  if (std::uint8_t* written = buffer_->written.get()) {
    written += address - buffer_->begin;
    if (how == Access::kWrite) {
      std::fill_n(written, bytes, std::uint8_t{1});
    } else if (std::count(written, written + bytes, std::uint8_t{1}) != bytes) {
      report(FaultKind::kUninitialized, in.inst, lane, address, bytes, how);
    }
  }
  if (program_.has_global_atomics) mixed_access(in, lane, address, bytes, how);
}

// Blocks of such a kernel run one after the other, so one worker sees all of them.
void Checker::mixed_access(const BoundInst& in, std::uint32_t lane, std::uint64_t address,
                           std::uint32_t bytes, Access how) {
  Tracked& t = tracked_[buffer_->begin];
  if (t.plain.empty()) {
    const std::size_t words = static_cast<std::size_t>((buffer_->end - buffer_->begin) / 4 + 1);
    t.plain.assign(words, 0);
    t.atomic.assign(words, 0);
  }
  const std::uint64_t mine = (block_number_ << kThreadBits | lane) + 1;
  const std::size_t begin = static_cast<std::size_t>((address - buffer_->begin) / 4),
                    end = static_cast<std::size_t>((address - buffer_->begin + bytes - 1) / 4);
  for (std::size_t w = begin; w <= end; ++w) {
    const bool atomic = how == Access::kAtomic;
    const std::uint64_t other = (atomic ? t.plain : t.atomic)[w];
    if (other != 0 && other != mine)
      report(FaultKind::kMixedAtomic, in.inst, lane, buffer_->begin + 4 * w, bytes, how,
             (other - 1) >> kThreadBits == block_number_
                 ? static_cast<std::int64_t>((other - 1) & kThreadMask)
                 : -1);
    (atomic ? t.atomic : t.plain)[w] = mine;
  }
}

void Checker::access(const BoundInst& in, std::uint32_t first, std::uint32_t last) {
  const Inst& i = *in.inst;
  const bool matrix = i.op == Op::kLoadMatrix;
  const Access how = i.op == Op::kLoad || matrix ? Access::kRead
                     : i.op == Op::kStore        ? Access::kWrite
                                                 : Access::kAtomic;
  const std::uint32_t bytes =
      std::uint32_t{i.memory.bytes} * (how == Access::kAtomic || matrix ? 1 : i.memory.count);
  const bool shared = i.memory.space == Space::kShared;
  const bool tracked = shared || i.memory.space == Space::kNone || i.memory.space == Space::kGlobal;
  for (std::uint32_t g = first; g < last; ++g) {
    std::uint32_t lanes = in.uniform ? frame_.active[g] : lanes_of(in, g);
    // The first eight threads per matrix of a warp give its rows' addresses.
    if (matrix && 8u * i.memory.count < 32)
      lanes &= 8u * i.memory.count < 16 ? (g % 2 == 0 ? 0xFFu : 0u) : (g % 2 == 0 ? 0xFFFFu : 0u);
    if (i.guard != kNoReg) require(i.guard, in, g, frame_.active[g], how);
    if (lanes == 0) continue;
    for (std::uint8_t s = 0; s < i.sources; ++s) require(i.src[s], in, g, lanes, how);
    if (!tracked) continue;
    auto one = [&](std::uint32_t j) {
      const std::size_t at = in.src[0].mask & (g * kGroupLanes + j);
      const std::uint32_t lane = g * kGroupLanes + j;
      if (shared) {
        const auto base = reinterpret_cast<const std::int32_t*>(frame_.regs + in.src[0].offset)[at];
        shared_access(in, lane, std::int64_t{base} + in.imm, bytes, how);
      } else {
        const auto base =
            reinterpret_cast<const std::uint64_t*>(frame_.regs + in.src[0].offset)[at];
        host_access(in, lane, base + static_cast<std::uint64_t>(in.imm), bytes, how);
      }
    };
    // Many lanes that read one address are two readers: who the others are makes no difference.
    if (how == Access::kRead) {
      bool same = in.src[0].mask == 0;
      if (!same && shared) {
        const auto* a = reinterpret_cast<const std::uint32_t*>(frame_.regs + in.src[0].offset) +
                        std::size_t{g} * kGroupLanes;
        const std::uint32_t base = a[std::countr_zero(lanes)];
        std::uint32_t different = 0;
        for (std::uint32_t j = 0; j < kGroupLanes; ++j)
          different |= (a[j] ^ base) & (0u - (lanes >> j & 1));
        same = different == 0;
      }
      if (same) {
        one(static_cast<std::uint32_t>(std::countr_zero(lanes)));
        one(31 - static_cast<std::uint32_t>(std::countl_zero(lanes)));
        continue;
      }
    }
    for (std::uint32_t rest = lanes; rest; rest &= rest - 1)
      one(static_cast<std::uint32_t>(std::countr_zero(rest)));
  }
}

void Checker::before(const BoundInst& in, std::uint32_t first, std::uint32_t last) {
  const Op op = in.inst->op;
  // What an mma reads, others of the warp get: an undefined operand spoils a whole row or column.
  if (op == Op::kMma)
    for (std::uint32_t g = first; g < last; ++g)
      for (std::uint8_t s = 0; s < in.sources; ++s)
        require(in.inst->src[s], in, g, frame_.active[g], Access::kRead);
  if (op == Op::kLoad || op == Op::kLoadMatrix || op == Op::kStore || op == Op::kAtomic) {
    if (in.uniform && in.guarded) {
      const bool on = *reinterpret_cast<const std::uint16_t*>(frame_.regs + in.guard.offset) & 1;
      if (on == in.guard_negated) return;
    }
    access(in, first, last);
  }
  propagate(in, first, last);
}

}  // namespace driftc::runtime::ptx
