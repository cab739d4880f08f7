// What the parts of Spread share: the variance of a rounding, and element by element maps in f64.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/tensor.h"
#include "runtime/numeric/hypothesis.h"

namespace driftc::runtime::study {

inline constexpr double kU = 0x1p-24;
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Variance of one rounding of y, by y^2: uniform within half an ulp, ulp <= 2u|y|.
inline constexpr double kRounding = kU * kU / 3;
// The same where results are subnormal: ulp = 2^-149.
inline constexpr double kTiny = 0x1p-149 * 0x1p-149 / 12;
inline constexpr double kSigmas =
    6;  // as far as a value may be from what is expected (numerics.md 4.2)

template <class F>
ir::Tensor map(const ir::Tensor& a, const F& fn) {
  ir::Tensor out(ir::DType::kF64, a.shape());
  auto o = out.data_mut<double>();
  const auto x = a.data<double>();
  for (std::size_t i = 0; i < o.size(); ++i) o[i] = fn(x[i]);
  return out;
}
template <class F>
ir::Tensor map(const ir::Tensor& a, const ir::Tensor& b, const F& fn) {
  DRIFTC_ASSERT(a.shape() == b.shape(), "equal shapes");
  ir::Tensor out(ir::DType::kF64, a.shape());
  auto o = out.data_mut<double>();
  const auto x = a.data<double>(), y = b.data<double>();
  for (std::size_t i = 0; i < o.size(); ++i) o[i] = fn(x[i], y[i]);
  return out;
}
inline ir::Tensor square(const ir::Tensor& a) {
  return map(a, [](double x) { return x * x; });
}
inline ir::Tensor zeros(const ir::Shape& shape) { return ir::Tensor(ir::DType::kF64, shape); }

// Variance of an operand known up to `variance` once it is rounded to a coarser type (expect.h).
double rounded_variance(double x, double variance, Hypothesis type);

}  // namespace driftc::runtime::study
