#include "runtime/cuda/launch.h"

#include <fmt/format.h>

#include <cstring>

namespace driftc::runtime::cuda {

Result<DeviceLaunch> DeviceLaunch::make(Gpu& gpu, const CompiledKernel& kernel, std::size_t index,
                                        const KernelAddresses& addresses) {
  const codegen::Launch& launch = kernel.lowered.launches[index];
  DeviceLaunch out;
  out.grid_ = launch.grid;
  out.block_ = launch.block;
  out.dynamic_shared_ = launch.dynamic_shared_bytes;
  out.text_ =
      fmt::format("launch {} of {}, {}, grid {}x{}x{}, block {}x{}x{}", index + 1,
                  kernel.lowered.launches.size(), launch.entry, launch.grid[0], launch.grid[1],
                  launch.grid[2], launch.block[0], launch.block[1], launch.block[2]);
  DRIFTC_TRY(function, gpu.function(kernel.ptx[index], launch.entry, out.text_));
  out.function_ = function;
  if (out.dynamic_shared_ > 0)
    DRIFTC_CHECK(gpu.allow_shared(function, out.dynamic_shared_, out.text_));
  using Kind = codegen::Argument::Kind;
  for (const codegen::Argument& a : launch.arguments) {
    const auto at = static_cast<std::size_t>(a.index);
    std::uint64_t slot = 0;
    switch (a.kind) {
      case Kind::kOperand:
        slot = addresses.operands[at];
        break;
      case Kind::kPrepared:
        slot = addresses.prepared[at];
        break;
      case Kind::kResult:
        slot = addresses.result;
        break;
      case Kind::kWorkspace:
        slot = addresses.workspaces[at];
        break;
      case Kind::kInt32: {
        const auto value = static_cast<std::int32_t>(a.integer);
        std::memcpy(&slot, &value, sizeof value);
        break;
      }
      case Kind::kInt64:
        std::memcpy(&slot, &a.integer, sizeof a.integer);
        break;
      case Kind::kFloat32:
        std::memcpy(&slot, &a.real, sizeof a.real);
        break;
    }
    out.values_.push_back(slot);
  }
  return out;
}

Result<void> DeviceLaunch::queue(Gpu& gpu) {
  if (grid_[0] == 0 || grid_[1] == 0 || grid_[2] == 0) return {};
  std::vector<void*> parameters;
  for (std::uint64_t& slot : values_) parameters.push_back(&slot);
  return gpu.launch(function_, grid_, block_, dynamic_shared_, parameters, text_);
}

Result<std::vector<DeviceBuffer>> allocate_workspaces(Gpu& gpu, const CompiledKernel& kernel) {
  std::vector<DeviceBuffer> out;
  for (const codegen::Workspace& w : kernel.lowered.workspaces) {
    DRIFTC_TRY(buffer, gpu.allocate(static_cast<std::size_t>(w.bytes), "workspace " + w.name));
    out.push_back(std::move(buffer));
  }
  return out;
}

Result<void> clear_workspaces(Gpu& gpu, const CompiledKernel& kernel,
                              std::span<const DevicePointer> at) {
  for (std::size_t i = 0; i < at.size(); ++i) {
    const codegen::Workspace& w = kernel.lowered.workspaces[i];
    if (w.zeroed)
      DRIFTC_CHECK(gpu.zero(at[i], static_cast<std::size_t>(w.bytes), "workspace " + w.name));
  }
  return {};
}

}  // namespace driftc::runtime::cuda
