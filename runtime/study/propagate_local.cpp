// local_error: what a node's own rounding can have made.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/support/round.h"
#include "runtime/numeric/product_sums.h"
#include "runtime/study/propagate.h"

namespace driftc::runtime::study {
namespace {

constexpr double kUnit = 0x1p-24, kEta = 0x1p-150, kFlushEta = 0x1p-126;

double half_ulp(float v) {
  if (!std::isfinite(v)) return std::numeric_limits<double>::infinity();
  const int exponent = v == 0 ? -126 : std::max(std::ilogb(v), -126);
  return std::ldexp(1.0, exponent - 24);
}

// bound[i] from fn(i, half an ulp of the result); the variance of a uniform error of that size.
template <class F>
ErrorTensors of_result(const ir::Tensor& result, const F& fn) {
  ErrorTensors out{ir::Tensor(ir::DType::kF64, result.shape()),
                   ir::Tensor(ir::DType::kF64, result.shape())};
  const auto bound = out.bound.data_mut<double>(), variance = out.variance.data_mut<double>();
  const auto value = result.data<float>();
  for (std::size_t i = 0; i < bound.size(); ++i) {
    bound[i] = fn(i, half_ulp(value[i]));
    variance[i] = div_rn(mul_rn(bound[i], bound[i]), 3);  // (2 bound)^2 / 12
  }
  return out;
}

ErrorTensors batch_norm(const ir::Node& node, std::span<const ir::Tensor> operands,
                        const ir::Tensor& result, double flushed) {
  const ir::Shape& shape = result.shape();
  std::int64_t plane = 1;
  for (std::size_t axis = 2; axis < shape.rank(); ++axis) plane *= shape[axis];
  const auto epsilon = static_cast<double>(static_cast<float>(node.number("epsilon")));
  const auto get = [&](std::size_t operand, std::int64_t i) {
    return static_cast<double>(operands[operand].data<float>()[static_cast<std::size_t>(i)]);
  };
  return of_result(result, [&](std::size_t i, double half) {
    const std::int64_t c = static_cast<std::int64_t>(i) / plane % shape[1];
    const double d = std::abs(sub_rn(get(0, static_cast<std::int64_t>(i)), get(3, c)));
    const double a = std::abs(div_rn(get(1, c), sqrt_rn(add_rn(get(4, c), epsilon))));
    // sub, add (halved by the root), sqrt, div and two mul before the last addition: 6 roundings.
    double bound = add_rn(half, mul_rn(6.1 * kUnit, mul_rn(d, a)));
    if (flushed > 0) {
      // Each operand and result may flush; beside an epsilon a flushed variance is nothing.
      if (epsilon < 0x1p-60) return std::numeric_limits<double>::infinity();
      bound = add_rn(bound, mul_rn(mul_rn(8, flushed), add_rn(add_rn(a, mul_rn(d, 0x1p30)), 1)));
    }
    return add_rn(bound, mul_rn(6 * kEta, std::max(1.0, mul_rn(d, a))));
  });
}

// exp is off by at most 1 ulp (ir/exp_steps.h), its argument by u |d|; the sum by gamma_n; the
// division by half an ulp.
ErrorTensors softmax(const ir::Node& node, std::span<const ir::Tensor> operands,
                     const ir::Tensor& result) {
  const ir::Shape& shape = result.shape();
  const std::int64_t given = node.integer("axis");
  const auto axis =
      static_cast<std::size_t>(given < 0 ? given + static_cast<std::int64_t>(shape.rank()) : given);
  std::int64_t inner = 1;
  for (std::size_t i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  const std::int64_t extent = shape[axis];
  const auto x = operands[0].data<float>(), y = result.data<float>();
  // Relative errors of the terms, and of the sum: their average under y.
  std::vector<double> relative(y.size(), 0.0), of_sum(y.size(), 0.0);
  for (std::int64_t c = 0; c < (extent == 0 ? 0 : result.elements() / extent); ++c) {
    const auto index = [&](std::int64_t i) {
      return static_cast<std::size_t>((c / inner * extent + i) * inner + c % inner);
    };
    double most = -std::numeric_limits<double>::infinity(), sum = 0;
    for (std::int64_t i = 0; i < extent; ++i)
      most = std::max(most, static_cast<double>(x[index(i)]));
    for (std::int64_t i = 0; i < extent; ++i) {
      const double d = std::abs(sub_rn(static_cast<double>(x[index(i)]), most));
      relative[index(i)] = mul_rn(1.001 * kUnit, add_rn(d, 2));
      // Below -103 exp is 0 or subnormal: the absolute part of the bound covers it.
      if (d <= 104) sum = add_rn(sum, mul_rn(std::exp(-d), relative[index(i)]));
    }
    for (std::int64_t i = 0; i < extent; ++i)
      of_sum[index(i)] = add_rn(sum, mul_rn(1.001 * kUnit, static_cast<double>(extent)));
  }
  return of_result(result, [&](std::size_t i, double half) {
    const double r = std::min(1.0, add_rn(relative[i], of_sum[i]));
    const double size = add_rn(static_cast<double>(y[i]), half);
    // Terms below the smallest normal number are off by one step of 2^-149 each.
    return add_rn(add_rn(half, mul_rn(size, mul_rn(1.01, r))),
                  mul_rn(0x1p-148, static_cast<double>(extent)));
  });
}

// Ulp of the result by which functions are off on exact operands (numerics.md, held by
// tests/unit/function_test.cpp), with a little room for the next binade; 0: no bound of this form.
double function_error_ulps(const ir::Node& node) {
  switch (node.op) {
    case ir::Op::kSqrt:
    case ir::Op::kPrelu:
    case ir::Op::kLeakyRelu:
      return 0.5;
    case ir::Op::kExp:
    case ir::Op::kLog:
    case ir::Op::kErf:
    case ir::Op::kPow:
      return 1.05;
    case ir::Op::kSigmoid:
    case ir::Op::kSoftplus:
    case ir::Op::kTanh:
      return 4;
    default:
      return 0;
  }
}

// A convolution under a contract with a transform: the bound of the transform, of which no element
// says how the roundings are spread, so the variance is that of a uniform error of its size.
LocalError winograd_error(const SumProblem& problem, const ir::NumericContract& contract,
                          ThreadPool& pool) {
  LocalError out;
  out.kind = compare::BoundKind::kTransform;
  const auto settings = compare::winograd_settings(contract, problem.group_channels());
  if (!settings || contract.ftz) {
    out.source = "no bound";
    out.error.bound = ir::Tensor(ir::DType::kF64, problem.result);
    for (double& v : out.error.bound.data_mut<double>())
      v = std::numeric_limits<double>::infinity();
  } else {
    const compare::TensorBound bound = compare::winograd_bound(
        problem, ir::winograd_matrices(contract.transform.m), *settings, pool);
    out.error.bound = bound.value;
    out.source = bound.source;
  }
  out.error.variance = absolute(out.error.bound, pool, 2);
  for (double& v : out.error.variance.data_mut<double>()) v = div_rn(v, 3);
  return out;
}

}  // namespace

namespace {

// Adds to a bound and its variance, element by element.
template <class F>
void add_error(LocalError& local, const ir::Tensor& result, const F& more) {
  ErrorTensors sum{ir::Tensor(ir::DType::kF64, result.shape()),
                   ir::Tensor(ir::DType::kF64, result.shape())};
  const auto bound = sum.bound.data_mut<double>(), variance = sum.variance.data_mut<double>();
  for (std::size_t i = 0; i < bound.size(); ++i) {
    const double e = more(i);
    bound[i] = e;
    // Changes of many operands add up like independent ones at most as far as their worst case.
    variance[i] = div_rn(mul_rn(e, e), 3);
    if (!local.error.bound.defined()) continue;
    bound[i] = mul_rn(add_rn(e, local.error.bound.data<double>()[i]), 1 + 0x1p-40);
    variance[i] = add_rn(variance[i], local.error.variance.data<double>()[i]);
  }
  local.error = std::move(sum);
}

// The sum under its contract on weights that a batch_norm was folded into, seen from the unfolded
// ones: what it is off by is then scaled like the sum itself. Partial sums are others than those of
// a replay, so bounds are a priori; a hundredth covers the products of two small errors.
LocalError folded_sum_error(const SumProblem& given, const ir::NumericContract& contract,
                            ThreadPool& pool, std::uint64_t atomic_seed) {
  const Hypothesis hypothesis = compare::hypothesis_of(contract);
  LocalError out;
  if (contract.transform.m != 0) {
    out = winograd_error(given, contract, pool);
  } else {
    const compare::TensorBound bound = compare::a_priori_bound(
        compare::matched(given, hypothesis, pool), contract, pool, atomic_seed);
    out.error = {bound.value, absolute(bound.value, pool, 2)};
    out.kind = bound.kind;
    out.source = bound.source;
  }
  const double weights = contract.fold == ir::Fold::kF64 ? 1.001 * kUnit : 5.001 * kUnit;
  const double e = operand_error(hypothesis);
  const bool relative = hypothesis != Hypothesis::kF16 && hypothesis != Hypothesis::kBf16;
  const ir::Tensor size = magnitudes(given, {}, pool);
  const double moved =
      add_rn(weights, contract.transform.m != 0 ? 0 : mul_rn(1.01, mul_rn(e, add_rn(2, e))));
  add_error(out, size, [&](std::size_t i) {
    if (!relative) return std::numeric_limits<double>::infinity();
    return mul_rn(1.01, add_rn(mul_rn(moved, size.data<double>()[i]),
                               mul_rn(0.01, out.error.bound.data<double>()[i])));
  });
  out.source += "; batch norm folded into the weights";
  return out;
}

// What is stored in 16 bits is off by half a step, and so are the sum and the bias of a convolution
// that are stored before they are added.
void add_storage(const ir::Node& node, std::span<const ir::Tensor> operands,
                 const ir::Tensor& result, ir::Precision store, ThreadPool& pool,
                 LocalError& local) {
  if (store != ir::Precision::kF16 && store != ir::Precision::kBF16) return;
  const Hypothesis type = store == ir::Precision::kF16 ? Hypothesis::kF16 : Hypothesis::kBf16;
  const int bits = type == Hypothesis::kF16 ? 11 : 8,
            lowest = type == Hypothesis::kF16 ? -14 : -126;
  const auto half_step = [&](double v) {
    if (!std::isfinite(v)) return std::numeric_limits<double>::infinity();
    return std::ldexp(1.0, (v == 0 ? lowest : std::max(std::ilogb(v), lowest)) - bits);
  };
  // Copies of what is of that type already are stored as they are.
  const bool copies = !local.error.bound.defined();
  const bool exact = copies && std::ranges::all_of(operands, [&](const ir::Tensor& operand) {
                       return operand.dtype() != ir::DType::kF32 ||
                              ir::same_bits(operand, rounded(operand, type, pool));
                     });
  if (exact) return;
  double bias = 0;
  const bool has_bias = is_sum_node(node.op) && operands.size() == 3;
  if (has_bias)
    for (float b : operands[2].data<float>())
      bias = std::max(bias, std::abs(static_cast<double>(b)));
  const auto value = result.data<float>();
  add_error(local, result, [&](std::size_t i) {
    const double y = std::abs(static_cast<double>(value[i])), half = half_step(y);
    if (!has_bias) return half;
    const double sum = add_rn(add_rn(y, bias), mul_rn(4, half));
    return add_rn(half, add_rn(mul_rn(2, half_step(sum)), half_step(bias)));
  });
  local.source += fmt::format("; stored in {}", ir::name_of(store));
}

// b' = (b - mean) s + shift instead of what follows the sum: half an ulp for its addition, and its
// own roundings.
void add_folded_bias(const ir::Graph& graph, const ir::Node& node,
                     std::span<const ir::Tensor> operands, const ir::Tensor& result,
                     LocalError& local) {
  double own = 0;  // of the convolution, where it has a bias
  const ir::Node* conv = graph.producer(node.operands[0]);
  if (conv != nullptr && conv->operands.size() > 2) {
    const ir::Node* constant = graph.producer(conv->operands[2]);
    if (constant == nullptr || constant->op != ir::Op::kConstant) {
      own = std::numeric_limits<double>::infinity();
    } else {
      for (float b : constant->literal->tensor().data<float>())
        own = std::max(own, std::abs(static_cast<double>(b)));
    }
  }
  const ir::Shape& shape = result.shape();
  std::int64_t plane = 1;
  for (std::size_t axis = 2; axis < shape.rank(); ++axis) plane *= shape[axis];
  const auto epsilon = static_cast<double>(static_cast<float>(node.number("epsilon")));
  add_error(local, result, [&](std::size_t i) {
    const auto c = static_cast<std::size_t>(static_cast<std::int64_t>(i) / plane % shape[1]);
    const auto at = [&](std::size_t operand) {
      return static_cast<double>(operands[operand].data<float>()[c]);
    };
    const double scale = std::abs(div_rn(at(1), sqrt_rn(add_rn(at(4), epsilon))));
    const double moved = mul_rn(scale, add_rn(own, std::abs(at(3))));
    // 6 u |(b - mean) s|, u |b'|, and the addition's half ulp beside batch_norm's own.
    return add_rn(mul_rn(7.1 * kUnit, moved),
                  add_rn(mul_rn(1.1 * kUnit, std::abs(at(2))), half_ulp(result.data<float>()[i])));
  });
}

LocalError computed_error(const ir::Graph& graph, ir::NodeId id,
                          std::span<const ir::Tensor> operands, const ir::Tensor& result,
                          const ir::NumericContract& contract, ThreadPool& pool,
                          std::uint64_t atomic_seed, Against against) {
  const ir::Node& node = graph.node(id);
  LocalError out;
  if (is_sum_node(node.op)) {
    const SumProblem given = sum_problem(graph, id, operands);
    if (contract.fold != ir::Fold::kNone)
      return folded_sum_error(given, contract, pool, atomic_seed);
    if (contract.transform.m != 0) return winograd_error(given, contract, pool);
    const Hypothesis hypothesis = compare::hypothesis_of(contract);
    const SumProblem problem = compare::matched(given, hypothesis, pool);
    if (auto replay = compare::replay_bound(problem, contract, pool, atomic_seed)) {
      out.error = {replay->bound.value, replay->variance};
      out.kind = replay->bound.kind;
      out.source = replay->bound.source;
    } else {
      const compare::TensorBound bound =
          compare::a_priori_bound(problem, contract, pool, atomic_seed);
      out.error = {bound.value, absolute(bound.value, pool, 2)};
      for (double& v : out.error.variance.data_mut<double>()) v = div_rn(v, 3);
      out.kind = bound.kind;
      out.source = bound.source;
    }
    if (hypothesis == Hypothesis::kF32 || against == Against::kMatched) return out;
    const compare::TensorBound rounding = compare::input_rounding(given, hypothesis, pool);
    add_error(out, result, [&](std::size_t i) { return rounding.value.data<double>()[i]; });
    out.source += "; " + rounding.source;
    return out;
  }
  const double flushed = contract.ftz ? kFlushEta : 0;
  switch (node.op) {
    case ir::Op::kAdd:
    case ir::Op::kSub:
    case ir::Op::kMul:
    case ir::Op::kDiv:
      out.source = "half an ulp";
      // Flushing also changes subnormal operands; for mul and div that is not bounded by the
      // result.
      out.error = of_result(result, [&](std::size_t, double half) {
        if (contract.ftz && (node.op == ir::Op::kMul || node.op == ir::Op::kDiv))
          return std::numeric_limits<double>::infinity();
        return add_rn(half, mul_rn(3, flushed));
      });
      return out;
    case ir::Op::kBatchNorm:
      out.source = "7 roundings of batch_norm";
      out.error = batch_norm(node, operands, result, flushed);
      if (contract.fold != ir::Fold::kNone) add_folded_bias(graph, node, operands, result, out);
      return out;
    case ir::Op::kSoftmax:
      out.source = "exp, sum and division of softmax";
      out.error = softmax(node, operands, result);
      return out;
    case ir::Op::kRelu:
    case ir::Op::kClip:
      if (contract.ftz) {
        out.source = "flushed subnormals";
        out.error = of_result(result, [&](std::size_t, double) { return flushed; });
        return out;
      }
      [[fallthrough]];
    case ir::Op::kMaxPool:
    case ir::Op::kConcat:
    case ir::Op::kFlatten:
    case ir::Op::kReshape:
    case ir::Op::kTranspose:
    case ir::Op::kSlice:
    case ir::Op::kPad:
    case ir::Op::kIdentity:
    case ir::Op::kConstant:
    case ir::Op::kAbs:
    case ir::Op::kNeg:
    case ir::Op::kMax:
    case ir::Op::kMin:
    case ir::Op::kReduceMax:
    case ir::Op::kReduceMin:
      out.source = "copies";
      return out;
    default:
      break;
  }
  if (node.op == ir::Op::kResize && node.word("mode") == "nearest") {
    out.source = "copies";
    return out;
  }
  const double ulps = contract.ftz ? 0 : function_error_ulps(node);
  out.source = ulps > 0 ? fmt::format("{} ulp of {}", ulps, ir::info(node.op).name) : "no bound";
  out.error = of_result(result, [&](std::size_t, double half) {
    return ulps > 0 ? mul_rn(2 * ulps, half) : std::numeric_limits<double>::infinity();
  });
  return out;
}

}  // namespace

LocalError local_error(const ir::Graph& graph, ir::NodeId id, std::span<const ir::Tensor> operands,
                       const ir::Tensor& result, const ir::NumericContract& contract,
                       ThreadPool& pool, std::uint64_t atomic_seed, Against against) {
  LocalError out =
      computed_error(graph, id, operands, result, contract, pool, atomic_seed, against);
  if (result.dtype() == ir::DType::kF32)
    add_storage(graph.node(id), operands, result, contract.store, pool, out);
  return out;
}

}  // namespace driftc::runtime::study
