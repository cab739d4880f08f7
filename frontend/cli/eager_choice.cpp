#include "frontend/cli/eager_choice.h"

#include <fmt/format.h>

#include "passes/selection.h"
#include "runtime/cuda/cudnn_convolution.h"
#include "runtime/cuda/gpu.h"

namespace driftc::frontend {

using runtime::study::CudnnArm;
using runtime::study::EagerPlanSettings;

namespace {

constexpr std::string_view kOnGpu = "cudnn", kModelled = "cudnn:";

Result<EagerChoice> on_gpu(const Model& model, const Settings& environment) {
  auto with_hint = [](Diagnostic d) {
    d.message = "--eager cudnn: " + d.message;
    d.notes.emplace_back("--eager cudnn:DEVICE models what cuDNN would choose on a device");
    return d;
  };
  auto gpu = runtime::cuda::Gpu::open(environment);
  if (!gpu) return with_hint(gpu.error());
  DRIFTC_TRY(device, runtime::cuda::profile_of((*gpu)->facts()));
  auto cudnn = runtime::cuda::CudnnExecutor::open(environment, *gpu);
  if (!cudnn) return with_hint(cudnn.error());
  DRIFTC_TRY(arm, CudnnArm::open(model.graph, *cudnn, device));
  EagerChoice out{arm->model(), arm};
  out.model.device = (*gpu)->facts().name;
  return out;
}

}  // namespace

Result<void> check_eager(const Arguments& arguments, const runtime::study::PairSettings& settings) {
  const std::string word = arguments.value_or("--eager", "interpreter");
  if (word == "interpreter") return {};
  if (word != kOnGpu && !word.starts_with(kModelled))
    return input_error(fmt::format("unknown value '{}' of --eager", word),
                       "interpreter, cudnn, or cudnn:DEVICE, for example cudnn:a100");
  if (word != kOnGpu) DRIFTC_CHECK(runtime::device_profile(word.substr(kModelled.size())));
  if (arguments.has("--eager-order"))
    return input_error(
        fmt::format("--eager-order does not go with --eager {}", word),
        word == kOnGpu ? "cuDNN has its own order" : "the model of cuDNN has its own order");
  if (word == kOnGpu && arguments.value_or("--reference", "f64") == "exact")
    return input_error(
        "--reference exact does not go with --eager cudnn: its bounds need the order "
        "of the sums, and cuDNN's is not known",
        "each convolution that differs is judged by bounds for any order anyway");
  if (settings.selection.mode == passes::Mode::kStrict)
    return input_error(fmt::format("--mode strict does not go with --eager {}: it reproduces the "
                                   "interpreter, and cuDNN's order is not known",
                                   word),
                       "--mode default");
  return {};
}

Result<std::optional<EagerChoice>> choose_eager(const Arguments& arguments, const Model& model,
                                                const Settings& environment) {
  const std::string word = arguments.value_or("--eager", "interpreter");
  if (word == "interpreter") return std::optional<EagerChoice>();
  if (word == kOnGpu) {
    DRIFTC_TRY(choice, on_gpu(model, environment));
    return std::optional(std::move(choice));
  }
  DRIFTC_TRY(device, runtime::device_profile(word.substr(kModelled.size())));
  EagerPlanSettings settings;
  settings.devices = {device};
  settings.dtype = declared_type(model);
  DRIFTC_TRY(plan, eager_plan(model.graph, settings, environment));
  return std::optional(EagerChoice{cudnn_model(model.graph, plan, device), nullptr});
}

void apply(const EagerChoice& eager, runtime::study::PairSettings& settings) {
  settings.eager_contracts = eager.model.contracts;
  settings.cudnn = eager.arm;
}

}  // namespace driftc::frontend
