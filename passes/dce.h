// dce: drops nodes (and constants) that no output needs. NumericEffect: BitExact. Runs after
// canonicalize. Graph inputs stay, used or not.
#pragma once

#include "passes/pass.h"

namespace driftc::passes {

Result<ir::Graph> eliminate_dead_nodes(const ir::Graph& graph, const PassContext& context);

}  // namespace driftc::passes
