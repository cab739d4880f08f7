// What the accesses of lanes have in common (exec_host.cpp, exec_shared.cpp, exec_warp.cpp): masks,
// patterns of addresses, single elements, runs of elements, and the checks before an access.
// Compiled once per instruction set: included again for every one (Highway).
#if defined(DRIFTC_PTX_EXEC_ACCESS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef DRIFTC_PTX_EXEC_ACCESS_INL_H
#undef DRIFTC_PTX_EXEC_ACCESS_INL_H
#else
#define DRIFTC_PTX_EXEC_ACCESS_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "runtime/ptx/frame.h"
#include "runtime/ptx/lanes_inl.h"

HWY_BEFORE_NAMESPACE();
namespace driftc::runtime::ptx::HWY_NAMESPACE {
namespace {

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
  const Tag<A> d;
  const A some = a[static_cast<u32>(std::countr_zero(m))];  // stands for lanes that are off
  auto low = hn::Set(d, some), high = low, bits = low;
  for (std::size_t k = 0; k < kGroupLanes; k += hn::Lanes(d)) {
    const auto v = hn::IfThenElse(mask_of_bits(d, m >> k), hn::Load(d, a + k), hn::Set(d, some));
    low = hn::Min(low, v);
    high = hn::Max(high, v);
    bits = hn::Or(bits, v);
  }
  HWY_ALIGN A lows[kGroupLanes], highs[kGroupLanes], all[kGroupLanes];
  hn::Store(low, d, lows);
  hn::Store(high, d, highs);
  hn::Store(bits, d, all);
  Extent<A> e{some, some, some};
  for (std::size_t j = 0; j < hn::Lanes(d); ++j) {
    e.low = std::min(e.low, lows[j]);
    e.high = std::max(e.high, highs[j]);
    e.bits |= all[j];
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
// The lanes of `m` of one element per lane; `vector(k)` has those from lane k on.
template <class Fn>
HWY_INLINE void store_lanes(u32* to, u32 m, const Fn& vector) {
  const Tag<u32> d;
  for (std::size_t k = 0; k < kGroupLanes; k += hn::Lanes(d)) {
    store_some(d, mask_of_bits(d, m >> k), vector(k), to + k);
  }
}
// Elements two apart from p on: the even ones of 32.
HWY_INLINE void load_apart(u32* to, const u32* p, u32 m) {
  const Tag<u32> d;
  store_lanes(to, m, [&](std::size_t k) HWY_ATTR {
    hn::Vec<decltype(d)> even, odd;
    hn::LoadInterleaved2(d, p + 2 * k, even, odd);
    return even;
  });
}
// ---- host addresses (global, const, generic)

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
    store_some(tag, mask, hn::MaskedLoad(mask, tag, p + k), d + k);
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

// ---- shared memory

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

}  // namespace
}  // namespace driftc::runtime::ptx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
