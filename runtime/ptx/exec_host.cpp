// Loads and stores by host address: global, constant and generic memory. Every access is checked
// against the registered buffers before it is made.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/ptx/exec_host.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)  // see exec_plain.cpp
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <bit>

#include "runtime/ptx/exec_access_inl.h"
#include "runtime/ptx/frame.h"

HWY_BEFORE_NAMESPACE();
namespace driftc::runtime::ptx::HWY_NAMESPACE {
namespace {

template <class T>
HWY_INLINE bool load_consecutive(const BoundInst& in, Frame& f, std::size_t g, u32 m,
                                 const u64* a) {
  constexpr int kShift = sizeof(T) == 4 ? 2 : 3;
  u64 lane0;
  if (!consecutive(a, m, kShift, lane0)) return false;
  u32 low = static_cast<u32>(std::countr_zero(m)),
      high = 31 - static_cast<u32>(std::countl_zero(m));
  u64 base = lane0 + static_cast<u64>(in.imm);
  u64 begin = base + (u64{low} << kShift), bytes = u64{high - low + 1} << kShift;
  if ((begin & (sizeof(T) - 1)) || !reachable(f, begin, bytes))
    return false;  // the slow path reports the lane
  load_run(at<T>(f, in.dst[0]) + g * kGroupLanes, reinterpret_cast<const T*>(base), m);
  return true;
}

// A window with stride 2, all 32 elements of which are the buffer's.
HWY_INLINE bool load_two_apart(const BoundInst& in, Frame& f, std::size_t g, u32 m, const u64* a) {
  u64 lane0;
  if (!consecutive(a, m, 3, lane0)) return false;
  const u64 begin = lane0 + static_cast<u64>(in.imm);
  if ((begin & 3) || !reachable(f, begin, 8 * kGroupLanes)) return false;
  load_apart(at<u32>(f, in.dst[0]) + g * kGroupLanes, reinterpret_cast<const u32*>(begin), m);
  return true;
}

void LoadHost(const BoundInst& in, Frame& f, u32 g0, u32 g1) {
  u32 bytes = u32{in.memory.bytes} * in.memory.count;
  if (in.uniform) {
    u64 address = at<u64>(f, in.src[0])[0] + static_cast<u64>(in.imm);
    if (!check_host(in, f, 0, address, bytes, false)) return;
    for (u32 e = 0; e < in.memory.count; ++e)
      for (std::size_t j = 0; j < kGroupLanes; ++j)
        load_element(in, f, e, j,
                     reinterpret_cast<const std::byte*>(address) + e * in.memory.bytes);
    return;
  }
  for (std::size_t g = g0; g < g1; ++g) {
    u32 m = mask_of(in, f, g);
    if (m == 0) continue;
    const u64* a = at<u64>(f, in.src[0]) + lane(g * kGroupLanes, in.src[0]);
    if (in.memory.count == 1) {
      if (in.memory.bytes == 4 && load_consecutive<u32>(in, f, g, m, a)) continue;
      if (in.memory.bytes == 8 && load_consecutive<u64>(in, f, g, m, a)) continue;
    }
    if (in.memory.bytes == 4 && in.memory.count == 1 && load_two_apart(in, f, g, m, a)) continue;
    const Extent<u64> e = extent(a, m);
    const u64 first = e.low + static_cast<u64>(in.imm), span = e.high - e.low;
    const bool aligned = (((e.bits | static_cast<u64>(in.imm)) & (bytes - 1)) == 0);
    if (aligned && reachable(f, first, span + bytes)) {
      const std::byte* base = reinterpret_cast<const std::byte*>(first);
      if (m == kAll && in.memory.bytes == 4 && span < (u64{1} << 31)) {
        const int shift = std::countr_zero(bytes);
        if (in.memory.count > 1 && follow(a, a[0], shift) == kAll) {
          load_interleaved(in, f, g, reinterpret_cast<const u32*>(a[0] + static_cast<u64>(in.imm)));
          continue;
        }
        std::int32_t offsets[kGroupLanes];
        for (std::size_t j = 0; j < kGroupLanes; ++j)
          offsets[j] = static_cast<std::int32_t>(a[j] - e.low);
        gather_elements(in, f, g, base, offsets);
        continue;
      }
      for (u32 rest = m; rest; rest &= rest - 1) {
        const std::size_t j = static_cast<std::size_t>(std::countr_zero(rest));
        for (u32 n = 0; n < in.memory.count; ++n)
          load_element(in, f, n, g * kGroupLanes + j, base + (a[j] - e.low) + n * in.memory.bytes);
      }
      continue;
    }
    // Something is wrong, or the lanes read from several buffers: one by one.
    for (u32 rest = m; rest; rest &= rest - 1) {
      std::size_t j = static_cast<std::size_t>(std::countr_zero(rest)), i = g * kGroupLanes + j;
      u64 address = a[j] + static_cast<u64>(in.imm);
      if (!check_host(in, f, static_cast<u32>(i), address, bytes, false)) return;
      for (u32 n = 0; n < in.memory.count; ++n)
        load_element(in, f, n, i,
                     reinterpret_cast<const std::byte*>(address) + n * in.memory.bytes);
    }
  }
}

template <class T>
HWY_INLINE bool store_consecutive(const BoundInst& in, Frame& f, std::size_t g, u32 m,
                                  const u64* a) {
  constexpr int kShift = sizeof(T) == 4 ? 2 : 3;
  u64 lane0;
  if (!consecutive(a, m, kShift, lane0)) return false;
  u32 low = static_cast<u32>(std::countr_zero(m)),
      high = 31 - static_cast<u32>(std::countl_zero(m));
  u64 base = lane0 + static_cast<u64>(in.imm);
  u64 begin = base + (u64{low} << kShift), bytes = u64{high - low + 1} << kShift;
  if ((begin & (sizeof(T) - 1)) || !reachable(f, begin, bytes) || !f.cached_writable) return false;
  store_run(reinterpret_cast<T*>(base), at<T>(f, in.src[1]) + lane(g * kGroupLanes, in.src[1]), m);
  return true;
}

void StoreHost(const BoundInst& in, Frame& f, u32 g0, u32 g1) {
  u32 bytes = u32{in.memory.bytes} * in.memory.count;
  for (std::size_t g = g0; g < g1; ++g) {
    u32 m = mask_of(in, f, g);
    if (m == 0) continue;
    const u64* a = at<u64>(f, in.src[0]) + lane(g * kGroupLanes, in.src[0]);
    if (in.memory.count == 1) {
      if (in.memory.bytes == 4 && store_consecutive<u32>(in, f, g, m, a)) continue;
      if (in.memory.bytes == 8 && store_consecutive<u64>(in, f, g, m, a)) continue;
    }
    const Extent<u64> e = extent(a, m);
    const u64 first = e.low + static_cast<u64>(in.imm), span = e.high - e.low;
    const bool aligned = (((e.bits | static_cast<u64>(in.imm)) & (bytes - 1)) == 0);
    const bool safe = aligned && reachable(f, first, span + bytes) && f.cached_writable;
    if (safe && m == kAll && in.memory.bytes == 4 && in.memory.count > 1 &&
        follow(a, a[0], std::countr_zero(bytes)) == kAll) {
      store_interleaved(in, f, g, reinterpret_cast<u32*>(a[0] + static_cast<u64>(in.imm)));
      continue;
    }
    for (u32 rest = m; rest; rest &= rest - 1) {
      std::size_t j = static_cast<std::size_t>(std::countr_zero(rest)), i = g * kGroupLanes + j;
      u64 address = a[j] + static_cast<u64>(in.imm);
      if (!safe && !check_host(in, f, static_cast<u32>(i), address, bytes, true)) return;
      for (u32 n = 0; n < in.memory.count; ++n)
        store_element(in, f, n, i, reinterpret_cast<std::byte*>(address) + n * in.memory.bytes);
    }
  }
}

ExecFn Function(Op op) { return op == Op::kStore ? &StoreHost : &LoadHost; }

}  // namespace
}  // namespace driftc::runtime::ptx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace driftc::runtime::ptx {
HWY_EXPORT(Function);
ExecFn host_function(Op op) { return HWY_DYNAMIC_DISPATCH(Function)(op); }

bool Frame::locate(std::uint64_t address, std::uint64_t bytes) {
  ++located;
  auto inside = [&](std::uint64_t begin, std::uint64_t size) {
    return address >= begin && address - begin <= size && bytes <= size - (address - begin);
  };
  // Generic addresses of shared and local memory; the latter belongs to all threads of the block,
  // so a pointer of another thread is caught only when it leaves the block's area.
  if (shared_bytes && inside(reinterpret_cast<std::uint64_t>(shared), shared_bytes)) {
    cached_begin = reinterpret_cast<std::uint64_t>(shared);
    cached_end = cached_begin + shared_bytes;
    cached_writable = true;
    return true;
  }
  std::uint64_t local_size = std::uint64_t{local_bytes} * lanes;
  if (local_size && inside(reinterpret_cast<std::uint64_t>(local), local_size)) {
    cached_begin = reinterpret_cast<std::uint64_t>(local);
    cached_end = cached_begin + local_size;
    cached_writable = true;
    return true;
  }
  for (const DeviceMemory* m : {memory, constants}) {
    if (const DeviceMemory::Buffer* b = m ? m->find(address, bytes) : nullptr) {
      cached_begin = b->begin;
      cached_end = b->end;
      cached_writable = b->writable;
      return true;
    }
  }
  return false;
}
}  // namespace driftc::runtime::ptx
#endif
