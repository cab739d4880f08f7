// A small problem of the same kind as a convolution or matmul kernel's: few channels and pixels,
// the same ops, attributes, layouts and epilogue, so that a schedule can be tried in milliseconds.
// It is its own source graph, so that source replay proves the candidate as it would the network.
#pragma once

#include <vector>

#include "ir/kernel.h"
#include "runtime/thread_pool.h"

namespace driftc::runtime::study {

// Upper limits; a problem that is smaller stays as it is.
struct CropLimits {
  std::int64_t rows = 144, columns = 68, channels = 68;  // of one group
};

struct CroppedKernel {
  ir::Graph source{"cropped"};     // plain ops, no constants
  std::vector<ir::Tensor> inputs;  // seeded, in the order of the source's inputs
  ir::Graph compiled{"cropped"};   // one kernel node, the last one
  ir::Tensor reference;            // of the output, in f64
  ir::NodeId node() const { return {0}; }
};

// `node` is a kernel node of `graph` with a gemm_extent. Where the smaller shapes do not fit each
// other the problem keeps its size.
CroppedKernel crop(const ir::Graph& graph, const ir::Node& node, const CropLimits& limits,
                   ThreadPool& pool);
// The cropped problem computed as `kernel` says (a variant of the kernel that was cropped).
ir::Graph with_kernel(const CroppedKernel& cropped, const ir::Kernel& kernel);
// What source replay promises of such a graph.
ir::Tensor replay(const CroppedKernel& cropped, const ir::Graph& compiled, ThreadPool& pool);

}  // namespace driftc::runtime::study
