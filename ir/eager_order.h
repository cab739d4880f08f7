// How eager sums: the one definition that the interpreter, the passes and the comparison share.
#pragma once

#include "ir/graph.h"

namespace driftc::ir {

// Whether the conv or gemm node has a bias operand.
bool has_bias(const Node& node);

// The `fold` attribute of a convolution; none for other ops.
Fold fold_of(const Node& node);

// Eager's order for `node`: `chosen` (--eager-order) where it fits, else the op's default. The bias
// point is made explicit: none without a bias operand, `stored` where there is a bias and `chosen`
// names no point. Empty when the op has no reduction.
std::optional<ReductionOrder> eager_order(
    const Node& node, const std::optional<ReductionOrder>& chosen = std::nullopt);
// The same for an op that is not a node yet.
std::optional<ReductionOrder> eager_order(Op op, bool bias,
                                          const std::optional<ReductionOrder>& chosen);

}  // namespace driftc::ir
