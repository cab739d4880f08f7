// The compiled side of --precision: operands, arithmetic and storage of every kernel as its op
// stands now, so that a 1x1 convolution written as a matmul follows the flag for matrix products.
// f16 and bf16 are autocast (ir/precision.h). Runs right after form-kernels, before anything is
// fused. A bias that was an `add` in the source keeps its kernel's result in f32, as that add
// would. NumericEffect: ChangesPrecision.
#pragma once

#include "passes/pass.h"

namespace driftc::passes {

Result<ir::Graph> precision(const ir::Graph& graph, const PassContext& context);

}  // namespace driftc::passes
