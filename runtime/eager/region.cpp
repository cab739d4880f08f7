#include "runtime/eager/region.h"

#include <algorithm>

#include "ir/kernel.h"
#include "runtime/eager/fold.h"
#include "runtime/eager/ops.h"

namespace driftc::runtime {
namespace {

// Uses by nodes whose result some output needs: a use by dead code does not keep a mul from
// contracting, because the pass pipeline has removed the dead code.
std::vector<int> live_uses(const ir::Graph& graph) {
  std::vector<bool> live(graph.value_count());
  for (ir::ValueId output : graph.outputs()) live[output.index] = true;
  std::vector<int> uses(graph.value_count());
  for (std::size_t i = graph.node_count(); i-- > 0;) {
    const ir::Node& node = graph.node({static_cast<std::uint32_t>(i)});
    if (!live[node.result.index]) continue;
    for (ir::ValueId operand : node.operands) {
      live[operand.index] = true;
      ++uses[operand.index];
    }
  }
  return uses;
}

bool is_floating(ir::DType dtype) { return dtype != ir::DType::kI64; }

// The result of a node as the contract stores it.
ir::Tensor stored(ir::Tensor tensor, ir::Precision store, const EvalContext& context) {
  if (store == ir::Precision::kF32 || tensor.dtype() != ir::DType::kF32) return tensor;
  return rounded_to(tensor, store, context.pool);
}

}  // namespace

struct Evaluator::Plan {
  enum class Kind : std::uint8_t { kNode, kFused, kFolded } kind = Kind::kNode;
  std::vector<ir::ValueId> operands;
  FusedForm form = FusedForm::kPlus;
  ir::NodeId
      conv;  // kFolded: the convolution; its operands come first, then scale, shift, mean, var
};

std::vector<Recipe> eager_recipes(const ir::Graph& graph,
                                  const std::optional<ir::ReductionOrder>& wanted) {
  std::vector<Recipe> recipes;
  for (const ir::Node& node : graph.nodes())
    recipes.push_back({eager_contract(node, wanted), static_cast<int>(recipes.size())});
  return recipes;
}

Evaluator::Evaluator(const ir::Graph& graph, std::vector<Recipe> recipes,
                     const EvalContext& context, ir::DType arm)
    : graph_(graph),
      recipes_(std::move(recipes)),
      context_(context),
      arm_(arm),
      uses_(live_uses(graph)),
      known_(graph.value_count()) {
  DRIFTC_ASSERT(recipes_.size() == graph.node_count(), "one recipe per node");
}

ir::Tensor Evaluator::in_arm(const ir::Tensor& tensor) const {
  return is_floating(tensor.dtype()) ? tensor.converted(arm_) : tensor;
}

void Evaluator::know(ir::ValueId value, ir::Tensor tensor) { known_[value.index] = in_arm(tensor); }

Evaluator::Plan Evaluator::plan(ir::NodeId id) const {
  const ir::Node& node = graph_.node(id);
  const Recipe& recipe = recipes_[id.index];
  const auto same_region = [&](ir::NodeId other) {
    return recipes_[other.index].region == recipe.region;
  };
  Plan plan;
  // The node of the same region that makes `value`, looking through identities.
  const auto producer = [&](ir::ValueId value) -> std::optional<ir::NodeId> {
    while (true) {
      const auto& from = graph_.value(value).producer;
      if (!from || !same_region(*from)) return std::nullopt;
      if (graph_.node(*from).op != ir::Op::kIdentity) return from;
      value = graph_.node(*from).operands[0];
    }
  };
  if (recipe.contract.contract) {
    if (const auto site = ir::contraction_site(graph_, id, uses_, same_region)) {
      const auto position = static_cast<std::size_t>(*site);
      const ir::Node& mul = graph_.node(*producer(node.operands[position]));
      plan.kind = Plan::Kind::kFused;
      plan.operands = {mul.operands[0], mul.operands[1], node.operands[1 - position]};
      if (node.op == ir::Op::kSub)
        plan.form = position == 0 ? FusedForm::kMinus : FusedForm::kReversed;
      return plan;
    }
  }
  if (recipe.contract.fold != ir::Fold::kNone && node.op == ir::Op::kBatchNorm) {
    const auto conv = producer(node.operands[0]);
    // In a rewritten graph the convolution may carry an earlier batch_norm already; it takes no
    // second one.
    if (conv &&
        (graph_.node(*conv).op == ir::Op::kConv2d ||
         graph_.node(*conv).op == ir::Op::kConv1x1Matmul) &&
        graph_.node(*conv).word("fold") == "none") {
      plan.kind = Plan::Kind::kFolded;
      plan.conv = *conv;
      plan.operands = graph_.node(*conv).operands;
      plan.operands.insert(plan.operands.end(), node.operands.begin() + 1, node.operands.end());
      return plan;
    }
  }
  plan.operands = node.operands;
  return plan;
}

ir::Tensor Evaluator::run(ir::NodeId id, const Plan& plan,
                          std::span<const ir::Tensor> operands) const {
  return stored(computed(id, plan, operands), recipes_[id.index].contract.store, context_);
}

ir::Tensor Evaluator::computed(ir::NodeId id, const Plan& plan,
                               std::span<const ir::Tensor> operands) const {
  const ir::Node& node = graph_.node(id);
  const ir::NumericContract& contract = recipes_[id.index].contract;
  switch (plan.kind) {
    case Plan::Kind::kFused:
      return fused_multiply_add(plan.form, operands[0], operands[1], operands[2],
                                graph_.value(node.result).type.shape, contract.ftz, context_);
    case Plan::Kind::kFolded: {
      const std::size_t own = operands.size() - 4;  // x, w and perhaps the convolution's bias
      const auto bn = operands.subspan(own);
      const FoldedConv folded =
          fold_batch_norm(contract.fold, operands[1], own == 3 ? operands[2] : ir::Tensor(), bn[0],
                          bn[1], bn[2], bn[3], node.number("epsilon"));
      const std::array<ir::Tensor, 3> conv_operands = {operands[0], folded.weight, folded.bias};
      return evaluate_conv({graph_, graph_.node(plan.conv), conv_operands, contract, context_});
    }
    case Plan::Kind::kNode:
      break;
  }
  if (node.op == ir::Op::kConstant) return in_arm(node.literal->tensor());
  if (NodeRunner* runner = recipes_[id.index].runner) return runner->run(id, operands);
  return evaluate(graph_, id, operands, contract, context_);
}

std::vector<ir::NodeId> Evaluator::cone(ir::ValueId value,
                                        const std::function<bool(ir::ValueId)>& is_known,
                                        std::vector<ir::ValueId>* reads) const {
  std::vector<ir::NodeId> nodes;
  std::vector<bool> seen(graph_.value_count());
  std::vector<ir::ValueId> open = {value};
  seen[value.index] = true;
  while (!open.empty()) {
    const ir::ValueId v = open.back();
    open.pop_back();
    const auto& producer = graph_.value(v).producer;
    if (!(v == value && producer) && is_known(v)) {
      if (reads != nullptr) reads->push_back(v);
      continue;
    }
    DRIFTC_ASSERT(producer.has_value(), "evaluation needs a graph input that is not known");
    nodes.push_back(*producer);
    for (ir::ValueId operand : plan(*producer).operands) {
      if (seen[operand.index]) continue;
      seen[operand.index] = true;
      open.push_back(operand);
    }
  }
  std::sort(nodes.begin(), nodes.end(),
            [](ir::NodeId a, ir::NodeId b) { return a.index < b.index; });
  return nodes;
}

std::vector<ir::ValueId> Evaluator::reads(ir::ValueId value,
                                          const std::function<bool(ir::ValueId)>& is_known) const {
  std::vector<ir::ValueId> out;
  cone(value, is_known, &out);
  return out;
}

ir::Tensor Evaluator::value(ir::ValueId wanted) const {
  const auto is_known = [&](ir::ValueId v) { return knows(v); };
  const std::vector<ir::NodeId> nodes = cone(wanted, is_known, nullptr);
  if (nodes.empty()) return known_[wanted.index];  // a known graph input
  std::vector<Plan> plans;
  std::vector<int> uses(graph_.value_count());
  for (ir::NodeId id : nodes) {
    plans.push_back(plan(id));
    for (ir::ValueId operand : plans.back().operands) ++uses[operand.index];
  }
  std::vector<ir::Tensor> made(graph_.value_count());
  const auto operand = [&](ir::ValueId v) -> const ir::Tensor& {
    return made[v.index].defined() ? made[v.index] : known_[v.index];
  };
  // Constants are made when first used, so that a graph's weights are not all held (converted) at
  // once.
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const ir::Node& node = graph_.node(nodes[i]);
    if (node.op == ir::Op::kConstant && !(node.result == wanted)) continue;
    std::vector<ir::Tensor> operands;
    for (ir::ValueId v : plans[i].operands) {
      if (!made[v.index].defined() && !knows(v) && graph_.is_constant(v))
        made[v.index] = in_arm(graph_.producer(v)->literal->tensor());
      operands.push_back(operand(v));
    }
    ir::Tensor result = run(nodes[i], plans[i], operands);
    operands.clear();
    for (ir::ValueId v : plans[i].operands)
      if (--uses[v.index] == 0) made[v.index] = {};
    if (node.result == wanted) return result;
    made[node.result.index] = std::move(result);
  }
  DRIFTC_ASSERT(false, "the cone of a value ends with its node");
}

void run_values(Evaluator& evaluator, std::span<const ir::Tensor> inputs,
                std::span<const ir::ValueId> wanted, const ValueVisitor& visit) {
  const ir::Graph& graph = evaluator.graph();
  DRIFTC_ASSERT(inputs.size() == graph.inputs().size(), "one tensor per graph input");
  for (std::size_t i = 0; i < inputs.size(); ++i) evaluator.know(graph.inputs()[i], inputs[i]);
  // Index of the last wanted value that reads each value.
  std::vector<std::size_t> last(graph.value_count(), 0);
  std::vector<bool> will_know(graph.value_count());
  for (ir::ValueId input : graph.inputs()) will_know[input.index] = true;
  std::vector<std::vector<ir::ValueId>> reads;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    reads.push_back(
        evaluator.reads(wanted[i], [&](ir::ValueId v) { return bool{will_know[v.index]}; }));
    for (ir::ValueId v : reads.back()) last[v.index] = i;
    last[wanted[i].index] = std::max(last[wanted[i].index], i);
    will_know[wanted[i].index] = true;
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    evaluator.know(wanted[i], evaluator.value(wanted[i]));
    visit(wanted[i], evaluator.known(wanted[i]));
    if (last[wanted[i].index] == i) evaluator.forget(wanted[i]);
    for (ir::ValueId v : reads[i])
      if (last[v.index] == i) evaluator.forget(v);
  }
}

std::vector<ir::ValueId> all_results(const ir::Graph& graph) {
  std::vector<ir::ValueId> out;
  for (const ir::Node& node : graph.nodes())
    if (node.op != ir::Op::kConstant) out.push_back(node.result);
  return out;
}

ir::Tensor evaluate_kernel(const ir::Node& node, std::span<const ir::Tensor> operands,
                           const EvalContext& context) {
  const ir::Graph& body = node.kernel->body;
  const ir::DType arm = !operands.empty() && operands[0].dtype() == ir::DType::kF64
                            ? ir::DType::kF64
                            : ir::DType::kF32;
  std::vector<Recipe> recipes(body.node_count(), {node.kernel->contract, 0});
  for (std::size_t i = 0; i < recipes.size(); ++i)
    if (body.nodes()[i].result != body.outputs()[0])
      recipes[i].contract.store = node.kernel->contract.inner;
  Evaluator evaluator(body, std::move(recipes), context, arm);
  DRIFTC_ASSERT(operands.size() == body.inputs().size(), "a kernel's inputs are its operands");
  for (std::size_t i = 0; i < operands.size(); ++i) evaluator.know(body.inputs()[i], operands[i]);
  return evaluator.value(body.outputs()[0]);
}

}  // namespace driftc::runtime
