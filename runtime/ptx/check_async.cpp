#include "runtime/ptx/check_async.h"

#include <algorithm>
#include <bit>

namespace driftc::runtime::ptx {

AsyncShadow::AsyncShadow(const ProgramCode& program, const Frame& frame, SharedShadow& shared,
                         FaultList& faults)
    : frame_(frame), shared_(shared), faults_(faults) {
  const auto is_copy = [](const Inst& i) { return i.op == Op::kStore && i.memory.async; };
  for (const Block& b : program.code.blocks)
    if (std::any_of(b.code.begin(), b.code.end(), is_copy)) threads_.resize(frame.lanes);
  if (!threads_.empty()) pending_.assign(frame.shared_bytes / 4 + 1, 0);
}

void AsyncShadow::begin_block() {
  for (Thread& t : threads_) t = {};
  if (copies_ > 0) std::fill(pending_.begin(), pending_.end(), std::uint16_t{0});
  copies_ = 0;
}

template <class F>
void AsyncShadow::for_lanes(const AccessLanes& lanes, F function) {
  for (std::uint32_t g = lanes.first; g < lanes.last; ++g)
    for (std::uint32_t rest = lanes.masks[g]; rest; rest &= rest - 1)
      function(g * kGroupLanes + static_cast<std::uint32_t>(std::countr_zero(rest)));
}

std::int64_t AsyncShadow::address_of(const BoundInst& in, std::uint32_t lane) const {
  const auto* row = reinterpret_cast<const std::uint32_t*>(frame_.regs + in.src[0].offset);
  return std::int64_t{static_cast<std::int32_t>(row[in.src[0].mask & lane])} + in.imm;
}

// Others are refused by the executor.
bool AsyncShadow::inside(std::int64_t address, std::uint32_t bytes) const {
  return address >= 0 && address + std::int64_t{bytes} <= std::int64_t{frame_.shared_bytes};
}

void AsyncShadow::refuse_pending(const BoundInst& in, std::uint32_t lane, std::int64_t address,
                                 std::uint32_t bytes, Access how) {
  for (auto w = static_cast<std::size_t>(address) / 4;
       w <= (static_cast<std::size_t>(address) + bytes - 1) / 4; ++w)
    if (pending_[w] != 0)
      faults_.report(FaultKind::kNotDelivered, in, lane, 4 * w, bytes, how, pending_[w] - 1);
}

void AsyncShadow::copy(const BoundInst& in, const AccessLanes& lanes, std::uint32_t bytes) {
  for_lanes(lanes, [&](std::uint32_t lane) {
    const std::int64_t address = address_of(in, lane);
    if (!inside(address, bytes)) return;
    refuse_pending(in, lane, address, bytes, Access::kWrite);
    const auto at = static_cast<std::uint32_t>(address);
    Thread& thread = threads_[lane];
    thread.copies.push_back({&in, thread.group, at, bytes});
    ++copies_;
    std::fill_n(pending_.begin() + at / 4, bytes / 4, static_cast<std::uint16_t>(lane + 1));
  });
}

void AsyncShadow::access(const BoundInst& in, const AccessLanes& lanes, std::uint32_t bytes,
                         Access how) {
  for_lanes(lanes, [&](std::uint32_t lane) {
    const std::int64_t address = address_of(in, lane);
    if (inside(address, bytes)) refuse_pending(in, lane, address, bytes, how);
  });
}

void AsyncShadow::commit(const AccessLanes& lanes) {
  if (threads_.empty()) return;
  for_lanes(lanes, [&](std::uint32_t lane) { ++threads_[lane].group; });
}

void AsyncShadow::wait(const AccessLanes& lanes, std::int64_t may_run) {
  if (threads_.empty()) return;
  for_lanes(lanes, [&](std::uint32_t lane) {
    Thread& thread = threads_[lane];
    std::erase_if(thread.copies, [&](const Copy& copy) {
      if (std::int64_t{copy.group} >= std::int64_t{thread.group} - may_run) return false;
      std::fill_n(pending_.begin() + copy.address / 4, copy.bytes / 4, std::uint16_t{0});
      shared_.one(*copy.in, lane, copy.address, copy.bytes, Access::kWrite);
      --copies_;
      return true;
    });
  });
}

}  // namespace driftc::runtime::ptx
