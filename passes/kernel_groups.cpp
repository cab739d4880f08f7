#include "passes/kernel_groups.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "passes/rewrite.h"

namespace driftc::passes {
namespace {

ir::Precision precision_of(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::kF16:
      return ir::Precision::kF16;
    case ir::DType::kBF16:
      return ir::Precision::kBF16;
    case ir::DType::kF64:
      return ir::Precision::kF64;
    case ir::DType::kF32:
    case ir::DType::kI64:
      break;
  }
  return ir::Precision::kF32;
}

// Appends the nodes of `part` to `body`, its inputs first where they are new.
void append(ir::Graph& body, const ir::Graph& part) {
  for (const ir::Node& node : part.nodes()) {
    ir::Node inner = node;
    for (ir::ValueId& operand : inner.operands) operand = *body.find(part.value(operand).name);
    body.add_node(std::move(inner), part.value(node.result).name, part.value(node.result).type);
  }
}

ir::Node merge(const ir::Graph& graph, const std::vector<std::uint32_t>& members,
               bool emulate_casts, const PassContext& context) {
  const ir::Node& root = graph.node({members.back()});
  ir::Node merged = root;
  merged.operands.clear();
  ir::Kernel kernel = *root.kernel;
  std::set<std::string> internal;
  for (std::uint32_t member : members) internal.insert(graph.name_of({member}));

  kernel.body = ir::Graph(root.kernel->body.name());
  for (std::uint32_t member : members)
    for (ir::ValueId operand : graph.node({member}).operands) {
      const ir::Value& value = graph.value(operand);
      if (internal.contains(value.name) || kernel.body.find(value.name)) continue;
      kernel.body.add_input(value.name, value.type);
      merged.operands.push_back(operand);
    }
  merged.from.clear();
  for (std::uint32_t member : members) {
    const ir::Node& node = graph.node({member});
    append(kernel.body, node.kernel->body);
    merged.from = merge_from(*context.source, {&merged.from, &node.from});
    if (ir::reduction_node(node.kernel->body) != nullptr) {
      kernel.algorithm = node.kernel->algorithm;
      kernel.schedule = node.kernel->schedule;
      kernel.contract = node.kernel->contract;
      kernel.reason = node.kernel->reason;
    }
  }
  kernel.body.set_outputs({*kernel.body.find(graph.value(root.result).name)});
  const ir::DType dtype = graph.value(root.result).type.dtype;
  kernel.contract.store = root.kernel->contract.store;
  if (emulate_casts) {
    const ir::Precision store = kernel.contract.store;
    kernel.contract.inner = store == ir::Precision::kF32 ? precision_of(dtype) : store;
  }
  merged.kernel = std::make_shared<const ir::Kernel>(std::move(kernel));
  return merged;
}

}  // namespace

Groups single_groups(const ir::Graph& graph) {
  Groups root(graph.node_count());
  std::iota(root.begin(), root.end(), 0u);
  return root;
}

ir::Graph merge_groups(const ir::Graph& graph, const Groups& root, bool emulate_casts,
                       const PassContext& context) {
  std::vector<std::vector<std::uint32_t>> members(graph.node_count());
  for (std::uint32_t i = 0; i < root.size(); ++i) members[root[i]].push_back(i);
  ir::Rewriter rewriter(graph);
  for (std::uint32_t i = 0; i < graph.node_count(); ++i) {
    if (root[i] != i) continue;
    if (members[i].size() == 1) {
      rewriter.copy({i});
      continue;
    }
    ir::Node merged = merge(graph, members[i], emulate_casts, context);
    for (ir::ValueId& operand : merged.operands) operand = rewriter.mapped(operand);
    const ir::Value& result = graph.value(graph.node({i}).result);
    const ir::NodeId id = rewriter.graph().add_node(std::move(merged), result.name, result.type);
    rewriter.replace(graph.node({i}).result, rewriter.graph().node(id).result);
  }
  return rewriter.finish();
}

bool is_pointwise_kernel(const ir::Node& node, const PassContext& context) {
  return node.op == ir::Op::kKernel && node.kernel->algorithm == ir::Algorithm::kElementwise &&
         !stays_eager(context, node.from);
}

std::optional<ir::DType> uniform_dtype(const ir::Graph& graph, const ir::Node& node) {
  const ir::DType dtype = graph.value(node.result).type.dtype;
  for (ir::ValueId operand : node.operands)
    if (graph.value(operand).type.dtype != dtype) return std::nullopt;
  return dtype;
}

std::size_t merged_operand_count(const ir::Graph& graph, const Groups& root, std::uint32_t group) {
  std::set<std::uint32_t> read, made;
  for (std::uint32_t i = 0; i < root.size(); ++i) {
    if (root[i] != group) continue;
    made.insert(graph.node({i}).result.index);
    for (ir::ValueId operand : graph.node({i}).operands) read.insert(operand.index);
  }
  return static_cast<std::size_t>(
      std::ranges::count_if(read, [&](std::uint32_t v) { return !made.contains(v); }));
}

}  // namespace driftc::passes
