// What tests of the tuner share: a network whose kernels are recorded, so that the default suite
// tunes it without a compiler.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "frontend/npy/npy.h"
#include "frontend/onnx/onnx.h"
#include "runtime/study/compile.h"
#include "runtime/study/tune.h"
#include "tests/support/services.h"

namespace driftc::tests {

namespace study = runtime::study;

// The compiled graph before anything is chosen.
inline ir::Graph base_of(const ir::Graph& graph, const study::PairSettings& settings) {
  study::PairSettings untuned = settings;
  untuned.selection.mode = passes::Mode::kDefault;
  auto compiled = study::compile(graph, untuned, tests::services());
  REQUIRE_MESSAGE(compiled.ok(), (compiled.ok() ? "" : compiled.error().render()));
  return std::move(compiled->graph);
}

struct Digits {
  ir::Graph graph;
  std::vector<study::NamedTensor> inputs;
};
inline Digits digits() {
  const std::string models = DRIFTC_SOURCE_DIR "/tests/models/";
  auto images = frontend::npy::read_npy(models + "digits.images.npy");
  REQUIRE(images.ok());
  frontend::onnx::ImportOptions options;
  options.input_shapes["image"] = images->shape();
  auto graph = frontend::onnx::import_onnx(models + "digits-resnet.onnx", options);
  REQUIRE(graph.ok());
  return {std::move(*graph), {{"image", *images}}};
}

// Services that know the recorded PTX and nothing else.
struct Recorded {
  explicit Recorded(int threads = 2) : pool(threads) {}
  codegen::KernelCache cache{{"", {DRIFTC_SOURCE_DIR "/tests/models/recorded-ptx"}}, std::nullopt};
  runtime::ThreadPool pool;
  study::Services services() { return {cache, pool, {}}; }
};

// Slices are all that is left open: the kernels of default and of split-k alone are recorded.
inline study::PairSettings only_slices() {
  study::PairSettings settings = tests::settings("max-autotune", "none,+split-k");
  settings.tuning = std::make_shared<study::Tuning>();
  return settings;
}

inline study::TunedProblems tune(const Digits& d, const study::PairSettings& settings,
                                 Recorded& recorded, const study::Faults* faults = nullptr) {
  const ir::Graph base = base_of(d.graph, settings);
  study::Tuning tuning;
  auto choices =
      study::tuned_choices({d.graph, base, settings}, tuning, recorded.services(), faults);
  REQUIRE_MESSAGE(choices.ok(), (choices.ok() ? "" : choices.error().render()));
  return tuning.problems;
}

inline const study::TunedProblem& gemm_of(const study::TunedProblems& problems) {
  for (const auto& [text, problem] : problems)
    if (text.find("= gemm") != std::string::npos) return problem;
  FAIL("no gemm");
  return problems.begin()->second;
}

}  // namespace driftc::tests
