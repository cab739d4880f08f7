// Spread of functions of one or two elements, and of reductions over axes.
#include "ir/support/half.h"
#include "runtime/study/spread.h"
#include "runtime/study/spread_math.h"

namespace driftc::runtime::study {
namespace {

// What an implementation may be off on exact operands: mean square of `ulps` half ulps of the
// result, and of a step of the computation whose size is 1 or |x| (tanh and elu by way of exp, a
// polynomial of erf).
struct FunctionError {
  double relative = 0;
  enum class Absolute { kNone, kOne, kOperand } absolute = Absolute::kNone;
};
FunctionError error_of(ir::Op op) {
  using enum FunctionError::Absolute;
  // Transcendental functions within 4 ulp, that is 8 half ulps: 64 times the variance of one
  // rounding.
  constexpr double kLibrary = 64;
  switch (op) {
    case ir::Op::kAbs:
    case ir::Op::kNeg:
    case ir::Op::kMax:
    case ir::Op::kMin:
      return {};
    case ir::Op::kSqrt:
    case ir::Op::kLeakyRelu:
    case ir::Op::kPrelu:
      return {1, kNone};
    case ir::Op::kHardSigmoid:
      return {4, kOne};
    case ir::Op::kHardSwish:
      return {6, kOperand};
    case ir::Op::kExp:
    case ir::Op::kLog:
    case ir::Op::kPow:
      return {kLibrary, kNone};
    case ir::Op::kGelu:
      return {kLibrary, kOperand};
    default:
      return {kLibrary, kOne};
  }
}

}  // namespace

Uncertain Spread::function(ir::NodeId id, std::span<const Uncertain> operands,
                           const ir::Tensor& value) const {
  const ir::Node& node = graph_.node(id);
  std::vector<ir::Tensor> values;
  for (const Uncertain& operand : operands) values.push_back(operand.value);
  if (node.op == ir::Op::kCast) {
    const std::string& to = node.word("to");
    if (to != "f16" && to != "bf16") return operands[0];
    const Hypothesis type = to == "f16" ? Hypothesis::kF16 : Hypothesis::kBf16;
    return {value, map(operands[0].value, variance_or_zero(operands[0]),
                       [&](double x, double v) { return rounded_variance(x, v, type); })};
  }
  const FunctionError error = error_of(node.op);
  ir::Tensor variance =
      map(value, [&](double y) { return error.relative * kRounding * y * y + kTiny; });
  if (error.relative == 0) variance = zeros(value.shape());
  if (error.absolute == FunctionError::Absolute::kOne)
    variance = map(variance, [&](double v) { return v + error.relative * kRounding; });
  if (error.absolute == FunctionError::Absolute::kOperand && values[0].shape() == value.shape())
    variance = map(variance, values[0],
                   [&](double v, double x) { return v + error.relative * kRounding * x * x; });
  // The larger move of the result when one operand moves by 6 standard deviations, divided by 6:
  // the slope where the function is straight, and enough where it bends.
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i].variance.defined()) continue;
    ir::Tensor moves = zeros(value.shape());
    for (double side : {-kSigmas, kSigmas}) {
      std::vector<ir::Tensor> moved = values;
      moved[i] = map(values[i], operands[i].variance,
                     [&](double x, double v) { return x + side * std::sqrt(v); });
      const ir::Tensor there = eval(id, moved);
      const ir::Tensor change =
          map(there, value, [](double a, double b) { return a == b ? 0 : std::fabs(a - b); });
      // Out of the domain (log below 0, an overflow): nothing can be said.
      moves = map(moves, change,
                  [](double a, double b) { return std::isnan(b) ? kInfinity : std::max(a, b); });
    }
    variance =
        map(variance, moves, [](double v, double m) { return v + m * m / (kSigmas * kSigmas); });
  }
  return {value, variance};
}

Uncertain Spread::reduction(ir::NodeId id, const Uncertain& x) const {
  const ir::Node& node = graph_.node(id);
  const bool mean = node.op == ir::Op::kReduceMean;
  const ir::Tensor value = eval(id, {x.value});
  const double terms = value.elements() == 0 ? 1
                                             : static_cast<double>(x.value.elements()) /
                                                   static_cast<double>(value.elements());
  const double c = kRounding * (terms / 6 + 1);
  const ir::Tensor per_term =
      map(x.value, variance_or_zero(x), [&](double v, double s) { return s + c * v * v; });
  const ir::Tensor sums = eval(id, {per_term});  // a mean divides once
  return {value, map(sums, value, [&](double s, double y) {
            return (mean ? s / terms : s) + kRounding * (terms / 3 + 1) * y * y + kTiny * terms;
          })};
}

// At most the largest variance of the elements it chooses from.
Uncertain Spread::largest_of(ir::NodeId id, const Uncertain& x) const {
  const ir::Tensor value = eval(id, {x.value});
  if (!x.variance.defined()) return {value, {}};
  if (graph_.node(id).op != ir::Op::kReduceMin) return {value, eval(id, {x.variance})};
  const auto negated = [](const ir::Tensor& t) { return map(t, [](double v) { return -v; }); };
  return {value, negated(eval(id, {negated(x.variance)}))};
}

}  // namespace driftc::runtime::study
