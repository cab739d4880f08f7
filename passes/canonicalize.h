// canonicalize: the same values by fewer nodes. NumericEffect: BitExact. Runs first.
//   - identities go: identity, reshape or transpose or slice or pad or clip that changes nothing,
//   concat of one,
//     relu of relu, x*1, x/1, x-(+0), x+(-0) with a constant that does not broadcast x up;
//   - reshape of reshape, transpose of transpose: one node;
//   - a constant `add` that is exactly a per-channel bias, after a conv or gemm without bias that
//   only it reads:
//     the bias operand. Eager adds bias after storing the sum (`+bias.stored`), as the `add` did;
//   - a `pad` of H and W with +0, read by one convolution only: its pad attribute. Padding
//   positions are
//     multiplied as +0, like stored zeros; not where eager's order skips them.
// Graph outputs keep their nodes. Nodes named by --fallback are left alone.
#pragma once

#include "passes/pass.h"

namespace driftc::passes {

Result<ir::Graph> canonicalize(const ir::Graph& graph, const PassContext& context);

}  // namespace driftc::passes
