#include "runtime/ptx/jit_slow.h"

#include <bit>
#include <cstring>

#include "runtime/ptx/frame.h"

namespace driftc::runtime::ptx {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

// Where a checked access lies in this process; null after a fault.
std::byte* place_of(const JitAccess& access, Frame& f, u32 lane, u64 address, u32 bytes) {
  if (access.inst->memory.space == Space::kShared) {
    const auto at = static_cast<std::int64_t>(address);
    if (at < 0 || at + std::int64_t{bytes} > std::int64_t{f.shared_bytes}) {
      f.fail(FaultKind::kOutOfBounds, access.inst, lane, address, bytes, access.store);
      return nullptr;
    }
    if (address & (bytes - 1)) {
      f.fail(FaultKind::kMisaligned, access.inst, lane, address, bytes, access.store);
      return nullptr;
    }
    return f.shared + address;
  }
  if (address & (bytes - 1)) {
    f.fail(FaultKind::kMisaligned, access.inst, lane, address, bytes, access.store);
    return nullptr;
  }
  const bool cached =
      address >= f.cached_begin && address + bytes <= f.cached_end && address + bytes >= address;
  if (!cached && !f.locate(address, bytes)) {
    f.fail(FaultKind::kOutOfBounds, access.inst, lane, address, bytes, access.store);
    return nullptr;
  }
  if (access.store && !f.cached_writable) {
    f.fail(FaultKind::kReadOnly, access.inst, lane, address, bytes, access.store);
    return nullptr;
  }
  return reinterpret_cast<std::byte*>(address);
}

void remember(JitCache& cache, const Frame& f, u32 bytes, u64 lanes) {
  cache = {};
  const u64 size = f.cached_end - f.cached_begin;
  if (f.cached_begin % bytes != 0 || size < bytes) return;
  cache.begin = f.cached_begin;
  cache.single = (size - bytes) / bytes + 1;
  if (size >= bytes * lanes) cache.window = (size - bytes * lanes) / bytes + 1;
  const u64 words = (size - bytes) / 4 + 1;
  if (words > (u64{1} << 28)) return;
  cache.elements = static_cast<u32>(words);
  cache.bytes = size - bytes + 1;
}

}  // namespace

extern "C" std::uint32_t driftc_ptx_jit_slow(JitContext* context,
                                             std::uint32_t access_id) noexcept {
  const JitAccess& access = context->accesses[access_id];
  Frame& f = *context->frame;
  const u32 count = access.inst->memory.count, bytes = 4 * count;
  const bool host = access.inst->memory.space != Space::kShared;
  bool any = false;
  for (u64 rest = context->slow_mask & 0xFFFF; rest; rest &= rest - 1) {
    const u32 j = static_cast<u32>(std::countr_zero(rest));
    u64 address = context->slow_address[j] + static_cast<u64>(access.inst->imm);
    if (!access.wide) {
      const u32 index = context->slow_index[j];
      const u64 extended =
          access.sign
              ? static_cast<u64>(static_cast<std::int64_t>(static_cast<std::int32_t>(index)))
              : u64{index};
      address = context->slow_base + (extended << access.shift);
    }
    const u32 lane = static_cast<u32>(context->slow_group * context->vector_lanes) + j;
    std::byte* p = place_of(access, f, lane, address, bytes);
    if (!p) return 1;
    for (u32 e = 0; e < count; ++e) {
      if (access.store)
        std::memcpy(p + 4 * e, &context->slow_value[e][j], 4);
      else
        std::memcpy(&context->slow_value[e][j], p + 4 * e, 4);
    }
    any = true;
  }
  if (host && any) {
    remember(caches_of(context)[access_id], f, bytes, context->vector_lanes);
    remember(caches_of(context)[access.leader], f, bytes, context->vector_lanes);
  }
  return 0;
}

}  // namespace driftc::runtime::ptx
