// An exact real number known as head + tail +- bound, and what can be said about its rounding.
#pragma once

#include <optional>

#include "runtime/numeric/wide_sum.h"

namespace driftc::runtime {

struct Interval {
  double head = 0, tail = 0, bound = 0;  // |exact - (head + tail)| <= bound
};

// (alpha * x + addend_a * addend_b) / count with its bound; the result is normalised (head =
// RN(head + tail)).
Interval scaled(const Interval& x, const SumScale& scale);

// The f32 that every number of the interval rounds to (flushed: subnormals are zero); empty when
// there are two.
std::optional<float> rounded_if_decided(const Interval& x, bool flush);

}  // namespace driftc::runtime
