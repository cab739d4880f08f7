#include "passes/match_order.h"

#include "passes/eager_contract.h"
#include "passes/rewrite.h"
#include "passes/tiling.h"

namespace driftc::passes {
namespace {

// The emitters that can compute the op, the kernel's own first.
std::vector<ir::Algorithm> algorithms_for(const ir::Kernel& kernel, ir::Op op) {
  std::vector<ir::Algorithm> list;
  // A transform has no order of eager's.
  if (ir::winograd_tile(kernel.algorithm) == 0) list.push_back(kernel.algorithm);
  if (op == ir::Op::kConv2d)
    for (ir::Algorithm a : {ir::Algorithm::kImplicitGemm, ir::Algorithm::kDirect})
      if (a != kernel.algorithm) list.push_back(a);
  return list;
}

}  // namespace

ir::NumericContract eager_contract_of_kernel(const ir::Kernel& kernel, const PassContext& context) {
  const ir::Node* node = ir::reduction_node(kernel.body);
  if (node == nullptr) node = &kernel.body.nodes().back();
  ir::NumericContract contract = eager_contract(kernel.body, *node, context);
  contract.inner = kernel.contract.inner;
  const ir::PrecisionPlan& plan = context.eager_precision;
  if (plan.plain()) return contract;
  const ir::Graph& source = *context.source;
  const auto stored = ir::stored_precisions(source, plan);
  const auto id_of = [&](const std::string& value) -> std::optional<ir::NodeId> {
    const auto found = source.find(value);
    return found ? source.value(*found).producer : std::nullopt;
  };
  // The source node whose sum this is, and the one whose value the kernel stores.
  for (const std::string& name : node->from)
    if (const auto id = id_of(name); id && ir::info(source.node(*id).op).default_order) {
      ir::set_precision(contract, source, source.node(*id),
                        ir::planned(plan, source.node(*id), std::span(&name, 1)), plan.mma_arch);
      break;
    }
  if (const auto id = id_of(kernel.body.value(kernel.body.outputs()[0]).name))
    contract.store = stored[id->index];
  return contract;
}

Result<ir::Graph> match_order(const ir::Graph& graph, const PassContext& context) {
  return edit_kernels(graph, [&](const ir::Node&, ir::Kernel& kernel) {
    if (kernel.algorithm == ir::Algorithm::kInterpreter) return false;
    kernel.reason.clear();
    const std::optional<ir::ReductionOrder> before = kernel.contract.order;
    kernel.contract = eager_contract_of_kernel(kernel, context);
    if (!kernel.contract.order) return true;
    for (ir::Algorithm algorithm : algorithms_for(kernel, ir::reduction_node(kernel.body)->op)) {
      if (!kernel_has_order(context, algorithm, *kernel.contract.order)) continue;
      // Tiles are laid out for a walk; another order keeps them only along the same one.
      const bool keeps =
          algorithm == kernel.algorithm && before->walk == kernel.contract.order->walk;
      kernel.algorithm = algorithm;
      if (!keeps) kernel.schedule = schedule_for(kernel, context.sm_count);
      return true;
    }
    kernel.algorithm = ir::Algorithm::kInterpreter;
    kernel.schedule = {};
    kernel.reason = "no kernel has order " + ir::to_string(*kernel.contract.order);
    return true;
  });
}

}  // namespace driftc::passes
