// Which schedules exist: legality, the tuner's space later, and a default that suits both a GPU
// (coalesced accesses, enough blocks) and the PTX executor (16 threads in x, strided thread tiles).
#pragma once

#include "ir/kernel.h"

namespace driftc::ir {

// Whether code generation can use the schedule; the error says which rule it breaks.
//   tiled algorithms (implicit_gemm, matmul): block extents are multiples of the thread's; 32 to
//   1024 threads, a multiple of 32; the tiles fit into 48 KiB of shared memory; threads are a
//   multiple of block_m (implicit_gemm: at least block_m, those left over load no pixels); vector
//   is 1 or 4. Other algorithms use no tiles and take any schedule.
Result<void> check_schedule(Algorithm algorithm, const Schedule& schedule);

// Whether threads of a convolution follow each other along the output channels, as its result does
// in NHWC. In NCHW they do where an odd number of threads covers the rows: along the rows neither
// their loads nor their stores would stay together.
bool lanes_along_columns(const Schedule& schedule, Layout layout);

// The same for a kernel on tensor cores, whose warps compute 8 thread_m rows x 4 thread_n columns:
// thread_m is even and thread_n a multiple of 4; block extents are multiples of the warp's; block_k
// holds whole instructions, in rows of a multiple of 32 bytes; 32 to 1024 threads that are a
// multiple of block_m, and of the words of a row; the tiles fit into 48 KiB.
Result<void> check_mma_schedule(const Schedule& schedule, const MmaSpec& mma);

// A schedule for the region, from shapes. `layout` is that of the result; `order` decides what
// block_k means: for crs a multiple of R*S positions, else channels (or k) per step. Tiles are
// large, which suits the PTX executor and large grids; `sm_count` is not read yet (filling a GPU at
// small shapes is split-k's and the tuner's business), so the same sources serve every device.
Schedule default_schedule(Algorithm algorithm, const Graph& body, const ReductionOrder& order,
                          Layout layout, int sm_count);

}  // namespace driftc::ir
