// Plain operations: lane i of the result depends on lane i of the operands only. Compiled once per
// instruction set (Highway); every variant gives the same bits, since each lane is a sequence of
// IEEE or integer operations.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/ptx/exec_plain.cpp"
// Three variants are enough on x86 (scalar, AVX2, AVX-512); the rest would only cost build time.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "ir/support/half.h"
#include "ir/support/round.h"
#include "runtime/ptx/exec_integer_inl.h"
#include "runtime/ptx/exec_plain_inl.h"
#include "runtime/ptx/frame.h"

HWY_BEFORE_NAMESPACE();
namespace driftc::runtime::ptx::HWY_NAMESPACE {
namespace {

// ---- minimum, maximum, comparisons, selection

// One NaN operand gives the other one; -0 is less than +0.
template <bool kMax, bool kPropagateNan, class V>
HWY_INLINE V min_max(V a, V b) {
  const hn::DFromV<V> d;
  auto less = kMax ? hn::Gt(a, b) : hn::Lt(a, b);
  V r = hn::IfThenElse(less, a, b);
  V zeros =
      kMax ? hn::And(a, b) : hn::Or(a, b);  // equal operands differ at most in the sign of zero
  r = hn::IfThenElse(hn::Eq(a, b), zeros, r);
  if constexpr (kPropagateNan) {
    r = hn::IfThenElse(hn::IsNaN(a), a, r);
    r = hn::IfThenElse(hn::IsNaN(b), b, r);
  } else {
    r = hn::IfThenElse(hn::IsNaN(a), b, r);
    r = hn::IfThenElse(hn::IsNaN(b), a, r);
  }
  (void)d;
  return canonical(r);
}
template <class T, class F>
HWY_INLINE void compare(const BoundInst& in, Frame& f, u32 g0, u32 g1, F fn) {
  const Tag<T> d;
  u16* out = at<u16>(f, in.dst[0]);
  const T *a = at<T>(f, in.src[0]), *b = at<T>(f, in.src[1]);
  for (std::size_t g = g0; g < g1; ++g) {
    u32 bits = 0;
    for (std::size_t k = 0; k < kGroupLanes; k += hn::Lanes(d)) {
      std::size_t i = g * kGroupLanes + k;
      bits |= bits_of_mask(
                  d, fn(hn::Load(d, a + lane(i, in.src[0])), hn::Load(d, b + lane(i, in.src[1]))))
              << k;
    }
    out[g] = static_cast<u16>(bits);
  }
}

template <class T>
HWY_INLINE void setp(const BoundInst& in, Frame& f, u32 g0, u32 g1) {
  // NaN makes every ordered comparison false; the unordered ones are the negation of the opposite.
  auto either_nan = [](auto a, auto b) { return hn::Or(hn::IsNaN(a), hn::IsNaN(b)); };
  switch (static_cast<Comparison>(in.imm)) {
    case Comparison::kEq:
      return compare<T>(in, f, g0, g1, [](auto a, auto b) { return hn::Eq(a, b); });
    case Comparison::kNe:
      if constexpr (std::is_floating_point_v<T>)
        return compare<T>(in, f, g0, g1, [&](auto a, auto b) {
          return hn::Not(hn::Or(hn::Eq(a, b), either_nan(a, b)));
        });
      else
        return compare<T>(in, f, g0, g1, [](auto a, auto b) { return hn::Not(hn::Eq(a, b)); });
    case Comparison::kLt:
      return compare<T>(in, f, g0, g1, [](auto a, auto b) { return hn::Lt(a, b); });
    case Comparison::kGt:
      return compare<T>(in, f, g0, g1, [](auto a, auto b) { return hn::Lt(b, a); });
    case Comparison::kLe:
      if constexpr (std::is_floating_point_v<T>)
        return compare<T>(in, f, g0, g1, [](auto a, auto b) { return hn::Le(a, b); });
      else
        return compare<T>(in, f, g0, g1, [](auto a, auto b) { return hn::Not(hn::Lt(b, a)); });
    case Comparison::kGe:
      if constexpr (std::is_floating_point_v<T>)
        return compare<T>(in, f, g0, g1, [](auto a, auto b) { return hn::Le(b, a); });
      else
        return compare<T>(in, f, g0, g1, [](auto a, auto b) { return hn::Not(hn::Lt(a, b)); });
    case Comparison::kEqu:
    case Comparison::kNeu:
    case Comparison::kLtu:
    case Comparison::kLeu:
    case Comparison::kGtu:
    case Comparison::kGeu:
    case Comparison::kNum:
    case Comparison::kNan:
      break;
  }
  if constexpr (std::is_floating_point_v<T>) {
    switch (static_cast<Comparison>(in.imm)) {
      case Comparison::kEqu:
        return compare<T>(in, f, g0, g1,
                          [&](auto a, auto b) { return hn::Or(hn::Eq(a, b), either_nan(a, b)); });
      case Comparison::kNeu:
        return compare<T>(in, f, g0, g1, [](auto a, auto b) { return hn::Not(hn::Eq(a, b)); });
      case Comparison::kLtu:
        return compare<T>(in, f, g0, g1, [](auto a, auto b) { return hn::Not(hn::Le(b, a)); });
      case Comparison::kLeu:
        return compare<T>(in, f, g0, g1, [](auto a, auto b) { return hn::Not(hn::Lt(b, a)); });
      case Comparison::kGtu:
        return compare<T>(in, f, g0, g1, [](auto a, auto b) { return hn::Not(hn::Le(a, b)); });
      case Comparison::kGeu:
        return compare<T>(in, f, g0, g1, [](auto a, auto b) { return hn::Not(hn::Lt(a, b)); });
      case Comparison::kNum:
        return compare<T>(in, f, g0, g1, [&](auto a, auto b) { return hn::Not(either_nan(a, b)); });
      case Comparison::kNan:
        return compare<T>(in, f, g0, g1, [&](auto a, auto b) { return either_nan(a, b); });
      case Comparison::kEq:
      case Comparison::kNe:
      case Comparison::kLt:
      case Comparison::kLe:
      case Comparison::kGt:
      case Comparison::kGe:
        break;
    }
  }
}

// Unsigned order through signed comparison: flip the sign bits.
template <class T, class S>
HWY_INLINE void setp_unsigned(const BoundInst& in, Frame& f, u32 g0, u32 g1) {
  const Tag<T> d;
  const Tag<S> ds;
  const auto flip = hn::Set(d, T{1} << (8 * sizeof(T) - 1));
  auto lt = [&](auto a, auto b) {
    return hn::RebindMask(
        d, hn::Lt(hn::BitCast(ds, hn::Xor(a, flip)), hn::BitCast(ds, hn::Xor(b, flip))));
  };
  switch (static_cast<Comparison>(in.imm)) {
    case Comparison::kEq:
      return compare<T>(in, f, g0, g1, [](auto a, auto b) { return hn::Eq(a, b); });
    case Comparison::kNe:
      return compare<T>(in, f, g0, g1, [](auto a, auto b) { return hn::Not(hn::Eq(a, b)); });
    case Comparison::kLt:
      return compare<T>(in, f, g0, g1, [&](auto a, auto b) { return lt(a, b); });
    case Comparison::kGt:
      return compare<T>(in, f, g0, g1, [&](auto a, auto b) { return lt(b, a); });
    case Comparison::kLe:
      return compare<T>(in, f, g0, g1, [&](auto a, auto b) { return hn::Not(lt(b, a)); });
    case Comparison::kGe:
      return compare<T>(in, f, g0, g1, [&](auto a, auto b) { return hn::Not(lt(a, b)); });
    case Comparison::kEqu:
    case Comparison::kNeu:
    case Comparison::kLtu:
    case Comparison::kLeu:
    case Comparison::kGtu:
    case Comparison::kGeu:
    case Comparison::kNum:
    case Comparison::kNan:
      break;
  }
}

template <class F>
HWY_INLINE void predicates2(const BoundInst& in, Frame& f, u32 g0, u32 g1, F fn) {
  u16* d = at<u16>(f, in.dst[0]);
  const u16 *a = at<u16>(f, in.src[0]), *b = at<u16>(f, in.src[1]);
  for (std::size_t g = g0; g < g1; ++g)
    d[g] = static_cast<u16>(fn(a[group(g, in.src[0])], b[group(g, in.src[1])]));
}

template <class T>
HWY_INLINE void selp(const BoundInst& in, Frame& f, u32 g0, u32 g1) {
  const Tag<T> d;
  T* out = at<T>(f, in.dst[0]);
  const T *a = at<T>(f, in.src[0]), *b = at<T>(f, in.src[1]);
  const u16* p = at<u16>(f, in.src[2]);
  for (std::size_t g = g0; g < g1; ++g) {
    u32 bits = p[group(g, in.src[2])];
    for (std::size_t k = 0; k < kGroupLanes; k += hn::Lanes(d)) {
      std::size_t i = g * kGroupLanes + k;
      auto m = mask_of_bits(d, bits >> k);
      hn::Store(hn::IfThenElse(m, hn::Load(d, a + lane(i, in.src[0])),
                               hn::Load(d, b + lane(i, in.src[1]))),
                d, out + i);
    }
  }
}
// ---- conversions

template <class F>
HWY_INLINE F rounded(F v, Rounding r) {
  switch (r) {
    case Rounding::kNearest:
      return std::nearbyint(v);  // the rounding mode is never changed: ties to even
    case Rounding::kZero:
      return std::trunc(v);
    case Rounding::kDown:
      return std::floor(v);
    case Rounding::kUp:
      return std::ceil(v);
  }
  return v;
}
// Float to integer saturates; NaN gives 0 for 32-bit results and 0x8000... for 64-bit ones, as PTX
// says.
template <class I, class F>
HWY_INLINE I saturated(F v) {
  if (v != v)
    return sizeof(I) == 8 || sizeof(F) == 8
               ? static_cast<I>(sizeof(I) == 8 ? u64{1} << 63 : u32{1} << 31)
               : I{0};
  constexpr int kBits = 8 * sizeof(I) - (std::is_signed_v<I> ? 1 : 0);
  F top = std::ldexp(F{1}, kBits);
  if (v >= top) return std::numeric_limits<I>::max();
  if (v < (std::is_signed_v<I> ? -top : F{0})) return std::numeric_limits<I>::min();
  return static_cast<I>(v);
}
template <class I, class F>
HWY_INLINE void to_integer(const BoundInst& in, Frame& f, u32 g0, u32 g1) {
  Rounding r = static_cast<Rounding>(in.imm);
  loop1<I, F>(in, f, g0, g1, [r](F v) { return saturated<I>(rounded(v, r)); });
}
template <class F>
HWY_INLINE void round_to_integral(const BoundInst& in, Frame& f, u32 g0, u32 g1) {
  Rounding r = static_cast<Rounding>(in.imm);
  loop1<F, F>(in, f, g0, g1, [r](F v) { return canonical_of(rounded(v, r)); });
}

// ---- one function per operation

#define EXEC(name) void Exec##name(const BoundInst& in, Frame& f, u32 g0, u32 g1)
#define MAP1(name, T, expr)                              \
  EXEC(name) {                                           \
    map1<T>(in, f, g0, g1, [](auto a) { return expr; }); \
  }
#define MAP2(name, T, expr)                                      \
  EXEC(name) {                                                   \
    map2<T>(in, f, g0, g1, [](auto a, auto b) { return expr; }); \
  }
#define LOOP1(name, D, A, expr)                                \
  EXEC(name) {                                                 \
    loop1<D, A>(in, f, g0, g1, [](A a) -> D { return expr; }); \
  }
#define LOOP2(name, D, A, B, expr)                                     \
  EXEC(name) {                                                         \
    loop2<D, A, B>(in, f, g0, g1, [](A a, B b) -> D { return expr; }); \
  }
#define LOOP3(name, D, A, B, C, expr)                                          \
  EXEC(name) {                                                                 \
    loop3<D, A, B, C>(in, f, g0, g1, [](A a, B b, C c) -> D { return expr; }); \
  }

MAP1(Mov32, u32, a)
MAP1(Mov64, u64, a)
EXEC(MovPred) {
  predicates2(in, f, g0, g1, [](u16 a, u16) { return a; });
}
MAP2(Add32, u32, hn::Add(a, b))
MAP2(Sub32, u32, hn::Sub(a, b))
MAP2(Mul32, u32, hn::Mul(a, b))
EXEC(Mad32) {
  map3<u32>(in, f, g0, g1, [](auto a, auto b, auto c) { return hn::Add(hn::Mul(a, b), c); });
}
LOOP2(MulHiS32, u32, s32, s32, static_cast<u32>((static_cast<s64>(a) * b) >> 32))
LOOP2(MulHiU32, u32, u32, u32, static_cast<u32>((static_cast<u64>(a) * b) >> 32))
EXEC(DivS32) { divide32<s32>(in, f, g0, g1, false); }
EXEC(DivU32) { divide32<u32>(in, f, g0, g1, false); }
EXEC(RemS32) { divide32<s32>(in, f, g0, g1, true); }
EXEC(RemU32) { divide32<u32>(in, f, g0, g1, true); }
MAP2(MinS32, s32, hn::Min(a, b))
MAP2(MinU32, u32, hn::Min(a, b))
MAP2(MaxS32, s32, hn::Max(a, b))
MAP2(MaxU32, u32, hn::Max(a, b))
LOOP1(AbsS32, u32, u32, a >> 31 ? 0 - a : a)
LOOP1(Neg32, u32, u32, 0 - a)
MAP2(And32, u32, hn::And(a, b))
MAP2(Or32, u32, hn::Or(a, b))
MAP2(Xor32, u32, hn::Xor(a, b))
LOOP1(Not32, u32, u32, ~a)
EXEC(Shl32) { shift_left<u32>(in, f, g0, g1); }
EXEC(ShrS32) { shift_right<s32>(in, f, g0, g1); }
EXEC(ShrU32) { shift_right<u32>(in, f, g0, g1); }
// a is the low word, b the high one; .l keeps the high word of the shifted pair, .r the low one.
EXEC(ShfL32) {
  u32 limit = in.imm ? 32 : 31;
  bool clamp = in.imm != 0;
  loop3<u32, u32, u32, u32>(in, f, g0, g1, [=](u32 a, u32 b, u32 c) {
    u32 n = clamp ? std::min(c, limit) : c & 31;
    return static_cast<u32>(((static_cast<u64>(b) << 32 | a) << n) >> 32);
  });
}
EXEC(ShfR32) {
  bool clamp = in.imm != 0;
  loop3<u32, u32, u32, u32>(in, f, g0, g1, [=](u32 a, u32 b, u32 c) {
    u32 n = clamp ? std::min(c, u32{32}) : c & 31;
    return static_cast<u32>((static_cast<u64>(b) << 32 | a) >> n);
  });
}
LOOP1(Popc32, u32, u32, static_cast<u32>(std::popcount(a)))
LOOP1(Clz32, u32, u32, static_cast<u32>(std::countl_zero(a)))
LOOP1(Brev32, u32, u32, reverse_bits(a))
LOOP3(BfeS32, s32, s32, u32, u32, extract_field(a, b, c))
LOOP3(BfeU32, u32, u32, u32, u32, extract_field(a, b, c))
EXEC(Bfi32) { bfi<u32>(in, f, g0, g1); }
LOOP3(Prmt32, u32, u32, u32, u32, permute_bytes(a, b, c))
EXEC(Lop332) {
  u32 table = static_cast<u32>(in.imm);
  loop3<u32, u32, u32, u32>(in, f, g0, g1,
                            [table](u32 a, u32 b, u32 c) { return lop3(a, b, c, table); });
}
LOOP1(SextB, u32, u32, static_cast<u32>(static_cast<std::int8_t>(a)))
LOOP1(ZextB, u32, u32, a & 0xFFu)
LOOP1(SextH, u32, u32, static_cast<u32>(static_cast<std::int16_t>(a)))
LOOP1(ZextH, u32, u32, a & 0xFFFFu)
MAP2(Add64, u64, hn::Add(a, b))
MAP2(Sub64, u64, hn::Sub(a, b))
LOOP2(Mul64, u64, u64, u64, a* b)
LOOP3(Mad64, u64, u64, u64, u64, a* b + c)
LOOP2(MulHiS64, s64, s64, s64, mul_hi(a, b))
LOOP2(MulHiU64, u64, u64, u64, mul_hi(a, b))
LOOP2(DivS64, s64, s64, s64, quotient(a, b))
LOOP2(DivU64, u64, u64, u64, quotient(a, b))
LOOP2(RemS64, s64, s64, s64, remainder(a, b))
LOOP2(RemU64, u64, u64, u64, remainder(a, b))
LOOP2(MinS64, s64, s64, s64, a < b ? a : b)
LOOP2(MinU64, u64, u64, u64, a < b ? a : b)
LOOP2(MaxS64, s64, s64, s64, a > b ? a : b)
LOOP2(MaxU64, u64, u64, u64, a > b ? a : b)
LOOP1(AbsS64, u64, u64, a >> 63 ? 0 - a : a)
LOOP1(Neg64, u64, u64, 0 - a)
MAP2(And64, u64, hn::And(a, b))
MAP2(Or64, u64, hn::Or(a, b))
MAP2(Xor64, u64, hn::Xor(a, b))
LOOP1(Not64, u64, u64, ~a)
EXEC(Shl64) { shift_left<u64>(in, f, g0, g1); }
EXEC(ShrS64) { shift_right<s64>(in, f, g0, g1); }
EXEC(ShrU64) { shift_right<u64>(in, f, g0, g1); }
LOOP1(Popc64, u32, u64, static_cast<u32>(std::popcount(a)))
LOOP1(Clz64, u32, u64, static_cast<u32>(std::countl_zero(a)))
LOOP1(Brev64, u64, u64, reverse_bits(a))
LOOP3(BfeS64, s64, s64, u32, u32, extract_field(a, b, c))
LOOP3(BfeU64, u64, u64, u32, u32, extract_field(a, b, c))
EXEC(Bfi64) { bfi<u64>(in, f, g0, g1); }
EXEC(MulWideS32) {
  wide<s32, s64>(in, f, g0, g1, [](auto, auto v, std::size_t) { return v; });
}
EXEC(MulWideU32) {
  wide<u32, u64>(in, f, g0, g1, [](auto, auto v, std::size_t) { return v; });
}
EXEC(MadWideS32) {
  const s64* c = at<s64>(f, in.src[2]);
  wide<s32, s64>(in, f, g0, g1, [&](auto d, auto v, std::size_t i) {
    return hn::Add(v, hn::Load(d, c + lane(i, in.src[2])));
  });
}
EXEC(MadWideU32) {
  const u64* c = at<u64>(f, in.src[2]);
  wide<u32, u64>(in, f, g0, g1, [&](auto d, auto v, std::size_t i) {
    return hn::Add(v, hn::Load(d, c + lane(i, in.src[2])));
  });
}
LOOP1(SextW, s64, s32, a)
LOOP1(ZextW, u64, u32, a)
LOOP1(TruncL, u32, u64, static_cast<u32>(a))
LOOP1(HighL, u32, u64, static_cast<u32>(a >> 32))
LOOP2(Pack64, u64, u32, u32, a | static_cast<u64>(b) << 32)
LOOP2(Pack32, u32, u32, u32, (a & 0xFFFFu) | b << 16)
MAP2(AddF32, float, canonical(hn::Add(a, b)))
MAP2(SubF32, float, canonical(hn::Sub(a, b)))
MAP2(MulF32, float, canonical(hn::Mul(a, b)))
MAP2(DivF32, float, canonical(hn::Div(a, b)))
EXEC(FmaF32) { fma<float>(in, f, g0, g1); }
MAP1(SqrtF32, float, canonical(hn::Sqrt(a)))
MAP1(RcpF32, float, canonical(hn::Div(hn::Set(hn::DFromV<decltype(a)>(), 1.0f), a)))
MAP1(NegF32, float, canonical(hn::Neg(a)))
MAP1(AbsF32, float, canonical(hn::Abs(a)))
MAP2(MinF32, float, (min_max<false, false>(a, b)))
MAP2(MaxF32, float, (min_max<true, false>(a, b)))
MAP2(MinNanF32, float, (min_max<false, true>(a, b)))
MAP2(MaxNanF32, float, (min_max<true, true>(a, b)))
LOOP1(SatF32, float, float, a > 0.0f ? (a < 1.0f ? a : 1.0f) : 0.0f)  // NaN and -0 give +0
LOOP2(CopysignF32, u32, u32, u32, (a & 0x80000000u) | (b & 0x7FFFFFFFu))
EXEC(RoundF32) { round_to_integral<float>(in, f, g0, g1); }
MAP2(AddF64, double, canonical(hn::Add(a, b)))
MAP2(SubF64, double, canonical(hn::Sub(a, b)))
MAP2(MulF64, double, canonical(hn::Mul(a, b)))
MAP2(DivF64, double, canonical(hn::Div(a, b)))
EXEC(FmaF64) { fma<double>(in, f, g0, g1); }
MAP1(SqrtF64, double, canonical(hn::Sqrt(a)))
MAP1(RcpF64, double, canonical(hn::Div(hn::Set(hn::DFromV<decltype(a)>(), 1.0), a)))
MAP1(NegF64, double, canonical(hn::Neg(a)))
MAP1(AbsF64, double, canonical(hn::Abs(a)))
MAP2(MinF64, double, (min_max<false, false>(a, b)))
MAP2(MaxF64, double, (min_max<true, false>(a, b)))
LOOP2(CopysignF64, u64, u64, u64, (a & (u64{1} << 63)) | (b & ~(u64{1} << 63)))
EXEC(RoundF64) { round_to_integral<double>(in, f, g0, g1); }
LOOP1(S32ToF32, float, s32, static_cast<float>(a))
LOOP1(U32ToF32, float, u32, static_cast<float>(a))
LOOP1(S64ToF32, float, s64, static_cast<float>(a))
LOOP1(U64ToF32, float, u64, static_cast<float>(a))
LOOP1(S32ToF64, double, s32, static_cast<double>(a))
LOOP1(U32ToF64, double, u32, static_cast<double>(a))
LOOP1(S64ToF64, double, s64, static_cast<double>(a))
LOOP1(U64ToF64, double, u64, static_cast<double>(a))
EXEC(F32ToS32) { to_integer<s32, float>(in, f, g0, g1); }
EXEC(F32ToU32) { to_integer<u32, float>(in, f, g0, g1); }
EXEC(F32ToS64) { to_integer<s64, float>(in, f, g0, g1); }
EXEC(F32ToU64) { to_integer<u64, float>(in, f, g0, g1); }
EXEC(F64ToS32) { to_integer<s32, double>(in, f, g0, g1); }
EXEC(F64ToU32) { to_integer<u32, double>(in, f, g0, g1); }
EXEC(F64ToS64) { to_integer<s64, double>(in, f, g0, g1); }
EXEC(F64ToU64) { to_integer<u64, double>(in, f, g0, g1); }
LOOP1(F32ToTf32, u32, u32, bits_of(tf32_rna(float_of(a))))
LOOP1(F32ToF16, u32, u32, u32{f32_to_f16_rne(float_of(a))})
LOOP1(F32ToBf16, u32, u32, u32{f32_to_bf16_rne(float_of(a))})
LOOP1(F16ToF32, u32, u32, bits_of(f16_to_f32(static_cast<u16>(a))))
LOOP1(Bf16ToF32, u32, u32, a << 16)
LOOP1(F32ToF64, double, float, canonical_of(static_cast<double>(a)))
LOOP1(F64ToF32, float, double, canonical_of(static_cast<float>(a)))
EXEC(SetpS32) { setp<s32>(in, f, g0, g1); }
EXEC(SetpU32) { setp_unsigned<u32, s32>(in, f, g0, g1); }
EXEC(SetpS64) { setp<s64>(in, f, g0, g1); }
EXEC(SetpU64) { setp_unsigned<u64, s64>(in, f, g0, g1); }
EXEC(SetpF32) { setp<float>(in, f, g0, g1); }
EXEC(SetpF64) { setp<double>(in, f, g0, g1); }
EXEC(AndPred) {
  predicates2(in, f, g0, g1, [](u32 a, u32 b) { return a & b; });
}
EXEC(OrPred) {
  predicates2(in, f, g0, g1, [](u32 a, u32 b) { return a | b; });
}
EXEC(XorPred) {
  predicates2(in, f, g0, g1, [](u32 a, u32 b) { return a ^ b; });
}
EXEC(NotPred) {
  predicates2(in, f, g0, g1, [](u32 a, u32) { return ~a; });
}
EXEC(Selp32) { selp<u32>(in, f, g0, g1); }
EXEC(Selp64) { selp<u64>(in, f, g0, g1); }

const ExecFn* Table() {
  static constexpr ExecFn kTable[] = {
#define X(name, d, a, b, c) &Exec##name,
#include "runtime/ptx/ops.def"
#undef X
  };
  return kTable;
}

template <class T>
void BlendLanes(T* d, const T* v, const u16* mask, u32 g0, u32 g1) {
  const Tag<T> tag;
  for (std::size_t g = g0; g < g1; ++g) {
    if (mask[g] == 0) continue;
    for (std::size_t k = 0; k < kGroupLanes; k += hn::Lanes(tag)) {
      std::size_t i = g * kGroupLanes + k;
      store_some(tag, mask_of_bits(tag, u32{mask[g]} >> k), hn::Load(tag, v + i), d + i);
    }
  }
}
void Blend32(u32* d, const u32* v, const u16* mask, u32 g0, u32 g1) {
  BlendLanes(d, v, mask, g0, g1);
}
void Blend64(u64* d, const u64* v, const u16* mask, u32 g0, u32 g1) {
  BlendLanes(d, v, mask, g0, g1);
}

}  // namespace
}  // namespace driftc::runtime::ptx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace driftc::runtime::ptx {
HWY_EXPORT(Table);
HWY_EXPORT(Blend32);
HWY_EXPORT(Blend64);

const ExecFn* plain_functions() { return HWY_DYNAMIC_DISPATCH(Table)(); }

void blend_destination(const BoundInst& inst, Frame& frame, const std::uint16_t* mask,
                       const std::byte* value, std::uint32_t first, std::uint32_t last) {
  std::byte* d = frame.regs + inst.dst[0].offset;
  switch (inst.kind) {
    case RegKind::kW:
      HWY_DYNAMIC_DISPATCH(Blend32)
      (reinterpret_cast<std::uint32_t*>(d), reinterpret_cast<const std::uint32_t*>(value), mask,
       first, last);
      return;
    case RegKind::kL:
      HWY_DYNAMIC_DISPATCH(Blend64)
      (reinterpret_cast<std::uint64_t*>(d), reinterpret_cast<const std::uint64_t*>(value), mask,
       first, last);
      return;
    case RegKind::kP: {
      std::uint16_t* p = reinterpret_cast<std::uint16_t*>(d);
      const std::uint16_t* v = reinterpret_cast<const std::uint16_t*>(value);
      for (std::uint32_t g = first; g < last; ++g)
        p[g] = static_cast<std::uint16_t>((p[g] & ~mask[g]) | (v[g] & mask[g]));
      return;
    }
    case RegKind::kNone:
      return;
  }
}
}  // namespace driftc::runtime::ptx
#endif
