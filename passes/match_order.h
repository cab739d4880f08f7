// match-order (mitigation): every kernel back to eager's contract: its order, no contraction, the
// bias where eager adds it, f32 sums. Keeps the kernel's algorithm if that has eager's order, else
// takes the sequential form of another emitter (direct), else the node falls back to the
// interpreter with the reason "no kernel has order ...". NumericEffect: Reassociates. Runs last but
// for fallback. A folded batch_norm cannot be unfolded here: fold-batchnorm does nothing when
// match-order is on.
#pragma once

#include "passes/pass.h"

namespace driftc::passes {

Result<ir::Graph> match_order(const ir::Graph& graph, const PassContext& context);

// Eager's contract for a kernel's source work.
ir::NumericContract eager_contract_of_kernel(const ir::Kernel& kernel, const PassContext& context);

}  // namespace driftc::passes
