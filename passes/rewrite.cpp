#include "passes/rewrite.h"

#include <algorithm>

namespace driftc::passes {

std::vector<std::vector<ir::NodeId>> consumers_of(const ir::Graph& graph) {
  std::vector<std::vector<ir::NodeId>> consumers(graph.value_count());
  for (std::uint32_t i = 0; i < graph.node_count(); ++i)
    for (ir::ValueId operand : graph.node({i}).operands) {
      auto& list = consumers[operand.index];
      if (list.empty() || list.back().index != i) list.push_back({i});
    }
  return consumers;
}

std::optional<ir::NodeId> only_consumer(const ir::Graph& graph, ir::ValueId value,
                                        const std::vector<std::vector<ir::NodeId>>& consumers) {
  const auto& list = consumers[value.index];
  if (list.size() != 1 || graph.is_output(value)) return std::nullopt;
  return list[0];
}

std::vector<std::string> merge_from(const ir::Graph& source,
                                    std::initializer_list<const std::vector<std::string>*> lists) {
  std::vector<std::pair<std::uint32_t, std::string>> ranked;
  for (const auto* list : lists)
    for (const std::string& name : *list) {
      const auto value = source.find(name);
      ranked.emplace_back(value ? value->index : ~0u, name);
    }
  std::stable_sort(ranked.begin(), ranked.end());
  std::vector<std::string> names;
  for (auto& [rank, name] : ranked)
    if (names.empty() || names.back() != name) names.push_back(std::move(name));
  return names;
}

bool kernel_has_order(const PassContext& context, ir::Algorithm algorithm,
                      const ir::ReductionOrder& order) {
  return ir::supports_order(algorithm, order) &&
         (order.arith != ir::Arith::kMma || algorithm == ir::Algorithm::kInterpreter ||
          order.mma.arch == context.precision.mma_arch);
}

bool stays_eager(const PassContext& context, const std::vector<std::string>& from) {
  return std::any_of(from.begin(), from.end(), [&](const std::string& name) {
    return std::find(context.fallback.begin(), context.fallback.end(), name) !=
           context.fallback.end();
  });
}

std::optional<ir::Tensor> constant_tensor(const ir::Graph& graph, ir::ValueId value) {
  const ir::Node* node = graph.producer(value);
  if (node == nullptr || node->op != ir::Op::kConstant) return std::nullopt;
  return node->literal->tensor();
}

std::string fresh_in_both(const std::string& wanted, const ir::Graph& old, const ir::Graph& made) {
  for (int i = 0;; ++i) {
    std::string name = i == 0 ? wanted : wanted + "." + std::to_string(i);
    if (!old.find(name) && !made.find(name)) return name;
  }
}

ir::Graph without_unused_constants(const ir::Graph& graph) {
  const std::vector<int> uses = graph.use_counts();
  ir::Rewriter rewriter(graph);
  for (std::uint32_t i = 0; i < graph.node_count(); ++i) {
    const ir::Node& node = graph.node({i});
    const bool unused = node.op == ir::Op::kConstant && uses[node.result.index] == 0 &&
                        !graph.is_output(node.result);
    if (!unused) rewriter.copy({i});
  }
  return rewriter.finish();
}

ir::Graph edit_kernels(const ir::Graph& graph,
                       const std::function<bool(const ir::Node&, ir::Kernel&)>& change) {
  ir::Graph result = graph;
  for (std::uint32_t i = 0; i < result.node_count(); ++i) {
    ir::Node& node = result.mutable_node({i});
    if (node.op != ir::Op::kKernel) continue;
    ir::Kernel kernel = *node.kernel;
    if (change(node, kernel)) node.kernel = std::make_shared<const ir::Kernel>(std::move(kernel));
  }
  return result;
}

namespace {

bool same_literal(const ir::Literal* a, const ir::Literal* b) {
  if (a == b) return true;
  if (a == nullptr || b == nullptr) return false;
  return a->origin() == b->origin() && a->type() == b->type() && a->hash() == b->hash();
}

bool same_kernel(const ir::Kernel* a, const ir::Kernel* b) {
  if (a == b) return true;
  if (a == nullptr || b == nullptr) return false;
  return a->algorithm == b->algorithm && a->schedule == b->schedule && a->contract == b->contract &&
         a->reason == b->reason && same_graph(a->body, b->body);
}

}  // namespace

bool same_graph(const ir::Graph& a, const ir::Graph& b) {
  if (a.value_count() != b.value_count() || a.node_count() != b.node_count()) return false;
  if (a.inputs() != b.inputs() || a.outputs() != b.outputs()) return false;
  for (std::uint32_t i = 0; i < a.value_count(); ++i)
    if (a.value({i}).name != b.value({i}).name || a.value({i}).type != b.value({i}).type)
      return false;
  for (std::uint32_t i = 0; i < a.node_count(); ++i) {
    const ir::Node &p = a.node({i}), &q = b.node({i});
    if (p.op != q.op || p.operands != q.operands || p.result != q.result || p.from != q.from ||
        p.attributes != q.attributes || !same_literal(p.literal.get(), q.literal.get()) ||
        !same_kernel(p.kernel.get(), q.kernel.get()))
      return false;
  }
  return true;
}

}  // namespace driftc::passes
