#include "runtime/study/fit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "ir/support/half.h"
#include "ir/support/round.h"

namespace driftc::runtime::study {
namespace {

using compare::Evidence;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLimit = 6;                // numerics.md 4.2: |z| <= 6 is explained by order
constexpr double kTinyVariance = 0x1p-300;  // less than that of any rounding: an exact value
constexpr double kFar = 1e18;               // a residual where rounding has no variance at all

bool all_representable(const ir::Tensor& tensor, Hypothesis type) {
  const auto data = tensor.data<float>();
  return std::all_of(data.begin(), data.end(), [&](float v) {
    return !std::isfinite(v) || bits_of(rounded(v, type)) == bits_of(v);
  });
}

// Half a step of the type a result was stored in.
double storage_step(double x, Hypothesis type) {
  const int bits = type == Hypothesis::kBf16 ? 7 : 10,
            lowest = type == Hypothesis::kF16 ? -14 : -126;
  return std::ldexp(1.0, std::max(x == 0 ? lowest : std::ilogb(x), lowest) - bits) / 2;
}

double z_of(double observed, double expected, double variance) {
  if (!std::isfinite(observed) || !std::isfinite(expected) || !std::isfinite(variance))
    return std::numeric_limits<double>::quiet_NaN();
  const double d = observed - expected;
  if (d == 0) return 0;
  if (variance <= 0) return std::copysign(kFar, d);
  return std::clamp(d / std::sqrt(variance), -kFar, kFar);
}

std::vector<double> residual(const ir::Tensor& observed, const ir::Tensor& expected,
                             const std::vector<double>& variance) {
  const auto a = observed.data<float>();
  const auto e = expected.data<double>();
  std::vector<double> z(a.size());
  for (std::size_t i = 0; i < z.size(); ++i) z[i] = z_of(a[i], e[i], variance[i]);
  return z;
}

double largest(const std::vector<double>& z) {
  double top = 0;
  for (double v : z)
    if (!std::isnan(v)) top = std::max(top, std::fabs(v));
  return top;
}

// RMS difference of the nearer three quarters of the elements that are not zero in both.
double typical_distance(std::span<const float> a, std::span<const double> e) {
  std::vector<double> distances;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = std::fabs(a[i] - e[i]);
    if ((e[i] != 0 || a[i] != 0) && !std::isnan(d)) distances.push_back(d);
  }
  const auto nearer = distances.begin() + static_cast<std::ptrdiff_t>(distances.size() * 3 / 4);
  if (nearer == distances.end()) return 0;
  std::nth_element(distances.begin(), nearer, distances.end());
  double sum = 0;
  for (auto it = distances.begin(); it != nearer; ++it) sum += *it * *it;
  return std::sqrt(sum / std::max(1.0, static_cast<double>(nearer - distances.begin())));
}

Visible visible_errors(const std::vector<double>& variance, double limit,
                       const ir::Tensor& expected) {
  Visible v;
  std::vector<double> tolerance;
  double squares = 0, count = 0;
  const auto e = expected.data<double>();
  for (std::size_t i = 0; i < variance.size(); ++i) {
    if (!std::isfinite(e[i])) continue;
    squares += e[i] * e[i];
    count += 1;
    tolerance.push_back(2 * limit * std::sqrt(variance[i]));
  }
  if (tolerance.empty()) return v;
  v.rms = std::sqrt(squares / count);
  const auto middle = tolerance.begin() + static_cast<std::ptrdiff_t>(tolerance.size() / 2);
  std::nth_element(tolerance.begin(), middle, tolerance.end());
  v.median = *middle;
  v.largest = *std::max_element(tolerance.begin(), tolerance.end());
  return v;
}

}  // namespace

Fit fit(const ir::Tensor& file, const Expectation& expected, const PrecisionHypothesis& hypothesis,
        std::size_t twin_count, const TwinSource& twins) {
  const Hypothesis operands = hypothesis.operands;
  const ir::Tensor observed = file.converted(ir::DType::kF32);
  const auto a = observed.data<float>();
  const auto e = expected.value.data<double>();
  const auto v = expected.variance.data<double>();
  const std::size_t count = a.size();
  // The result may be stored in the 16-bit type: the file says so, or all its values are of the
  // hypothesis' type.
  std::optional<Hypothesis> stored;
  if (file.dtype() == ir::DType::kF16) stored = Hypothesis::kF16;
  if ((operands == Hypothesis::kF16 || operands == Hypothesis::kBf16) &&
      all_representable(observed, operands))
    stored = operands;
  std::vector<double> variance(v.begin(), v.end());
  if (stored)
    for (std::size_t i = 0; i < count; ++i) {
      const double half = storage_step(e[i], *stored);
      variance[i] += half * half / 3;
    }

  Fit out;
  HypothesisFit& s = out.summary;
  std::vector<bool> near_overflow(count);
  const double brink = static_cast<double>(std::numeric_limits<float>::max()) * 0x1p-24;
  for (std::size_t i = 0; i < count; ++i)
    near_overflow[i] = std::isfinite(e[i]) &&
                       (expected.bound.defined() ? expected.bound.data<double>()[i] >= brink
                                                 : std::isfinite(v[i]) && std::sqrt(v[i]) > brink);
  ir::Tensor should_be = expected.value;
  if (stored) {  // overflow of the narrow type is right
    const ir::Tensor narrow = expected.value.converted(ir::DType::kF32);
    ir::Tensor rounded_value(ir::DType::kF32, narrow.shape());
    auto r = rounded_value.data_mut<float>();
    for (std::size_t i = 0; i < count; ++i) r[i] = rounded(narrow.data<float>()[i], *stored);
    should_be = rounded_value;
  }
  out.specials = compare::count_specials(observed, should_be, &near_overflow);

  compare::Residual r{observed.shape(),
                      residual(observed, expected.value, variance),
                      std::vector<double>(e.begin(), e.end()),
                      {},
                      kLimit,
                      expected.direct};
  double squares = 0, logarithms = 0, difference = 0, size = 0, used = 0;
  bool within_bound = expected.bound.defined();
  for (std::size_t i = 0; i < count; ++i) {
    if (!std::isfinite(e[i]) || !std::isfinite(static_cast<double>(a[i]))) continue;
    const double d = std::fabs(a[i] - e[i]);
    s.max_abs = std::max(s.max_abs, d);
    difference += d * d;
    size += e[i] * e[i];
    if (!std::isnan(r.z[i])) {
      squares += r.z[i] * r.z[i];
      logarithms += std::log(std::max(variance[i], kTinyVariance));
    }
    if (!expected.bound.defined()) continue;
    const double bound =
        expected.bound.data<double>()[i] + (stored ? storage_step(e[i], *stored) : 0);
    within_bound = within_bound && d <= bound;
    if (d > 0) used = std::max(used, d / bound);
  }
  s.typical = typical_distance(a, e);
  s.rel_l2 = difference > 0 ? (size > 0 ? std::sqrt(difference / size) : kInfinity) : 0;
  s.z_rms = count > 0 ? std::sqrt(squares / static_cast<double>(count)) : 0;
  out.surprise = squares + logarithms;
  s.z_max = largest(r.z);
  s.bound_used = used;

  // Healthy twins are needed where the statistics are in question: beyond the limit, or for
  // structure.
  const bool hopeless = out.specials.accusing() || (s.z_max > 1e4 && !within_bound);
  bool too_near = false;
  if (!hopeless && (s.z_max > kLimit || expected.direct || hypothesis.winograd != 0)) {
    double reached = 0, nearest = kInfinity;
    for (const ir::Tensor& twin : twins(twin_count)) {
      r.twins.push_back(residual(twin, expected.value, variance));
      reached = std::max(reached, largest(r.twins.back()));
      nearest = std::min(nearest, typical_distance(twin.data<float>(), e));
    }
    // A transform's error is everywhere: a result that is nearer to the exact one than any of its
    // kind was not made by it, so its tolerance may not excuse a single wrong element.
    too_near = hypothesis.winograd != 0 && 2 * s.typical < nearest;
    // Where twins go further than as many normal values would, so may the file.
    const double normal =
        compare::expected_largest(static_cast<double>(count) * static_cast<double>(twin_count));
    if (reached < kFar) s.limit = kLimit * std::max(1.0, reached / normal);
  }
  r.limit = s.limit;
  for (double z : r.z) s.beyond += !std::isnan(z) && std::fabs(z) > s.limit;
  if (!hopeless || s.beyond > 0) out.structure = compare::find_structure(r);
  const bool statistical = s.beyond == 0;
  const bool type_fits = !hypothesis.storage || stored == operands;  // a stored f16 is an f16
  s.accepted = type_fits && !too_near && !out.specials.accusing() && out.structure.empty() &&
               (statistical || within_bound);
  if (s.accepted) s.evidence = statistical ? Evidence::kStatistical : Evidence::kBounded;
  out.visible = visible_errors(variance, s.limit, expected.value);
  return out;
}

}  // namespace driftc::runtime::study
