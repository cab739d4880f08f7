// The contract under which eager computes a source node, and its translation to the op that
// computes it now. Everything that asks "what would eager do here" (form-kernels, match-order,
// fallback, the comparer) asks here.
#pragma once

#include "passes/pass.h"

namespace driftc::passes {

// Whether the node's bias is the source node's own operand, or came from batch-norm folding. False
// where canonicalize made it from an `add` of the source: then only `+bias.stored` keeps its
// meaning.
bool bias_is_own(const ir::Node& node, const PassContext& context);

// Eager's contract for the source work that `node` (an op node, possibly rewritten) does; a
// convolution written as a matmul gets the walk k, which is the same tree.
ir::NumericContract eager_contract(const ir::Graph& graph, const ir::Node& node,
                                   const PassContext& context);

}  // namespace driftc::passes
