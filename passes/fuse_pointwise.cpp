#include "passes/fuse_pointwise.h"

#include <algorithm>

#include "passes/kernel_groups.h"
#include "passes/rewrite.h"

namespace driftc::passes {

Result<ir::Graph> fuse_pointwise(const ir::Graph& graph, const PassContext& context) {
  Groups root = single_groups(graph);
  const auto consumers = consumers_of(graph);

  // Consumers first: by the time a producer is looked at, all its readers have their final group.
  for (std::uint32_t i = static_cast<std::uint32_t>(graph.node_count()); i-- > 0;) {
    const ir::Node& node = graph.node({i});
    const auto& readers = consumers[node.result.index];
    if (!is_pointwise_kernel(node, context) || graph.is_output(node.result) || readers.empty())
      continue;
    const std::uint32_t group = root[readers[0].index];
    const ir::Node& into = graph.node({group});
    const bool all_in_group = std::ranges::all_of(
        readers, [&](ir::NodeId reader) { return root[reader.index] == group; });
    if (!all_in_group || !is_pointwise_kernel(into, context)) continue;
    if (graph.value(node.result).type.shape != graph.value(into.result).type.shape) continue;
    if (!uniform_dtype(graph, node) || uniform_dtype(graph, node) != uniform_dtype(graph, into))
      continue;
    if (node.kernel->contract.store != into.kernel->contract.store) continue;
    root[i] = group;
    if (merged_operand_count(graph, root, group) > kMaxOperands) root[i] = i;
  }
  return merge_groups(graph, root, context.options.on("fuse-pointwise.emulate-casts"), context);
}

}  // namespace driftc::passes
