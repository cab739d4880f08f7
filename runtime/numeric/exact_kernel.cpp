// x86: SSE2 baseline, AVX2, AVX-512, as in runtime/sums/sum_kernel.cpp.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/numeric/exact_kernel.cpp"
#include "runtime/numeric/exact_kernel.h"

#include <hwy/foreach_target.h>  // includes this file once per target
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "ir/support/round.h"

#define DRIFTC_UNROLL _Pragma("GCC unroll 8")

HWY_BEFORE_NAMESPACE();
namespace driftc::runtime::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<double>;
using V = hn::Vec<D>;
using Bits = hn::RebindToUnsigned<D>;
using Narrow = hn::Rebind<float, D>;

HWY_INLINE std::int64_t lane_count() { return static_cast<std::int64_t>(hn::Lanes(D())); }

Widened widen_lanes(const float* from, std::int64_t count, double* to) {
  const Narrow f32;
  const hn::Rebind<std::int32_t, D> i32;
  const D d;
  const std::int64_t lanes = lane_count();
  auto lowest = hn::Set(i32, kNoBits);
  V squares = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto x = hn::LoadU(f32, from + i);
    const V wide = hn::PromoteTo(d, x);
    hn::StoreU(wide, d, to + i);
    squares = hn::MulAdd(wide, wide, squares);
    const auto bits = hn::BitCast(i32, x);
    const auto field = hn::And(hn::ShiftRight<23>(bits), hn::Set(i32, 0xFF));
    auto significand = hn::And(bits, hn::Set(i32, 0x7FFFFF));
    significand = hn::IfThenElse(hn::Eq(field, hn::Zero(i32)), significand,
                                 hn::Or(significand, hn::Set(i32, 0x800000)));
    // The lowest set bit as a float is a power of two; its exponent field says which.
    const auto low = hn::ConvertTo(f32, hn::And(significand, hn::Neg(significand)));
    const auto place = hn::Sub(hn::ShiftRight<23>(hn::BitCast(i32, low)), hn::Set(i32, 127));
    const auto exponent =
        hn::Add(place, hn::Sub(hn::Max(field, hn::Set(i32, 1)), hn::Set(i32, 150)));
    const auto used =
        hn::IfThenElse(hn::Eq(significand, hn::Zero(i32)), hn::Set(i32, kNoBits), exponent);
    lowest = hn::Min(lowest, used);
  }
  HWY_ALIGN std::int32_t parts[HWY_MAX_BYTES / sizeof(double)];
  hn::Store(lowest, i32, parts);
  HWY_ALIGN double sums[HWY_MAX_BYTES / sizeof(double)];
  hn::Store(squares, d, sums);
  Widened out{*std::min_element(parts, parts + lanes), 0};
  for (std::int64_t j = 0; j < lanes; ++j) out.squares = add_rn(out.squares, sums[j]);
  for (; i < count; ++i) {
    to[i] = from[i];
    const std::uint32_t bits = bits_of(from[i]), field = (bits >> 23) & 0xFFu;
    const std::uint32_t significand = (bits & 0x7FFFFFu) | (field != 0 ? 0x800000u : 0u);
    out.squares = add_rn(out.squares, mul_rn(to[i], to[i]));
    if (significand != 0)
      out.lowest_bit =
          std::min(out.lowest_bit, std::countr_zero(significand) +
                                       static_cast<std::int32_t>(std::max(field, 1u)) - 150);
  }
  return out;
}

void add_squares_lanes(const double* from, std::int64_t count, double* to) {
  const D d;
  const std::int64_t lanes = lane_count();
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto x = hn::LoadU(d, from + i);
    hn::StoreU(hn::Add(hn::LoadU(d, to + i), hn::Mul(x, x)), d, to + i);
  }
  for (; i < count; ++i) to[i] = add_rn(to[i], mul_rn(from[i], from[i]));
}

// f64 -> f32 with one rounding. Highway's plain targets clamp what overflows to the largest float.
HWY_INLINE hn::Vec<Narrow> demoted(V x) {
  const Narrow f32;
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  HWY_ALIGN double from[HWY_MAX_BYTES / sizeof(double)];
  HWY_ALIGN float to[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(x, D(), from);
  for (std::size_t i = 0; i < hn::Lanes(D()); ++i) to[i] = to_f32_rn(from[i]);
  return hn::Load(f32, to);
#else
  return hn::DemoteTo(f32, x);
#endif
}
// Rounded to f32, then flushed where wanted.
HWY_INLINE hn::Vec<Narrow> narrow(V x, bool flush) {
  const Narrow f32;
  auto y = demoted(x);
  if (flush) {
    const auto small = hn::Lt(hn::Abs(y), hn::Set(f32, std::numeric_limits<float>::min()));
    y = hn::IfThenElse(small, hn::CopySign(hn::Zero(f32), y), y);
  }
  return y;
}

// One bit per lane where the two differ in bits.
HWY_INLINE std::uint64_t differing(hn::Vec<Narrow> a, hn::Vec<Narrow> b) {
  const hn::RebindToUnsigned<Narrow> u32;
  std::uint8_t bytes[8] = {};
  hn::StoreMaskBits(u32, hn::Ne(hn::BitCast(u32, a), hn::BitCast(u32, b)), bytes);
  return bytes[0];
}

HWY_INLINE void store_interval(const ExactTile& tile, std::int64_t at, V value, V radius) {
  if (tile.value == nullptr) return;
  hn::StoreU(value, D(), tile.value + at);
  hn::StoreU(radius, D(), tile.radius + at);
}

std::uint64_t decide_lanes(const double* sums, double relative_error, const ExactTile& tile) {
  const D d;
  const Narrow f32;
  const std::int64_t lanes = lane_count();
  const V factor = hn::Set(d, relative_error), limit = hn::Set(d, tile.exact_limit),
          zero = hn::Zero(d);
  const V infinity = hn::Set(d, std::numeric_limits<double>::infinity());
  std::uint64_t undecided = 0;
  for (std::int64_t i = 0; i < tile.columns; i += lanes) {
    // An exact zero is +0 whatever the signs of its terms.
    const V sum = hn::Add(hn::LoadU(d, sums + i), zero);
    const V magnitude = hn::LoadU(d, tile.magnitude + i);
    // Sums that are not finite follow IEEE limit rules already: NaN, or Inf of one sign. No f64 sum
    // of products of finite f32 values overflows.
    const auto inexact = hn::And(hn::Gt(magnitude, limit), hn::Lt(hn::Abs(sum), infinity));
    const V error = hn::IfThenElse(inexact, hn::Mul(magnitude, factor), zero);
    const auto low = narrow(hn::Sub(sum, error), tile.flush),
               high = narrow(hn::Add(sum, error), tile.flush);
    const auto nan = hn::Set(f32, canonical_nan());
    hn::StoreU(hn::IfThenElse(hn::IsNaN(high), nan, high), f32, tile.rounded + i);
    store_interval(tile, i, sum, error);
    const auto is_nan = hn::IsNaN(high);
    undecided |= differing(hn::IfThenZeroElse(is_nan, low), hn::IfThenZeroElse(is_nan, high)) << i;
  }
  return tile.columns >= 64 ? undecided : undecided & ((std::uint64_t{1} << tile.columns) - 1);
}

// kVectors of the row's columns at once: independent chains that hide each other's latency.
template <int kVectors>
void compensate_some(const CompensatedRow& row, const double* magnitude, const std::int64_t* at) {
  const D d;
  const Bits u64;
  V offset[kVectors], high[kVectors], low[kVectors];
  DRIFTC_UNROLL
  for (int v = 0; v < kVectors; ++v) {
    // The next power of two above the magnitude is 2^(K-1); 3 of it are M.
    const auto exponent = hn::And(hn::BitCast(u64, hn::LoadU(d, magnitude + at[v])),
                                  hn::Set(u64, std::uint64_t{0x7FF} << 52));
    const V power = hn::BitCast(d, hn::Add(exponent, hn::Set(u64, std::uint64_t{1} << 52)));
    offset[v] = hn::Mul(power, hn::Set(d, 3.0));
    high[v] = offset[v];
    low[v] = hn::Zero(d);
    // L is off by at most n^2 u 2^(K-53) = n^2 2^-105 power; the factor covers second-order terms.
    const double n = static_cast<double>(row.n + 1);
    const V reach = hn::Mul(power, hn::Set(d, mul_rn(n, 0x1p-52)));
    const V error = hn::Mul(power, hn::Set(d, mul_rn(mul_rn(n, n), 0x1.001p-105)));
    const V exact_below = hn::Set(d, mul_rn(row.granule, 0x1p53));
    hn::StoreU(hn::IfThenElse(hn::Le(reach, exact_below), hn::Zero(d), error), d,
               row.bound + at[v]);
  }
  const auto step = [&](V weight, int v, V x) HWY_ATTR {
    const V next = hn::MulAdd(weight, x, high[v]);
    const V q = hn::Sub(next, high[v]);
    low[v] = hn::Add(low[v], hn::MulSub(weight, x, q));
    high[v] = next;
  };
  if (row.start != nullptr) {
    DRIFTC_UNROLL
    for (int v = 0; v < kVectors; ++v) step(hn::Set(d, 1.0), v, hn::LoadU(d, row.start + at[v]));
  }
  for (std::int64_t i = 0; i < row.n; ++i) {
    const V weight = hn::Set(d, row.weights[i]);
    const double* x = row.panel + row.offsets[i];
    DRIFTC_UNROLL
    for (int v = 0; v < kVectors; ++v) step(weight, v, hn::LoadU(d, x + at[v]));
  }
  DRIFTC_UNROLL
  for (int v = 0; v < kVectors; ++v) {
    hn::StoreU(hn::Sub(high[v], offset[v]), d, row.high + at[v]);
    hn::StoreU(low[v], d, row.low + at[v]);
  }
}

void compensate_lanes(const CompensatedRow& row, const double* magnitude, std::int64_t columns,
                      std::uint64_t wanted) {
  const std::int64_t lanes = lane_count();
  const std::uint64_t one_vector = (std::uint64_t{1} << lanes) - 1;
  std::int64_t at[64];
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < columns; i += lanes)
    if (((wanted >> i) & one_vector) != 0) at[count++] = i;
  std::int64_t i = 0;
  for (; i + 4 <= count; i += 4) compensate_some<4>(row, magnitude, at + i);
  switch (count - i) {
    case 3:
      return compensate_some<3>(row, magnitude, at + i);
    case 2:
      return compensate_some<2>(row, magnitude, at + i);
    case 1:
      return compensate_some<1>(row, magnitude, at + i);
    default:
      return;
  }
}

// a + b as head + tail, exact (Knuth).
HWY_INLINE void two_sum(V a, V b, V& head, V& tail) {
  head = hn::Add(a, b);
  const V t = hn::Sub(head, a);
  tail = hn::Add(hn::Sub(a, hn::Sub(head, t)), hn::Sub(b, t));
}

// RN32(head + tail) for a normalised pair: the last bit of `head` is made odd when `tail` is not
// zero (rounding to odd), after which rounding to 24 bits cannot be double.
HWY_INLINE hn::Vec<Narrow> narrow_pair(V head, V tail, bool flush) {
  const D d;
  const Bits u64;
  const auto bits = hn::BitCast(u64, head), one = hn::Set(u64, std::uint64_t{1});
  const auto even = hn::Eq(hn::And(bits, one), hn::Zero(u64));
  const auto adjust = hn::AndNot(hn::Eq(tail, hn::Zero(d)), hn::RebindMask(d, even));
  const auto opposite =
      hn::Ne(hn::And(hn::Xor(bits, hn::BitCast(u64, tail)), hn::Set(u64, std::uint64_t{1} << 63)),
             hn::Zero(u64));
  // Towards zero: an even number less one is the odd number below it.
  const auto odd = hn::IfThenElse(opposite, hn::Sub(bits, one), hn::Or(bits, one));
  return narrow(hn::IfThenElse(adjust, hn::BitCast(d, odd), head), flush);
}

std::uint64_t settle_lanes(const CompensatedRow& row, std::uint64_t wanted, const ExactTile& tile) {
  const D d;
  const Narrow f32;
  const std::int64_t lanes = lane_count();
  const std::uint64_t one_vector = (std::uint64_t{1} << lanes) - 1;
  std::uint64_t undecided = 0;
  for (std::int64_t i = 0; i < tile.columns; i += lanes) {
    const std::uint64_t here = (wanted >> i) & one_vector;
    if (here == 0) continue;
    V head, tail;
    two_sum(hn::LoadU(d, row.high + i), hn::LoadU(d, row.low + i), head, tail);
    head = hn::Add(head, hn::Zero(d));  // exact zero is +0
    const V bound = hn::LoadU(d, row.bound + i);
    // tail -+ bound rounds by less than 2^-52 of what is added to the bound here; nothing where it
    // is 0.
    const auto exact = hn::Eq(bound, hn::Zero(d));
    const V wide = hn::IfThenElse(exact, bound,
                                  hn::Add(hn::Mul(bound, hn::Set(d, 0x1.0001p0)),
                                          hn::Mul(hn::Abs(tail), hn::Set(d, 0x1p-51))));
    V low_head, low_tail, high_head, high_tail;
    two_sum(head, hn::Sub(tail, wide), low_head, low_tail);
    two_sum(head, hn::Add(tail, wide), high_head, high_tail);
    const auto low = narrow_pair(low_head, low_tail, tile.flush);
    const auto high = narrow_pair(high_head, high_tail, tile.flush);
    HWY_ALIGN float out[HWY_MAX_BYTES / sizeof(double)];
    HWY_ALIGN double value[HWY_MAX_BYTES / sizeof(double)], radius[HWY_MAX_BYTES / sizeof(double)];
    hn::Store(high, f32, out);
    hn::Store(head, d, value);
    hn::Store(hn::Add(hn::Abs(tail), wide), d, radius);
    for (std::int64_t j = 0; j < lanes; ++j) {
      if (((here >> j) & 1) == 0) continue;
      tile.rounded[i + j] = out[j];
      if (tile.value == nullptr) continue;
      tile.value[i + j] = value[j];
      tile.radius[i + j] = radius[j];
    }
    undecided |= (differing(low, high) & here) << i;
  }
  return undecided;
}

}  // namespace driftc::runtime::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace driftc::runtime {

HWY_EXPORT(widen_lanes);
HWY_EXPORT(add_squares_lanes);
HWY_EXPORT(decide_lanes);
HWY_EXPORT(compensate_lanes);
HWY_EXPORT(settle_lanes);

Widened widen(const float* from, std::int64_t count, double* to) {
  return HWY_DYNAMIC_DISPATCH(widen_lanes)(from, count, to);
}
void add_squares(const double* from, std::int64_t count, double* to) {
  HWY_DYNAMIC_DISPATCH(add_squares_lanes)(from, count, to);
}
std::uint64_t decide(const double* sums, double relative_error, const ExactTile& tile) {
  return HWY_DYNAMIC_DISPATCH(decide_lanes)(sums, relative_error, tile);
}
void compensate(const CompensatedRow& row, const double* magnitude, std::int64_t columns,
                std::uint64_t wanted) {
  HWY_DYNAMIC_DISPATCH(compensate_lanes)(row, magnitude, columns, wanted);
}
std::uint64_t settle(const CompensatedRow& row, std::uint64_t wanted, const ExactTile& tile) {
  return HWY_DYNAMIC_DISPATCH(settle_lanes)(row, wanted, tile);
}

}  // namespace driftc::runtime
#endif
