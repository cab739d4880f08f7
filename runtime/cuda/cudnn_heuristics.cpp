#include "runtime/cuda/cudnn_heuristics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/cuda/cudnn_graph.h"

namespace driftc::runtime::cuda {
namespace {

using Ints = std::vector<std::int64_t>;

struct Named {
  int value;
  std::string_view name;
};
constexpr Named kNotes[] = {
#define CUDNN_NOTE(name, value) {value, #name},
#include "runtime/cuda/cudnn_values.def"
};
constexpr Named kKnobs[] = {
#define CUDNN_KNOB(name, value) {value, #name},
#include "runtime/cuda/cudnn_values.def"
};

// A value that a newer cuDNN added keeps its number, so that nothing is lost.
template <std::size_t N>
std::string name_in(const Named (&table)[N], std::string_view kind, std::int64_t value) {
  for (const Named& row : table)
    if (row.value == value) return std::string(row.name);
  return fmt::format("{}_{}", kind, value);
}

Result<std::vector<std::pair<std::string, std::int64_t>>> knobs_of(
    const std::shared_ptr<const CudnnApi>& api, const Descriptor& config) {
  std::vector<std::pair<std::string, std::int64_t>> out;
  const std::int64_t count = 64;  // more than there are kinds of knobs
  std::vector<Descriptor> choices;
  std::vector<CudnnDescriptor> handles;
  for (std::int64_t i = 0; i < count; ++i) {
    DRIFTC_TRY(choice, Descriptor::create(api, kCudnn_BACKEND_KNOB_CHOICE_DESCRIPTOR));
    handles.push_back(choice.get());
    choices.push_back(std::move(choice));
  }
  DRIFTC_TRY(got, config.read(kCudnn_ATTR_ENGINECFG_KNOB_CHOICES, kCudnn_TYPE_BACKEND_DESCRIPTOR,
                              count, handles.data()));
  for (std::int64_t i = 0; i < std::min(got, count); ++i) {
    int type = -1;
    std::int64_t value = 0;
    const Descriptor& choice = choices[static_cast<std::size_t>(i)];
    DRIFTC_CHECK(choice.read(kCudnn_ATTR_KNOB_CHOICE_KNOB_TYPE, kCudnn_TYPE_KNOB_TYPE, 1, &type));
    DRIFTC_CHECK(choice.read(kCudnn_ATTR_KNOB_CHOICE_KNOB_VALUE, kCudnn_TYPE_INT64, 1, &value));
    out.emplace_back(name_in(kKnobs, "KNOB", type), value);
  }
  std::sort(out.begin(), out.end());
  return out;
}

// What the notes say about the arithmetic. TENSOR_CORE on f32 operands is TF32 (compute
// capability 8.0 and later); with DOWN_CONVERT_INPUTS the operands become f16 instead.
void classify(EngineChoice& choice, ir::DType dtype) {
  choice.precision = std::string(ir::name_of(dtype));
  if (dtype == ir::DType::kF32) {
    if (choice.has_note("DOWN_CONVERT_INPUTS"))
      choice.precision = "f16";
    else if (choice.has_note("TENSOR_CORE"))
      choice.precision = "tf32";
  }
  const auto any = [&](std::string_view prefix) {
    return std::any_of(choice.notes.begin(), choice.notes.end(),
                       [&](const std::string& note) { return note.starts_with(prefix); });
  };
  choice.algorithm = any("WINOGRAD") ? Algorithm::kWinograd
                     : any("FFT")    ? Algorithm::kFft
                                     : Algorithm::kImplicitGemm;
  choice.deterministic = !choice.has_note("NONDETERMINISTIC");
}

}  // namespace

Result<EngineChoice> describe(const std::shared_ptr<const CudnnApi>& api, const Descriptor& config,
                              ir::DType dtype) {
  EngineChoice out;
  DRIFTC_TRY(engine, Descriptor::create(api, kCudnn_BACKEND_ENGINE_DESCRIPTOR));
  CudnnDescriptor handle = engine.get();
  DRIFTC_CHECK(
      config.read(kCudnn_ATTR_ENGINECFG_ENGINE, kCudnn_TYPE_BACKEND_DESCRIPTOR, 1, &handle));
  DRIFTC_CHECK(engine.read(kCudnn_ATTR_ENGINE_GLOBAL_INDEX, kCudnn_TYPE_INT64, 1, &out.engine));
  std::array<int, 64> notes{};
  DRIFTC_TRY(count, engine.read(kCudnn_ATTR_ENGINE_NUMERICAL_NOTE, kCudnn_TYPE_NUMERICAL_NOTE,
                                static_cast<std::int64_t>(notes.size()), notes.data()));
  const auto used = std::clamp<std::int64_t>(count, 0, static_cast<std::int64_t>(notes.size()));
  std::sort(notes.begin(), notes.begin() + used);
  for (std::int64_t i = 0; i < used; ++i)
    out.notes.push_back(name_in(kNotes, "NOTE", notes[static_cast<std::size_t>(i)]));
  DRIFTC_TRY(knobs, knobs_of(api, config));
  out.knobs = std::move(knobs);
  classify(out, dtype);
  return out;
}

std::string_view name_of(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kDirect:
      return "direct";
    case Algorithm::kImplicitGemm:
      return "implicit_gemm";
    case Algorithm::kWinograd:
      return "winograd";
    case Algorithm::kFft:
      return "fft";
  }
  return "";
}

bool EngineChoice::has_note(std::string_view note) const {
  return std::find(notes.begin(), notes.end(), note) != notes.end();
}

std::optional<std::size_t> pytorch_choice(const std::vector<EngineChoice>& ranked, ir::DType dtype,
                                          const PytorchFlags& flags) {
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    const EngineChoice& choice = ranked[i];
    if (!choice.builds || choice.has_note("DOWN_CONVERT_INPUTS")) continue;
    if (dtype == ir::DType::kF32 && !flags.allow_tf32 && choice.has_note("TENSOR_CORE")) continue;
    if (flags.deterministic && !choice.deterministic) continue;
    return i;
  }
  return std::nullopt;
}

std::string device_json(const DeviceProfile& d) {
  const auto kib = [](int value) { return std::int64_t{value} * 1024; };
  return fmt::format(
      R"({{"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],)"
      R"("regsPerBlock":{},"multiProcessorCount":{},"warpSize":{},"maxSharedMemoryPerBlock":{},)"
      R"("maxSharedMemoryPerBlockOptin":{},"reservedSharedMemoryPerBlock":{},"maxRegistersPerSM":{},)"
      R"("maxCtasPerSM":{},"maxThreadsPerBlock":{},"maxThreadsPerSM":{},"pciDeviceId":0,"isTccDriver":0,)"
      R"("supportCoopLaunch":1,"totalGlobalMem":{},"smClockRateKHz":{},"memClockRateKHz":{},)"
      R"("l2CacheSize":{},"cudaDeviceId":0,"deviceVer":{},"driverVer":13000,"deviceName":"{}"}})",
      kRegisters, d.sm_count, kWarpSize, kib(kSharedBlockDefaultKib), kib(d.shared_block_kib),
      kib(d.shared_reserved_kib), kRegisters, d.blocks_per_sm, kThreadsPerBlock, d.threads_per_sm,
      std::int64_t{d.memory_gib} << 30, std::int64_t{d.sm_clock_mhz} * 1000,
      std::int64_t{d.memory_clock_mhz} * 1000, kib(d.l2_kib),
      d.compute_major * 100 + d.compute_minor * 10, d.title);
}

Result<CudnnHeuristics> CudnnHeuristics::create(std::shared_ptr<const CudnnApi> api,
                                                const DeviceProfile& device) {
  DRIFTC_TRY(properties, Descriptor::create(api, kCudnn_BACKEND_DEVICEPROP_DESCRIPTOR));
  const std::string json = device_json(device);
  DRIFTC_CHECK(properties.set(kCudnn_ATTR_DEVICEPROP_JSON_REPRESENTATION, kCudnn_TYPE_CHAR,
                              static_cast<std::int64_t>(json.size()), json.data()));
  if (const int status = properties.try_finalize(); status != kCudnn_STATUS_SUCCESS) {
    Diagnostic d = cudnn_error(*api, "cudnnBackendFinalize of a device", status);
    d.notes.push_back(fmt::format("device {} ({})", device.name, device.title));
    return d;
  }
  return CudnnHeuristics(std::move(api), device, std::move(properties));
}

Result<std::vector<EngineChoice>> CudnnHeuristics::ranked(const ConvProblem& problem) const {
  DRIFTC_TRY(conv, build(api_, problem, nullptr));
  std::vector<EngineChoice> out;
  for (const int mode : {kCudnn_HEUR_MODE_INSTANT, kCudnn_HEUR_MODE_FALLBACK}) {
    DRIFTC_TRY(configs, configurations(api_, conv, &properties_, mode));
    for (const Descriptor& config : configs) {
      DRIFTC_TRY(choice, describe(api_, config, problem.dtype));
      choice.fallback = mode == kCudnn_HEUR_MODE_FALLBACK;
      DRIFTC_TRY(plan, Descriptor::create(api_, kCudnn_BACKEND_EXECUTION_PLAN_DESCRIPTOR));
      DRIFTC_CHECK(plan.set_descriptor(kCudnn_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config));
      DRIFTC_CHECK(plan.set_descriptor(kCudnn_ATTR_EXECUTION_PLAN_DEVICEPROP, properties_));
      choice.builds = plan.try_finalize() == kCudnn_STATUS_SUCCESS;
      out.push_back(std::move(choice));
    }
  }
  return out;
}

}  // namespace driftc::runtime::cuda
