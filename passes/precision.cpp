#include "passes/precision.h"

#include "ir/eager_order.h"
#include "passes/eager_contract.h"
#include "passes/rewrite.h"
#include "passes/tiling.h"

namespace driftc::passes {

Result<ir::Graph> precision(const ir::Graph& graph, const PassContext& context) {
  const ir::PrecisionPlan& plan = context.precision;
  std::vector<ir::Precision> stored(graph.value_count(), ir::Precision::kF32);
  std::size_t at = 0;
  // Kernels come in graph order, so operands are known.
  return edit_kernels(graph, [&](const ir::Node& node, ir::Kernel& kernel) {
    while (graph.nodes()[at].result != node.result) ++at;
    const ir::Node& op = kernel.body.nodes().back();
    const ir::Precision own = ir::planned(plan, op, node.from);
    ir::Precision& result = stored[node.result.index];
    result = ir::stored_precision(kernel.body, op, own, [&](ir::ValueId v) {
      const std::string& name = kernel.body.value(v).name;
      const auto outer = graph.find(name);
      return outer ? stored[outer->index] : ir::Precision::kF32;
    });
    if (ir::has_bias(op) && !bias_is_own(op, context)) result = ir::Precision::kF32;
    const ir::NumericContract before = kernel.contract;
    ir::set_precision(kernel.contract, kernel.body, op, own, plan.mma_arch);
    kernel.contract.store = result;
    if (kernel.contract == before) return false;
    if (kernel.contract.order && !ir::supports_order(kernel.algorithm, *kernel.contract.order))
      kernel.contract.order = before.order;
    if (kernel.algorithm != ir::Algorithm::kInterpreter)
      kernel.schedule = schedule_for(kernel, context.sm_count);
    return true;
  });
}

}  // namespace driftc::passes
