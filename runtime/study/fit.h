// One value of one file against what one hypothesis expects: the numbers, and whether it is
// accepted (judge.h).
#pragma once

#include <functional>
#include <vector>

#include "runtime/study/judge.h"

namespace driftc::runtime::study {

struct Fit {
  HypothesisFit summary;
  double surprise = 0;  // -2 log of the likelihood: sum of z^2 + log variance
  compare::SpecialCounts specials;
  std::vector<compare::Structure> structure;
  Visible visible;
};

// The first `count` healthy twins of the value under the same hypothesis.
using TwinSource = std::function<std::vector<ir::Tensor>(std::size_t count)>;

// `observed`: f32, f16 or f64 as the file holds it.
Fit fit(const ir::Tensor& observed, const Expectation& expected,
        const PrecisionHypothesis& hypothesis, std::size_t twin_count, const TwinSource& twins);

}  // namespace driftc::runtime::study
