// fold-constants: a node whose operands are all constants becomes a constant of the same name,
// computed by the caller's evaluator (the interpreter), so that it rounds exactly as eager does.
// NumericEffect: BitExact. Without an evaluator nothing happens. Outputs keep their nodes, as do
// nodes named by --fallback and results above 2^24 elements.
#pragma once

#include "passes/pass.h"

namespace driftc::passes {

Result<ir::Graph> fold_constants(const ir::Graph& graph, const PassContext& context);

}  // namespace driftc::passes
