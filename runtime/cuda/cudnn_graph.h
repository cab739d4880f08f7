// One convolution in cuDNN's backend interface. Private to runtime/cuda: shared by the heuristics
// that need no GPU and the executor that has one.
#pragma once

#include <memory>
#include <vector>

#include "runtime/cuda/cudnn_heuristics.h"

namespace driftc::runtime::cuda {

// The descriptors of one convolution; they must outlive what is asked about it.
struct ConvGraph {
  Descriptor x, w, y, conv, op, graph;
};

// With a handle the graph belongs to that handle's GPU.
Result<ConvGraph> build(const std::shared_ptr<const CudnnApi>& api, const ConvProblem& problem,
                        CudnnHandle handle);
// Engine configurations in cuDNN's order, for the device, or null: for the GPU of the graph's
// handle. Empty when this list has none for the problem.
Result<std::vector<Descriptor>> configurations(const std::shared_ptr<const CudnnApi>& api,
                                               const ConvGraph& conv, const Descriptor* device,
                                               int mode);
// Engine, notes, knobs and what follows from them.
Result<EngineChoice> describe(const std::shared_ptr<const CudnnApi>& api, const Descriptor& config,
                              ir::DType dtype);

}  // namespace driftc::runtime::cuda
