#include "ir/eager_order.h"

namespace driftc::ir {

bool has_bias(const Node& node) {
  const bool takes_bias = node.op == Op::kConv2d || node.op == Op::kConv1x1Matmul ||
                          node.op == Op::kConvTranspose || node.op == Op::kGemm;
  return takes_bias && node.operands.size() == 3;
}

Fold fold_of(const Node& node) {
  if (node.op != Op::kConv2d && node.op != Op::kConv1x1Matmul) return Fold::kNone;
  const std::string& word = node.word("fold");
  return word == "f64" ? Fold::kF64 : word == "f32" ? Fold::kF32 : Fold::kNone;
}

std::optional<ReductionOrder> eager_order(Op op, bool bias,
                                          const std::optional<ReductionOrder>& chosen) {
  std::optional<ReductionOrder> order = info(op).default_order;
  if (!order) return std::nullopt;
  if (chosen && order_fits(op, *chosen)) order = chosen;
  if (!bias) {
    order->bias = BiasPoint::kNone;
  } else if (order->bias == BiasPoint::kNone) {
    order->bias = BiasPoint::kStored;
  }
  return order;
}

std::optional<ReductionOrder> eager_order(const Node& node,
                                          const std::optional<ReductionOrder>& chosen) {
  return eager_order(node.op, has_bias(node), chosen);
}

}  // namespace driftc::ir
