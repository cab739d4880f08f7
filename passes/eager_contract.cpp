#include "passes/eager_contract.h"

namespace driftc::passes {

std::optional<ir::ReductionOrder> eager_order(ir::Op op, bool bias,
                                              const std::optional<ir::ReductionOrder>& chosen) {
  std::optional<ir::ReductionOrder> order = ir::info(op).default_order;
  if (!order) return std::nullopt;
  if (chosen && ir::order_fits(op, *chosen)) order = chosen;
  if (!bias) {
    order->bias = ir::BiasPoint::kNone;
  } else if (order->bias == ir::BiasPoint::kNone) {
    order->bias = ir::BiasPoint::kStored;
  }
  return order;
}

bool has_bias(const ir::Node& node) {
  switch (node.op) {
    case ir::Op::kConv2d:
    case ir::Op::kConv1x1Matmul:
    case ir::Op::kGemm:
      return node.operands.size() == 3;
    default:
      return false;
  }
}

namespace {

// The source node whose reduction `node` computes.
const ir::Node* source_reduction(const ir::Node& node, const PassContext& context) {
  if (context.source == nullptr) return nullptr;
  for (const std::string& name : node.from) {
    const auto value = context.source->find(name);
    const ir::Node* source = value ? context.source->producer(*value) : nullptr;
    if (source != nullptr && ir::info(source->op).default_order) return source;
  }
  return nullptr;
}

ir::Fold fold_of(const ir::Node& node) {
  if (node.op != ir::Op::kConv2d && node.op != ir::Op::kConv1x1Matmul) return ir::Fold::kNone;
  const std::string& word = node.word("fold");
  return word == "f64" ? ir::Fold::kF64 : word == "f32" ? ir::Fold::kF32 : ir::Fold::kNone;
}

}  // namespace

bool bias_is_own(const ir::Node& node, const PassContext& context) {
  if (!has_bias(node)) return false;
  if (fold_of(node) != ir::Fold::kNone) return true;
  const ir::Node* source = source_reduction(node, context);
  return source != nullptr && has_bias(*source);
}

ir::NumericContract eager_contract(const ir::Graph& graph, const ir::Node& node,
                                   const PassContext& context) {
  ir::NumericContract contract;
  contract.fold = fold_of(node);
  if (graph.value(node.result).type.dtype == ir::DType::kF64)
    contract.in = contract.acc = contract.inner = ir::Precision::kF64;
  if (!ir::info(node.op).default_order) return contract;
  const ir::Node* source = source_reduction(node, context);
  const ir::Op op = source != nullptr ? source->op : node.op;
  contract.order = eager_order(op, has_bias(node), context.eager_order);
  // A bias that was an `add` in the source, or that a gemm scales, is added after the sum was
  // stored.
  const bool scaled =
      node.op == ir::Op::kGemm && (node.number("alpha") != 1 || node.number("beta") != 1);
  if (contract.order->bias != ir::BiasPoint::kNone && (scaled || !bias_is_own(node, context)))
    contract.order->bias = ir::BiasPoint::kStored;
  // Over one tap every convolution walk visits channels 0, 1, 2, ...: the walk of a matmul.
  if (node.op == ir::Op::kConv1x1Matmul) {
    contract.order->walk = ir::Walk::kK;
    contract.order->channel_tile = 0;
  }
  return contract;
}

}  // namespace driftc::passes
