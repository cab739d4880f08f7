// The shape of a conv or matmul kernel as a product of matrices, and what follows from it: the
// default schedule, the size of the grid, and into how many slices a long reduction is split.
#pragma once

#include "passes/pass.h"

namespace driftc::passes {

// m: output pixels or rows, n: output channels of a group or columns, k: products per output,
// batches: independent products (groups, leading axes).
struct GemmExtent {
  std::int64_t m = 1, n = 1, k = 1, batches = 1;
};
// Of the body's conv or matmul; empty for other bodies.
std::optional<GemmExtent> gemm_extent(const ir::Graph& body);

// The default schedule of a kernel, from its algorithm, body and order; sets nothing about bits.
ir::Schedule schedule_for(const ir::Kernel& kernel, int sm_count);
// The same with this block, and the first thread tile that code generation accepts for it. An error
// says why there is none. Kernels without tiles keep their (empty) schedule.
Result<ir::Schedule> schedule_with_block(const ir::Kernel& kernel, int block_m, int block_n,
                                         int block_k, int sm_count);
// Thread blocks of the launch before any split.
std::int64_t grid_blocks(const GemmExtent& extent, const ir::Schedule& schedule);

// Slices that would fill the device: 1 when the grid has at least `sm_count` blocks, otherwise as
// many as fit into it, at most 16, each at least `min_slice` products long.
int slices_for_grid(const GemmExtent& extent, const ir::Schedule& schedule, int sm_count,
                    std::int64_t min_slice);

// `order` in `slices` slices (1: unsplit).
ir::ReductionOrder with_split(ir::ReductionOrder order, int slices, ir::SplitCombine combine);

}  // namespace driftc::passes
