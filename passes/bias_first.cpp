#include "passes/bias_first.h"

#include "passes/eager_contract.h"
#include "passes/rewrite.h"

namespace driftc::passes {
namespace {

bool starts_with_bias(const ir::Graph& body, const ir::Node& node) {
  if (node.op != ir::Op::kGemm) return true;
  const ir::Shape& bias = body.value(node.operands[2]).type.shape;
  const bool per_column = bias.rank() == 1 || (bias.rank() == 2 && bias[0] == 1);
  return node.number("alpha") == 1 && node.number("beta") == 1 && per_column &&
         bias[bias.rank() - 1] == body.value(node.result).type.shape[1];
}

}  // namespace

bool can_start_with_bias(const ir::Kernel& kernel, const PassContext& context) {
  const ir::Node* reduction = ir::reduction_node(kernel.body);
  if (reduction == nullptr || !bias_is_own(*reduction, context) ||
      !starts_with_bias(kernel.body, *reduction))
    return false;
  ir::ReductionOrder order = *kernel.contract.order;
  order.bias = ir::BiasPoint::kFirst;
  return ir::supports_order(kernel.algorithm, order);
}

Result<ir::Graph> bias_first(const ir::Graph& graph, const PassContext& context) {
  return edit_kernels(graph, [&](const ir::Node& node, ir::Kernel& kernel) {
    const ir::Node* reduction = ir::reduction_node(kernel.body);
    if (reduction == nullptr || stays_eager(context, node.from)) return false;
    if (!can_start_with_bias(kernel, context)) return false;
    if (context.options.get("bias-first.when") == "tuned") {
      const KernelChoice* choice = choice_for(context.tuned, kernel);
      if (choice == nullptr || !choice->bias_first) return false;
    }
    kernel.contract.order->bias = ir::BiasPoint::kFirst;
    return true;
  });
}

}  // namespace driftc::passes
