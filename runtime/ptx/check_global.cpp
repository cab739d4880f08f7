#include "runtime/ptx/check_global.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "runtime/ptx/check_shared.h"

namespace driftc::runtime::ptx {
namespace {

constexpr std::uint32_t kAllLanes = 0xFFFF;

bool all_written(const std::uint8_t* flags, std::size_t bytes) {
  return std::memchr(flags, 0, bytes) == nullptr;
}

}  // namespace

GlobalShadow::GlobalShadow(const ProgramCode& program, const Frame& frame, SharedShadow& shared,
                           FaultList& faults)
    : frame_(frame),
      shared_(shared),
      faults_(faults),
      lanes_(lane_functions()),
      has_atomics_(program.has_global_atomics) {}

// Makes buffer_ the one that holds the bytes. False: a constant, local memory, or out of bounds.
bool GlobalShadow::find(std::uint64_t address, std::uint64_t bytes) {
  if (buffer_ && address >= buffer_->begin && address <= buffer_->end &&
      bytes <= buffer_->end - address)
    return true;
  const DeviceMemory::Buffer* const found = frame_.memory->find(address, bytes);
  if (found) buffer_ = found;
  return found != nullptr;
}

bool GlobalShadow::untracked(std::uint64_t begin) {
  if (has_atomics_) return false;
  if (begin != asked_) {
    const DeviceMemory::Buffer* const found = frame_.memory->find(begin, 1);
    asked_ = begin;
    answer_ = found == nullptr || found->written == nullptr;
  }
  return answer_;
}

void GlobalShadow::one(const BoundInst& in, std::uint32_t lane, std::uint64_t address,
                       std::uint32_t bytes, Access how) {
  if (address & (bytes - 1)) return;  // the executor reports it
  const std::uint64_t shared = reinterpret_cast<std::uint64_t>(frame_.shared);
  if (in.memory.space == Space::kNone && address >= shared &&
      address - shared < frame_.shared_bytes)
    return shared_.one(in, lane, static_cast<std::int64_t>(address - shared), bytes, how);
  if (!find(address, bytes)) return;
  if (std::uint8_t* written = buffer_->written.get()) {
    written += address - buffer_->begin;
    if (how == Access::kWrite)
      std::memset(written, 1, bytes);
    else if (!all_written(written, bytes))
      faults_.report(FaultKind::kUninitialized, in, lane, address, bytes, how);
  }
  if (has_atomics_) mixed(in, lane, address, bytes, how);
}

// Blocks of such a kernel run one after the other, so one worker sees all of them.
void GlobalShadow::mixed(const BoundInst& in, std::uint32_t lane, std::uint64_t address,
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
      faults_.report(FaultKind::kMixedAtomic, in, lane, buffer_->begin + 4 * w, bytes, how,
                     (other - 1) >> kThreadBits == block_number_
                         ? static_cast<std::int64_t>((other - 1) & kThreadMask)
                         : -1);
    (atomic ? t.atomic : t.plain)[w] = mine;
  }
}

// The usual case: all lanes in one buffer, and nothing to keep of it but which bytes are written.
bool GlobalShadow::whole(const BoundInst& in, const AccessLanes& lanes, std::uint32_t bytes,
                         Access how) {
  if (has_atomics_ || how == Access::kAtomic || in.memory.space == Space::kNone) return false;
  const auto* const a = reinterpret_cast<const std::uint64_t*>(frame_.regs + in.src[0].offset);
  const auto at = static_cast<std::int64_t>(a[0]);
  LaneExtent e{at, at, (a[0] & (bytes - 1)) == 0};
  if (in.src[0].mask != 0) e = lanes_.extent64(a, lanes.masks, lanes.first, lanes.last, bytes);
  const auto offset = static_cast<std::uint64_t>(in.imm);
  const std::uint64_t low = static_cast<std::uint64_t>(e.low) + offset,
                      span = static_cast<std::uint64_t>(e.high) -
                             static_cast<std::uint64_t>(e.low) + bytes;
  if (!e.aligned || (offset & (bytes - 1)) != 0 || !find(low, span)) return false;
  std::uint8_t* const written = buffer_->written.get();
  if (!written) return true;
  const auto flag = [&](std::uint64_t address) {
    return written + (address + offset - buffer_->begin);
  };
  for (std::uint32_t g = lanes.first; g < lanes.last; ++g) {
    const std::uint64_t* const row = a + (in.src[0].mask & (g * kGroupLanes));
    if (in.src[0].mask != 0 && lanes.masks[g] == kAllLanes && lanes_.in_line(row, bytes)) {
      if (how == Access::kWrite)
        std::memset(flag(row[0]), 1, std::size_t{bytes} * kGroupLanes);
      else if (!all_written(flag(row[0]), std::size_t{bytes} * kGroupLanes))
        return false;
      continue;
    }
    for (std::uint32_t rest = lanes.masks[g]; rest; rest &= rest - 1) {
      std::uint8_t* const f = flag(row[in.src[0].mask & std::countr_zero(rest)]);
      if (how == Access::kWrite)
        std::memset(f, 1, bytes);
      else if (!all_written(f, bytes))
        return false;
    }
  }
  return true;
}

void GlobalShadow::access(const BoundInst& in, const AccessLanes& lanes, std::uint32_t bytes,
                          Access how) {
  if (whole(in, lanes, bytes, how)) return;
  const auto* const a = reinterpret_cast<const std::uint64_t*>(frame_.regs + in.src[0].offset);
  for (std::uint32_t g = lanes.first; g < lanes.last; ++g)
    for (std::uint32_t rest = lanes.masks[g]; rest; rest &= rest - 1) {
      const std::uint32_t i = g * kGroupLanes + static_cast<std::uint32_t>(std::countr_zero(rest));
      one(in, i, a[in.src[0].mask & i] + static_cast<std::uint64_t>(in.imm), bytes, how);
    }
}

}  // namespace driftc::runtime::ptx
