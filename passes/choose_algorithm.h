// choose-algorithm: how convolutions are computed. direct, implicit_gemm and im2col sum the same
// products in the order the contract keeps; winograd2 and winograd4 (in phases, or fused) replace
// the sum by transforms, which the contract then names. auto: winograd2, which is no less accurate
// than a direct sum, where it saves products; winograd4 is never chosen unasked; tuned: what
// context.tuned has. NumericEffect: ChangesAlgorithm. Preconditions are checked: a convolution that
// does not meet them keeps its algorithm and its kernel says why; a node asked for by name is an
// error instead. Runs before split-k.
#pragma once

#include "passes/pass.h"

namespace driftc::passes {

Result<ir::Graph> choose_algorithm(const ir::Graph& graph, const PassContext& context);

}  // namespace driftc::passes
