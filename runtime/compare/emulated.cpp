#include "runtime/compare/emulated.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace driftc::runtime::compare {
namespace {

using ir::Tensor;

// Every pair of elements fits; NaN fits NaN only (all of these tools set equal_nan or treat NaN as
// a mismatch with a number, which is the same here).
template <class F>
bool all(const Tensor& expected, const Tensor& result, const F& fits) {
  const auto e = expected.data<float>(), r = result.data<float>();
  for (std::size_t i = 0; i < e.size(); ++i) {
    const double a = e[i], b = r[i];
    if (std::isnan(a) && std::isnan(b)) continue;
    if (a == b) continue;
    if (!fits(a, b)) return false;
  }
  return true;
}
bool sum_rule(const Tensor& e, const Tensor& r, double atol, double rtol) {
  return all(e, r,
             [=](double a, double b) { return std::fabs(b - a) <= atol + rtol * std::fabs(a); });
}
bool or_rule(const Tensor& e, const Tensor& r, double atol, double rtol) {
  return all(e, r, [=](double a, double b) {
    const double d = std::fabs(b - a);
    return d <= atol || d <= rtol * std::fabs(a);
  });
}
bool abs_rule(const Tensor& e, const Tensor& r, double atol) { return sum_rule(e, r, atol, 0); }

struct Norms {
  double dot = 0, a2 = 0, b2 = 0, d2 = 0, largest = 0, count = 0;
};
Norms norms(const Tensor& expected, const Tensor& result) {
  const auto e = expected.data<float>(), r = result.data<float>();
  Norms n;
  for (std::size_t i = 0; i < e.size(); ++i) {
    const double a = e[i], b = r[i];
    n.dot += a * b;
    n.a2 += a * a;
    n.b2 += b * b;
    n.d2 += (a - b) * (a - b);
    n.largest = std::max({n.largest, std::fabs(a), std::fabs(b)});
    n.count += 1;
  }
  return n;
}
double cosine(const Norms& n) {
  return n.a2 == 0 && n.b2 == 0 ? 1 : n.dot / std::sqrt(n.a2 * n.b2);
}

double rmse(const Tensor& value, const Tensor& reference) {
  const auto v = value.data<float>();
  const auto r = reference.data<double>();
  double sum = 0;
  for (std::size_t i = 0; i < v.size(); ++i) sum += (v[i] - r[i]) * (v[i] - r[i]);
  return std::sqrt(sum / static_cast<double>(v.size()));
}
// torch._dynamo.utils.same: allclose, else RMSE to f64 at most m times eager's plus tol / 10; m =
// 2, 10 for tensors of up to 10 elements, 8 up to 500.
bool dynamo_same(const Tensor& e, const Tensor& r, const Tensor& reference, double tol) {
  if (sum_rule(e, r, tol, tol)) return true;
  const double multiplier = e.elements() <= 10 ? 10 : e.elements() <= 500 ? 8 : 2;
  return rmse(r, reference) <= multiplier * rmse(e, reference) + tol / 10;
}

bool cutlass(double a, double b) {
  constexpr double kEpsilon = 0.05, kFloor = 1.0 / 256;
  const double d = std::fabs(a - b);
  if (a == 0 || b == 0 || d < kFloor) return d < kEpsilon * kFloor;
  return d < kEpsilon * (std::fabs(a) + std::fabs(b));
}

#define TOOL(NAME, RULE)                                                                           \
  EmulatedComparer {                                                                               \
    NAME,                                                                                          \
        [](const Tensor& e, const Tensor& r, [[maybe_unused]] const Tensor& ref) -> bool { RULE; } \
  }

constexpr std::array kComparers = {
    TOOL("torch assert_close", return sum_rule(e, r, 1e-5, 1.3e-6)),
    TOOL("dynamo same 1e-4", return dynamo_same(e, r, ref, 1e-4)),
    TOOL("dynamo minifier 1e-3", return dynamo_same(e, r, ref, 1e-3)),
    TOOL("dynamo cosine 0.99", return cosine(norms(e, r)) >= 0.99),
    TOOL("inductor fx numeric check", return sum_rule(e, r, 1e-4, 1e-4)),
    TOOL("torch.onnx verification", return sum_rule(e, r, 1e-7, 1e-3)),
    TOOL("XLA run_hlo_module", return or_rule(e, r, 1e-3, 1e-3)),
    TOOL("XLA autotuner 0.1",
         return all(e, r,
                    [](double a, double b) {
                      return std::fabs(a - b) / (std::max(std::fabs(a), std::fabs(b)) + 1) <= 0.1;
                    })),
    TOOL("Polygraphy simple", return or_rule(e, r, 1e-5, 1e-5)),
    TOOL("Polygraphy distance", const Norms n = norms(e, r);
         return std::sqrt(n.d2) <= 1e-5 && cosine(n) >= 0.997),
    TOOL("Polygraphy quality", const Norms n = norms(e, r);
         return n.d2 == 0 || (10 * std::log10(n.largest * n.largest * n.count / n.d2) >= 30 &&
                              10 * std::log10(n.a2 / n.d2) >= 20)),
    TOOL("MIGraphX verify", const Norms n = norms(e, r);
         return n.d2 == 0 || std::sqrt(n.d2 / n.count) / n.largest <= 1e-3),
    TOOL("onnx-mlir RunONNXModel", return sum_rule(e, r, 0.01, 0.05)),
    TOOL("Glow", return abs_rule(e, r, 1e-4)),
    TOOL("IREE run-module", return abs_rule(e, r, 1e-4)),
    TOOL("CUTLASS profiler", return all(e, r, cutlass)),
    TOOL("cuDNN frontend tests", return sum_rule(e, r, 1e-3, 1e-3)),
    TOOL("NNSmith", return sum_rule(e, r, 1e-3, 1e-2)),
    TOOL("tinygrad CPU validation", return sum_rule(e, r, 1e-3, 1e-3)),
    TOOL("tinygrad op tests", return sum_rule(e, r, 1e-6, 1e-3)),
};
#undef TOOL

}  // namespace

std::span<const EmulatedComparer> emulated_comparers() { return kComparers; }

}  // namespace driftc::runtime::compare
