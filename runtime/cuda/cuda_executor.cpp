#include "runtime/cuda/cuda_executor.h"

#include <fmt/format.h>

#include "runtime/cuda/launch.h"
#include "runtime/cuda/network.h"

namespace driftc::runtime::cuda {
namespace {

struct OnDevice final : DeviceCopy {
  OnDevice(const Gpu* owner, DeviceBuffer held) : gpu(owner), buffer(std::move(held)) {}
  const Gpu* gpu;
  DeviceBuffer buffer;
};

// Where a tensor lies on the device; it is brought there when it is not.
Result<DevicePointer> address_of(Gpu& gpu, const DeviceTensor& tensor, const std::string& what) {
  if (const auto* there = dynamic_cast<const OnDevice*>(tensor.copy().get());
      there != nullptr && there->gpu == &gpu)
    return there->buffer.address();
  DRIFTC_TRY(buffer, gpu.allocate(tensor.byte_count(), what));
  DRIFTC_CHECK(gpu.upload(buffer.address(), tensor.data(), tensor.byte_count(), what));
  const DevicePointer address = buffer.address();
  tensor.set_copy(std::make_shared<OnDevice>(&gpu, std::move(buffer)));
  return address;
}

}  // namespace

Result<void> CudaExecutor::run(const CompiledKernel& kernel, std::span<const DeviceTensor> operands,
                               std::span<const DeviceTensor> prepared, DeviceTensor& result,
                               const RunOptions& options) {
  DRIFTC_ASSERT(!options.check, "checked mode needs the PTX executor");
  DRIFTC_CHECK(gpu_->use());
  KernelAddresses at;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    DRIFTC_TRY(address, address_of(*gpu_, operands[i], fmt::format("operand {}", i)));
    at.operands.push_back(address);
  }
  std::vector<DeviceTensor> made;  // keeps what is prepared here until the kernel has run
  for (std::size_t i = 0; i < kernel.lowered.preparations.size(); ++i) {
    const codegen::Preparation& p = kernel.lowered.preparations[i];
    if (i < prepared.size() && prepared[i].defined())
      made.push_back(prepared[i]);
    else
      made.push_back(prepare_operand(p, download(operands[static_cast<std::size_t>(p.operand)])));
    DRIFTC_TRY(address, address_of(*gpu_, made.back(), codegen::to_string(p)));
    at.prepared.push_back(address);
  }
  DRIFTC_TRY(buffer, gpu_->allocate(result.byte_count(), "the result"));
  at.result = buffer.address();
  DRIFTC_TRY(workspaces, allocate_workspaces(*gpu_, kernel));
  for (const DeviceBuffer& w : workspaces) at.workspaces.push_back(w.address());
  DRIFTC_CHECK(clear_workspaces(*gpu_, kernel, at.workspaces));
  for (std::size_t i = 0; i < kernel.lowered.launches.size(); ++i) {
    DRIFTC_TRY(launch, DeviceLaunch::make(*gpu_, kernel, i, at));
    DRIFTC_CHECK(launch.queue(*gpu_));
    DRIFTC_CHECK(gpu_->synchronize(launch.text()));  // so that a fault has a name
  }
  DRIFTC_CHECK(gpu_->download(result.data(), at.result, result.byte_count(), "the result"));
  result.set_copy(std::make_shared<OnDevice>(gpu_.get(), std::move(buffer)));
  return {};
}

Result<std::unique_ptr<LaunchPlan>> CudaExecutor::plan(
    const ir::Graph& graph, std::span<const CompiledKernel* const> kernels, bool as_graph) {
  for (std::size_t i = 0; i < graph.node_count(); ++i) {
    const ir::Node& node = graph.nodes()[i];
    if (node.op == ir::Op::kConstant) continue;
    if (kernels[i] == nullptr) return std::unique_ptr<LaunchPlan>();  // stays in the interpreter
    for (const codegen::Preparation& p : kernels[i]->lowered.preparations)
      if (!graph.is_constant(node.operands[static_cast<std::size_t>(p.operand)]))
        return std::unique_ptr<LaunchPlan>();
  }
  DRIFTC_TRY(network, Network::build(gpu_, graph, kernels, as_graph));
  return std::unique_ptr<LaunchPlan>(std::move(network));
}

}  // namespace driftc::runtime::cuda
