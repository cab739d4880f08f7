// A whole compiled network on a GPU: constants and prepared weights are brought there once, every
// value has its place for the life of the plan (places of values no longer needed are used again),
// and a run is copies in, launches, copies out. As a CUDA graph the launches are captured once and
// started by one call; the kernels, hence the bits, are the same. A fault of a kernel cannot be
// told apart here: the message says so, and the lock-step run of `driftc compare` names it.
#pragma once

#include <memory>

#include "runtime/cuda/launch.h"
#include "runtime/executor.h"

namespace driftc::runtime::cuda {

class Network final : public LaunchPlan {
 public:
  // Every compute node of `graph` has a kernel, and every operand that a kernel wants prepared is a
  // constant. `graph` is not kept; `kernels` are, by pointer.
  static Result<std::unique_ptr<Network>> build(std::shared_ptr<Gpu> gpu, const ir::Graph& graph,
                                                std::span<const CompiledKernel* const> kernels,
                                                bool as_graph);
  ~Network() override;

  Result<std::vector<ir::Tensor>> run(std::span<const ir::Tensor> inputs) override;
  Result<std::vector<double>> time(int runs) override;
  Result<std::vector<double>> time_kernels(int runs) override;
  std::size_t launches() const override;

 private:
  struct Step {  // one kernel node
    std::string value;
    const CompiledKernel* kernel;
    std::vector<DevicePointer> workspaces;
    std::vector<DeviceLaunch> launches;
  };
  struct Place {
    DevicePointer address = 0;
    ir::TensorType type;
    bool made = false;  // by a kernel or an input: can be read
  };
  explicit Network(std::shared_ptr<Gpu> gpu) : gpu_(std::move(gpu)) {}
  Result<void> place(const ir::Graph& graph, std::span<const CompiledKernel* const> kernels);
  Result<DevicePointer> constant(const DeviceTensor& tensor, const std::string& what);
  Result<void> queue(Step& step);
  Result<void> queue_all();
  Result<void> capture();

  std::shared_ptr<Gpu> gpu_;
  std::vector<DeviceBuffer> buffers_;
  std::vector<Place> inputs_, outputs_;
  std::vector<Step> steps_;
  void *graph_ = nullptr, *executable_ = nullptr;
};

}  // namespace driftc::runtime::cuda
