#include "runtime/study/spread.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/eager_order.h"
#include "runtime/compare/bounds.h"
#include "runtime/eager/interpreter.h"
#include "runtime/numeric/sum_problem.h"
#include "runtime/study/spread_math.h"

namespace driftc::runtime::study {
namespace {

// Step of a type at |x|.
double step(double x, Hypothesis type) {
  if (x == 0 || !std::isfinite(x)) return 0;
  const int bits = type == Hypothesis::kBf16 ? 7 : 10;
  const int lowest = type == Hypothesis::kF16 ? -14 : -126;
  return std::ldexp(1.0, std::max(std::ilogb(x), lowest) - bits);
}

// Lifts f(channel of axis 1) to every element.
template <class F>
ir::Tensor by_channel(const ir::Tensor& x, const F& fn) {
  std::int64_t inner = 1;
  for (std::size_t axis = 2; axis < x.shape().rank(); ++axis) inner *= x.shape()[axis];
  const std::int64_t channels = x.shape().rank() > 1 ? x.shape()[1] : 1;
  ir::Tensor out(ir::DType::kF64, x.shape());
  auto o = out.data_mut<double>();
  const auto in = x.data<double>();
  for (std::int64_t i = 0; i < x.elements(); ++i)
    o[static_cast<std::size_t>(i)] =
        fn(in[static_cast<std::size_t>(i)], static_cast<std::size_t>(i / inner % channels));
  return out;
}

}  // namespace

double rounded_variance(double x, double variance, Hypothesis type) {
  if (variance == 0) return 0;
  if (!std::isfinite(variance)) return variance;
  auto round = [&](double v) { return static_cast<double>(rounded(static_cast<float>(v), type)); };
  const double reach = kSigmas * std::sqrt(variance), at = round(x);
  const double move = std::max(std::fabs(round(x + reach) - at), std::fabs(at - round(x - reach)));
  const double q = step(std::fabs(x) + reach, type);
  const double average = variance + q * q / 4;
  return std::isfinite(move) ? std::min(move * move, average) : average;
}

ir::Tensor Spread::eval(ir::NodeId id, std::vector<ir::Tensor> operands) const {
  return evaluate(graph_, id, operands, eager_contract(graph_.node(id)), EvalContext{pool_, 0});
}

ir::Tensor Spread::variance_or_zero(const Uncertain& value) const {
  return value.variance.defined() ? value.variance : zeros(value.value.shape());
}

Uncertain Spread::given(const ir::Tensor& tensor) const {
  if (tensor.dtype() == ir::DType::kI64) return {tensor, {}};
  const bool rounds = hypothesis_.storage && tensor.dtype() == ir::DType::kF32;
  return {
      (rounds ? rounded(tensor, hypothesis_.operands, pool_) : tensor).converted(ir::DType::kF64),
      {}};
}

Uncertain Spread::stored(ir::NodeId id, Uncertain value) const {
  const Hypothesis type = stored_[id.index];
  if (type == Hypothesis::kF32) return value;
  const ir::Tensor before = variance_or_zero(value);
  // Whether an implementation rounds here or keeps f32 up to the next op is not known: one more
  // rounding, q^2 / 12.
  value.variance = map(value.value, before, [&](double x, double v) {
    const double q = step(x, type);
    return rounded_variance(x, v, type) + q * q / 12;
  });
  value.value = map(value.value, [&](double x) {
    return static_cast<double>(rounded(static_cast<float>(x), type));
  });
  return value;
}

Uncertain Spread::rounded_operand(const Uncertain& x, Hypothesis rounding) const {
  if (rounding == Hypothesis::kF32) return x;
  Uncertain out;
  out.value = map(x.value, [&](double v) {
    return static_cast<double>(rounded(static_cast<float>(v), rounding));
  });
  if (x.variance.defined())
    out.variance = map(x.value, x.variance, [&](double v, double variance) {
      return rounded_variance(v, variance, rounding);
    });
  return out;
}

Uncertain Spread::sum_node(ir::NodeId id, std::span<const Uncertain> operands) const {
  const ir::Node& node = graph_.node(id);
  const Hypothesis rounding = operand_rounding(hypothesis_, graph_, id);
  const bool blocks = on_tensor_cores(hypothesis_, graph_, id);
  const int winograd = winograd_of(hypothesis_, graph_, id);
  const Uncertain x = rounded_operand(operands[0], rounding),
                  w = rounded_operand(operands[1], rounding);
  const bool gemm = node.op == ir::Op::kGemm;
  const double alpha = gemm ? node.number("alpha") : 1;
  ir::Shape w_shape = w.value.shape();
  double terms = 1;  // of one sum
  if (node.op ==
      ir::Op::kConvTranspose) {  // w is [C, K/groups, R, S]; at most every tap of every channel
    terms = static_cast<double>(w_shape[0] / node.integer("groups") * w_shape[2] * w_shape[3]);
  } else if (ir::info(node.op).op_class == ir::OpClass::conv || node.op == ir::Op::kConv1x1Matmul) {
    for (std::size_t axis = 1; axis < w_shape.rank(); ++axis)
      terms *= static_cast<double>(w_shape[axis]);
  } else {
    const bool transposed = gemm && node.integer("trans_a") != 0;
    terms = static_cast<double>(x.value.shape()[x.value.shape().rank() - (transposed ? 2 : 1)]);
  }
  const bool has_bias = operands.size() > 2;
  auto with = [&](ir::Tensor a, ir::Tensor b, const ir::Tensor* bias) {
    std::vector<ir::Tensor> list{std::move(a), std::move(b)};
    if (has_bias) list.push_back(bias != nullptr ? *bias : zeros(operands[2].value.shape()));
    return eval(id, std::move(list));
  };
  const ir::Tensor sum = with(x.value, w.value, nullptr);
  const ir::Tensor value = has_bias ? with(x.value, w.value, &operands[2].value) : sum;
  // On tensor cores a chain is expected, which has roundings of its own, and what alignment cuts
  // off comes on top of each block's; a transform's roundings are counted apart.
  const double rounding_variance = winograd != 0 ? 0 : blocks ? 2 * kRounding : kRounding;
  // sum w^2 (V_x + c x^2): inherited, and Q times the share of one term.
  const double c = rounding_variance * (terms / 6 + 1);
  const ir::Tensor vx = x.variance;
  ir::Tensor spread_x = vx.defined()
                            ? map(x.value, vx, [&](double v, double s) { return s + c * v * v; })
                            : map(x.value, [&](double v) { return c * v * v; });
  ir::Tensor variance = with(std::move(spread_x), square(w.value), nullptr);
  if (w.variance.defined()) {
    const ir::Tensor other = with(square(x.value), w.variance, nullptr);
    variance = map(variance, other, [](double a, double b) { return a + b; });
  }
  ir::Tensor result(ir::DType::kF64, value.shape());
  auto out = result.data_mut<double>();
  const auto v = variance.data<double>(), s = sum.data<double>(), y = value.data<double>();
  const double after = gemm ? 3 : 1;  // roundings after the sum: alpha, beta, bias
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double b = y[i] - s[i];
    const double bias_first = has_bias ? std::max(0.0, terms * (b * b + b * s[i])) : 0;
    out[i] = std::fabs(alpha * v[i]) + rounding_variance * (terms / 3 * s[i] * s[i] + bias_first) +
             kRounding * after * (y[i] * y[i] + s[i] * s[i]) + kTiny * terms;
    // A 16-bit sum may be stored before its bias is added.
    if (has_bias && stored_[id.index] != Hypothesis::kF32) {
      const double q = step(s[i], stored_[id.index]);
      out[i] += q * q / 12;
    }
  }
  // A bias that is not constant brings its own.
  if (has_bias && operands[2].variance.defined()) {
    const ir::Tensor own = with(zeros(x.value.shape()), zeros(w_shape), &operands[2].variance);
    result = map(result, own, [](double a, double b) { return a + std::fabs(b); });
  }
  if (!blocks && winograd == 0) return {value, result};
  // What the unit or the transform makes of the expected operands.
  std::vector<ir::Tensor> narrow;
  for (const Uncertain& operand : operands)
    narrow.push_back(operand.value.converted(ir::DType::kF32));
  const ir::NumericContract contract = contract_of(hypothesis_, graph_, id);
  const ir::Tensor made = evaluate(graph_, id, narrow, contract, EvalContext{pool_, 0});
  if (blocks) {
    // Between the sum and one chain, since slices lose less to one side than a chain does.
    const ir::Tensor chain = made.converted(ir::DType::kF64);
    const ir::Tensor shift = map(chain, value, [](double one, double exact) {
      return std::isfinite(one) && std::isfinite(exact) ? one - exact : 0;
    });
    return {map(chain, shift, [](double one, double d) { return one - d / 2; }),
            map(result, shift, [](double local, double d) { return local + d * d / 12; })};
  }
  // A transform spreads what is not finite over its tile. What it rounds between its steps is the
  // same in every implementation but where a rounding in f32 turns a tie (one operand in 2^11), so
  // that what ours makes is expected as it is.
  const bool rounds = hypothesis_.operands != Hypothesis::kF32;
  const ir::Tensor seen = map(value, made.converted(ir::DType::kF64), [&](double exact, double m) {
    return std::isfinite(m) && !rounds ? exact : m;
  });
  narrow.resize(2);
  const SumProblem problem = sum_problem(graph_, id, narrow);
  compare::WinogradSettings settings =
      *compare::winograd_settings(contract, problem.group_channels());
  if (rounds) settings.operand_error = 0x1p-15;
  const ir::Tensor own =
      compare::winograd_variance(problem, ir::winograd_matrices(winograd), settings, pool_);
  return {seen, map(result, own, [&](double a, double b) { return a + (rounds ? 2 * b : b); })};
}

Uncertain Spread::mean_node(ir::NodeId id, const Uncertain& x) const {
  const ir::Node& node = graph_.node(id);
  const ir::Tensor value = eval(id, {x.value});
  std::vector<std::int64_t> counts;
  double taps = 1;
  if (node.op == ir::Op::kGlobalAvgPool) {
    for (std::size_t axis = 2; axis < x.value.shape().rank(); ++axis)
      taps *= static_cast<double>(x.value.shape()[axis]);
  } else {
    const std::vector<ir::Tensor> narrow = {x.value.converted(ir::DType::kF32)};
    counts = sum_problem(graph_, id, narrow).counts;
    for (std::int64_t k : node.ints("kernel")) taps *= static_cast<double>(k);
  }
  const double c = kRounding * (taps / 6 + 1);
  const ir::Tensor per_term =
      x.variance.defined()
          ? map(x.value, x.variance, [&](double v, double s) { return s + c * v * v; })
          : map(x.value, [&](double v) { return c * v * v; });
  const ir::Tensor sums = eval(id, {per_term});  // divided by the count once
  ir::Tensor variance(ir::DType::kF64, value.shape());
  auto out = variance.data_mut<double>();
  const auto s = sums.data<double>(), y = value.data<double>();
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double count = counts.empty() ? taps : static_cast<double>(counts[i % counts.size()]);
    out[i] = s[i] / count + kRounding * (taps / 3 + 1) * y[i] * y[i] + kTiny * taps;
  }
  return {value, variance};
}

Uncertain Spread::batch_norm(ir::NodeId id, std::span<const Uncertain> operands) const {
  const auto scale = operands[1].value.data<double>(), shift = operands[2].value.data<double>(),
             mean = operands[3].value.data<double>(), var = operands[4].value.data<double>();
  const double epsilon = graph_.node(id).number("epsilon");
  std::vector<double> factor(scale.size());
  for (std::size_t k = 0; k < factor.size(); ++k)
    factor[k] = scale[k] / std::sqrt(var[k] + epsilon);
  const ir::Tensor value = by_channel(operands[0].value, [&](double x, std::size_t k) {
    return (x - mean[k]) * factor[k] + shift[k];
  });
  // As driftc evaluates it: difference, three roundings of the factor, two products, the sum. As
  // others do: x f + (shift - mean f). Both are within one rounding of every product and five of
  // the factor.
  ir::Tensor variance = by_channel(operands[0].value, [&](double x, std::size_t k) {
    const double a = x * factor[k], b = mean[k] * factor[k], y = a - b + shift[k];
    return kRounding * (6 * a * a + 6 * b * b + 2 * shift[k] * shift[k] + y * y) + kTiny;
  });
  if (operands[0].variance.defined()) {
    const ir::Tensor inherited = by_channel(operands[0].variance, [&](double v, std::size_t k) {
      return factor[k] == 0 ? 0 : v * factor[k] * factor[k];
    });
    variance = map(variance, inherited, [](double a, double b) { return a + b; });
  }
  return {value, variance};
}

Uncertain Spread::softmax(ir::NodeId id, const Uncertain& x) const {
  const ir::Tensor value = eval(id, {x.value});
  const ir::Shape& shape = value.shape();
  std::int64_t axis = graph_.node(id).integer("axis");
  if (axis < 0) axis += static_cast<std::int64_t>(shape.rank());
  std::int64_t inner = 1;
  const std::int64_t extent = shape[static_cast<std::size_t>(axis)];
  for (std::size_t a = static_cast<std::size_t>(axis) + 1; a < shape.rank(); ++a) inner *= shape[a];
  const ir::Tensor in = variance_or_zero(x);
  ir::Tensor variance(ir::DType::kF64, shape);
  auto out = variance.data_mut<double>();
  const auto y = value.data<double>(), v = in.data<double>(), arg = x.value.data<double>();
  for (std::int64_t start = 0; start < value.elements(); ++start) {
    if (start / inner % extent != 0) continue;  // the first of each row
    auto at = [&](std::int64_t i) { return static_cast<std::size_t>(start + i * inner); };
    double common = 0, top = -kInfinity;
    for (std::int64_t j = 0; j < extent; ++j) {
      common += y[at(j)] * y[at(j)] * v[at(j)];
      top = std::max(top, arg[at(j)]);
    }
    for (std::int64_t i = 0; i < extent; ++i) {
      const double p = y[at(i)], distance = top - arg[at(i)];
      // dy_i = y_i (dx_i - sum_j y_j dx_j). Locally: the rounded argument, an exp within 4 ulp (8u)
      // of unknown sign in the term and in the sum, the sum, the division.
      const double inherited = p * p * ((1 - 2 * p) * v[at(i)] + common);
      const double local =
          kRounding * (distance * distance + 64 + 64 + static_cast<double>(extent) / 3 + 2);
      out[at(i)] = inherited + p * p * local + kTiny;
    }
  }
  return {value, variance};
}

Uncertain Spread::moved(ir::NodeId id, std::span<const Uncertain> operands) const {
  std::vector<ir::Tensor> values, variances;
  bool any = false;
  for (const Uncertain& operand : operands) {
    values.push_back(operand.value);
    any = any || operand.variance.defined();
  }
  const ir::Tensor value = eval(id, values);
  any = any || graph_.node(id).op == ir::Op::kResize;
  if (!any) return {value, {}};
  for (const Uncertain& operand : operands) variances.push_back(variance_or_zero(operand));
  ir::Tensor variance = eval(id, variances);
  if (graph_.node(id).op == ir::Op::kPad) {  // what is padded in is exact
    const ir::Tensor ring = eval(id, {zeros(operands[0].value.shape())});
    variance = map(variance, ring, [](double v, double r) { return r == 0 ? v : v - r; });
  }
  if (graph_.node(id).op == ir::Op::kResize && graph_.node(id).word("mode") != "nearest")
    // Weights in [0, 1] that sum to 1, so the variance is at most the interpolated one; three
    // roundings each way.
    variance = map(variance, value, [](double v, double y) { return v + 6 * kRounding * y * y; });
  return {value, variance};
}

Uncertain Spread::pointwise(ir::NodeId id, std::span<const Uncertain> operands) const {
  const ir::Node& node = graph_.node(id);
  const ir::Tensor a = operands[0].value;
  std::vector<ir::Tensor> values;
  for (const Uncertain& operand : operands) values.push_back(operand.value);
  const ir::Tensor value = eval(id, values);
  auto rounded_once = [&](const ir::Tensor& inherited) {
    return map(inherited, value, [](double v, double y) { return v + kRounding * y * y + kTiny; });
  };
  auto sum = [](const ir::Tensor& p, const ir::Tensor& q) {
    return map(p, q, [](double x, double y) { return x + y; });
  };
  switch (node.op) {
    case ir::Op::kAdd:
    case ir::Op::kSub: {
      // A sum of equals' variances; `sub` subtracts, so its second operand is negated.
      ir::Tensor second = variance_or_zero(operands[1]);
      if (node.op == ir::Op::kSub) second = map(second, [](double v) { return -v; });
      return {value, rounded_once(eval(id, {variance_or_zero(operands[0]), second}))};
    }
    case ir::Op::kMul: {
      const ir::Tensor b = operands[1].value;
      return {value, rounded_once(sum(eval(id, {variance_or_zero(operands[0]), square(b)}),
                                      eval(id, {square(a), variance_or_zero(operands[1])})))};
    }
    case ir::Op::kDiv: {
      const ir::Tensor b = operands[1].value, vb = variance_or_zero(operands[1]);
      // V_b / b^2 where b is away from zero, else infinite; written as 1 / (b^2 / V_b) to broadcast
      // by division.
      const ir::Tensor margin = map(b, vb, [](double x, double v) {
        const double m = v == 0 ? kInfinity : x * x / v;
        return m <= kSigmas * kSigmas ? 0 : m;
      });
      const ir::Tensor from_a = eval(id, {variance_or_zero(operands[0]), square(b)});
      const ir::Tensor relative = eval(id, {map(a, [](double) { return 1.0; }), margin});
      const ir::Tensor from_b = map(relative, value, [](double r, double y) {
        return r == 0 ? 0 : r * std::max(y * y, 0x1p-1000);
      });
      return {value, rounded_once(sum(from_a, from_b))};
    }
    case ir::Op::kRelu:
    case ir::Op::kClip: {
      const bool clip = node.op == ir::Op::kClip;
      const double low = clip ? node.number("min") : 0,
                   high = clip ? node.number("max") : kInfinity;
      if (!operands[0].variance.defined()) return {value, {}};
      return {value, map(a, operands[0].variance, [&](double x, double v) {
                const double reach = kSigmas * std::sqrt(v);
                return x + reach > low && x - reach < high ? v : 0;
              })};
    }
    default:
      return function(id, operands, value);
  }
}

Uncertain Spread::node(ir::NodeId id, std::span<const Uncertain> operands) const {
  const ir::Node& node = graph_.node(id);
  switch (ir::info(node.op).op_class) {
    case ir::OpClass::conv:
    case ir::OpClass::matmul: {
      Uncertain out = stored(id, sum_node(id, operands));
      if (operand_rounding(hypothesis_, graph_, id) == Hypothesis::kFtz) {
        // Every operation may flush a result of less than 2^-126: mean square (2^-126)^2 / 3 each.
        const double flushed =
            static_cast<double>(operands[1].value.elements()) * 0x1p-126 * 0x1p-126 / 3;
        const double outputs = ir::info(node.op).op_class == ir::OpClass::conv
                                   ? static_cast<double>(operands[1].value.shape()[0])
                                   : 1;
        out.variance = map(out.variance, [&](double v) { return v + 2 * flushed / outputs; });
        out.value = map(out.value, [](double v) {
          return static_cast<double>(rounded(static_cast<float>(v), Hypothesis::kFtz)) == 0 ? 0 : v;
        });
      }
      // 0 * inf of a variance that says nothing
      out.variance = map(out.variance, [](double v) { return std::isnan(v) ? kInfinity : v; });
      return out;
    }
    case ir::OpClass::pool:
      if (node.op == ir::Op::kMaxPool || node.op == ir::Op::kReduceMax ||
          node.op == ir::Op::kReduceMin)
        return largest_of(id, operands[0]);
      if (node.op == ir::Op::kReduceMean || node.op == ir::Op::kReduceSum)
        return stored(id, reduction(id, operands[0]));
      return stored(id, mean_node(id, operands[0]));
    case ir::OpClass::softmax:
      return stored(id, softmax(id, operands[0]));
    case ir::OpClass::data:
      return moved(id, operands);
    case ir::OpClass::elementwise:
      if (node.op == ir::Op::kBatchNorm) return stored(id, batch_norm(id, operands));
      return stored(id, pointwise(id, operands));
    case ir::OpClass::special:
      if (node.op == ir::Op::kArgmax) return {eval(id, {operands[0].value}), {}};  // an index
      break;
  }
  DRIFTC_ASSERT(false, "not a source op");
}

}  // namespace driftc::runtime::study
