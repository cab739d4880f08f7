#include "passes/dce.h"

namespace driftc::passes {

Result<ir::Graph> eliminate_dead_nodes(const ir::Graph& graph, const PassContext&) {
  std::vector<bool> needed(graph.value_count());
  for (ir::ValueId output : graph.outputs()) needed[output.index] = true;
  for (std::size_t i = graph.node_count(); i-- > 0;) {
    const ir::Node& node = graph.nodes()[i];
    if (!needed[node.result.index]) continue;
    for (ir::ValueId operand : node.operands) needed[operand.index] = true;
  }
  ir::Rewriter rewriter(graph);
  for (std::uint32_t i = 0; i < graph.node_count(); ++i)
    if (needed[graph.node({i}).result.index]) rewriter.copy({i});
  return rewriter.finish();
}

}  // namespace driftc::passes
