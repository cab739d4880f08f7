#include "passes/contract.h"

#include <algorithm>

#include "passes/rewrite.h"

namespace driftc::passes {
namespace {

using Site = std::pair<std::string, std::string>;  // names of the addition and of its product

// The places in `graph` at which nodes for which `in_region` holds would contract, sorted.
std::vector<Site> sites(const ir::Graph& graph, const std::vector<int>& uses,
                        const std::function<bool(ir::NodeId)>& in_region) {
  std::vector<Site> found;
  for (std::uint32_t i = 0; i < graph.node_count(); ++i) {
    if (!in_region({i})) continue;
    const auto side = ir::contraction_site(graph, {i}, uses, in_region);
    if (!side) continue;
    ir::ValueId product = graph.node({i}).operands[static_cast<std::size_t>(*side)];
    while (graph.producer(product)->op == ir::Op::kIdentity)
      product = graph.producer(product)->operands[0];
    found.emplace_back(graph.name_of({i}), graph.value(product).name);
  }
  std::ranges::sort(found);
  return found;
}

// Uses by nodes that some output needs, as replay counts them.
std::vector<int> live_uses(const ir::Graph& graph) {
  std::vector<int> uses(graph.value_count());
  std::vector<bool> live(graph.value_count());
  for (ir::ValueId output : graph.outputs()) live[output.index] = true;
  for (std::size_t i = graph.node_count(); i-- > 0;) {
    const ir::Node& node = graph.nodes()[i];
    if (!live[node.result.index]) continue;
    for (ir::ValueId operand : node.operands) {
      live[operand.index] = true;
      ++uses[operand.index];
    }
  }
  return uses;
}

bool contracts_by_itself(const ir::Node& node) {
  return node.op == ir::Op::kBatchNorm ||
         (node.op == ir::Op::kGemm && node.operands.size() == 3 && node.number("beta") != 1);
}

}  // namespace

Result<ir::Graph> contract(const ir::Graph& graph, const PassContext& context) {
  const ir::Graph& source = *context.source;
  const std::vector<int> source_uses = live_uses(source);
  return edit_kernels(graph, [&](const ir::Node& node, ir::Kernel& kernel) {
    if (stays_eager(context, node.from)) return false;
    const auto here = sites(kernel.body, kernel.body.use_counts(), [](ir::NodeId) { return true; });
    if (here.empty() && std::ranges::none_of(kernel.body.nodes(), contracts_by_itself))
      return false;
    const auto in_source = sites(source, source_uses, [&](ir::NodeId id) {
      return std::ranges::find(node.from, source.name_of(id)) != node.from.end();
    });
    if (here != in_source) return false;
    kernel.contract.contract = true;
    return true;
  });
}

}  // namespace driftc::passes
