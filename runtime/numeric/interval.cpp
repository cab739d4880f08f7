#include "runtime/numeric/interval.h"

#include <cmath>
#include <limits>

#include "ir/support/round.h"

namespace driftc::runtime {
namespace {

struct Pair {
  double head, tail;
};
// a + b exactly (Knuth's TwoSum; numerics.md 4.5).
Pair two_sum(double a, double b) {
  const double head = add_rn(a, b), t = sub_rn(head, a);
  return {head, add_rn(sub_rn(a, sub_rn(head, t)), sub_rn(b, t))};
}

// RN32 of a normalised pair, by rounding to odd first (exact_kernel.cpp, narrow_pair).
float narrow(Pair p) {
  if (p.tail != 0) {
    const std::uint64_t bits = bits_of(p.head);
    if ((bits & 1) == 0) {
      const bool opposite = std::signbit(p.head) != std::signbit(p.tail);
      p.head = double_of(opposite ? bits - 1 : bits | 1);
    }
  }
  return to_f32_rn(p.head);
}

// Covers the rounding of the bound's own arithmetic.
constexpr double kSlack = 0x1.0001p0;

}  // namespace

Interval scaled(const Interval& x, const SumScale& scale) {
  // alpha * (head + tail): the first product exactly as a pair, the second with one rounding.
  double head = mul_rn(x.head, static_cast<double>(scale.alpha));
  double tail = fma_rn(x.head, static_cast<double>(scale.alpha), -head);
  double bound = mul_rn(x.bound, std::abs(static_cast<double>(scale.alpha)));
  if (x.tail != 0) {
    const double low = mul_rn(x.tail, static_cast<double>(scale.alpha));
    bound = add_rn(bound, mul_rn(0x1p-52, add_rn(std::abs(low), std::abs(tail))));
    tail = add_rn(tail, low);
  }
  // The addend's product of two f32 values is exact.
  const double addend =
      mul_rn(static_cast<double>(scale.addend_a), static_cast<double>(scale.addend_b));
  const Pair sum = two_sum(head, addend);
  head = sum.head;
  if (sum.tail != 0 && tail != 0)
    bound = add_rn(bound, mul_rn(0x1p-52, add_rn(std::abs(sum.tail), std::abs(tail))));
  tail = add_rn(tail, sum.tail);
  if (scale.count != 1) {
    // head / count = q + r / count with r = head - q * count exact.
    const auto count = static_cast<double>(scale.count);
    const double q = div_rn(head, count), r = fma_rn(-q, count, head);
    const double rest = div_rn(add_rn(r, tail), count);
    bound = div_rn(bound, count);
    if (rest != 0 || r != 0)
      bound = add_rn(bound,
                     add_rn(mul_rn(0x1p-51, std::abs(rest)),
                            mul_rn(0x1p-51, div_rn(add_rn(std::abs(r), std::abs(tail)), count))));
    head = q;
    tail = rest;
  }
  const Pair normal = two_sum(head, tail);
  return {normal.head, normal.tail, mul_rn(bound, kSlack)};
}

std::optional<float> rounded_if_decided(const Interval& x, bool flush) {
  // tail -+ bound rounds; nothing where the bound is 0.
  const double wide =
      x.bound == 0 ? 0 : add_rn(mul_rn(x.bound, kSlack), mul_rn(0x1p-51, std::abs(x.tail)));
  const Pair whole = two_sum(x.head, x.tail);
  const double head = add_rn(whole.head, 0.0);  // an exact zero is +0
  float low = narrow(two_sum(head, sub_rn(whole.tail, wide)));
  float high = narrow(two_sum(head, add_rn(whole.tail, wide)));
  if (flush) {
    if (std::abs(low) < std::numeric_limits<float>::min()) low = std::copysign(0.0f, low);
    if (std::abs(high) < std::numeric_limits<float>::min()) high = std::copysign(0.0f, high);
  }
  if (bits_of(low) != bits_of(high)) return std::nullopt;
  return high;
}

}  // namespace driftc::runtime
