// fuse-epilogue: bias, add, mul, relu, clip and batch_norm after a convolution or matmul join its
// kernel (the combine kernel when k is split). The sum is rounded to storage precision first;
// between the ops values stay in f32 (`emulate-casts=on`: rounded to their own type).
// NumericEffect: ChangesRounding; nothing changes in f32 without contraction. Runs after
// fuse-pointwise.
//
// Checked: the sum has one reader and is no output; it has the result's shape (other operands may
// broadcast, it may not); all types agree (`f32-only=on`: and are f32). The kernel moves to its
// consumer's place, where every other operand exists already. An addend may be the convolution's
// own input: the body reads it through its own operand, so aliasing cannot matter. The order of
// relu and add is the order of the nodes. Where an `add` joins two convolutions, the later one
// takes it.
#pragma once

#include "passes/pass.h"

namespace driftc::passes {

Result<ir::Graph> fuse_epilogue(const ir::Graph& graph, const PassContext& context);

}  // namespace driftc::passes
