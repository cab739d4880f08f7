#include "passes/layout_channels_last.h"

#include <algorithm>

#include "passes/rewrite.h"

namespace driftc::passes {
namespace {

constexpr std::size_t kMaxNodesPerConv = 300;

double measured_factor(const ir::Graph& graph, const ir::Node& conv) {
  const ir::Shape& w = graph.value(conv.operands[1]).type.shape;  // [K, C/groups, R, S]
  const std::int64_t in = w[1] * conv.integer("groups"), out = w[0];
  if (conv.integer("groups") > 1 && w[1] > 1) return 1.358;
  if (in <= 64 && out <= 64) return 0.783;
  if (out * 2 <= in && w[2] * w[3] > 1) return 0.725;
  return 0.823;
}

bool worthwhile(const ir::Graph& graph) {
  std::size_t convs = 0, nodes = 0;
  double plain = 0, weighted = 0;
  for (const ir::Node& node : graph.nodes()) {
    if (node.op == ir::Op::kConstant) continue;
    ++nodes;
    if (node.op != ir::Op::kConv2d) continue;
    ++convs;
    const auto products = static_cast<double>(graph.value(node.result).type.shape.elements()) *
                          static_cast<double>(ir::reduction_extent(graph, node).positions());
    plain += products;
    weighted += products * measured_factor(graph, node);
  }
  return convs > 0 && nodes < kMaxNodesPerConv * convs && weighted <= plain;
}

// Whether the op keeps positions, so that its result may stay stored as its operand is.
bool keeps_positions(const ir::Node& node) {
  switch (ir::info(node.op).op_class) {
    case ir::OpClass::elementwise:
    case ir::OpClass::pool:
      return true;
    case ir::OpClass::data:
      return node.op == ir::Op::kConcat || node.op == ir::Op::kSlice || node.op == ir::Op::kPad ||
             node.op == ir::Op::kResize || node.op == ir::Op::kIdentity;
    default:
      return false;
  }
}

}  // namespace

Result<ir::Graph> layout_channels_last(const ir::Graph& graph, const PassContext& context) {
  if (!context.options.on("layout-channels-last.force") && !worthwhile(graph)) return graph;
  ir::Graph result = graph;
  for (const ir::Node& node : graph.nodes()) {
    const ir::Shape& shape = graph.value(node.result).type.shape;
    if (shape.rank() != 4 || stays_eager(context, node.from)) continue;
    const bool follows =
        keeps_positions(node) && std::ranges::any_of(node.operands, [&](ir::ValueId operand) {
          return result.value(operand).type.layout == ir::Layout::kNhwc;
        });
    if (node.op == ir::Op::kConv2d || follows) result.set_layout(node.result, ir::Layout::kNhwc);
  }
  return result;
}

}  // namespace driftc::passes
