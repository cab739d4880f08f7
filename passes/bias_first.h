// bias-first: the bias starts the accumulator (`+bias.first`) instead of being added to the stored
// sum, as addmm does. NumericEffect: Reassociates. Runs after fuse-epilogue. Fires on kernels whose
// convolution or gemm has a bias of its own in the source (or from folding): one that canonicalize
// made from an `add` keeps eager's point, because replay of the source has no bias to start with.
// Gemm: only alpha = beta = 1 and one value per column.
#pragma once

#include "passes/pass.h"

namespace driftc::passes {

// Whether the bias of the kernel's convolution or gemm can start its sums.
bool can_start_with_bias(const ir::Kernel& kernel, const PassContext& context);
Result<ir::Graph> bias_first(const ir::Graph& graph, const PassContext& context);

}  // namespace driftc::passes
