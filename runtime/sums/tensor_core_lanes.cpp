// x86: AVX2 and AVX-512; other targets as Highway finds them. Scalable vectors are not needed.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/sums/tensor_core_lanes.cpp"
#include "runtime/sums/tensor_core_lanes.h"

#include <hwy/foreach_target.h>  // includes this file once per target
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <bit>

#include "ir/support/assert.h"
#include "ir/support/half.h"

#ifndef DRIFTC_TENSOR_CORE_SCALAR
#define DRIFTC_TENSOR_CORE_SCALAR
namespace driftc::runtime {
// One block of one lane through the scalar model: steps [first, first + count) of row `row`.
inline float scalar_block(const TensorCore& core, const TcTile& tile, int row, int lane,
                          std::int64_t first, int count, float c) {
  std::array<float, kTcLanes> a{}, b{};
  for (int i = 0; i < count; ++i) {
    const std::int64_t k = first + i, offset = tile.offsets ? tile.offsets[k] : k * kTcLanes;
    a[static_cast<std::size_t>(i)] = tile.scalars[row * tile.row_step + k * tile.scalar_step];
    b[static_cast<std::size_t>(i)] = offset < 0 ? 0.0f : tile.lanes[offset + lane];
  }
  const auto n = static_cast<std::size_t>(count);
  return tensor_core_block(core, c, std::span(a).first(n), std::span(b).first(n)).value;
}
}  // namespace driftc::runtime
#endif

HWY_BEFORE_NAMESPACE();
namespace driftc::runtime::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using F = hn::CappedTag<float, kTcLanes>;
using I = hn::Rebind<std::int32_t, F>;
using VF = hn::Vec<F>;
using VI = hn::Vec<I>;

// Toward zero; |v| < 2^31, so that the saturation of a general conversion is not needed.
HWY_INLINE VI truncated(VF v) {
#if HWY_TARGET == HWY_AVX3
  return VI{_mm512_cvttps_epi32(v.raw)};
#elif HWY_TARGET == HWY_AVX2
  return VI{_mm256_cvttps_epi32(v.raw)};
#else
  return hn::ConvertTo(I(), v);
#endif
}

// v as f32, toward zero; |v| <= 2^30.
HWY_INLINE VF to_float_rz(VI v) {
#if HWY_TARGET == HWY_AVX3
  return VF{_mm512_cvt_roundepi32_ps(v.raw, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)};
#else
  const I di;
  const VF nearest = hn::ConvertTo(F(), v);
  // One step back where the rounding went away from zero: a magnitude's bits less one.
  const auto away = hn::Gt(hn::Abs(truncated(nearest)), hn::Abs(v));
  return hn::BitCast(F(), hn::Add(hn::BitCast(di, nearest), hn::VecFromMask(di, away)));
#endif
}

// The exponent field.
HWY_INLINE VI biased(VF v) {
  const hn::Rebind<std::uint32_t, F> du;
  return hn::BitCast(I(), hn::ShiftRight<24>(hn::ShiftLeft<1>(hn::BitCast(du, v))));
}

// EXP(v) with subnormals read as `emin`.
HWY_INLINE VI exponent(VF v, VI emin) {
  const I di;
  const VI magnitude = hn::And(hn::BitCast(di, v), hn::Set(di, 0x7FFFFFFF));
  const VI field = biased(v);
  VI e = hn::Max(hn::Sub(field, hn::Set(di, 127)), emin);
  e = hn::IfThenElse(hn::Eq(magnitude, hn::Zero(di)), hn::Set(di, kTcZeroExponent), e);
  return hn::IfThenElse(hn::Eq(field, hn::Set(di, 255)), hn::Set(di, kTcSpecialExponent), e);
}

void operands(TcFormat format, const float* from, std::int64_t count, float* values,
              std::int32_t* exponents) {
  const F df;
  const I di;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(df));
  const VI emin = hn::Set(di, format == TcFormat::kF16 ? -14 : -126);
  const VI mask =
      hn::Set(di, format == TcFormat::kTf32 ? static_cast<std::int32_t>(0xFFFFE000u) : -1);
  const auto one = [&](VF v, VF& value, VI& e) {
    value = hn::BitCast(df, hn::And(hn::BitCast(di, v), mask));
    e = exponent(value, emin);
  };
  std::int64_t i = 0;
  VF value;
  VI e;
  for (; i + lanes <= count; i += lanes) {
    one(hn::LoadU(df, from + i), value, e);
    hn::StoreU(value, df, values + i);
    hn::StoreU(e, di, exponents + i);
  }
  if (i == count) return;
  HWY_ALIGN float rest[kTcLanes] = {}, rest_values[kTcLanes];
  HWY_ALIGN std::int32_t rest_exponents[kTcLanes];
  std::copy(from + i, from + count, rest);
  one(hn::Load(df, rest), value, e);
  hn::Store(value, df, rest_values);
  hn::Store(e, di, rest_exponents);
  std::copy_n(rest_values, count - i, values + i);
  std::copy_n(rest_exponents, count - i, exponents + i);
}

template <bool kOffsets>
HWY_INLINE std::int64_t offset_of(const TcTile& tile, std::int64_t k) {
  return kOffsets ? tile.offsets[k] : k * kTcLanes;
}

// The f16 result of sum * 2^scale in every lane, to nearest even, widened. f32 with the sticky bit
// kept in its last place rounds to f16 like the exact value (24 bits are more than 11 + 2).
HWY_INLINE VF to_half(VI sum, VF toward_zero, VF unit) {
  const F df;
  const I di;
  HWY_ALIGN float values[kTcLanes];
  const VI inexact = hn::VecFromMask(di, hn::Ne(truncated(toward_zero), sum));
  const VI odd = hn::Or(hn::BitCast(di, toward_zero), hn::And(inexact, hn::Set(di, 1)));
  hn::Store(hn::Mul(hn::BitCast(df, odd), unit), df, values);
  for (std::size_t j = 0; j < hn::Lanes(df); ++j) values[j] = f16_to_f32(f32_to_f16_rne(values[j]));
  return hn::Load(df, values);
}

// Blocks of kLength (4, 8 or 16) products.
template <int kLength, bool kOffsets, bool kHalf>
struct Blocks {
  // f32 accumulators: with emax in this range products, scaled products and results are exact in
  // f32.
  static constexpr std::int32_t kLowest = -98, kHighest = 126;

  const TensorCore& core;
  const TcTile& tile;
  int first_lane;

  template <class Fn>
  HWY_INLINE void for_steps(std::int64_t k0, int count, const Fn& fn) const {
    if (HWY_LIKELY(count == kLength)) {
#pragma GCC unroll 16
      for (int i = 0; i < kLength; ++i) fn(k0 + i);
    } else {
      for (int i = 0; i < count; ++i) fn(k0 + i);
    }
  }

  // The block at k0 of kRows rows from `row` on; false, with acc as it was, where a lane leaves the
  // range.
  template <int kRows>
  HWY_INLINE bool fast(int row, std::int64_t k0, int count, VF (&acc)[kRows]) const {
    const F df;
    const I di;
    const float* scalars[kRows];
    const std::int32_t* scalar_exponents[kRows];
    VI emax[kRows], products[kRows];
    VF scale[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      scalars[r] = tile.scalars + (row + r) * tile.row_step;
      scalar_exponents[r] = tile.scalar_exponents + (row + r) * tile.row_step;
      emax[r] = hn::Set(di, kTcZeroExponent);
      products[r] = hn::Zero(di);
    }
    for_steps(k0, count, [&](std::int64_t k) HWY_ATTR {
      const std::int64_t offset = offset_of<kOffsets>(tile, k);
      if (kOffsets && offset < 0) return;
      const VI lanes = hn::LoadU(di, tile.lane_exponents + offset + first_lane);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r)
        emax[r] = hn::Max(emax[r],
                          hn::Add(hn::Set(di, scalar_exponents[r][k * tile.scalar_step]), lanes));
    });
    auto outside = hn::MaskFromVec(hn::Zero(df));
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      VI e;
      if (kHalf) {
        e = exponent(acc[r], hn::Set(di, -14));
        emax[r] = hn::Max(hn::Max(emax[r], e), hn::Set(di, core.floor));
        outside = hn::Or(outside, hn::RebindMask(df, hn::Gt(emax[r], hn::Set(di, kHighest))));
      } else {
        // Zero and subnormal accumulators read as -127, which is below the range.
        e = hn::Sub(biased(acc[r]), hn::Set(di, 127));
        const VI products_only = emax[r];
        emax[r] = hn::Max(products_only, e);
        auto low = hn::Lt(emax[r], hn::Set(di, kLowest));
        if (HWY_UNLIKELY(!hn::AllFalse(di, low))) {
          // Lanes in which every term is zero are in order: any exponent does.
          const auto nothing = hn::And(hn::Lt(products_only, hn::Set(di, kTcZeroExponent / 2)),
                                       hn::RebindMask(di, hn::Eq(acc[r], hn::Zero(df))));
          emax[r] = hn::IfThenElse(nothing, hn::Zero(di), emax[r]);
          low = hn::Lt(emax[r], hn::Set(di, kLowest));
        }
        outside = hn::Or(outside,
                         hn::RebindMask(df, hn::Or(low, hn::Gt(emax[r], hn::Set(di, kHighest)))));
      }
    }
    if (HWY_UNLIKELY(!hn::AllFalse(df, outside))) return false;
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r)
      scale[r] = hn::BitCast(
          df, hn::ShiftLeft<23>(hn::Sub(hn::Set(di, core.fraction_bits + 127), emax[r])));
    for_steps(k0, count, [&](std::int64_t k) HWY_ATTR {
      const std::int64_t offset = offset_of<kOffsets>(tile, k);
      if (kOffsets && offset < 0) return;
      const VF lanes = hn::LoadU(df, tile.lanes + offset + first_lane);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const VF product = hn::Mul(hn::Set(df, scalars[r][k * tile.scalar_step]), lanes);
        products[r] = hn::Add(products[r], truncated(hn::Mul(product, scale[r])));
      }
    });
    if (kLength == 16) {  // 16 products of F + 2 bits fill 31 bits; with c they might not fit
      auto large = hn::MaskFromVec(hn::Zero(df));
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r)
        large = hn::Or(large, hn::RebindMask(df, hn::Gt(hn::Abs(products[r]),
                                                        hn::Set(di, (1 << 30) - (1 << 27)))));
      if (HWY_UNLIKELY(!hn::AllFalse(df, large))) return false;
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const VI sum = hn::Add(truncated(hn::Mul(acc[r], scale[r])), products[r]);
      const VF toward_zero = to_float_rz(sum);
      const VF unit = hn::BitCast(
          df, hn::ShiftLeft<23>(hn::Add(hn::Set(di, 127 - core.fraction_bits), emax[r])));
      acc[r] = kHalf ? to_half(sum, toward_zero, unit) : hn::Mul(toward_zero, unit);
    }
    return true;
  }

  // All lanes of one row through the scalar model.
  HWY_NOINLINE void slow(int row, std::int64_t k0, int count, float* acc) const {
    for (int j = 0; j < static_cast<int>(hn::Lanes(F())); ++j)
      acc[j] = scalar_block(core, tile, row, first_lane + j, k0, count, acc[j]);
  }

  template <int kRows>
  void rows(int row) const {
    const F df;
    VF acc[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r)
      acc[r] = hn::LoadU(df, tile.acc + (row + r) * tile.acc_step + first_lane);
    for (std::int64_t k0 = 0; k0 < tile.steps; k0 += kLength) {
      const int count = static_cast<int>(std::min<std::int64_t>(kLength, tile.steps - k0));
      if (HWY_LIKELY(fast(row, k0, count, acc))) continue;
      for (int r = 0; r < kRows; ++r) {
        VF one[1] = {acc[r]};
        if (kRows == 1 || !fast(row + r, k0, count, one)) {
          HWY_ALIGN float out[kTcLanes];
          hn::Store(acc[r], df, out);
          slow(row + r, k0, count, out);
          one[0] = hn::Load(df, out);
        }
        acc[r] = one[0];
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r)
      hn::StoreU(acc[r], df, tile.acc + (row + r) * tile.acc_step + first_lane);
  }
};

template <int kLength, bool kOffsets, bool kHalf>
void tile_of(const TensorCore& core, const TcTile& tile) {
  // Rows side by side hide the latency of a block; more than the registers hold do not.
  constexpr int kTogether = HWY_TARGET == HWY_AVX3 || !HWY_ARCH_X86 ? 4 : 2;
  for (int lane = 0; lane < kTcLanes; lane += static_cast<int>(hn::Lanes(F()))) {
    const Blocks<kLength, kOffsets, kHalf> blocks{core, tile, lane};
    int row = 0;
    for (; row + kTogether <= tile.rows; row += kTogether) blocks.template rows<kTogether>(row);
    for (; row < tile.rows; ++row) blocks.template rows<1>(row);
  }
}

template <int kLength>
void with_length(const TensorCore& core, const TcTile& tile) {
  const bool half = core.accumulator == TcAccumulator::kF16;
  if (tile.offsets) {
    return half ? tile_of<kLength, true, true>(core, tile)
                : tile_of<kLength, true, false>(core, tile);
  }
  return half ? tile_of<kLength, false, true>(core, tile)
              : tile_of<kLength, false, false>(core, tile);
}

void run_tile(const TensorCore& core, int length, const TcTile& tile) {
  if (length == 4) return with_length<4>(core, tile);
  if (length == 8) return with_length<8>(core, tile);
  return with_length<16>(core, tile);
}

}  // namespace
}  // namespace driftc::runtime::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace driftc::runtime {

HWY_EXPORT(operands);
HWY_EXPORT(run_tile);

void tensor_core_operands(TcFormat format, const float* from, std::int64_t count, float* values,
                          std::int32_t* exponents) {
  HWY_DYNAMIC_DISPATCH(operands)(format, from, count, values, exponents);
}

void tensor_core_tile(const TensorCore& core, int instruction_k, const TcTile& tile) {
  const int length = std::min(core.length, instruction_k);
  DRIFTC_ASSERT(length == 4 || length == 8 || length == 16, "length of a block");
  HWY_DYNAMIC_DISPATCH(run_tile)(core, length, tile);
}

}  // namespace driftc::runtime
#endif
