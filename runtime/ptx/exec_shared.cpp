// Loads and stores of the block's own memory: shared memory, and the local memory of its threads.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/ptx/exec_shared.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)  // see exec_plain.cpp
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "runtime/ptx/exec_access_inl.h"
#include "runtime/ptx/frame.h"

HWY_BEFORE_NAMESPACE();
namespace driftc::runtime::ptx::HWY_NAMESPACE {
namespace {

// The run [low lane, high lane] of 4-byte elements at `lane0` lies in shared memory and is aligned.
HWY_INLINE bool shared_run(const Frame& f, s64 lane0, u32 m) {
  s64 low = std::countr_zero(m), high = 31 - std::countl_zero(m);
  return lane0 + 4 * low >= 0 && lane0 + 4 * high + 4 <= s64{f.shared_bytes} && (lane0 & 3) == 0;
}

// All lanes' accesses lie in shared memory and are aligned.
HWY_INLINE bool shared_extent(const Frame& f, std::int32_t low, std::int32_t high,
                              std::int32_t bits, s64 offset, u32 bytes) {
  return s64{low} + offset >= 0 && s64{high} + offset + s64{bytes} <= s64{f.shared_bytes} &&
         ((s64{bits} | offset) & s64{bytes - 1}) == 0;
}

void LoadShared(const BoundInst& in, Frame& f, u32 g0, u32 g1) {
  u32 bytes = u32{in.memory.bytes} * in.memory.count;
  if (in.uniform) {
    s64 address = shared_address(at<u32>(f, in.src[0])[0], in.imm);
    if (!check_shared(in, f, 0, address, bytes, false)) return;
    for (u32 e = 0; e < in.memory.count; ++e)
      for (std::size_t j = 0; j < kGroupLanes; ++j)
        load_element(in, f, e, j, f.shared + address + e * in.memory.bytes);
    return;
  }
  for (std::size_t g = g0; g < g1; ++g) {
    u32 m = mask_of(in, f, g);
    if (m == 0) continue;
    const u32* a = at<u32>(f, in.src[0]) + lane(g * kGroupLanes, in.src[0]);
    if (in.memory.bytes == 4) {
      u32 lane0;
      if (in.memory.count == 1 && consecutive(a, m, 2, lane0)) {
        s64 base = shared_address(lane0, in.imm);
        if (shared_run(f, base, m)) {
          load_run(at<u32>(f, in.dst[0]) + g * kGroupLanes,
                   reinterpret_cast<const u32*>(f.shared + base), m);
          continue;
        }
      }
      u32 first = a[static_cast<u32>(std::countr_zero(m))];
      if (m == kAll && same(a, first) == kAll) {
        s64 address = shared_address(first, in.imm);
        if (!check_shared(in, f, static_cast<u32>(g * kGroupLanes), address, bytes, false)) return;
        const Tag<u32> d;
        for (u32 e = 0; e < in.memory.count; ++e) {
          auto v = hn::Set(d, read<u32>(f.shared + address + 4 * e));
          for (std::size_t k = 0; k < kGroupLanes; k += hn::Lanes(d))
            hn::Store(v, d, at<u32>(f, in.dst[e]) + g * kGroupLanes + k);
        }
        continue;
      }
    }
    const auto e = extent(reinterpret_cast<const std::int32_t*>(a), m);
    const bool safe = shared_extent(f, e.low, e.high, e.bits, in.imm, bytes);
    if (safe && m == kAll && in.memory.bytes == 4) {
      if (in.memory.count > 1 && follow(a, a[0], std::countr_zero(bytes)) == kAll)
        load_interleaved(in, f, g,
                         reinterpret_cast<const u32*>(f.shared + shared_address(a[0], in.imm)));
      else
        gather_elements(in, f, g, f.shared + in.imm, reinterpret_cast<const std::int32_t*>(a));
      continue;
    }
    for (u32 rest = m; rest; rest &= rest - 1) {
      std::size_t j = static_cast<std::size_t>(std::countr_zero(rest)), i = g * kGroupLanes + j;
      s64 address = shared_address(a[j], in.imm);
      if (!safe && !check_shared(in, f, static_cast<u32>(i), address, bytes, false)) return;
      for (u32 n = 0; n < in.memory.count; ++n)
        load_element(in, f, n, i, f.shared + address + n * in.memory.bytes);
    }
  }
}

void StoreShared(const BoundInst& in, Frame& f, u32 g0, u32 g1) {
  u32 bytes = u32{in.memory.bytes} * in.memory.count;
  for (std::size_t g = g0; g < g1; ++g) {
    u32 m = mask_of(in, f, g);
    if (m == 0) continue;
    const u32* a = at<u32>(f, in.src[0]) + lane(g * kGroupLanes, in.src[0]);
    u32 lane0;
    if (in.memory.bytes == 4 && in.memory.count == 1 && consecutive(a, m, 2, lane0)) {
      s64 base = shared_address(lane0, in.imm);
      if (shared_run(f, base, m)) {
        store_run(reinterpret_cast<u32*>(f.shared + base),
                  at<u32>(f, in.src[1]) + lane(g * kGroupLanes, in.src[1]), m);
        continue;
      }
    }
    const auto e = extent(reinterpret_cast<const std::int32_t*>(a), m);
    const bool safe = shared_extent(f, e.low, e.high, e.bits, in.imm, bytes);
    if (safe && m == kAll && in.memory.bytes == 4 && in.memory.count > 1 &&
        follow(a, a[0], std::countr_zero(bytes)) == kAll) {
      store_interleaved(in, f, g, reinterpret_cast<u32*>(f.shared + shared_address(a[0], in.imm)));
      continue;
    }
    if (safe && m == kAll && in.memory.bytes == 4 && in.memory.count == 1) {
      const u32* v = at<u32>(f, in.src[1]) + lane(g * kGroupLanes, in.src[1]);
      const std::size_t step = in.src[1].mask == 0 ? 0 : 1;
      for (std::size_t j = 0; j < kGroupLanes; ++j)  // in order: the last of equal addresses stays
        std::memcpy(f.shared + shared_address(a[j], in.imm), v + step * j, 4);
      continue;
    }
    for (u32 rest = m; rest; rest &= rest - 1) {
      std::size_t j = static_cast<std::size_t>(std::countr_zero(rest)), i = g * kGroupLanes + j;
      s64 address = shared_address(a[j], in.imm);
      if (!safe && !check_shared(in, f, static_cast<u32>(i), address, bytes, true)) return;
      for (u32 n = 0; n < in.memory.count; ++n)
        store_element(in, f, n, i, f.shared + address + n * in.memory.bytes);
    }
  }
}

// ---- local memory: one area per thread

HWY_INLINE std::byte* local_address(const BoundInst& in, Frame& f, std::size_t i, u64 offset,
                                    u32 bytes, bool write) {
  if (offset > f.local_bytes || bytes > f.local_bytes - offset) {
    f.fail(FaultKind::kOutOfBounds, in.inst, static_cast<u32>(i), offset, bytes, write);
    return nullptr;
  }
  if (offset & (bytes - 1)) {
    f.fail(FaultKind::kMisaligned, in.inst, static_cast<u32>(i), offset, bytes, write);
    return nullptr;
  }
  return f.local + i * f.local_bytes + offset;
}

template <bool kStore>
HWY_INLINE void local(const BoundInst& in, Frame& f, u32 g0, u32 g1) {
  u32 bytes = u32{in.memory.bytes} * in.memory.count;
  for (std::size_t g = g0; g < g1; ++g) {
    const u64* a = at<u64>(f, in.src[0]) + lane(g * kGroupLanes, in.src[0]);
    for (u32 rest = mask_of(in, f, g); rest; rest &= rest - 1) {
      std::size_t j = static_cast<std::size_t>(std::countr_zero(rest)), i = g * kGroupLanes + j;
      std::byte* p = local_address(in, f, i, a[j] + static_cast<u64>(in.imm), bytes, kStore);
      if (!p) return;
      for (u32 e = 0; e < in.memory.count; ++e) {
        if (kStore)
          store_element(in, f, e, i, p + e * in.memory.bytes);
        else
          load_element(in, f, e, i, p + e * in.memory.bytes);
      }
    }
  }
}

ExecFn SharedFunction(Op op) { return op == Op::kStore ? &StoreShared : &LoadShared; }
ExecFn LocalFunction(Op op) { return op == Op::kStore ? &local<true> : &local<false>; }

}  // namespace
}  // namespace driftc::runtime::ptx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace driftc::runtime::ptx {
HWY_EXPORT(SharedFunction);
HWY_EXPORT(LocalFunction);
ExecFn shared_function(Op op) { return HWY_DYNAMIC_DISPATCH(SharedFunction)(op); }
ExecFn local_function(Op op) { return HWY_DYNAMIC_DISPATCH(LocalFunction)(op); }

}  // namespace driftc::runtime::ptx
#endif
