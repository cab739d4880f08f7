#include "runtime/compare/bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/support/assert.h"
#include "ir/support/round.h"
#include "runtime/numeric/product_sums.h"

namespace driftc::runtime::compare {
namespace {

constexpr double kUnit32 = 0x1p-24, kUnit64 = 0x1p-53;
constexpr double kEta = 0x1p-150;       // half the smallest subnormal
constexpr double kFlushEta = 0x1p-126;  // what flushing one result loses
constexpr double kSlack = 1 + 0x1p-40;  // covers the f64 arithmetic of a bound itself
constexpr std::int32_t kKahanRoundings = 3;
constexpr std::size_t kKahanLongest = std::size_t{1} << 20;

// gamma_d = d u / (1 - d u) >= (1 + u)^d - 1 (numerics.md 4.1); infinite where that says nothing.
double gamma(double roundings, double unit) {
  const double du = mul_rn(roundings, unit);
  return du < 1 ? mul_rn(div_rn(du, sub_rn(1, du)), kSlack)
                : std::numeric_limits<double>::infinity();
}
double gamma_of(double f32, double f64) {
  const double a = gamma(f32, kUnit32), b = gamma(f64, kUnit64);
  return mul_rn(add_rn(add_rn(a, b), mul_rn(a, b)), kSlack);
}

struct Scaling {
  ir::ReductionOrder order;  // with the bias point that applies
  double roundings = 0;      // of alpha and of the division, on every term
  double addend_roundings = 0;
  double operations = 0;  // those of them that can underflow
};
ir::ReductionOrder order_of(const SumProblem& problem, const ir::NumericContract& contract) {
  ir::ReductionOrder order;
  if (contract.order) {
    order = *contract.order;
  } else {
    order.walk = problem.has_products ? ir::Walk::kCrs : ir::Walk::kHw;
    order.arith = problem.has_products ? ir::Arith::kFma : ir::Arith::kAdd;
  }
  return order;
}
Scaling scaling(const SumProblem& problem, const ir::NumericContract& contract) {
  Scaling out;
  out.order = order_of(problem, contract);
  const bool scaled = problem.alpha != 1.0f || problem.beta != 1.0f;
  // gemm's bias joins the sum only where nothing is scaled.
  if (scaled || out.order.bias == ir::BiasPoint::kNone) out.order.bias = ir::BiasPoint::kStored;
  if (problem.alpha != 1.0f) ++out.roundings, ++out.operations;
  if (problem.beta != 1.0f) ++out.addend_roundings, ++out.operations;
  if (!problem.counts.empty()) {
    ++out.roundings, ++out.operations;
    // Counts beyond 2^24 are rounded themselves.
    if (*std::max_element(problem.counts.begin(), problem.counts.end()) > (1 << 24))
      ++out.roundings;
  }
  return out;
}
bool is_wide(const ir::ReductionOrder& order, const ir::NumericContract& contract) {
  return order.arith == ir::Arith::kF64 || contract.acc == ir::Precision::kF64 ||
         contract.in == ir::Precision::kF64;
}
double addend_magnitude(const SumProblem& problem, std::int64_t row, std::int64_t pixel) {
  if (!problem.addend.defined()) return 0;
  return std::abs(mul_rn(static_cast<double>(problem.beta),
                         static_cast<double>(problem.addend_at(row, pixel))));
}
// |alpha| / count of one output.
double scale_at(const SumProblem& problem, std::int64_t pixel) {
  return mul_rn(div_rn(std::abs(static_cast<double>(problem.alpha)),
                       static_cast<double>(problem.count_at(pixel))),
                kSlack);
}
double alpha_growth(const SumProblem& problem) {
  return std::max(1.0, std::abs(static_cast<double>(problem.alpha)));
}

}  // namespace

std::string_view name_of(BoundKind kind) {
  switch (kind) {
    case BoundKind::kRunning:
      return "running";
    case BoundKind::kAPriori:
      return "a-priori";
    case BoundKind::kTransform:
      return "transform";
    case BoundKind::kTensorCore:
      return "tensor-core";
    case BoundKind::kPropagated:
      return "propagated";
  }
  return "";
}

LeafRoundings leaf_roundings(const ir::SumProgram& program, const ir::ReductionOrder& order,
                             std::int64_t positions, bool has_bias, bool wide) {
  DRIFTC_ASSERT(order.arith != ir::Arith::kMma, "mma orders round in blocks");
  wide = wide || order.arith == ir::Arith::kF64;
  const auto at = [](std::int32_t i) { return static_cast<std::size_t>(i); };
  const auto real = [](std::int32_t leaf) { return leaf != ir::SumProgram::kZeroLeaf; };
  // Which slots hold something else than an exact zero, and so which additions round.
  std::vector<bool> holds;
  for (const auto& chain : program.chains)
    holds.push_back((chain.starts_with_bias && has_bias) ||
                    std::any_of(chain.leaves.begin(), chain.leaves.end(), real));
  std::vector<std::int32_t> rounds;
  for (const auto& addition : program.additions) {
    rounds.push_back(holds[at(addition.to)] && holds[at(addition.from)] ? 1 : 0);
    if (holds[at(addition.from)]) holds[at(addition.to)] = true;
  }
  // Roundings between the end of each chain and the end of the sum.
  std::vector<std::int32_t> after(program.chains.size(), 0);
  for (std::size_t i = program.additions.size(); i-- > 0;) {
    const auto& addition = program.additions[i];
    after[at(addition.to)] += rounds[i];
    after[at(addition.from)] = after[at(addition.to)];
  }

  LeafRoundings out;
  out.f32.assign(static_cast<std::size_t>(positions), 0);
  out.f64.assign(static_cast<std::size_t>(positions), 0);
  auto& own = wide ? out.f64 : out.f32;
  auto& own_bias = wide ? out.bias_f64 : out.bias_f32;
  for (std::size_t c = 0; c < program.chains.size(); ++c) {
    const auto& chain = program.chains[c];
    const bool biased = chain.starts_with_bias && has_bias;
    const auto length =
        static_cast<std::int32_t>(std::count_if(chain.leaves.begin(), chain.leaves.end(), real));
    const bool kahan =
        order.arith == ir::Arith::kKahan && static_cast<std::size_t>(length) <= kKahanLongest;
    if (biased) own_bias = after[c] + (kahan ? kKahanRoundings : length);
    std::int32_t j = 0;
    for (std::int32_t leaf : chain.leaves) {
      if (!real(leaf)) continue;
      // Additions from this leaf on; the first one meets an exact zero where there is no bias.
      const std::int32_t additions = length - j - (j == 0 && !biased ? 1 : 0);
      std::int32_t count = 0;
      switch (order.arith) {
        case ir::Arith::kFma:
        case ir::Arith::kF64:
        case ir::Arith::kMma:
          count = length - j;
          break;
        case ir::Arith::kMulAdd:
          count = 1 + additions;
          break;
        case ir::Arith::kAdd:
          count = additions;
          break;
        case ir::Arith::kKahan:
          count = 1 + (kahan ? kKahanRoundings : additions);
          break;
      }
      own[at(leaf)] = after[c] + count;
      if (!wide && order.arith != ir::Arith::kAdd) ++out.operations;
      ++j;
    }
  }
  const auto everywhere = [](std::vector<std::int32_t>& counts) {
    for (std::int32_t& count : counts) ++count;
  };
  const bool late = has_bias && order.bias == ir::BiasPoint::kLast;
  const bool stored =
      has_bias && (order.bias == ir::BiasPoint::kStored || order.bias == ir::BiasPoint::kNone);
  if (late) {
    everywhere(own);
    own_bias = 1;
  }
  if (wide) {  // one rounding to storage
    everywhere(out.f32);
    if (!stored) ++out.bias_f32;
    ++out.operations;
  }
  if (stored) {
    everywhere(out.f32);
    out.bias_f32 = 1;
  }
  return out;
}

TensorBound a_priori_bound(const SumProblem& problem, const ir::NumericContract& contract,
                           ThreadPool& pool, std::uint64_t atomic_seed) {
  const Scaling s = scaling(problem, contract);
  const bool has_bias = problem.addend.defined();
  const ir::ReductionExtent extent{problem.group_channels(), problem.window.kernel_h,
                                   problem.window.kernel_w};
  const ir::SumProgram program = ir::denote(s.order, extent, {}, atomic_seed);
  const double eta = contract.ftz ? kFlushEta : kEta;
  TensorBound out;
  out.source = "per leaf, " + ir::to_string(s.order);

  if (s.order.arith == ir::Arith::kMma) {
    out.kind = BoundKind::kTensorCore;
    out.source = ir::to_string(s.order);
    const auto core = tensor_core(s.order.mma);
    DRIFTC_ASSERT(core.has_value(), "mma order of a unit that does not exist");
    const std::int64_t length = std::min(core->length, s.order.mma.k());
    std::int64_t blocks = 0;
    for (const auto& chain : program.chains)
      blocks += (static_cast<std::int64_t>(chain.leaves.size()) + length - 1) / length;
    double largest = 0;
    for (const ir::Tensor& operand : {problem.columns, problem.rows})
      for (float v : operand.data<float>())
        largest = std::max(largest, static_cast<double>(std::abs(v)));
    out.value = magnitudes(problem, {}, pool);
    const auto value = out.value.data_mut<double>();
    // Additions of chains, bias and scaling come on top, in f32.
    const double later =
        gamma(static_cast<double>(program.additions.size()) + s.roundings + 1, kUnit32);
    for_each_output(problem, [&](std::size_t i, std::int64_t row, std::int64_t pixel) {
      const double addend = addend_magnitude(problem, row, pixel);
      if (value[i] == 0 && addend == 0) return;
      const double magnitude = add_rn(value[i], s.order.bias == ir::BiasPoint::kFirst ? addend : 0);
      const double chains =
          tensor_core_bound(*core, s.order.mma.k(), blocks * length, magnitude, largest);
      value[i] =
          mul_rn(kSlack, add_rn(mul_rn(scale_at(problem, pixel),
                                       add_rn(chains, mul_rn(later, add_rn(magnitude, chains)))),
                                mul_rn(gamma(2 + s.addend_roundings, kUnit32), addend)));
    });
    return out;
  }

  const bool wide = is_wide(s.order, contract);
  const LeafRoundings leaves =
      leaf_roundings(program, s.order, problem.positions(), has_bias, wide);
  std::vector<double> factors;
  for (std::size_t i = 0; i < leaves.f32.size(); ++i)
    factors.push_back(gamma_of(leaves.f32[i] + s.roundings, leaves.f64[i]));
  if (s.order.skip && !factors.empty())
    std::fill(factors.begin(), factors.end(), *std::max_element(factors.begin(), factors.end()));
  const double addend_factor =
      gamma_of(leaves.bias_f32 + s.roundings + s.addend_roundings, leaves.bias_f64);
  double operations = static_cast<double>(leaves.operations) + s.operations;
  if (contract.ftz)  // additions flush too
    operations += static_cast<double>(problem.positions()) +
                  static_cast<double>(program.additions.size()) + 1;
  double lost = mul_rn(operations, eta);
  if (s.order.split > 1 && s.order.combine == ir::SplitCombine::kAtomic && !wide)
    // f32 atomics flush both operands and the result.
    lost =
        add_rn(lost, mul_rn(mul_rn(3, kFlushEta), static_cast<double>(program.additions.size())));
  const double underflow = mul_rn(mul_rn(lost, 1.01), alpha_growth(problem));

  out.value = magnitudes(problem, factors, pool);
  const auto value = out.value.data_mut<double>();
  for_each_output(problem, [&](std::size_t i, std::int64_t row, std::int64_t pixel) {
    const double addend = addend_magnitude(problem, row, pixel);
    if (value[i] == 0 && addend == 0) return;
    value[i] = mul_rn(kSlack, add_rn(add_rn(mul_rn(scale_at(problem, pixel), value[i]),
                                            mul_rn(addend_factor, addend)),
                                     underflow));
  });
  return out;
}

TensorBound any_order_bound(const SumProblem& problem, ThreadPool& pool) {
  const Scaling s = scaling(problem, {});
  const bool has_bias = problem.addend.defined();
  const double terms = static_cast<double>(problem.positions() + (has_bias ? 1 : 0));
  // n u without second order for the sum; one rounding to storage, and what follows.
  const double later = gamma(1 + s.roundings, kUnit32), sum = mul_rn(terms, kUnit32);
  const double factor = mul_rn(kSlack, add_rn(add_rn(sum, later), mul_rn(sum, later)));
  const double addend_factor =
      mul_rn(kSlack, add_rn(factor, mul_rn(gamma(s.addend_roundings, kUnit32), add_rn(1, factor))));
  const double underflow =
      mul_rn(mul_rn(add_rn(terms, s.operations + 1), 1.01 * kEta), alpha_growth(problem));
  TensorBound out{magnitudes(problem, {}, pool), BoundKind::kAPriori, "n u, any order"};
  const auto value = out.value.data_mut<double>();
  for_each_output(problem, [&](std::size_t i, std::int64_t row, std::int64_t pixel) {
    const double addend = addend_magnitude(problem, row, pixel);
    if (value[i] == 0 && addend == 0) return;
    value[i] =
        mul_rn(kSlack, add_rn(add_rn(mul_rn(factor, mul_rn(scale_at(problem, pixel), value[i])),
                                     mul_rn(addend_factor, addend)),
                              underflow));
  });
  return out;
}

double z_value(double difference, double variance_a, double variance_b) {
  if (difference == 0) return 0;
  return div_rn(difference, sqrt_rn(add_rn(variance_a, variance_b)));
}

TensorBound tensor_core_chain_bound(const SumProblem& problem, const TensorCore& core,
                                    int instruction_k, ThreadPool& pool) {
  double largest = 0;
  for (const ir::Tensor& operand : {problem.columns, problem.rows})
    for (float v : operand.data<float>())
      largest = std::max(largest, static_cast<double>(std::abs(v)));
  TensorBound out{magnitudes(problem, {}, pool), BoundKind::kTensorCore,
                  "blocks of " + std::to_string(std::min(core.length, instruction_k)) + ", F " +
                      std::to_string(core.fraction_bits)};
  const auto value = out.value.data_mut<double>();
  const Scaling s = scaling(problem, {});
  const double later = gamma(1 + s.roundings, kUnit32);
  for_each_output(problem, [&](std::size_t i, std::int64_t row, std::int64_t pixel) {
    const double addend = addend_magnitude(problem, row, pixel), magnitude = value[i];
    if (magnitude == 0 && addend == 0) return;
    const double chain =
        tensor_core_bound(core, instruction_k, problem.positions(), magnitude, largest);
    value[i] = mul_rn(kSlack, add_rn(mul_rn(scale_at(problem, pixel),
                                            add_rn(chain, mul_rn(later, add_rn(magnitude, chain)))),
                                     mul_rn(gamma(1 + s.addend_roundings, kUnit32), addend)));
  });
  return out;
}

SumProblem matched(SumProblem problem, Hypothesis hypothesis, ThreadPool& pool) {
  const bool flush = hypothesis == Hypothesis::kFtz;
  if (problem.has_products || flush) problem.columns = rounded(problem.columns, hypothesis, pool);
  if (problem.has_products) problem.rows = rounded(problem.rows, hypothesis, pool);
  if (flush && problem.addend.defined()) problem.addend = rounded(problem.addend, hypothesis, pool);
  return problem;
}

Hypothesis hypothesis_of(const ir::NumericContract& contract) {
  switch (contract.in) {
    case ir::Precision::kF32:
    case ir::Precision::kF64:
      return contract.ftz ? Hypothesis::kFtz : Hypothesis::kF32;
    case ir::Precision::kTf32Rna:
      return Hypothesis::kTf32Rna;
    case ir::Precision::kTf32Trunc:
      return Hypothesis::kTf32Trunc;
    case ir::Precision::kF16:
      return Hypothesis::kF16;
    case ir::Precision::kBF16:
      return Hypothesis::kBf16;
  }
  return Hypothesis::kF32;
}

TensorBound input_rounding(const SumProblem& problem, Hypothesis hypothesis, ThreadPool& pool) {
  const SumProblem rounded_problem = matched(problem, hypothesis, pool);
  const auto changes = [&](const ir::Tensor& from, const ir::Tensor& to) {
    ir::Tensor out(ir::DType::kF64, from.shape());
    const auto d = out.data_mut<double>();
    for (std::size_t i = 0; i < d.size(); ++i)
      d[i] = std::abs(sub_rn(static_cast<double>(from.data<float>()[i]),
                             static_cast<double>(to.data<float>()[i])));
    return out;
  };
  // |x w - x' w'| <= dx (|w| + dw) + |x| dw, with the changes that these operands undergo.
  const ir::Tensor dx = changes(problem.columns, rounded_problem.columns);
  TensorBound out;
  out.source = "operands rounded to " + std::string(name_of(hypothesis));
  if (problem.has_products) {
    const ir::Tensor dw = changes(problem.rows, rounded_problem.rows);
    ir::Tensor reach = absolute(problem.rows, pool);
    for (std::size_t i = 0; i < reach.data<double>().size(); ++i)
      reach.data_mut<double>()[i] = add_rn(reach.data<double>()[i], dw.data<double>()[i]);
    out.value = product_sums(problem, dx, reach, pool);
    const ir::Tensor second = product_sums(problem, absolute(problem.columns, pool), dw, pool);
    const auto value = out.value.data_mut<double>();
    for (std::size_t i = 0; i < value.size(); ++i)
      value[i] = add_rn(value[i], second.data<double>()[i]);
  } else {
    out.value = product_sums(problem, dx, {}, pool);
  }
  const auto value = out.value.data_mut<double>();
  for_each_output(problem, [&](std::size_t i, std::int64_t row, std::int64_t pixel) {
    double change = mul_rn(mul_rn(scale_at(problem, pixel), value[i]), kSumSlack);
    if (problem.addend.defined())
      change = add_rn(
          change,
          std::abs(mul_rn(static_cast<double>(problem.beta),
                          sub_rn(static_cast<double>(problem.addend_at(row, pixel)),
                                 static_cast<double>(rounded_problem.addend_at(row, pixel))))));
    value[i] = change;
  });
  return out;
}

Conditioning conditioning(const SumProblem& problem, const ir::Tensor& value,
                          const ir::Tensor& exact, ThreadPool& pool) {
  const ir::Tensor all = magnitudes(problem, {}, pool);
  Conditioning out;
  double sum = 0;
  std::int64_t counted = 0;
  for_each_output(problem, [&](std::size_t i, std::int64_t row, std::int64_t pixel) {
    const double magnitude = add_rn(mul_rn(scale_at(problem, pixel), all.data<double>()[i]),
                                    addend_magnitude(problem, row, pixel));
    const double reference = exact.data<double>()[i],
                 error = sub_rn(static_cast<double>(value.data<float>()[i]), reference);
    if (!std::isfinite(magnitude) || !std::isfinite(error)) return;
    ++counted;
    if (magnitude == 0) return;
    const double omega = div_rn(std::abs(error), magnitude);
    out.condition_max =
        std::max(out.condition_max, div_rn(mul_rn(2.0, magnitude), std::abs(reference)));
    out.omega_max = std::max(out.omega_max, omega);
    sum = add_rn(sum, omega);
  });
  if (counted > 0) out.omega_mean = div_rn(sum, static_cast<double>(counted));
  return out;
}

Detectable detectable(const ir::Tensor& tolerance, const ir::Tensor& value) {
  Detectable out;
  double squares = 0;
  std::int64_t finite = 0;
  for (float v : value.data<float>()) {
    if (!std::isfinite(v)) continue;
    squares = add_rn(squares, mul_rn(static_cast<double>(v), static_cast<double>(v)));
    ++finite;
  }
  if (finite > 0) out.rms = sqrt_rn(div_rn(squares, static_cast<double>(finite)));
  std::vector<double> twice;
  for (double t : tolerance.data<double>())
    twice.push_back(t == t ? mul_rn(2.0, t) : std::numeric_limits<double>::infinity());
  if (twice.empty()) return out;
  out.largest = *std::max_element(twice.begin(), twice.end());
  const auto middle = twice.begin() + static_cast<std::ptrdiff_t>(twice.size() / 2);
  std::nth_element(twice.begin(), middle, twice.end());
  out.median = *middle;
  const auto of_rms = [&](double error) { return error == 0 ? 0 : div_rn(error, out.rms); };
  out.largest_of_rms = of_rms(out.largest);
  out.median_of_rms = of_rms(out.median);
  return out;
}

}  // namespace driftc::runtime::compare
