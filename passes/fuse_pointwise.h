// fuse-pointwise: add, sub, mul, div, relu, clip and batch_norm that only feed each other become
// one elementwise kernel, values between them in f32 (`emulate-casts=on`: rounded to their own
// type, as eager does). NumericEffect: ChangesRounding; nothing changes in f32 without contraction.
// A producer joins its consumer's kernel when all readers of its value are in that kernel, the
// value is not a graph output, and it has the shape of the kernel's result (nothing is computed
// again per broadcast). Runs after form-kernels, before fuse-epilogue.
#pragma once

#include "passes/pass.h"

namespace driftc::passes {

Result<ir::Graph> fuse_pointwise(const ir::Graph& graph, const PassContext& context);

}  // namespace driftc::passes
