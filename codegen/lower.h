// ir::Kernel -> CUDA C++. The contract is obeyed exactly or refused: an order that no emitter of
// the algorithm has is an internal error (passes ask ir::supports_order before they decide).
#pragma once

#include "codegen/lowered_kernel.h"
#include "ir/graph.h"

namespace driftc::codegen {

struct LowerOptions {
  // 64-bit element offsets even where 32 bits do (tests; the choice is made by shape otherwise).
  bool force_wide_index = false;
};

// `kernel_node` is a kKernel node of `graph`; its operands' and result's types (with layout) are
// the graph's.
Result<LoweredKernel> lower(const ir::Graph& graph, ir::NodeId kernel_node,
                            const LowerOptions& options = {});

}  // namespace driftc::codegen
