// One launch of a lowered kernel on a GPU, ready to be queued any number of times.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "runtime/cuda/gpu.h"
#include "runtime/kernel_runner.h"

namespace driftc::runtime::cuda {

// Where a kernel's buffers lie on the device.
struct KernelAddresses {
  std::vector<DevicePointer> operands, prepared, workspaces;
  DevicePointer result = 0;
};

class DeviceLaunch {
 public:
  // kInternal when the driver refuses the PTX (with its own compiler's words).
  static Result<DeviceLaunch> make(Gpu& gpu, const CompiledKernel& kernel, std::size_t index,
                                   const KernelAddresses& addresses);
  Result<void> queue(Gpu& gpu);
  // "launch 1 of 2, conv_..., grid 4x1x1, block 256x1x1"
  const std::string& text() const { return text_; }

 private:
  void* function_ = nullptr;
  std::array<std::uint32_t, 3> grid_{}, block_{};
  std::uint32_t dynamic_shared_ = 0;
  std::deque<std::uint64_t> values_;  // arguments, one slot each; addresses in it stay
  std::string text_;
};

// Workspaces of one run of a kernel; those that need it are zeroed, in the order of the stream.
Result<std::vector<DeviceBuffer>> allocate_workspaces(Gpu& gpu, const CompiledKernel& kernel);
Result<void> clear_workspaces(Gpu& gpu, const CompiledKernel& kernel,
                              std::span<const DevicePointer> at);

}  // namespace driftc::runtime::cuda
