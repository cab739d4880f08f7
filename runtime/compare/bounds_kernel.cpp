#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/compare/bounds_kernel.cpp"
#include "runtime/compare/bounds_kernel.h"

#include <hwy/foreach_target.h>  // includes this file once per target
#include <hwy/highway.h>

#include <cstddef>
#include <limits>
#include <type_traits>

#include "ir/support/round.h"

#define DRIFTC_UNROLL _Pragma("GCC unroll 8")

HWY_BEFORE_NAMESPACE();
namespace driftc::runtime::compare::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Wide = hn::ScalableTag<double>;
using WideV = hn::Vec<Wide>;

// a * b + c with one rounding, on every target.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V fma_lanes(D d, V a, V b, V c) {
#if HWY_NATIVE_FMA
  (void)d;
  return hn::MulAdd(a, b, c);
#else
  using T = hn::TFromD<D>;
  HWY_ALIGN T x[HWY_MAX_BYTES / sizeof(T)], y[HWY_MAX_BYTES / sizeof(T)],
      z[HWY_MAX_BYTES / sizeof(T)];
  hn::Store(a, d, x);
  hn::Store(b, d, y);
  hn::Store(c, d, z);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) z[i] = fma_rn(x[i], y[i], z[i]);
  return hn::Load(d, z);
#endif
}

// 2^e of a rounded result: its exponent, or that of the smallest normal number (subnormals share
// its ulp).
HWY_INLINE WideV step_of(hn::Vec<hn::Rebind<float, Wide>> value) {
  const hn::Rebind<float, Wide> d;
  const auto power =
      hn::And(value, hn::BitCast(d, hn::Set(hn::Rebind<std::uint32_t, Wide>(), 0x7F800000u)));
  return hn::PromoteTo(Wide(), hn::Max(power, hn::Set(d, std::numeric_limits<float>::min())));
}
HWY_INLINE WideV step_of(WideV value) {
  const Wide d;
  const auto power = hn::And(value, hn::BitCast(d, hn::Set(hn::Rebind<std::uint64_t, Wide>(),
                                                           std::uint64_t{0x7FF} << 52)));
  return hn::Max(power, hn::Set(d, std::numeric_limits<double>::min()));
}

// Subnormals become zero (atomics). What is lost is no rounding: all of it counts as half an ulp,
// 2^-24 steps.
HWY_INLINE hn::Vec<hn::Rebind<float, Wide>> flushed(hn::Vec<hn::Rebind<float, Wide>> value,
                                                    WideV& steps, WideV& squares) {
  const hn::Rebind<float, Wide> d;
  const Wide wide;
  const auto small = hn::Lt(hn::Abs(value), hn::Set(d, std::numeric_limits<float>::min()));
  const WideV lost = hn::Mul(hn::PromoteTo(wide, hn::IfThenElseZero(small, hn::Abs(value))),
                             hn::Set(wide, 0x1p24));
  steps = hn::Add(steps, lost);
  squares = hn::Add(squares, hn::Mul(hn::Mul(lost, lost), hn::Set(wide, 3.0)));
  return hn::IfThenElse(small, hn::CopySign(hn::Zero(d), value), value);
}

HWY_INLINE hn::Vec<hn::Rebind<float, Wide>> load(hn::Rebind<float, Wide> d, const float* from) {
  return hn::LoadU(d, from);
}
HWY_INLINE WideV load(Wide d, const float* from) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<float, Wide>(), from));
}

template <class T, SumArith kArith, int kRows>
void replay_rows(const ReplayTile<T>& tile) {
  const hn::Rebind<T, Wide> d;
  const Wide wide;
  using V = hn::Vec<decltype(d)>;
  const std::size_t lanes = hn::Lanes(wide);
  const WideV none = hn::Zero(wide);
  // `step` where `holds` is not zero.
  const auto counted = [&](V holds, WideV step) HWY_ATTR {
    if constexpr (std::is_same_v<T, float>) {
      return hn::IfThenZeroElse(hn::Eq(hn::PromoteTo(wide, holds), none), step);
    } else {
      return hn::IfThenZeroElse(hn::Eq(holds, none), step);
    }
  };
  for (const SumStep& step : tile.plan->steps) {
    const std::size_t slot = static_cast<std::size_t>(step.slot) * kReplayRows * lanes;
    V value[kRows];
    WideV steps[kRows], squares[kRows];
    bool adds = step.kind == SumStep::Kind::kChainAdd;
    if (step.kind == SumStep::Kind::kAdd) {
      const std::size_t from = static_cast<std::size_t>(step.from) * kReplayRows * lanes;
      for (std::size_t r = 0; r < kRows; ++r) {
        value[r] = hn::LoadU(d, tile.value + from + r * lanes);
        steps[r] = hn::LoadU(wide, tile.steps + from + r * lanes);
        squares[r] = hn::LoadU(wide, tile.squares + from + r * lanes);
        if constexpr (std::is_same_v<T, float>)
          if (step.flush) value[r] = flushed(value[r], steps[r], squares[r]);
      }
      adds = true;
    } else {
      for (std::size_t r = 0; r < kRows; ++r) {
        value[r] = step.starts_with_bias && tile.start != nullptr
                       ? hn::LoadU(d, tile.start + r * lanes)
                       : hn::Zero(d);
        steps[r] = squares[r] = none;
      }
      for (std::int32_t i = step.begin; i < step.end; ++i) {
        const std::int32_t leaf = tile.plan->leaves[static_cast<std::size_t>(i)];
        if (leaf == ir::SumProgram::kZeroLeaf) {
          for (std::size_t r = 0; r < kRows; ++r) value[r] = hn::Add(value[r], hn::Zero(d));
          continue;
        }
        const V x = load(d, tile.panel + tile.offsets[leaf]);
        DRIFTC_UNROLL
        for (std::size_t r = 0; r < kRows; ++r) {
          V holds = x;
          if constexpr (kArith == SumArith::kAdd) {
            holds = hn::IfThenZeroElse(hn::Eq(value[r], hn::Zero(d)), holds);  // 0 + x is exact
            value[r] = hn::Add(value[r], x);
          } else {
            const float w = tile.rows[r][leaf];
            const V weight = hn::Set(d, static_cast<T>(w));
            // A term that is exactly zero rounds nothing.
            if (w == 0) holds = hn::Zero(d);
            if constexpr (kArith == SumArith::kFma) {
              value[r] = fma_lanes(d, weight, x, value[r]);
            } else {
              const V product = hn::Mul(weight, x);
              const WideV power = counted(holds, step_of(product));
              steps[r] = hn::Add(steps[r], power);
              squares[r] = hn::MulAdd(power, power, squares[r]);
              holds = hn::IfThenZeroElse(hn::Eq(value[r], hn::Zero(d)), holds);
              value[r] = hn::Add(value[r], product);
            }
          }
          const WideV power = counted(holds, step_of(value[r]));
          steps[r] = hn::Add(steps[r], power);
          squares[r] = hn::MulAdd(power, power, squares[r]);
        }
      }
    }
    for (std::size_t r = 0; r < kRows; ++r) {
      T* to = tile.value + slot + r * lanes;
      double *to_steps = tile.steps + slot + r * lanes,
             *to_squares = tile.squares + slot + r * lanes;
      if (adds) {
        V before = hn::LoadU(d, to);
        if constexpr (std::is_same_v<T, float>)
          if (step.flush) before = flushed(before, steps[r], squares[r]);
        V sum = hn::Add(before, value[r]);
        if constexpr (std::is_same_v<T, float>)
          if (step.flush) sum = flushed(sum, steps[r], squares[r]);
        // Adding an exact zero rounds nothing; one of the two being zero is enough.
        const V both = hn::IfThenZeroElse(
            hn::Or(hn::Eq(before, hn::Zero(d)), hn::Eq(value[r], hn::Zero(d))), hn::Set(d, T{1}));
        const WideV power = counted(both, step_of(sum));
        steps[r] = hn::Add(hn::Add(steps[r], hn::LoadU(wide, to_steps)), power);
        squares[r] =
            hn::Add(hn::Add(squares[r], hn::LoadU(wide, to_squares)), hn::Mul(power, power));
        value[r] = sum;
      }
      hn::StoreU(value[r], d, to);
      hn::StoreU(steps[r], wide, to_steps);
      hn::StoreU(squares[r], wide, to_squares);
    }
  }
}

template <class T, SumArith kArith>
void replay_some(const ReplayTile<T>& tile) {
  switch (tile.row_count) {
    case 1:
      return replay_rows<T, kArith, 1>(tile);
    case 2:
      return replay_rows<T, kArith, 2>(tile);
    case 3:
      return replay_rows<T, kArith, 3>(tile);
    default:
      return replay_rows<T, kArith, 4>(tile);
  }
}
template <class T>
void replay_tile(const ReplayTile<T>& tile) {
  switch (tile.arith) {
    case SumArith::kMulAdd:
      return replay_some<T, SumArith::kMulAdd>(tile);
    case SumArith::kAdd:
      return replay_some<T, SumArith::kAdd>(tile);
    default:
      return replay_some<T, SumArith::kFma>(tile);
  }
}

void replay_f32(const ReplayTile<float>& tile) { replay_tile(tile); }
void replay_f64(const ReplayTile<double>& tile) { replay_tile(tile); }
std::int64_t lane_count() { return static_cast<std::int64_t>(hn::Lanes(Wide())); }

}  // namespace driftc::runtime::compare::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace driftc::runtime::compare {

HWY_EXPORT(replay_f32);
HWY_EXPORT(replay_f64);
HWY_EXPORT(lane_count);

std::int64_t replay_lanes() { return HWY_DYNAMIC_DISPATCH(lane_count)(); }
void replay(const ReplayTile<float>& tile) { HWY_DYNAMIC_DISPATCH(replay_f32)(tile); }
void replay(const ReplayTile<double>& tile) { HWY_DYNAMIC_DISPATCH(replay_f64)(tile); }

}  // namespace driftc::runtime::compare
#endif
