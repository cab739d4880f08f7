#include <algorithm>
#include <cstring>

#include "runtime/ptx/frame.h"

namespace driftc::runtime::ptx {
namespace {

std::uint64_t in_register(const Frame& f, const Place& p, std::uint32_t lane, std::uint32_t bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, f.regs + p.offset + std::size_t{p.mask & lane} * (bytes == 8 ? 8 : 4), bytes);
  return value;
}

// Where the lane's access begins, as faults count addresses.
std::uint64_t begin_of(const BoundInst& in, const Frame& f, std::uint32_t lane) {
  const auto offset = static_cast<std::uint64_t>(in.imm);
  if (in.memory.space != Space::kShared) return in_register(f, in.src[0], lane, 8) + offset;
  const auto base = static_cast<std::uint32_t>(in_register(f, in.src[0], lane, 4));
  return static_cast<std::uint64_t>(std::int64_t{static_cast<std::int32_t>(base)}) + offset;
}

}  // namespace

void note_value(const BoundInst& in, const Frame& f, Fault& fault) {
  const Op op = in.inst->op;
  if (fault.bytes == 0 || fault.value_bytes != 0) return;
  if (op == Op::kStore || op == Op::kAtomic) {
    const std::uint32_t each = in.memory.bytes;
    std::uint32_t element = 0;
    // A race names the part of a vector that it is about.
    if (op == Op::kStore)
      element = static_cast<std::uint32_t>(std::min<std::uint64_t>(
          (fault.address - begin_of(in, f, fault.lane)) / each, in.memory.count - 1u));
    fault.value = in_register(f, in.src[1 + element], fault.lane, each);
    fault.value_bytes = each;
    return;
  }
  // What lies in memory, where it is memory.
  if (fault.kind == FaultKind::kOutOfBounds || fault.kind == FaultKind::kMisaligned) return;
  const std::uint32_t bytes = std::min<std::uint32_t>(in.memory.bytes, 4);
  const std::byte* at = nullptr;
  if (in.memory.space == Space::kShared) {
    if (fault.address + bytes <= f.shared_bytes) at = f.shared + fault.address;
  } else if (f.memory->find(fault.address, bytes)) {
    at = reinterpret_cast<const std::byte*>(fault.address);
  }
  if (!at) return;
  std::memcpy(&fault.value, at, bytes);
  fault.value_bytes = bytes;
}

}  // namespace driftc::runtime::ptx
