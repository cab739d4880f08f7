// Operations that know the mask of active lanes: memory, atomics, shuffles, votes. Every access is
// checked against the registered buffers or the block's shared and local memory before it is made.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/ptx/exec_memory.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)  // see exec_plain.cpp
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "ir/support/round.h"
#include "runtime/ptx/frame.h"

HWY_BEFORE_NAMESPACE();
namespace driftc::runtime::ptx::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s64 = std::int64_t;
template <class T>
using Tag = hn::CappedTag<T, 64 / sizeof(T)>;

constexpr u32 kAll = 0xFFFF;

template <class T>
HWY_INLINE T* at(const Frame& f, const Place& p) {
  return reinterpret_cast<T*>(f.regs + p.offset);
}
HWY_INLINE std::size_t lane(std::size_t i, const Place& p) { return p.mask == 0 ? 0 : i; }

// Lanes of group g that execute this instruction.
HWY_INLINE u32 mask_of(const BoundInst& in, const Frame& f, std::size_t g) {
  u32 m = f.active[g];
  if (in.guarded) {
    u32 guard = at<u16>(f, in.guard)[lane(g, in.guard)];
    m &= in.guard_negated ? ~guard : guard;
  }
  return m & kAll;
}

template <class D>
HWY_INLINE u32 bits_of_mask(D d, hn::Mask<D> m) {
  std::uint8_t bytes[8] = {};
  hn::StoreMaskBits(d, m, bytes);
  u32 out;
  std::memcpy(&out, bytes, sizeof out);
  return hn::Lanes(d) >= 32 ? out : out & ((u32{1} << hn::Lanes(d)) - 1);
}
template <class D>
HWY_INLINE hn::Mask<D> mask_of_bits(D d, u32 bits) {
  std::uint8_t bytes[8] = {};
  std::memcpy(bytes, &bits, sizeof bits);
  return hn::LoadMaskBits(d, bytes);
}

// Which of 16 addresses equal base + step * lane.
template <class T>
HWY_INLINE u32 follow(const T* a, T base, T step) {
  const Tag<T> d;
  u32 bits = 0;
  for (std::size_t k = 0; k < kGroupLanes; k += hn::Lanes(d)) {
    auto expected =
        hn::Add(hn::Set(d, base), hn::Mul(hn::Iota(d, static_cast<T>(k)), hn::Set(d, step)));
    bits |= bits_of_mask(d, hn::Eq(hn::Load(d, a + k), expected)) << k;
  }
  return bits;
}
// 64-bit vectors lack a multiplication on some targets; the steps used are 0 and powers of two.
HWY_INLINE u32 follow(const u64* a, u64 base, int shift) {
  const Tag<u64> d;
  u32 bits = 0;
  for (std::size_t k = 0; k < kGroupLanes; k += hn::Lanes(d)) {
    auto expected =
        hn::Add(hn::Set(d, base), hn::ShiftLeftSame(hn::Iota(d, static_cast<u64>(k)), shift));
    bits |= bits_of_mask(d, hn::Eq(hn::Load(d, a + k), expected)) << k;
  }
  return bits;
}
HWY_INLINE u32 follow(const u32* a, u32 base, int shift) {
  return follow<u32>(a, base, u32{1} << shift);
}
template <class T>
HWY_INLINE u32 same(const T* a, T base) {
  const Tag<T> d;
  u32 bits = 0;
  for (std::size_t k = 0; k < kGroupLanes; k += hn::Lanes(d))
    bits |= bits_of_mask(d, hn::Eq(hn::Load(d, a + k), hn::Set(d, base))) << k;
  return bits;
}

// ---- whole groups of 4-byte elements: vectors of elements, scattered addresses ------------------

// What a group's active lanes touch: lowest and highest first byte, and the bits of all addresses.
template <class A>
struct Extent {
  A low, high, bits;
};
template <class A>
HWY_INLINE Extent<A> extent(const A* a, u32 m) {
  Extent<A> e{std::numeric_limits<A>::max(), std::numeric_limits<A>::min(), 0};
  if (m == kAll) {
    for (std::size_t j = 0; j < kGroupLanes; ++j) {
      e.low = std::min(e.low, a[j]);
      e.high = std::max(e.high, a[j]);
      e.bits |= a[j];
    }
    return e;
  }
  for (u32 rest = m; rest; rest &= rest - 1) {
    const A v = a[static_cast<u32>(std::countr_zero(rest))];
    e.low = std::min(e.low, v);
    e.high = std::max(e.high, v);
    e.bits |= v;
  }
  return e;
}

// The lanes' vectors lie behind each other: 16 lanes of `count` elements, lane by lane.
HWY_INLINE void load_interleaved(const BoundInst& in, Frame& f, std::size_t g, const u32* p) {
  const Tag<u32> d;
  const std::size_t i = g * kGroupLanes;
  for (std::size_t k = 0; k < kGroupLanes; k += hn::Lanes(d)) {
    hn::Vec<decltype(d)> v0, v1, v2, v3;
    if (in.memory.count == 4) {
      hn::LoadInterleaved4(d, p + 4 * k, v0, v1, v2, v3);
      hn::Store(v2, d, at<u32>(f, in.dst[2]) + i + k);
      hn::Store(v3, d, at<u32>(f, in.dst[3]) + i + k);
    } else {
      hn::LoadInterleaved2(d, p + 2 * k, v0, v1);
    }
    hn::Store(v0, d, at<u32>(f, in.dst[0]) + i + k);
    hn::Store(v1, d, at<u32>(f, in.dst[1]) + i + k);
  }
}
HWY_INLINE void store_interleaved(const BoundInst& in, Frame& f, std::size_t g, u32* p) {
  const Tag<u32> d;
  auto value = [&](u32 e, std::size_t k) {
    const Place& src = in.src[1 + e];
    return hn::Load(d, at<u32>(f, src) + lane(g * kGroupLanes, src) + (src.mask == 0 ? 0 : k));
  };
  for (std::size_t k = 0; k < kGroupLanes; k += hn::Lanes(d)) {
    if (in.memory.count == 4)
      hn::StoreInterleaved4(value(0, k), value(1, k), value(2, k), value(3, k), d, p + 4 * k);
    else
      hn::StoreInterleaved2(value(0, k), value(1, k), d, p + 2 * k);
  }
}

// 16 lanes with 32-bit byte offsets from `base`, every one known to be in range.
HWY_INLINE void gather_elements(const BoundInst& in, Frame& f, std::size_t g, const std::byte* base,
                                const std::int32_t* offsets) {
  const Tag<u32> d;
  const Tag<std::int32_t> di;
  for (u32 e = 0; e < in.memory.count; ++e)
    for (std::size_t k = 0; k < kGroupLanes; k += hn::Lanes(d))
      hn::Store(hn::GatherOffset(d, reinterpret_cast<const u32*>(base + 4 * e),
                                 hn::LoadU(di, offsets + k)),
                d, at<u32>(f, in.dst[e]) + g * kGroupLanes + k);
}

// ---- host addresses (global, const, generic)
// -----------------------------------------------------------------------------

HWY_INLINE bool in_cache(const Frame& f, u64 address, u64 bytes) {
  return address >= f.cached_begin && address + bytes <= f.cached_end && address + bytes >= address;
}
HWY_INLINE bool reachable(Frame& f, u64 address, u64 bytes) {
  return in_cache(f, address, bytes) || f.locate(address, bytes);
}

// Checks one lane's access; reports and returns false when it is not allowed.
HWY_INLINE bool check_host(const BoundInst& in, Frame& f, u32 lane_index, u64 address, u32 bytes,
                           bool write) {
  if (address & (bytes - 1)) {
    f.fail(FaultKind::kMisaligned, in.inst, lane_index, address, bytes, write);
    return false;
  }
  if (!reachable(f, address, bytes)) {
    f.fail(FaultKind::kOutOfBounds, in.inst, lane_index, address, bytes, write);
    return false;
  }
  if (write && !f.cached_writable) {
    f.fail(FaultKind::kReadOnly, in.inst, lane_index, address, bytes, write);
    return false;
  }
  return true;
}

template <class T>
HWY_INLINE T read(const void* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

// One element from memory, extended to the register.
HWY_INLINE void load_element(const BoundInst& in, Frame& f, u32 element, std::size_t i,
                             const std::byte* p) {
  switch (in.memory.bytes) {
    case 1: {
      std::uint8_t v = read<std::uint8_t>(p);
      at<u32>(f, in.dst[element])[i] =
          in.memory.sign_extend ? static_cast<u32>(static_cast<std::int8_t>(v)) : v;
      return;
    }
    case 2: {
      u16 v = read<u16>(p);
      at<u32>(f, in.dst[element])[i] =
          in.memory.sign_extend ? static_cast<u32>(static_cast<std::int16_t>(v)) : v;
      return;
    }
    case 4:
      at<u32>(f, in.dst[element])[i] = read<u32>(p);
      return;
    case 8:
      at<u64>(f, in.dst[element])[i] = read<u64>(p);
      return;
    default:
      return;
  }
}
HWY_INLINE void store_element(const BoundInst& in, Frame& f, u32 element, std::size_t i,
                              std::byte* p) {
  const Place& src = in.src[1 + element];
  switch (in.memory.bytes) {
    case 1: {
      std::uint8_t v = static_cast<std::uint8_t>(at<u32>(f, src)[lane(i, src)]);
      std::memcpy(p, &v, 1);
      return;
    }
    case 2: {
      u16 v = static_cast<u16>(at<u32>(f, src)[lane(i, src)]);
      std::memcpy(p, &v, 2);
      return;
    }
    case 4:
      std::memcpy(p, at<u32>(f, src) + lane(i, src), 4);
      return;
    case 8:
      std::memcpy(p, at<u64>(f, src) + lane(i, src), 8);
      return;
    default:
      return;
  }
}

// Reads up to 16 consecutive elements, the lanes of `m` only (others keep their register).
template <class T>
HWY_INLINE void load_run(T* d, const T* p, u32 m) {
  const Tag<T> tag;
  if (m == kAll) {
    for (std::size_t k = 0; k < kGroupLanes; k += hn::Lanes(tag))
      hn::Store(hn::LoadU(tag, p + k), tag, d + k);
    return;
  }
#if HWY_TARGET != HWY_SCALAR
  for (std::size_t k = 0; k < kGroupLanes; k += hn::Lanes(tag)) {
    auto mask = mask_of_bits(tag, m >> k);  // lanes that are off are not touched in memory
    hn::Store(hn::IfThenElse(mask, hn::MaskedLoad(mask, tag, p + k), hn::Load(tag, d + k)), tag,
              d + k);
  }
#else
  for (u32 rest = m; rest; rest &= rest - 1) {
    std::size_t j = static_cast<std::size_t>(std::countr_zero(rest));
    d[j] = read<T>(p + j);
  }
#endif
}
template <class T>
HWY_INLINE void store_run(T* p, const T* v, u32 m) {
  const Tag<T> tag;
  if (m == kAll) {
    for (std::size_t k = 0; k < kGroupLanes; k += hn::Lanes(tag))
      hn::StoreU(hn::Load(tag, v + k), tag, p + k);
    return;
  }
#if HWY_TARGET != HWY_SCALAR
  for (std::size_t k = 0; k < kGroupLanes; k += hn::Lanes(tag))
    hn::BlendedStore(hn::Load(tag, v + k), mask_of_bits(tag, m >> k), tag, p + k);
#else
  for (u32 rest = m; rest; rest &= rest - 1) {
    std::size_t j = static_cast<std::size_t>(std::countr_zero(rest));
    std::memcpy(p + j, v + j, sizeof(T));
  }
#endif
}

// For a group whose active lanes read consecutive elements: the address lane 0 would have, else 0.
template <class A>
HWY_INLINE bool consecutive(const A* a, u32 m, int shift, A& lane0) {
  u32 first = static_cast<u32>(std::countr_zero(m));
  lane0 = a[first] - static_cast<A>(static_cast<A>(first) << shift);
  return (follow(a, lane0, shift) & m) == m;
}

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

// ---- shared memory
// ---------------------------------------------------------------------------------------------------------

// Shared addresses wrap at 32 bits, as the hardware's do; a register may hold a negative one that
// its offset makes good.
HWY_INLINE s64 shared_address(u32 base, s64 offset) {
  return s64{static_cast<std::int32_t>(base)} + offset;
}

HWY_INLINE bool check_shared(const BoundInst& in, Frame& f, u32 lane_index, s64 address, u32 bytes,
                             bool write) {
  if (address < 0 || address + s64{bytes} > s64{f.shared_bytes}) {
    f.fail(FaultKind::kOutOfBounds, in.inst, lane_index, static_cast<u64>(address), bytes, write);
    return false;
  }
  if (address & (bytes - 1)) {
    f.fail(FaultKind::kMisaligned, in.inst, lane_index, static_cast<u64>(address), bytes, write);
    return false;
  }
  return true;
}

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
// ---------------------------------------------------------------------------------------

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

void Load(const BoundInst& in, Frame& f, u32 g0, u32 g1) {
  switch (in.memory.space) {
    case Space::kShared:
      return LoadShared(in, f, g0, g1);
    case Space::kLocal:
      return local<false>(in, f, g0, g1);
    case Space::kNone:
    case Space::kGlobal:
    case Space::kConst:
      return LoadHost(in, f, g0, g1);
    case Space::kReg:
    case Space::kParam:
      return;
  }
}
void Store(const BoundInst& in, Frame& f, u32 g0, u32 g1) {
  switch (in.memory.space) {
    case Space::kShared:
      return StoreShared(in, f, g0, g1);
    case Space::kLocal:
      return local<true>(in, f, g0, g1);
    case Space::kNone:
    case Space::kGlobal:
      return StoreHost(in, f, g0, g1);
    case Space::kReg:
    case Space::kParam:
    case Space::kConst:
      return;
  }
}

void LoadParam(const BoundInst& in, Frame& f, u32 g0, u32 g1) {
  for (std::size_t g = g0; g < g1; ++g)
    for (u32 rest = in.uniform ? kAll : mask_of(in, f, g); rest; rest &= rest - 1)
      load_element(in, f, 0, g * kGroupLanes + static_cast<std::size_t>(std::countr_zero(rest)),
                   f.params + in.imm);
}

// ---- atomics: lanes in ascending order
// ---------------------------------------------------------------------------------------

HWY_INLINE float flushed(float v) {
  u32 bits = bits_of(v);
  return (bits & 0x7F800000u) == 0 ? float_of(bits & 0x80000000u) : v;
}

template <class U, class S>
HWY_INLINE U combine(AtomicKind kind, U old, U v, U second) {
  switch (kind) {
    case AtomicKind::kAdd:
      return static_cast<U>(old + v);
    case AtomicKind::kMinS:
      return static_cast<S>(old) < static_cast<S>(v) ? old : v;
    case AtomicKind::kMinU:
      return old < v ? old : v;
    case AtomicKind::kMaxS:
      return static_cast<S>(old) > static_cast<S>(v) ? old : v;
    case AtomicKind::kMaxU:
      return old > v ? old : v;
    case AtomicKind::kAnd:
      return old & v;
    case AtomicKind::kOr:
      return old | v;
    case AtomicKind::kXor:
      return old ^ v;
    case AtomicKind::kExch:
      return v;
    case AtomicKind::kCas:
      return old == v ? second : old;
    case AtomicKind::kAddF32:
    case AtomicKind::kAddF64:
      break;
  }
  return old;
}

HWY_INLINE u32 add_f32(u32 old, u32 v, bool flush) {
  float a = float_of(old), b = float_of(v);
  if (flush) a = flushed(a), b = flushed(b);
  float r = add_rn(a, b);
  if (flush) r = flushed(r);
  return r != r ? kCanonicalNanBits : bits_of(r);
}

template <class U, class S>
HWY_INLINE void atomics(const BoundInst& in, Frame& f, u32 g0, u32 g1) {
  AtomicKind kind = static_cast<AtomicKind>(in.memory.count);
  bool shared = in.memory.space == Space::kShared;
  for (std::size_t g = g0; g < g1; ++g) {
    for (u32 rest = mask_of(in, f, g); rest; rest &= rest - 1) {
      std::size_t i = g * kGroupLanes + static_cast<std::size_t>(std::countr_zero(rest));
      std::byte* p;
      if (shared) {
        s64 address = shared_address(at<u32>(f, in.src[0])[lane(i, in.src[0])], in.imm);
        if (!check_shared(in, f, static_cast<u32>(i), address, sizeof(U), true)) return;
        p = f.shared + address;
      } else {
        u64 address = at<u64>(f, in.src[0])[lane(i, in.src[0])] + static_cast<u64>(in.imm);
        if (!check_host(in, f, static_cast<u32>(i), address, sizeof(U), true)) return;
        p = reinterpret_cast<std::byte*>(address);
      }
      U old = read<U>(p), v = at<U>(f, in.src[1])[lane(i, in.src[1])];
      U second = in.sources > 2 ? at<U>(f, in.src[2])[lane(i, in.src[2])] : U{0};
      U now;
      if (kind == AtomicKind::kAddF32) {
        now = add_f32(static_cast<u32>(old), static_cast<u32>(v),
                      !shared);  // global atomics flush subnormals
      } else if (kind == AtomicKind::kAddF64) {
        double r = add_rn(double_of(static_cast<u64>(old)), double_of(static_cast<u64>(v)));
        now = static_cast<U>(r != r ? u64{0x7FF8000000000000u} : bits_of(r));
      } else {
        now = combine<U, S>(kind, old, v, second);
      }
      std::memcpy(p, &now, sizeof now);
      at<U>(f, in.dst[0])[i] = old;
    }
  }
}
void Atomic(const BoundInst& in, Frame& f, u32 g0, u32 g1) {
  if (in.memory.bytes == 8)
    atomics<u64, s64>(in, f, g0, g1);
  else
    atomics<u32, std::int32_t>(in, f, g0, g1);
}

// ---- across a warp
// -------------------------------------------------------------------------------------------------------------

void Shuffle(const BoundInst& in, Frame& f, u32 g0, u32 g1) {
  ShuffleKind kind = static_cast<ShuffleKind>(in.imm);
  const u32* a = at<u32>(f, in.src[0]);
  for (std::size_t warp = g0 / 2 * 32; warp < g1 * kGroupLanes; warp += 32) {
    u32 values[32];  // the source may be the destination
    std::size_t groups = std::min<std::size_t>(2, f.groups - warp / kGroupLanes);
    for (std::size_t j = 0; j < 32; ++j)
      values[j] = j < groups * kGroupLanes ? a[lane(warp + j, in.src[0])] : 0;
    for (std::size_t h = 0; h < groups; ++h) {
      std::size_t g = warp / kGroupLanes + h;
      for (u32 rest = mask_of(in, f, g); rest; rest &= rest - 1) {
        u32 j = static_cast<u32>(std::countr_zero(rest)), t = static_cast<u32>(h) * kGroupLanes + j;
        std::size_t i = warp + t;
        u32 b = at<u32>(f, in.src[1])[lane(i, in.src[1])] & 31,
            c = at<u32>(f, in.src[2])[lane(i, in.src[2])];
        u32 clamp = c & 31, segment = c >> 8 & 31;
        u32 max_lane = (t & segment) | (clamp & ~segment), min_lane = t & segment;
        std::int32_t from = 0;
        bool ok = false;
        switch (kind) {
          case ShuffleKind::kUp:
            from = static_cast<std::int32_t>(t) - static_cast<std::int32_t>(b);
            ok = from >= static_cast<std::int32_t>(max_lane);
            break;
          case ShuffleKind::kDown:
            from = static_cast<std::int32_t>(t + b);
            ok = from <= static_cast<std::int32_t>(max_lane);
            break;
          case ShuffleKind::kBfly:
            from = static_cast<std::int32_t>(t ^ b);
            ok = from <= static_cast<std::int32_t>(max_lane);
            break;
          case ShuffleKind::kIdx:
            from = static_cast<std::int32_t>(min_lane | (b & ~segment));
            ok = from <= static_cast<std::int32_t>(max_lane);
            break;
        }
        if (!ok) from = static_cast<std::int32_t>(t);
        at<u32>(f, in.dst[0])[i] = values[from & 31];
        if (in.destinations > 1) {
          u16& p = at<u16>(f, in.dst[1])[g];
          p = static_cast<u16>((p & ~(1u << j)) | (u32{ok} << j));
        }
      }
    }
  }
}

void Vote(const BoundInst& in, Frame& f, u32 g0, u32 g1) {
  VoteKind kind = static_cast<VoteKind>(in.imm);
  for (std::size_t first = g0 / 2 * 2; first < g1; first += 2) {
    u32 active = 0, votes = 0;
    for (std::size_t h = 0; h < 2 && first + h < f.groups; ++h) {
      active |= mask_of(in, f, first + h) << (kGroupLanes * h);
      votes |= u32{at<u16>(f, in.src[0])[lane(first + h, in.src[0])]} << (kGroupLanes * h);
    }
    for (u32 rest = active; rest; rest &= rest - 1) {
      u32 t = static_cast<u32>(std::countr_zero(rest));
      std::size_t i = first * kGroupLanes + t;
      u32 members = at<u32>(f, in.src[1])[lane(i, in.src[1])] & active, yes = votes & members;
      bool flag = kind == VoteKind::kAll   ? yes == members
                  : kind == VoteKind::kAny ? yes != 0
                                           : yes == 0 || yes == members;
      if (kind == VoteKind::kBallot) {
        at<u32>(f, in.dst[0])[i] = yes;
      } else {
        u16& p = at<u16>(f, in.dst[0])[i / kGroupLanes];
        u32 bit = 1u << (i % kGroupLanes);
        p = static_cast<u16>(flag ? p | bit : p & ~bit);
      }
    }
  }
}

void ActiveMask(const BoundInst& in, Frame& f, u32 g0, u32 g1) {
  for (std::size_t first = g0 / 2 * 2; first < g1; first += 2) {
    u32 active = 0;
    for (std::size_t h = 0; h < 2 && first + h < f.groups; ++h)
      active |= mask_of(in, f, first + h) << (kGroupLanes * h);
    for (u32 rest = active; rest; rest &= rest - 1)
      at<u32>(f,
              in.dst[0])[first * kGroupLanes + static_cast<std::size_t>(std::countr_zero(rest))] =
          active;
  }
}

void Trap(const BoundInst& in, Frame& f, u32 g0, u32 g1) {
  for (std::size_t g = g0; g < g1; ++g)
    if (u32 m = mask_of(in, f, g))
      return f.fail(FaultKind::kTrap, in.inst,
                    static_cast<u32>(g * kGroupLanes) + static_cast<u32>(std::countr_zero(m)), 0, 0,
                    false);
}

ExecFn Function(Op op) {
  switch (op) {
    case Op::kLoadParam:
      return &LoadParam;
    case Op::kLoad:
      return &Load;
    case Op::kStore:
      return &Store;
    case Op::kAtomic:
      return &Atomic;
    case Op::kShuffle:
      return &Shuffle;
    case Op::kVote:
      return &Vote;
    case Op::kActiveMask:
      return &ActiveMask;
    case Op::kTrap:
      return &Trap;
    default:
      return nullptr;  // plain operations, barriers and regions are not executed through this table
  }
}

}  // namespace
}  // namespace driftc::runtime::ptx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace driftc::runtime::ptx {
HWY_EXPORT(Function);
ExecFn memory_function(Op op) { return HWY_DYNAMIC_DISPATCH(Function)(op); }

bool Frame::locate(std::uint64_t address, std::uint64_t bytes) {
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
