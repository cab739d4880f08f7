#include "passes/fuse_epilogue.h"

#include <algorithm>

#include "ir/functions.h"
#include "passes/kernel_groups.h"
#include "passes/rewrite.h"

namespace driftc::passes {
namespace {

bool has_epilogue(const ir::Node& node, const PassContext& context) {
  if (node.op != ir::Op::kKernel || stays_eager(context, node.from)) return false;
  const ir::Algorithm a = node.kernel->algorithm;
  return a == ir::Algorithm::kImplicitGemm || a == ir::Algorithm::kIm2col ||
         a == ir::Algorithm::kDirect || a == ir::Algorithm::kMatmul || ir::winograd_tile(a) != 0;
}

// Sums, products, norms and activations; not quotients and powers of two tensors.
bool epilogue_op(const ir::Node& node) {
  const ir::Op op = node.op;
  if (op == ir::Op::kAdd || op == ir::Op::kMul || op == ir::Op::kRelu || op == ir::Op::kClip ||
      op == ir::Op::kBatchNorm)
    return true;
  return op != ir::Op::kPow && ir::function_call(node).has_value();
}

// Whether the kernel `next` may be computed inside a kernel that ends in `value`.
bool can_follow(const ir::Graph& graph, ir::ValueId value, const ir::Node& next,
                const PassContext& context) {
  if (!is_pointwise_kernel(next, context)) return false;
  if (!std::ranges::all_of(next.kernel->body.nodes(),
                           [](const ir::Node& node) { return epilogue_op(node); }))
    return false;
  const ir::TensorType &type = graph.value(value).type, &result = graph.value(next.result).type;
  if (type.shape != result.shape) return false;
  const auto dtype = uniform_dtype(graph, next);
  if (!dtype || *dtype != type.dtype) return false;
  // What is stored in another type is rounded on the way, and is a kernel's own end.
  const ir::Precision store = next.kernel->contract.store;
  if (store != graph.producer(value)->kernel->contract.store) return false;
  return (*dtype == ir::DType::kF32 && store == ir::Precision::kF32) ||
         !context.options.on("fuse-epilogue.f32-only");
}

}  // namespace

Result<ir::Graph> fuse_epilogue(const ir::Graph& graph, const PassContext& context) {
  Groups root = single_groups(graph);
  const auto consumers = consumers_of(graph);
  std::vector<bool> taken(graph.node_count());
  for (std::uint32_t i = static_cast<std::uint32_t>(graph.node_count()); i-- > 0;) {
    const ir::Node& node = graph.node({i});
    if (!has_epilogue(node, context) || !uniform_dtype(graph, node)) continue;
    std::vector<std::uint32_t> group = {i};
    while (true) {
      const ir::ValueId value = graph.node({group.back()}).result;
      const auto next = only_consumer(graph, value, consumers);
      if (!next || taken[next->index] || !can_follow(graph, value, graph.node(*next), context))
        break;
      Groups wider = root;
      for (std::uint32_t member : group) wider[member] = next->index;
      if (merged_operand_count(graph, wider, next->index) > kMaxOperands) break;
      root = std::move(wider);
      group.push_back(next->index);
      taken[next->index] = true;
    }
  }
  return merge_groups(graph, root, context.options.on("fuse-epilogue.emulate-casts"), context);
}

}  // namespace driftc::passes
