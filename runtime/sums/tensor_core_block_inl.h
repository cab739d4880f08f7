// One block of the tensor-core model for several vectors of outputs, and chains of blocks. How it
// is computed is told in tensor_core_lanes.h. Whoever holds the operands says where they are: a
// Source has kRows x kColumns vectors of outputs (an even number of rows, or one column), kSteps
// where that is known at compile time (a multiple of the block, else 0), and its from(k0) has, for
// step k0 + i,
//   bool skip(i)               products of +0 that leave the block as it is
//   VI column_codes(i, c)      of the operand that the rows share, in both halves of every word
//   VF column_value(i, c)
//   VI row_codes(i, pair)      of rows 2 pair (low halves) and 2 pair + 1 (high halves)
//   VF row_value(i, r)
//   float column_at(i, c, j), row_at(i, r, j)    of lane j alone
// Compiled once per instruction set: included again for every one (Highway).
#if defined(DRIFTC_TENSOR_CORE_BLOCK_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef DRIFTC_TENSOR_CORE_BLOCK_INL_H
#undef DRIFTC_TENSOR_CORE_BLOCK_INL_H
#else
#define DRIFTC_TENSOR_CORE_BLOCK_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "ir/support/half.h"
#include "runtime/sums/tensor_core_lanes.h"

HWY_BEFORE_NAMESPACE();
namespace driftc::runtime::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using TcF = hn::CappedTag<float, kTcLanes>;
using TcI = hn::Rebind<std::int32_t, TcF>;
using TcU = hn::Rebind<std::uint32_t, TcF>;
using VF = hn::Vec<TcF>;
using VI = hn::Vec<TcI>;
// Outputs side by side hide the latency of a block; more than the registers hold do not.
constexpr int kTcTogether = HWY_TARGET == HWY_AVX3 ? 8 : HWY_ARCH_X86 ? 2 : 4;

// Toward zero; |v| < 2^31, so that the saturation of a general conversion is not needed.
HWY_INLINE VI truncated(VF v) {
#if HWY_TARGET == HWY_AVX3
  return VI{_mm512_cvttps_epi32(v.raw)};
#elif HWY_TARGET == HWY_AVX2
  return VI{_mm256_cvttps_epi32(v.raw)};
#else
  return hn::ConvertTo(TcI(), v);
#endif
}

// v as f32, toward zero; |v| < 2^31 - 2^7.
HWY_INLINE VF to_float_rz(VI v) {
#if HWY_TARGET == HWY_AVX3
  return VF{_mm512_cvt_roundepi32_ps(v.raw, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)};
#else
  const TcI di;
  const VF nearest = hn::ConvertTo(TcF(), v);
  // One step back where the rounding went away from zero: a magnitude's bits less one.
  const auto away = hn::Gt(hn::Abs(truncated(nearest)), hn::Abs(v));
  return hn::BitCast(TcF(), hn::Add(hn::BitCast(di, nearest), hn::VecFromMask(di, away)));
#endif
}

// The exponent field.
HWY_INLINE VI exponent_field(VF v) {
  const TcU du;
  return hn::BitCast(TcI(), hn::ShiftRight<24>(hn::ShiftLeft<1>(hn::BitCast(du, v))));
}

// The value as the unit reads it (tf32: the low 13 bits are dropped).
template <TcFormat kFormat>
HWY_INLINE VF tc_operand(VF v) {
  if (kFormat != TcFormat::kTf32) return v;
  const TcI di;
  return hn::BitCast(TcF(), hn::And(hn::BitCast(di, v), hn::Set(di, ~0x1FFF)));
}

// EXP(v) of numerics.md 1.2, biased as in f32, or the code of a value that has none; subnormals of
// the format read as its smallest exponent.
template <TcFormat kFormat>
HWY_INLINE VI tc_code(VF v) {
  const TcI di;
  const VI field = exponent_field(v);
  const VI e = hn::Max(field, hn::Set(di, kFormat == TcFormat::kF16 ? 127 - 14 : 1));
  const VI finite =
      hn::IfThenElse(hn::RebindMask(di, hn::Eq(v, hn::Zero(TcF()))), hn::Set(di, kTcZeroCode), e);
  return hn::IfThenElse(hn::Eq(field, hn::Set(di, 255)), hn::Set(di, kTcSpecialCode), finite);
}
// ---- words of two 16-bit halves; what passes 16 bits wraps

#if HWY_TARGET == HWY_SCALAR
template <class Fn>
HWY_INLINE VI by_halves(VI a, VI b, const Fn& fn) {
  const TcI di;
  const std::int32_t x = hn::GetLane(a), y = hn::GetLane(b);
  const std::int32_t low = fn(static_cast<std::int16_t>(x), static_cast<std::int16_t>(y));
  return hn::Set(di, (low & 0xFFFF) | fn(x >> 16, y >> 16) * 65536);
}
HWY_INLINE VI halves_add(VI a, VI b) {
  return by_halves(a, b, [](int x, int y) { return int{static_cast<std::int16_t>(x + y)}; });
}
HWY_INLINE VI halves_sub(VI a, VI b) {
  return by_halves(a, b, [](int x, int y) { return int{static_cast<std::int16_t>(x - y)}; });
}
HWY_INLINE VI halves_max(VI a, VI b) {
  return by_halves(a, b, [](int x, int y) { return std::max(x, y); });
}
HWY_INLINE VI halves_max_unsigned(VI a, VI b) {
  return by_halves(a, b, [](int x, int y) { return (x & 0xFFFF) > (y & 0xFFFF) ? x : y; });
}
HWY_INLINE VI halves_less(VI a, VI b) {
  return by_halves(a, b, [](int x, int y) { return x < y ? -1 : 0; });
}
HWY_INLINE VI halves_above_unsigned(VI a, VI b) {
  return by_halves(a, b, [](int x, int y) { return (x & 0xFFFF) > (y & 0xFFFF) ? -1 : 0; });
}
HWY_INLINE bool any_half_above_unsigned(VI a, VI b) {
  return hn::GetLane(halves_above_unsigned(a, b)) != 0;
}
#else
using TcS16 = hn::Repartition<std::int16_t, TcF>;
using TcU16 = hn::Repartition<std::uint16_t, TcF>;
HWY_INLINE VI halves_add(VI a, VI b) {
  const TcS16 d;
  return hn::BitCast(TcI(), hn::Add(hn::BitCast(d, a), hn::BitCast(d, b)));
}
HWY_INLINE VI halves_sub(VI a, VI b) {
  const TcS16 d;
  return hn::BitCast(TcI(), hn::Sub(hn::BitCast(d, a), hn::BitCast(d, b)));
}
HWY_INLINE VI halves_max(VI a, VI b) {
  const TcS16 d;
  return hn::BitCast(TcI(), hn::Max(hn::BitCast(d, a), hn::BitCast(d, b)));
}
HWY_INLINE VI halves_max_unsigned(VI a, VI b) {
  const TcU16 d;
  return hn::BitCast(TcI(), hn::Max(hn::BitCast(d, a), hn::BitCast(d, b)));
}
HWY_INLINE VI halves_less(VI a, VI b) {
  const TcS16 d;
  return hn::BitCast(TcI(), hn::VecFromMask(d, hn::Lt(hn::BitCast(d, a), hn::BitCast(d, b))));
}
HWY_INLINE VI halves_above_unsigned(VI a, VI b) {
  const TcU16 d;
  return hn::BitCast(TcI(), hn::VecFromMask(d, hn::Gt(hn::BitCast(d, a), hn::BitCast(d, b))));
}
HWY_INLINE bool any_half_above_unsigned(VI a, VI b) {
  const TcU16 d;
  return !hn::AllFalse(d, hn::Gt(hn::BitCast(d, a), hn::BitCast(d, b)));
}
#endif
HWY_INLINE VI halves_of(std::int32_t v) {
  return hn::Set(TcI(), static_cast<std::int32_t>((static_cast<std::uint32_t>(v) & 0xFFFF) |
                                                  static_cast<std::uint32_t>(v) << 16));
}
HWY_INLINE VI halves_join(VI low, VI high) {
  const TcI di;
  return hn::Or(hn::And(low, hn::Set(di, 0xFFFF)), hn::ShiftLeft<16>(high));
}
// Words of lane_codes() and row_codes(). The bias is counted once in a sum of two codes.
HWY_INLINE VI tc_lane_word(VI code) { return halves_join(code, code); }
HWY_INLINE VI tc_row_word(VI low, VI high) {
  const VI bias = hn::Set(TcI(), 127);
  return halves_join(hn::Sub(low, bias), hn::Sub(high, bias));
}

// The f16 result of sum * unit in every lane, to nearest even, widened. f32 with the sticky bit
// kept in its last place rounds to f16 like the exact value (24 bits are more than 11 + 2).
HWY_INLINE VF to_half(VI sum, VF toward_zero, VF unit) {
  const TcF df;
  const TcI di;
  HWY_ALIGN float values[kTcLanes];
  const VI inexact = hn::VecFromMask(di, hn::Ne(truncated(toward_zero), sum));
  const VI odd = hn::Or(hn::BitCast(di, toward_zero), hn::And(inexact, hn::Set(di, 1)));
  hn::Store(hn::Mul(hn::BitCast(df, odd), unit), df, values);
  for (std::size_t j = 0; j < hn::Lanes(df); ++j) values[j] = f16_to_f32(f32_to_f16_rne(values[j]));
  return hn::Load(df, values);
}

// Blocks of at most kLength (4, 8 or 16) products; f16 accumulators if kHalf. Output (r, c) of the
// source is number c * rows + r here.
template <int kLength, bool kHalf, class Source>
class TcBlocks {
  static constexpr int kRows = Source::kRows, kOutputs = kRows * Source::kColumns;

 public:
  TcBlocks(const TensorCore& core, const Source& source) : core_(core), source_(source) {}

  // acc[o] = the chain of blocks over `steps` steps.
  HWY_INLINE void chain(std::int64_t steps, VF (&acc)[kOutputs]) const {
    if constexpr (Source::kSteps > 0) {
      static_assert(Source::kSteps % kLength == 0);
#pragma GCC unroll 2
      for (int k0 = 0; k0 < Source::kSteps; k0 += kLength) block<true>(k0, kLength, acc);
    } else {
      std::int64_t k0 = 0;
      for (; k0 + kLength <= steps; k0 += kLength) block<true>(k0, kLength, acc);
      if (k0 == steps) return;
      VF last[kOutputs];
      std::copy_n(acc, kOutputs, last);
      short_block(k0, static_cast<int>(steps - k0), last);
      std::copy_n(last, kOutputs, acc);
    }
  }

 private:
  static constexpr int kPairs = (kOutputs + 1) / 2, kRowPairs = (kRows + 1) / 2;
  // The biased alignment exponents with which products, scaled products and results are exact in
  // f32: -98 to 126.
  static constexpr int kLowest = 29, kHighest = 253;
  // In any order of magnitude, for lanes whose exponent does not matter.
  static constexpr int kAnyExponent = 127;

  // Lanes that the model computes one by one: all ones in their halves of the pairs' words.
  struct Bad {
    bool any = false;
    HWY_ALIGN std::int32_t words[kPairs][kTcLanes];
  };

  template <bool kWhole, class Fn>
  static HWY_INLINE void for_steps(int count, const Fn& fn) {
    if (kWhole) {
#pragma GCC unroll 16
      for (int i = 0; i < kLength; ++i) fn(i);
    } else {
      for (int i = 0; i < count; ++i) fn(i);
    }
  }

  // The exponents of accumulators as words of codes; 0 for zero and f32 subnormals.
  HWY_INLINE VI acc_code(VF acc) const {
    const TcI di;
    const VI field = exponent_field(acc);
    if (!kHalf) return field;
    // (Ne of Highway is false for NaN.)
    return hn::IfThenZeroElse(hn::RebindMask(di, hn::Eq(acc, hn::Zero(TcF()))),
                              hn::Max(field, hn::Set(di, 127 - 14)));
  }
  HWY_INLINE VI acc_word(const VF (&acc)[kOutputs], int pair) const {
    const TcI di;
    const VI low = acc_code(acc[2 * pair]);
    if (2 * pair + 1 == kOutputs) return hn::Or(low, hn::ShiftLeft<16>(low));
    if (kHalf) return hn::Or(low, hn::ShiftLeft<16>(acc_code(acc[2 * pair + 1])));
    const TcU du;
    const VI high = hn::BitCast(di, hn::ShiftRight<7>(hn::BitCast(du, acc[2 * pair + 1])));
    return hn::OrAnd(low, high, hn::Set(di, 0x00FF0000));
  }
  // Unsigned, more than kHighest - kLowest where the exponent is outside.
  static HWY_INLINE VI distance(VI e) { return halves_sub(e, halves_of(kLowest)); }
  static HWY_INLINE VI widest() { return halves_of(kHighest - kLowest); }
  static HWY_INLINE VI choose(VI mask, VI yes, VI no) {
    return hn::Or(hn::And(mask, yes), hn::AndNot(mask, no));
  }
  // Words of both rows of a pair, all ones where `test` holds.
  template <class V, class Test>
  static HWY_INLINE VI of_pair(const V (&rows)[kOutputs], int p, const Test& test) {
    const int last = std::min(2 * p + 1, kOutputs - 1);
    return halves_join(test(rows[2 * p]), test(rows[last]));
  }

  // Some exponent is outside: lanes in which every term is zero are in order, others are bad.
  HWY_NOINLINE void sort_out(const VF (&acc)[kOutputs], const VI (&products)[kPairs],
                             VI (&e)[kPairs], Bad& bad) const {
    const TcI di;
    for (int p = 0; p < kPairs; ++p) {
      const VI zero = of_pair(acc, p, [](VF v) HWY_ATTR {
        return hn::VecFromMask(TcI(), hn::RebindMask(TcI(), hn::Eq(v, hn::Zero(TcF()))));
      });
      const VI none = hn::And(zero, halves_less(products[p], halves_of(kTcZeroCode / 2)));
      e[p] = choose(none, halves_of(kAnyExponent), e[p]);
      const VI left = halves_above_unsigned(distance(e[p]), widest());
      e[p] = choose(left, halves_of(kAnyExponent), e[p]);
      hn::Store(left, di, bad.words[p]);
      bad.any = bad.any || !hn::AllTrue(di, hn::Eq(left, hn::Zero(di)));
    }
  }
  // 16 products of F + 2 bits fill 31 bits; with the accumulator they might not fit.
  static constexpr std::int32_t kLarge = (1 << 30) - (1 << 27);
  HWY_NOINLINE void note_large(const VI (&products)[kOutputs], Bad& bad) const {
    const TcI di;
    for (int p = 0; p < kPairs; ++p) {
      const VI large = of_pair(products, p, [](VI v) HWY_ATTR {
        return hn::VecFromMask(TcI(), hn::Gt(hn::Abs(v), hn::Set(TcI(), kLarge)));
      });
      const VI known = bad.any ? hn::Load(di, bad.words[p]) : hn::Zero(di);
      hn::Store(hn::Or(known, large), di, bad.words[p]);
    }
    bad.any = true;
  }

  // The bad lanes of `acc` through the scalar model, from what they were `before`.
  HWY_NOINLINE void one_by_one(std::int64_t k0, int count, const VF (&before)[kOutputs],
                               VF (&acc)[kOutputs], const Bad& bad) const {
    const TcF df;
    const auto at = source_.from(k0);
    for (int o = 0; o < kOutputs; ++o) {
      HWY_ALIGN float c[kTcLanes], out[kTcLanes];
      hn::Store(before[o], df, c);
      hn::Store(acc[o], df, out);
      for (int j = 0; j < static_cast<int>(hn::Lanes(df)); ++j) {
        if ((static_cast<std::uint32_t>(bad.words[o / 2][j]) >> (o % 2 * 16) & 0xFFFF) == 0)
          continue;
        std::array<float, kLength> a{}, b{};
        std::size_t n = 0;
        for (int i = 0; i < count; ++i) {
          if (at.skip(i)) continue;
          a[n] = at.row_at(i, o % kRows, j);
          b[n++] = at.column_at(i, o / kRows, j);
        }
        out[j] = tensor_core_block(core_, c[j], std::span(a).first(n), std::span(b).first(n)).value;
      }
      acc[o] = hn::Load(df, out);
    }
  }

  // GCC would rather add in a tree, which takes more registers than there are.
  static HWY_INLINE void in_order(VI& sum) {
#if HWY_TARGET == HWY_AVX3
    asm("" : "+v"(sum.raw));
#elif HWY_TARGET == HWY_AVX2
    asm("" : "+x"(sum.raw));
#else
    (void)sum;
#endif
  }

  HWY_NOINLINE void short_block(std::int64_t k0, int count, VF (&acc)[kOutputs]) const {
    block<false>(k0, count, acc);
  }
  template <bool kWhole>
  HWY_INLINE void block(std::int64_t k0, int count, VF (&acc)[kOutputs]) const {
    const TcF df;
    const TcI di;
    const TcU du;
    const auto at = source_.from(k0);
    VI products_only[kPairs], e[kPairs];
#pragma GCC unroll 4
    for (int p = 0; p < kPairs; ++p) products_only[p] = halves_of(2 * kTcZeroCode);
    for_steps<kWhole>(count, [&](int i) HWY_ATTR {
      if (at.skip(i)) return;
#pragma GCC unroll 4
      for (int p = 0; p < kRowPairs; ++p) {
        const VI rows = at.row_codes(i, p);
#pragma GCC unroll 2
        for (int c = 0; c < Source::kColumns; ++c) {
          VI& most = products_only[c * kRowPairs + p];
          most = halves_max(most, halves_add(rows, at.column_codes(i, c)));
        }
      }
    });
#pragma GCC unroll 4
    for (int p = 0; p < kPairs; ++p) {
      e[p] = halves_max(products_only[p], acc_word(acc, p));
      if (kHalf) e[p] = halves_max(e[p], halves_of(core_.floor + 127));
    }
    Bad bad;
    VI worst = distance(e[0]);
#pragma GCC unroll 4
    for (int p = 1; p < kPairs; ++p) worst = halves_max_unsigned(worst, distance(e[p]));
    if (HWY_UNLIKELY(any_half_above_unsigned(worst, widest()))) {
      // What calls see has to be in memory: copies are.
      VF a[kOutputs];
      VI products[kPairs], sorted[kPairs];
      std::copy_n(acc, kOutputs, a);
      std::copy_n(products_only, kPairs, products);
      std::copy_n(e, kPairs, sorted);
      sort_out(a, products, sorted, bad);
      std::copy_n(sorted, kPairs, e);
    }

    // 2^(F - emax)
    VF scale[kOutputs];
    VI sum[kOutputs];
    const auto top = hn::Set(du, static_cast<std::uint32_t>(core_.fraction_bits + 254) << 23);
#pragma GCC unroll 8
    for (int o = 0; o < kOutputs; ++o) {
      auto word = hn::BitCast(du, e[o / 2]);
      if (o % 2 != 0) word = hn::ShiftRight<16>(word);
      scale[o] = hn::BitCast(df, hn::Sub(top, hn::ShiftLeft<23>(word)));
      sum[o] = kLength == 16 ? hn::Zero(di) : truncated(hn::Mul(acc[o], scale[o]));
    }
    for_steps<kWhole>(count, [&](int i) HWY_ATTR {
      if (at.skip(i)) return;
#pragma GCC unroll 8
      for (int o = 0; o < kOutputs; ++o) {
        const VF product = hn::Mul(at.row_value(i, o % kRows), at.column_value(i, o / kRows));
        sum[o] = hn::Add(sum[o], truncated(hn::Mul(product, scale[o])));
        in_order(sum[o]);
      }
    });
    if (kLength == 16) {
      VI largest = hn::Abs(sum[0]);
#pragma GCC unroll 8
      for (int o = 1; o < kOutputs; ++o) largest = hn::Max(largest, hn::Abs(sum[o]));
      if (HWY_UNLIKELY(!hn::AllFalse(di, hn::Gt(largest, hn::Set(di, kLarge))))) {
        VI products[kOutputs];
        std::copy_n(sum, kOutputs, products);
        note_large(products, bad);
      }
#pragma GCC unroll 8
      for (int o = 0; o < kOutputs; ++o)
        sum[o] = hn::Add(sum[o], truncated(hn::Mul(acc[o], scale[o])));
    }
    VF result[kOutputs];
#pragma GCC unroll 8
    for (int o = 0; o < kOutputs; ++o) {
      const VF toward_zero = to_float_rz(sum[o]);
      // 2^(emax - F): the two exponents' fields add up to 254.
      const VF unit = hn::BitCast(df, hn::Sub(hn::Set(du, 254u << 23), hn::BitCast(du, scale[o])));
      result[o] = kHalf ? to_half(sum[o], toward_zero, unit) : hn::Mul(toward_zero, unit);
    }
    if (HWY_UNLIKELY(bad.any)) {
      VF before[kOutputs], after[kOutputs];
      std::copy_n(acc, kOutputs, before);
      std::copy_n(result, kOutputs, after);
      one_by_one(k0, count, before, after, bad);
      std::copy_n(after, kOutputs, result);
    }
#pragma GCC unroll 8
    for (int o = 0; o < kOutputs; ++o) acc[o] = result[o];
  }

  const TensorCore& core_;
  const Source& source_;
};

}  // namespace
}  // namespace driftc::runtime::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
