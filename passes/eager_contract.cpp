#include "passes/eager_contract.h"

#include "ir/eager_order.h"

namespace driftc::passes {

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

}  // namespace

bool bias_is_own(const ir::Node& node, const PassContext& context) {
  if (!ir::has_bias(node)) return false;
  if (ir::fold_of(node) != ir::Fold::kNone) return true;
  const ir::Node* source = source_reduction(node, context);
  return source != nullptr && ir::has_bias(*source);
}

ir::NumericContract eager_contract(const ir::Graph& graph, const ir::Node& node,
                                   const PassContext& context) {
  ir::NumericContract contract;
  contract.fold = ir::fold_of(node);
  if (graph.value(node.result).type.dtype == ir::DType::kF64)
    contract.in = contract.acc = contract.inner = ir::Precision::kF64;
  if (!ir::info(node.op).default_order) return contract;
  const ir::Node* source = source_reduction(node, context);
  const ir::Op op = source != nullptr ? source->op : node.op;
  contract.order = ir::eager_order(op, ir::has_bias(node), context.eager_order);
  // A bias that was an `add` in the source, or that a gemm scales, is added after the sum was
  // stored.
  const bool scaled =
      node.op == ir::Op::kGemm && (node.number("alpha") != 1 || node.number("beta") != 1);
  if (contract.order->bias != ir::BiasPoint::kNone && (scaled || !bias_is_own(node, context)))
    contract.order->bias = ir::BiasPoint::kStored;
  if (contract.order->arith == ir::Arith::kMma && contract.in == ir::Precision::kF32)
    contract.in = ir::operand_precision(contract.order->mma);
  // Over one tap every convolution walk visits channels 0, 1, 2, ...: the walk of a matmul.
  if (node.op == ir::Op::kConv1x1Matmul) {
    contract.order->walk = ir::Walk::kK;
    contract.order->channel_tile = 0;
  }
  return contract;
}

}  // namespace driftc::passes
