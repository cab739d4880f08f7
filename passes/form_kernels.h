// form-kernels: wraps every compute node in a kernel of its own. It always runs, between the graph
// passes and the kernel passes, and has no switch: a graph of one kernel per op, with default
// schedules and eager's contract, is what the kernel passes start from and what `--passes=none`
// gives.
//
// Decided here: the algorithm by op (table in the .cpp); the contract (eager's where the algorithm
// has that order, else the op's default order); `rsc` for convolutions whose result
// layout-channels-last stored as NHWC; slices of k for convolutions that became matmuls when the
// grid is smaller than the device's SM count. Graph outputs go back to NCHW storage. NumericEffect:
// BitExact on a graph that no graph pass touched.
#pragma once

#include "passes/pass.h"

namespace driftc::passes {

inline constexpr std::string_view kFormKernels = "form-kernels";
ir::Graph form_kernels(const ir::Graph& graph, const PassContext& context);

}  // namespace driftc::passes
