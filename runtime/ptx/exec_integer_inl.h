// Integer arithmetic of plain operations (exec_plain.cpp) that is more than one vector instruction.
// Compiled once per instruction set: included again for every one (Highway).
#if defined(DRIFTC_PTX_EXEC_INTEGER_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef DRIFTC_PTX_EXEC_INTEGER_INL_H
#undef DRIFTC_PTX_EXEC_INTEGER_INL_H
#else
#define DRIFTC_PTX_EXEC_INTEGER_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <type_traits>

#include "runtime/ptx/exec_plain_inl.h"
#include "runtime/ptx/frame.h"

HWY_BEFORE_NAMESPACE();
namespace driftc::runtime::ptx::HWY_NAMESPACE {
namespace {

// Products of the low halves of 64-bit lanes.
template <class S, class W, class F>
HWY_INLINE void wide(const BoundInst& in, Frame& f, u32 g0, u32 g1, F add) {
  const Tag<W> dw;
#if HWY_TARGET == HWY_SCALAR
  for (std::size_t i = g0 * kGroupLanes; i < g1 * kGroupLanes; ++i) {
    W product = static_cast<W>(at<S>(f, in.src[0])[lane(i, in.src[0])]) *
                at<S>(f, in.src[1])[lane(i, in.src[1])];
    hn::Store(add(dw, hn::Set(dw, product), i), dw, at<W>(f, in.dst[0]) + i);
  }
#else
  const hn::Rebind<S, decltype(dw)> half;
  const hn::Repartition<S, decltype(dw)> ds;
  W* out = at<W>(f, in.dst[0]);
  const S *a = at<S>(f, in.src[0]), *b = at<S>(f, in.src[1]);
  for (std::size_t i = g0 * kGroupLanes; i < g1 * kGroupLanes; i += hn::Lanes(dw)) {
    auto x = hn::BitCast(ds, hn::PromoteTo(dw, hn::Load(half, a + lane(i, in.src[0]))));
    auto y = hn::BitCast(ds, hn::PromoteTo(dw, hn::Load(half, b + lane(i, in.src[1]))));
    hn::Store(add(dw, hn::MulEven(x, y), i), dw, out + i);
  }
#endif
}

template <class T>
HWY_INLINE void shift_left(const BoundInst& in, Frame& f, u32 g0, u32 g1) {
  constexpr u32 kBits = 8 * sizeof(T);
  if (in.src[1].mask == 0) {
    u32 n = *at<u32>(f, in.src[1]);
    if (n >= kBits) return map1<T>(in, f, g0, g1, [](auto a) { return hn::Xor(a, a); });
    return map1<T>(in, f, g0, g1,
                   [n](auto a) { return hn::ShiftLeftSame(a, static_cast<int>(n)); });
  }
  loop2<T, T, u32>(in, f, g0, g1,
                   [](T a, u32 n) { return n < kBits ? static_cast<T>(a << n) : T{0}; });
}
template <class T>
HWY_INLINE void shift_right(const BoundInst& in, Frame& f, u32 g0, u32 g1) {
  constexpr u32 kBits = 8 * sizeof(T);
  constexpr bool kSigned = std::is_signed_v<T>;
  if (in.src[1].mask == 0) {
    u32 n = *at<u32>(f, in.src[1]);
    if (n < kBits) {
      // Arithmetic 64-bit shifts lack an instruction below AVX-512 and are left to the loop.
      if constexpr (!(kSigned && sizeof(T) == 8)) {
        return map1<T>(in, f, g0, g1,
                       [n](auto a) { return hn::ShiftRightSame(a, static_cast<int>(n)); });
      }
    }
  }
  loop2<T, T, u32>(in, f, g0, g1, [](T a, u32 n) -> T {
    if (n >= kBits) return kSigned && a < 0 ? static_cast<T>(-1) : T{0};
    return static_cast<T>(a >> n);
  });
}

// Division by zero gives all ones (quotient) and the dividend (remainder), as the hardware does in
// practice; PTX leaves it unspecified. The one overflowing signed division wraps.
template <class T>
HWY_INLINE T quotient(T a, T b) {
  if (b == 0) return static_cast<T>(~T{0});
  if constexpr (std::is_signed_v<T>)
    if (b == -1) return static_cast<T>(T{0} - static_cast<std::make_unsigned_t<T>>(a));
  return static_cast<T>(a / b);
}
template <class T>
HWY_INLINE T remainder(T a, T b) {
  if (b == 0) return a;
  if constexpr (std::is_signed_v<T>)
    if (b == -1) return 0;
  return static_cast<T>(a % b);
}
// A divisor that all lanes share (the usual case: an extent of a tensor) divides exactly through
// double: a quotient q = a / d that is no integer is at least 1/d away from the next one, and its
// rounding error is below 2^-53 q < 2^-21 / d.
template <class T>
HWY_INLINE void divide32(const BoundInst& in, Frame& f, u32 g0, u32 g1, bool rest) {
  if (in.src[1].mask == 0 && *at<T>(f, in.src[1]) != 0) {
    const T divisor = *at<T>(f, in.src[1]);
    if (!(std::is_signed_v<T> && divisor == static_cast<T>(-1))) {
      const double d = static_cast<double>(divisor);
      auto quotient_of = [d](T a) {
        return static_cast<T>(static_cast<s64>(static_cast<double>(a) / d));
      };
      if (!rest) return loop2<T, T, T>(in, f, g0, g1, [&](T a, T) { return quotient_of(a); });
      using U = std::make_unsigned_t<T>;
      return loop2<T, T, T>(in, f, g0, g1, [&](T a, T b) {
        return static_cast<T>(static_cast<U>(a) -
                              static_cast<U>(quotient_of(a)) * static_cast<U>(b));
      });
    }
  }
  if (rest)
    loop2<T, T, T>(in, f, g0, g1, [](T a, T b) { return remainder(a, b); });
  else
    loop2<T, T, T>(in, f, g0, g1, [](T a, T b) { return quotient(a, b); });
}

__extension__ typedef unsigned __int128 u128;
__extension__ typedef __int128 s128;
HWY_INLINE u64 mul_hi(u64 a, u64 b) { return static_cast<u64>((static_cast<u128>(a) * b) >> 64); }
HWY_INLINE s64 mul_hi(s64 a, s64 b) { return static_cast<s64>((static_cast<s128>(a) * b) >> 64); }

template <class T>
HWY_INLINE T reverse_bits(T v) {
  T r = 0;
  for (std::size_t i = 0; i < 8 * sizeof(T); ++i)
    r = static_cast<T>(r | ((v >> i & 1) << (8 * sizeof(T) - 1 - i)));
  return r;
}
// bfe: field of `length` bits at `position`, sign-extended when T is signed (PTX ISA, pseudo-code
// of bfe).
template <class T>
HWY_INLINE T extract_field(T a, u32 position, u32 length) {
  using U = std::make_unsigned_t<T>;
  constexpr u32 kMsb = 8 * sizeof(T) - 1;
  u32 pos = position & 255, len = length & 255;
  U sign = 0;
  if (std::is_signed_v<T> && len != 0)
    sign = static_cast<U>(a) >> std::min(pos + len - 1, kMsb) & 1;
  U out = 0;
  for (u32 i = 0; i <= kMsb; ++i) {
    U bit = i < len && pos + i <= kMsb ? static_cast<U>(a) >> (pos + i) & 1 : sign;
    out = static_cast<U>(out | bit << i);
  }
  return static_cast<T>(out);
}
template <class U>
HWY_INLINE U insert_field(U a, U b, u32 position, u32 length) {
  constexpr u32 kMsb = 8 * sizeof(U) - 1;
  u32 pos = position & 255, len = length & 255;
  U out = b;
  for (u32 i = 0; i < len && pos + i <= kMsb; ++i) {
    U bit = a >> i & 1;
    out = static_cast<U>((out & ~(U{1} << (pos + i))) | bit << (pos + i));
  }
  return out;
}
template <class U>
HWY_INLINE void bfi(const BoundInst& in, Frame& f, u32 g0, u32 g1) {
  U* d = at<U>(f, in.dst[0]);
  for (std::size_t i = g0 * kGroupLanes; i < g1 * kGroupLanes; ++i)
    d[i] = insert_field<U>(
        at<U>(f, in.src[0])[lane(i, in.src[0])], at<U>(f, in.src[1])[lane(i, in.src[1])],
        at<u32>(f, in.src[2])[lane(i, in.src[2])], at<u32>(f, in.src[3])[lane(i, in.src[3])]);
}
HWY_INLINE u32 permute_bytes(u32 a, u32 b, u32 selector) {
  u64 both = a | static_cast<u64>(b) << 32;
  u32 out = 0;
  for (u32 i = 0; i < 4; ++i) {
    u32 s = selector >> (4 * i) & 15;
    u32 byte = static_cast<u32>(both >> (8 * (s & 7))) & 255;
    if (s & 8) byte = byte & 128 ? 255 : 0;
    out |= byte << (8 * i);
  }
  return out;
}
HWY_INLINE u32 lop3(u32 a, u32 b, u32 c, u32 table) {
  u32 out = 0;
  for (u32 k = 0; k < 8; ++k)
    if (table >> k & 1) out |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
  return out;
}

}  // namespace
}  // namespace driftc::runtime::ptx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
