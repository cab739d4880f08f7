// split-k: reductions of at least `min-k` products, in a grid smaller than the device, are cut into
// slices that run side by side and are combined serially, in pairs or by atomics. NumericEffect:
// Reassociates. Runs after form-kernels. `slices=N` sets the number for every convolution and
// matmul of at least 2 N products, whatever the grid. Only algorithms that have such an order take
// part (not direct convolutions).
#pragma once

#include "passes/pass.h"

namespace driftc::passes {

Result<ir::Graph> split_k(const ir::Graph& graph, const PassContext& context);

}  // namespace driftc::passes
