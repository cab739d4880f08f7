#include "frontend/cli/eager_choice.h"

#include <fmt/format.h>

#include "passes/selection.h"

namespace driftc::frontend {

using runtime::study::CudnnModel;
using runtime::study::EagerPlanSettings;

namespace {

constexpr std::string_view kCudnn = "cudnn:";

}  // namespace

Result<void> check_eager(const Arguments& arguments, const runtime::study::PairSettings& settings) {
  const std::string word = arguments.value_or("--eager", "interpreter");
  if (word == "interpreter") return {};
  if (word == "cudnn")
    return unavailable("--eager cudnn: this build does not run cuDNN on a GPU",
                       "--eager cudnn:DEVICE models what cuDNN would choose on a device");
  if (!word.starts_with(kCudnn))
    return input_error(fmt::format("unknown value '{}' of --eager", word),
                       "interpreter, or cudnn:DEVICE, for example cudnn:a100");
  DRIFTC_CHECK(runtime::device_profile(word.substr(kCudnn.size())));
  if (arguments.has("--eager-order"))
    return input_error(fmt::format("--eager-order does not go with --eager {}", word),
                       "the model of cuDNN has its own order");
  if (settings.selection.mode == passes::Mode::kStrict)
    return input_error(fmt::format("--mode strict does not go with --eager {}: it reproduces the "
                                   "interpreter, and cuDNN's order is not known",
                                   word),
                       "--mode default");
  return {};
}

Result<std::optional<CudnnModel>> choose_eager(const Arguments& arguments, const Model& model,
                                               const Settings& environment) {
  const std::string word = arguments.value_or("--eager", "interpreter");
  if (word == "interpreter") return std::optional<CudnnModel>();
  DRIFTC_TRY(device, runtime::device_profile(word.substr(kCudnn.size())));
  EagerPlanSettings settings;
  settings.devices = {device};
  settings.dtype = declared_type(model);
  DRIFTC_TRY(plan, eager_plan(model.graph, settings, environment));
  return std::optional(cudnn_model(model.graph, plan, device));
}

}  // namespace driftc::frontend
