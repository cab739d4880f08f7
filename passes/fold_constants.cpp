#include "passes/fold_constants.h"

#include <algorithm>

#include "passes/rewrite.h"

namespace driftc::passes {
namespace {

constexpr std::int64_t kMaxElements = std::int64_t{1} << 24;

bool foldable(const ir::Graph& graph, const ir::Node& node, const PassContext& context) {
  if (node.op == ir::Op::kConstant || node.op == ir::Op::kKernel || node.operands.empty())
    return false;
  if (graph.is_output(node.result) || stays_eager(context, node.from)) return false;
  return graph.value(node.result).type.shape.elements() <= kMaxElements;
}

}  // namespace

Result<ir::Graph> fold_constants(const ir::Graph& graph, const PassContext& context) {
  if (!context.evaluate) return graph;
  ir::Rewriter rewriter(graph);
  for (std::uint32_t i = 0; i < graph.node_count(); ++i) {
    const ir::Node& node = graph.node({i});
    const ir::NodeId copy = rewriter.copy({i});
    if (!foldable(graph, node, context)) continue;
    // Read from the new graph, where operands may just have become constants.
    std::vector<ir::Tensor> operands;
    for (ir::ValueId operand : rewriter.graph().node(copy).operands)
      if (auto tensor = constant_tensor(rewriter.graph(), operand))
        operands.push_back(std::move(*tensor));
    if (operands.size() != node.operands.size()) continue;
    DRIFTC_TRY(value, context.evaluate(graph, {i}, operands));
    ir::Node& made = rewriter.graph().mutable_node(copy);
    made.op = ir::Op::kConstant;
    made.operands.clear();
    made.attributes.clear();
    made.literal = std::make_shared<const ir::Literal>(ir::Literal::dense(std::move(value)));
  }
  return without_unused_constants(rewriter.finish());
}

}  // namespace driftc::passes
