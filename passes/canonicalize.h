// canonicalize: the same values by fewer nodes. NumericEffect: BitExact. Runs first.
// - Nodes that change nothing go: identity; reshape, transpose, slice, pad, clip or concat without
//   effect; relu of relu; x*1, x/1, x-(+0), x+(-0) whose constant does not broadcast x up.
// - Reshape of reshape and transpose of transpose become one node.
// - A constant `add` that is exactly one value per channel, after a conv or gemm without bias that
//   only it reads, becomes the bias operand: eager adds bias to the stored sum, as the `add` did.
// - A `pad` of H and W with +0 that one convolution reads becomes its pad attribute: padding
//   positions are multiplied as +0, like stored zeros. Not where eager's order skips them.
// Graph outputs keep their nodes. Nodes named by --fallback are left alone.
#pragma once

#include "passes/pass.h"

namespace driftc::passes {

Result<ir::Graph> canonicalize(const ir::Graph& graph, const PassContext& context);

}  // namespace driftc::passes
