#include "frontend/cli/executor_choice.h"

#include <fmt/format.h>

#include "runtime/cuda/cuda_executor.h"

namespace driftc::frontend {

using runtime::cuda::CudaExecutor;
using runtime::cuda::Gpu;

namespace {

Result<ExecutorChoice> on_gpu(const std::optional<std::string>& device,
                              const Settings& environment) {
  auto gpu = Gpu::open(environment);
  if (!gpu) {
    Diagnostic d = gpu.error();
    d.message = "--executor cuda: " + d.message;
    if (d.hint.find("--executor ptx") == std::string::npos)
      d.notes.emplace_back("--executor ptx runs the same kernels, with the same bits, on this CPU");
    return d;
  }
  ExecutorChoice out;
  DRIFTC_TRY(profile, device ? runtime::device_profile(*device)
                             : runtime::cuda::profile_of((*gpu)->facts()));
  out.device = profile;
  const runtime::cuda::GpuFacts& facts = (*gpu)->facts();
  if (!runtime::cuda::runs_kernels_of(facts, profile))
    return unavailable(
        fmt::format("--executor cuda --device {}: {} has compute capability {}.{} and does not run "
                    "kernels for {}",
                    profile.name, facts.name, facts.compute_major, facts.compute_minor,
                    profile.ptx_target),
        "without --device its own profile is taken; --executor ptx runs kernels of any profile");
  out.executor = std::make_shared<CudaExecutor>(*gpu);
  return out;
}

}  // namespace

Result<ExecutorChoice> choose_executor(const Arguments& arguments, const Settings& environment) {
  DRIFTC_TRY(word, arguments.word("--executor", {"auto", "ptx", "cuda"}, "auto"));
  const std::optional<std::string> device = arguments.value("--device");
  if (word == "cuda") {
    if (arguments.has("--check"))
      return input_error("--check does not go with --executor cuda: a GPU does not tell",
                         "--executor ptx");
    if (device) DRIFTC_CHECK(runtime::device_profile(*device));
    return on_gpu(device, environment);
  }
  ExecutorChoice out;
  DRIFTC_TRY(profile,
             runtime::device_profile(device.value_or(std::string(runtime::kDefaultDevice))));
  out.device = profile;
  if (word == "ptx" || arguments.has("--check")) return out;
  const auto gpu = Gpu::open(environment);
  if (gpu.ok() && runtime::cuda::runs_kernels_of((*gpu)->facts(), profile))
    out.executor = std::make_shared<CudaExecutor>(*gpu);
  return out;
}

}  // namespace driftc::frontend
