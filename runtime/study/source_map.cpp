#include "runtime/study/source_map.h"

#include <algorithm>

#include "ir/eager_order.h"

namespace driftc::runtime::study {
namespace {

bool is_conv(const ir::Node& node) { return node.op == ir::Op::kConv2d; }

class BoundaryWalk {
 public:
  BoundaryWalk(const ir::Graph& source, const std::vector<bool>& stops)
      : source_(source), stops_(stops), seen_(source.value_count()) {}

  std::vector<ir::ValueId> run(ir::ValueId value) {
    std::vector<ir::ValueId> stack{value};
    std::vector<ir::ValueId> found, visited;
    while (!stack.empty()) {
      const ir::ValueId at = stack.back();
      stack.pop_back();
      const ir::Node* producer = source_.producer(at);
      if (producer == nullptr) continue;
      for (ir::ValueId operand : producer->operands) {
        if (seen_[operand.index]) continue;
        seen_[operand.index] = true;
        visited.push_back(operand);
        if (stops_[operand.index]) {
          found.push_back(operand);
        } else {
          stack.push_back(operand);
        }
      }
    }
    for (ir::ValueId v : visited) seen_[v.index] = false;
    std::sort(found.begin(), found.end(),
              [](ir::ValueId a, ir::ValueId b) { return a.index < b.index; });
    return found;
  }

 private:
  const ir::Graph& source_;
  const std::vector<bool>& stops_;  // by value: graph inputs and materialised values
  std::vector<bool> seen_;
};

// A folded batch_norm carries the convolution's order in the compiled arm; for counterfactuals its
// eager side needs one to go back to: that of the convolution. Evaluated unfolded, a batch_norm
// ignores it.
void give_folded_norms_an_order(const ir::Graph& source, const ir::Node& node,
                                const ir::NumericContract& contract, SourceMap& map) {
  if (contract.fold == ir::Fold::kNone) return;
  std::optional<ir::ReductionOrder> order;
  for (int round = 0; round < 2; ++round)
    for (const std::string& name : node.from) {
      const ir::NodeId id = *source.value(*source.find(name)).producer;
      std::optional<ir::ReductionOrder>& own = map.eager_recipes[id.index].contract.order;
      if (round == 0 && is_conv(source.node(id))) order = own;
      if (round == 1 && source.node(id).op == ir::Op::kBatchNorm) own = order;
    }
}

}  // namespace

ir::NumericContract stage_contract(const ir::Node& node) {
  if (node.op == ir::Op::kKernel) return node.kernel->contract;
  ir::NumericContract contract;
  contract.order = ir::eager_order(node);
  contract.fold = ir::fold_of(node);
  return contract;
}

std::vector<ir::NumericContract> eager_contracts(
    const ir::Graph& source, const std::optional<ir::ReductionOrder>& chosen,
    const ir::PrecisionPlan& plan, const std::map<std::string, ir::NumericContract>& given) {
  std::vector<ir::NumericContract> contracts(source.node_count());
  const std::vector<ir::Precision> stored = ir::stored_precisions(source, plan);
  for (std::size_t i = 0; i < contracts.size(); ++i) {
    const ir::Node& node = source.nodes()[i];
    const std::string name = source.value(node.result).name;
    if (const auto own = given.find(name); own != given.end()) {
      contracts[i] = own->second;
      continue;
    }
    contracts[i] = eager_contract(node, chosen);
    ir::set_precision(contracts[i], source, node, ir::planned(plan, node, std::span(&name, 1)),
                      plan.mma_arch);
    contracts[i].store = stored[i];
  }
  return contracts;
}

ir::NumericContract contract_for(const ir::Graph& source, const ir::Node& node,
                                 const ir::NumericContract& kernel,
                                 const ir::NumericContract& eager) {
  (void)source;
  ir::NumericContract contract = kernel;
  // A folded batch_norm is computed as the convolution itself, so the order is its own too.
  const bool folded = node.op == ir::Op::kBatchNorm && kernel.fold != ir::Fold::kNone;
  if (folded && kernel.order) {
    if (contract.order->walk == ir::Walk::kK) contract.order->walk = ir::Walk::kCrs;
    return contract;
  }
  if (!is_conv(node)) contract.transform = {};
  if (!eager.order) {
    contract.order.reset();
    return contract;
  }
  if (!kernel.order) {
    contract.order = eager.order;
    return contract;
  }
  if (is_conv(node) && contract.order->walk == ir::Walk::kK) contract.order->walk = ir::Walk::kCrs;
  if (!ir::order_fits(node.op, *contract.order)) contract.order = eager.order;
  // A bias that canonicalize took from a following add is still that add in the source.
  if (!ir::has_bias(node) && kernel.fold == ir::Fold::kNone)
    contract.order->bias = eager.order->bias;
  return contract;
}

SourceMap map_to_source(const ir::Graph& source, const ir::Graph& compiled,
                        std::span<const ir::NumericContract> eager) {
  SourceMap map;
  map.covered_by.resize(source.node_count());
  map.last_use.resize(source.value_count());
  for (std::size_t i = 0; i < source.node_count(); ++i) {
    // Regions: a node alone is its own; kernel i of the compiled graph is node_count + i.
    map.eager_recipes.push_back({eager[i], static_cast<int>(i)});
    map.compiled_recipes.push_back({eager[i], static_cast<int>(i)});
  }
  std::vector<bool> stops(source.value_count());
  for (ir::ValueId input : source.inputs()) stops[input.index] = true;

  for (std::size_t i = 0; i < compiled.node_count(); ++i) {
    const ir::NodeId id{static_cast<std::uint32_t>(i)};
    const ir::Node& node = compiled.node(id);
    if (node.op == ir::Op::kConstant) continue;
    const ir::NumericContract contract = stage_contract(node);
    for (const std::string& name : node.from) {
      const auto value = source.find(name);
      if (!value || !source.value(*value).producer) continue;
      const ir::NodeId covered = *source.value(*value).producer;
      map.covered_by[covered.index] = id;
      Recipe& recipe = map.compiled_recipes[covered.index];
      recipe = {contract_for(source, source.node(covered), contract, eager[covered.index]),
                static_cast<int>(source.node_count() + i)};
      // What stays inside the kernel is not stored.
      if (name != compiled.value(node.result).name) recipe.contract.store = contract.inner;
    }
    give_folded_norms_an_order(source, node, contract, map);
    const auto value = source.find(compiled.value(node.result).name);
    if (!value || !source.value(*value).producer || source.is_constant(*value)) continue;
    map.values.push_back({*value, id, {}});
    stops[value->index] = true;
  }
  map.covers.resize(compiled.node_count());
  for (std::size_t i = 0; i < source.node_count(); ++i)
    if (map.covered_by[i])
      map.covers[map.covered_by[i]->index].push_back({static_cast<std::uint32_t>(i)});
  BoundaryWalk walk(source, stops);
  for (std::size_t i = 0; i < map.values.size(); ++i) {
    Materialised& m = map.values[i];
    m.boundary = walk.run(m.source);
    map.last_use[m.source.index] = i;
    for (ir::ValueId v : m.boundary) map.last_use[v.index] = i;
  }
  return map;
}

}  // namespace driftc::runtime::study
