// Structure in a residual: what rounding errors cannot look like, in words.
//
// A residual is observed minus expected value in units of the standard deviation that rounding
// alone would give (z). Two kinds of evidence, each a probability under the hypothesis that the
// residual is rounding:
//
// - A group of elements (channel, image, row, border ring, position ...) has a mean that is not
// zero. For independent
//   errors of symmetric distribution, whatever their sizes, P(sum z / sqrt(sum z^2) >= t) <=
//   exp(-t^2 / 2) (Efron 1969): no scale has to be known, and exact zeros count for nothing. Equal
//   sums round equally, so elements with the same expected value and the same residual count once.
// - Elements beyond the statistical limit lie where a fair scatter would not put them: k of m
// within a group that
//   holds the share f of all elements has probability <= exp(-m KL(k/m, f)) (Chernoff). One element
//   alone is judged against the size of all others: P(|z| >= t) <= 2 exp(-t^2 / 2). And whatever
//   the distribution, at most 1/36 of the elements lie beyond 6 standard deviations (Chebyshev):
//   more means that there is another error than rounding.
//
// Every probability is multiplied by the number of tests made (Bonferroni). Residuals of healthy
// twins (the same data, known orders) calibrate: where the twins reach t' instead of the largest
// value m tests would show, t is divided by the ratio, so that data on which rounding errors are
// not independent accuse nobody.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ir/tensor.h"

namespace driftc::runtime::compare {

// A false accusation is expected once in a million judged tensors; the tests of one tensor share
// it.
inline constexpr double kFalseAlarm = 0x1p-20;

struct Residual {
  ir::Shape shape;
  std::vector<double> z;  // 0: exact; NaN: not comparable (specials, infinite variance)
  std::vector<double>
      expected;  // the expected values, for duplicates, signs and scale; same length or empty
  std::vector<std::vector<double>> twins;  // residuals of healthy results, same length each
  double limit = 6;                        // |z| beyond it is beyond rounding (numerics.md 4.2)
  bool independent =
      true;  // false: roundings of earlier nodes correlate elements, so means say nothing
};

struct Structure {
  std::string words;        // "all of channel 3", "odd rows"
  double chance = 1;        // probability under rounding, all tests counted
  double share = 0;         // of the elements beyond the limit that it holds; 0 for a mean
  double mean = 0;          // mean residual of the group, in standard deviations
  std::int64_t first = -1;  // flat index of an element of it
};

// Significant structures only (chance < kFalseAlarm), what explains most first; at most five.
std::vector<Structure> find_structure(const Residual& residual);

// Where the elements that differ between two tensors lie, for differences that should not be there
// at all (bits that a replay promises): the words of the smallest group that explains them, ""
// where they are spread out or equal.
std::string pattern_of(const ir::Tensor& promised, const ir::Tensor& observed);

// Largest of `count` independent normal values in size: what P(max > t) = 1/2 gives, at least 1.
double expected_largest(double count);

}  // namespace driftc::runtime::compare
