#include "passes/conv1x1_as_matmul.h"

#include <algorithm>

#include "passes/rewrite.h"

namespace driftc::passes {
namespace {

bool is_plain_1x1(const ir::Graph& graph, const ir::Node& node) {
  if (node.op != ir::Op::kConv2d || node.integer("groups") != 1) return false;
  const ir::Shape& weights = graph.value(node.operands[1]).type.shape;
  if (weights[2] != 1 || weights[3] != 1) return false;
  const auto all = [&](std::string_view name, std::int64_t wanted) {
    return std::ranges::all_of(node.ints(name), [&](std::int64_t v) { return v == wanted; });
  };
  return all("stride", 1) && all("pad", 0) && all("dilation", 1);
}

// Zero leaves per channel tile have no counterpart in the matmul's single run over k.
bool order_has_matmul_form(const PassContext& context) {
  const auto& order = context.eager_order;
  return !order || order->walk != ir::Walk::kTiledCrs || order->kpad == 0 ||
         order->channel_tile % order->kpad == 0;
}

}  // namespace

Result<ir::Graph> conv1x1_as_matmul(const ir::Graph& graph, const PassContext& context) {
  ir::Graph result = graph;
  if (!order_has_matmul_form(context)) return result;
  for (std::uint32_t i = 0; i < graph.node_count(); ++i) {
    const ir::Node& node = graph.node({i});
    if (!is_plain_1x1(graph, node) || stays_eager(context, node.from)) continue;
    ir::Node& made = result.mutable_node({i});
    made.op = ir::Op::kConv1x1Matmul;
    made.attributes = {node.word("fold")};
  }
  return result;
}

}  // namespace driftc::passes
