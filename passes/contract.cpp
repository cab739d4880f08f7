#include "passes/contract.h"

#include "passes/rewrite.h"

namespace driftc::passes {
namespace {

bool has_site(const ir::Graph& body) {
  const std::vector<int> uses = body.use_counts();
  for (std::uint32_t i = 0; i < body.node_count(); ++i) {
    const ir::Node& node = body.node({i});
    if (node.op == ir::Op::kBatchNorm) return true;
    if (node.op == ir::Op::kGemm && node.operands.size() == 3 && node.number("beta") != 1)
      return true;
    if (ir::contraction_site(body, {i}, uses, [](ir::NodeId) { return true; })) return true;
  }
  return false;
}

}  // namespace

Result<ir::Graph> contract(const ir::Graph& graph, const PassContext& context) {
  return edit_kernels(graph, [&](const ir::Node& node, ir::Kernel& kernel) {
    if (stays_eager(context, node.from) || !has_site(kernel.body)) return false;
    kernel.contract.contract = true;
    return true;
  });
}

}  // namespace driftc::passes
