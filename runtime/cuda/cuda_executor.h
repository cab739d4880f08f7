// Runs compiled kernels on a GPU through the CUDA driver: the very PTX that the PTX executor takes.
// Values stay on the device between kernels (DeviceTensor::copy) and are also read back after each,
// since a comparison looks at every one. Errors name kernel, launch, grid and block.
#pragma once

#include <memory>

#include "runtime/cuda/gpu.h"
#include "runtime/executor.h"

namespace driftc::runtime::cuda {

class CudaExecutor final : public Executor {
 public:
  explicit CudaExecutor(std::shared_ptr<Gpu> gpu) : gpu_(std::move(gpu)) {}
  std::string_view name() const override { return "cuda"; }
  std::string device() const override { return gpu_->facts().name; }
  bool checks() const override { return false; }
  bool orders_atomics() const override { return false; }
  const std::shared_ptr<Gpu>& gpu() const { return gpu_; }

  Result<void> run(const CompiledKernel& kernel, std::span<const DeviceTensor> operands,
                   std::span<const DeviceTensor> prepared, DeviceTensor& result,
                   const RunOptions& options) override;
  Result<std::unique_ptr<LaunchPlan>> plan(const ir::Graph& graph,
                                           std::span<const CompiledKernel* const> kernels,
                                           bool as_graph) override;

 private:
  std::shared_ptr<Gpu> gpu_;
};

}  // namespace driftc::runtime::cuda
