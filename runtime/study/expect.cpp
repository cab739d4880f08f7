#include "runtime/study/expect.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/compare/bounds.h"
#include "runtime/eager/interpreter.h"
#include "runtime/numeric/exact.h"
#include "runtime/study/spread.h"
#include "runtime/sums/tensor_core.h"

namespace driftc::runtime::study {
namespace {

// Runs the cone node by node with `Value` per graph value, freeing after the last use.
template <class Value>
class Walk {
 public:
  Walk(const ir::Graph& graph, const GivenValues& given, const std::vector<ir::ValueId>& wanted)
      : graph_(graph), given_(given), wanted_(wanted), nodes_(cone_of(graph, given, wanted)) {
    values_.resize(graph.value_count());
    made_.assign(graph.value_count(), false);
    uses_.assign(graph.value_count(), 0);
    for (ir::NodeId id : nodes_)
      for (ir::ValueId v : graph.node(id).operands) ++uses_[v.index];
  }

  // source(tensor) makes the value of something given or constant; compute(node, operands) that of
  // a node.
  template <class Source, class Compute>
  std::vector<Value> run(const Source& source, const Compute& compute) {
    std::vector<Value> out(wanted_.size());
    for (ir::NodeId id : nodes_) {
      const ir::Node& node = graph_.node(id);
      std::vector<Value> operands;
      for (ir::ValueId v : node.operands) {
        if (!made_[v.index]) {
          values_[v.index] = source(
              given_[v.index].defined() ? given_[v.index] : graph_.producer(v)->literal->tensor());
          made_[v.index] = true;
        }
        operands.push_back(values_[v.index]);
      }
      Value result = compute(id, operands);
      for (ir::ValueId v : node.operands)
        if (--uses_[v.index] == 0) {
          values_[v.index] = {};
          made_[v.index] = false;
        }
      for (std::size_t i = 0; i < wanted_.size(); ++i)
        if (wanted_[i] == node.result) out[i] = result;
      if (uses_[node.result.index] > 0) {
        values_[node.result.index] = std::move(result);
        made_[node.result.index] = true;
      }
    }
    return out;
  }

 private:
  const ir::Graph& graph_;
  const GivenValues& given_;
  const std::vector<ir::ValueId>& wanted_;
  std::vector<ir::NodeId> nodes_;
  std::vector<Value> values_;
  std::vector<bool> made_;
  std::vector<int> uses_;
};

bool all_given(const ir::Graph& graph, const GivenValues& given, const ir::Node& node) {
  return std::all_of(node.operands.begin(), node.operands.end(), [&](ir::ValueId v) {
    return given[v.index].defined() || graph.is_constant(v);
  });
}

// The expectation of a reduction node on given operands from the correctly rounded reference.
void use_exact_value(const ir::Graph& graph, const GivenValues& given, ir::ValueId value,
                     Hypothesis hypothesis, ThreadPool& pool, Expectation& expectation) {
  const ir::NodeId id = *graph.value(value).producer;
  std::vector<ir::Tensor> operands;
  for (ir::ValueId v : graph.node(id).operands)
    operands.push_back(given[v.index].defined() ? given[v.index]
                                                : graph.producer(v)->literal->tensor());
  for (const ir::Tensor& operand : operands)
    if (operand.dtype() != ir::DType::kF32) return;
  const ExactResult exact =
      exact_value(graph, id, operands, {hypothesis, true, ExactTier::kDouble}, pool);
  const auto rounded = exact.value.data<float>();
  ir::Tensor merged(ir::DType::kF64, exact.value.shape());
  auto out = merged.data_mut<double>();
  const auto wide = exact.value64.data<double>();
  // Special results (and flushed ones) are those of the rounded reference.
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double r = rounded[i];
    out[i] = std::isfinite(r) && (hypothesis != Hypothesis::kFtz || r != 0) ? wide[i] : r;
  }
  expectation.value = merged;
}

}  // namespace

std::vector<ir::NodeId> cone_of(const ir::Graph& graph, const GivenValues& given,
                                const std::vector<ir::ValueId>& wanted) {
  std::vector<bool> needed(graph.value_count());
  for (ir::ValueId v : wanted) needed[v.index] = true;
  std::vector<ir::NodeId> nodes;
  for (std::size_t i = graph.node_count(); i-- > 0;) {
    const ir::NodeId id{static_cast<std::uint32_t>(i)};
    const ir::Node& node = graph.node(id);
    if (node.op == ir::Op::kConstant || !needed[node.result.index]) continue;
    const bool asked = std::find(wanted.begin(), wanted.end(), node.result) != wanted.end();
    if (given[node.result.index].defined() && !asked) continue;
    nodes.push_back(id);
    for (ir::ValueId v : node.operands)
      if (!given[v.index].defined()) needed[v.index] = true;
  }
  std::reverse(nodes.begin(), nodes.end());
  return nodes;
}

ir::Tensor hypothesis_bound(const ir::Graph& graph, const GivenValues& given, ir::NodeId id,
                            const PrecisionHypothesis& hypothesis, ThreadPool& pool) {
  std::vector<ir::Tensor> operands;
  for (ir::ValueId v : graph.node(id).operands)
    operands.push_back(given[v.index].defined() ? given[v.index]
                                                : graph.producer(v)->literal->tensor());
  const SumProblem problem = compare::matched(sum_problem(graph, id, operands),
                                              operand_rounding(hypothesis, graph, id), pool);
  const ir::NumericContract contract = contract_of(hypothesis, graph, id);
  if (contract.transform.m != 0)
    return compare::winograd_bound(problem, ir::winograd_matrices(contract.transform.m),
                                   *compare::winograd_settings(contract, problem.group_channels()),
                                   pool)
        .value;
  if (!on_tensor_cores(hypothesis, graph, id)) return compare::any_order_bound(problem, pool).value;
  const ir::MmaSpec& mma = contract.order->mma;
  return compare::tensor_core_chain_bound(problem, *tensor_core(mma), mma.k(), pool).value;
}

std::vector<Expectation> expect(const ir::Graph& graph, const GivenValues& given,
                                const std::vector<ir::ValueId>& wanted,
                                const PrecisionHypothesis& hypothesis, ThreadPool& pool) {
  const Spread spread(graph, hypothesis, pool);
  Walk<Uncertain> walk(graph, given, wanted);
  const std::vector<Uncertain> values =
      walk.run([&](const ir::Tensor& tensor) { return spread.given(tensor); },
               [&](ir::NodeId id, const std::vector<Uncertain>& operands) {
                 return spread.node(id, operands);
               });
  std::vector<Expectation> out;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    Expectation e{values[i].value, spread.variance_or_zero(values[i]), {}, false};
    const ir::NodeId id = *graph.value(wanted[i]).producer;
    const ir::Node& node = graph.node(id);
    e.direct = all_given(graph, given, node) && !hypothesis.storage && !hypothesis.autocast;
    if (e.direct && is_sum_node(node.op)) {
      const Hypothesis h = operand_rounding(hypothesis, graph, id);
      // What a chain of blocks makes is expected as it is, and so is what a transform spreads.
      if (!on_tensor_cores(hypothesis, graph, id) && winograd_of(hypothesis, graph, id) == 0)
        use_exact_value(graph, given, wanted[i], h, pool, e);
      e.bound = hypothesis_bound(graph, given, id, hypothesis, pool);
      // The expected chain is one, the result another.
      if (on_tensor_cores(hypothesis, graph, id))
        for (double& v : e.bound.data_mut<double>()) v *= 2;
    }
    out.push_back(std::move(e));
  }
  return out;
}

std::vector<ir::Tensor> healthy_twin(const ir::Graph& graph, const GivenValues& given,
                                     const std::vector<ir::ValueId>& wanted,
                                     const PrecisionHypothesis& hypothesis,
                                     std::span<const ir::ReductionOrder> orders, ThreadPool& pool) {
  const EvalContext context{pool, 0};
  const std::vector<Hypothesis> types = stored_types(hypothesis, graph);
  auto stored = [&](const ir::Tensor& tensor, Hypothesis type) {
    return tensor.dtype() == ir::DType::kF32 ? rounded(tensor, type, pool) : tensor;
  };
  Walk<ir::Tensor> walk(graph, given, wanted);
  return walk.run(
      [&](const ir::Tensor& tensor) {
        return stored(tensor, hypothesis.storage ? hypothesis.operands : Hypothesis::kF32);
      },
      [&](ir::NodeId id, const std::vector<ir::Tensor>& operands) {
        const ir::Node& node = graph.node(id);
        std::optional<ir::ReductionOrder> chosen;
        for (const ir::ReductionOrder& order : orders)
          if (!chosen && ir::order_fits(node.op, order)) chosen = order;
        const ir::NumericContract contract = contract_of(hypothesis, graph, id, chosen);
        return stored(evaluate(graph, id, operands, contract, context), types[id.index]);
      });
}

}  // namespace driftc::runtime::study
