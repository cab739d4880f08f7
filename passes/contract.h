// contract: a multiplication and the addition that alone reads it become one fma in pointwise code
// and epilogues (`contract=on`). NumericEffect: Contracts. Runs after the fusions, which bring the
// two into one kernel. Only kernels with such a place are marked: an add or sub of a mul
// (ir::contraction_site), a batch_norm, a gemm with beta.
// Replay contracts the source nodes of a kernel, so the places must be the same there: a kernel in
// which canonicalize removed something between mul and add is left alone.
#pragma once

#include "passes/pass.h"

namespace driftc::passes {

Result<ir::Graph> contract(const ir::Graph& graph, const PassContext& context);

}  // namespace driftc::passes
