#include "runtime/study/expect.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/compare/bounds.h"
#include "runtime/eager/interpreter.h"
#include "runtime/numeric/exact.h"
#include "runtime/study/spread.h"

namespace driftc::runtime::study {
namespace {

bool rounds(const PrecisionHypothesis& h, ir::OpClass op_class) {
  if (h.operands == Hypothesis::kF32 || h.storage) return false;
  return (op_class == ir::OpClass::conv && h.conv) || (op_class == ir::OpClass::matmul && h.matmul);
}

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

std::string name_of(const PrecisionHypothesis& h) {
  std::string name(runtime::name_of(h.operands));
  if (h.storage) return name + " storage";
  if (h.operands == Hypothesis::kF32 || (h.conv && h.matmul)) return name;
  return name + (h.conv ? " on convolutions" : " on matrix products");
}

std::vector<PrecisionHypothesis> graph_hypotheses(const ir::Graph& graph) {
  bool conv = false, matmul = false;
  for (const ir::Node& node : graph.nodes()) {
    conv = conv || ir::info(node.op).op_class == ir::OpClass::conv;
    matmul = matmul || ir::info(node.op).op_class == ir::OpClass::matmul;
  }
  std::vector<PrecisionHypothesis> out = {{}};
  for (Hypothesis h : {Hypothesis::kTf32Rna, Hypothesis::kTf32Trunc}) {
    if (conv && matmul) out.push_back({h, true, false, false});
    if (conv || matmul) out.push_back({h, true, true, false});
  }
  for (Hypothesis h : {Hypothesis::kF16, Hypothesis::kBf16}) out.push_back({h, true, true, true});
  return out;
}

std::vector<PrecisionHypothesis> node_hypotheses() {
  std::vector<PrecisionHypothesis> out;
  for (Hypothesis h : all_hypotheses()) out.push_back({h, true, true, false});
  return out;
}

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

std::vector<Expectation> expect(const ir::Graph& graph, const GivenValues& given,
                                const std::vector<ir::ValueId>& wanted,
                                const PrecisionHypothesis& hypothesis, ThreadPool& pool) {
  const Spread spread(graph, hypothesis.storage ? hypothesis.operands : Hypothesis::kF32, pool);
  Walk<Uncertain> walk(graph, given, wanted);
  const std::vector<Uncertain> values = walk.run(
      [&](const ir::Tensor& tensor) { return spread.given(tensor); },
      [&](ir::NodeId id, const std::vector<Uncertain>& operands) {
        const ir::OpClass op_class = ir::info(graph.node(id).op).op_class;
        return spread.node(id, operands,
                           rounds(hypothesis, op_class) ? hypothesis.operands : Hypothesis::kF32);
      });
  std::vector<Expectation> out;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    Expectation e{values[i].value, spread.variance_or_zero(values[i]), {}, false};
    const ir::NodeId id = *graph.value(wanted[i]).producer;
    const ir::Node& node = graph.node(id);
    e.direct = all_given(graph, given, node) && !hypothesis.storage;
    if (e.direct && is_sum_node(node.op)) {
      const Hypothesis h =
          rounds(hypothesis, ir::info(node.op).op_class) ? hypothesis.operands : Hypothesis::kF32;
      use_exact_value(graph, given, wanted[i], h, pool, e);
      std::vector<ir::Tensor> operands;
      for (ir::ValueId v : node.operands)
        operands.push_back(given[v.index].defined() ? given[v.index]
                                                    : graph.producer(v)->literal->tensor());
      SumProblem problem = sum_problem(graph, id, operands);
      e.bound = compare::any_order_bound(compare::matched(std::move(problem), h, pool), pool).value;
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
  auto stored = [&](const ir::Tensor& tensor) {
    return hypothesis.storage && tensor.dtype() == ir::DType::kF32
               ? rounded(tensor, hypothesis.operands, pool)
               : tensor;
  };
  Walk<ir::Tensor> walk(graph, given, wanted);
  return walk.run(stored, [&](ir::NodeId id, const std::vector<ir::Tensor>& operands) {
    const ir::Node& node = graph.node(id);
    std::optional<ir::ReductionOrder> chosen;
    for (const ir::ReductionOrder& order : orders)
      if (!chosen && ir::order_fits(node.op, order)) chosen = order;
    ir::NumericContract contract = eager_contract(node, chosen);
    if (rounds(hypothesis, ir::info(node.op).op_class)) {
      switch (hypothesis.operands) {
        case Hypothesis::kF32:
          break;
        case Hypothesis::kTf32Rna:
          contract.in = ir::Precision::kTf32Rna;
          break;
        case Hypothesis::kTf32Trunc:
          contract.in = ir::Precision::kTf32Trunc;
          break;
        case Hypothesis::kBf16:
          contract.in = ir::Precision::kBF16;
          break;
        case Hypothesis::kF16:
          contract.in = ir::Precision::kF16;
          break;
        case Hypothesis::kFtz:
          contract.ftz = true;
          break;
      }
    }
    return stored(evaluate(graph, id, operands, contract, context));
  });
}

}  // namespace driftc::runtime::study
