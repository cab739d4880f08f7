// choose-tiling: the schedule of every conv and matmul kernel, by heuristic or as the options say;
// a matmul whose grid is smaller than the device's SM count also gets its k split. NumericEffect:
// Reassociates, only where k is split. Runs after the fusions. Options:
//   - block=MxNxK: this block for every conv and matmul; refused with a message where no kernel has
//     it. block=tuned: what context.tuned has
//   - batch-invariant=on: nothing that decides about bits depends on the batch or on the device: k
//     is never split
//   - accumulate=kahan|f64: compensated, or f64 (ChangesPrecision), sums in every kernel that has
//     that form
#pragma once

#include "passes/pass.h"

namespace driftc::passes {

Result<ir::Graph> choose_tiling(const ir::Graph& graph, const PassContext& context);

}  // namespace driftc::passes
