// Every model of ../shared/models, interpreted and compiled, against its float64 reference:
// max|y - ref| / max|ref| <= 2e-5 in both arms, every float convolution compiled, every value
// proved. The light_* files have constant weights, which hide errors, so they are run again
// reseeded, where the declared order must be identical. Three small ones in `./dev test`, all in
// `./dev soak models`.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>

#include "frontend/npy/npy.h"
#include "frontend/onnx/onnx.h"
#include "frontend/zoo/reseed.h"
#include "tests/support/services.h"

using namespace driftc;
using runtime::compare::Verdict;
namespace study = runtime::study;

namespace {

const std::string kShared = DRIFTC_SOURCE_DIR "/../shared/models/";

bool available(const char* what) {
  if (std::filesystem::exists(kShared)) return tests::kernels_available(what);
  std::printf("[skip] %s: ../shared/models is missing\n", what);
  return false;
}

ir::Tensor read(const std::string& file) {
  auto tensor = frontend::npy::read_npy(kShared + file);
  REQUIRE_MESSAGE(tensor.ok(), tensor.error().render());
  return std::move(*tensor);
}

struct Loaded {
  ir::Graph graph;
  std::vector<study::NamedTensor> inputs;
};
Loaded load(const std::string& model) {
  const std::string path = kShared + model + ".onnx";
  auto info = frontend::onnx::inspect_onnx(path);
  REQUIRE_MESSAGE(info.ok(), info.error().render());
  const std::string& input = info->inputs[0].name;
  const ir::Tensor tensor = read(model + ".input.npy").converted(ir::DType::kF32);
  auto graph =
      frontend::onnx::import_onnx(path, {.input_shapes = {{input, tensor.shape()}}, .batch = {}});
  REQUIRE_MESSAGE(graph.ok(), graph.error().render());
  return {std::move(*graph), {{input, tensor}}};
}

double distance(const ir::Tensor& y, const ir::Tensor& reference) {
  REQUIRE(y.shape() == reference.shape());
  const ir::Tensor wide = y.converted(ir::DType::kF64), want = reference.converted(ir::DType::kF64);
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < wide.data<double>().size(); ++i) {
    const double r = want.data<double>()[i], d = std::abs(wide.data<double>()[i] - r);
    if (!(d <= worst)) worst = d;  // NaN stays
    largest = std::max(largest, std::abs(r));
  }
  return worst / largest;
}

// Default passes in lock-step; the outputs of both arms by name.
struct Both {
  study::PairReport report;
  std::map<std::string, std::pair<ir::Tensor, ir::Tensor>> outputs;
};
Both run_both(const Loaded& model, bool declared) {
  Both both;
  study::PairSettings settings = tests::settings("default");
  settings.reference = false;
  settings.declared = declared;
  settings.on_value = [&](const std::string& name, const ir::Tensor& eager,
                          const ir::Tensor& compiled, const ir::Tensor*) {
    const auto id = model.graph.find(name);
    if (id && model.graph.is_output(*id)) both.outputs[name] = {eager, compiled};
  };
  both.report = tests::compare(model.graph, model.inputs, settings);
  CHECK(both.report.coverage.convolutions == both.report.coverage.convolutions_of);
  CHECK_MESSAGE(both.report.verdict != Verdict::kUnexplained, tests::findings(both.report));
  return both;
}

// The files call the second output of a detector by its name; the first has none in its file name.
void check_references(const std::string& name) {
  CAPTURE(name);
  const Loaded model = load(name);
  const Both both = run_both(model, false);
  for (std::size_t i = 0; i < model.graph.outputs().size(); ++i) {
    const std::string output = model.graph.value(model.graph.outputs()[i]).name;
    CAPTURE(output);
    const std::string named = fmt::format("{}.{}.ref64.npy", name, output);
    if (i > 0 && !std::filesystem::exists(kShared + named)) continue;
    const ir::Tensor reference =
        read(std::filesystem::exists(kShared + named) ? named : name + ".ref64.npy");
    REQUIRE(both.outputs.contains(output));
    const auto& [eager, compiled] = both.outputs.at(output);
    CHECK(distance(eager, reference) <= 2e-5);
    CHECK(distance(compiled, reference) <= 2e-5);
  }
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kShared))
    if (entry.path().extension() == ".onnx" &&
        std::filesystem::exists(kShared + entry.path().stem().string() + ".input.npy"))
      names.push_back(entry.path().stem().string());
  std::ranges::sort(names);
  return names;
}

// Strict takes every difference away, and at eager's default order hardly anything falls back for
// it.
void check_strict(const std::string& name) {
  CAPTURE(name);
  Loaded model = load(name);
  if (name.starts_with("light_")) model.graph = frontend::zoo::reseed_weights(model.graph, 1);
  study::PairSettings settings = tests::settings("strict");
  settings.reference = false;
  const study::PairReport report = tests::compare(model.graph, model.inputs, settings);
  CHECK_MESSAGE(report.verdict == Verdict::kIdentical, tests::findings(report));
  CHECK(report.values_differ == 0);
  CHECK(report.coverage.multiply_adds >= 0.95);
  REQUIRE(report.time.has_value());
  fmt::print(
      "strict {}: {:.2f} % of multiply-adds compiled, estimated {:.0f} us against {:.0f} us of "
      "default\n",
      name, 100 * report.coverage.multiply_adds, 1e6 * report.time->seconds,
      1e6 * report.time->default_seconds);
}

void check_reseeded(const std::string& name) {
  CAPTURE(name);
  Loaded model = load(name);
  model.graph = frontend::zoo::reseed_weights(model.graph, 1);
  const Both both = run_both(model, true);
  CHECK_MESSAGE(both.report.verdict == Verdict::kIdentical, tests::findings(both.report));
}

}  // namespace

TEST_CASE("slow: shared models, the small ones in both arms") {
  if (!available("small shared models")) return;
  for (const char* name : {"mnist", "resnet20-cifar10-dyn"}) check_references(name);
}

TEST_SUITE("soak") {
  TEST_CASE("soak: models, every shared one in both arms" * doctest::skip()) {
    if (!available("shared models")) return;
    const std::vector<std::string> names = model_names();
    CHECK(names.size() >= 15);
    for (const std::string& name : names) {
      check_references(name);
      if (name.starts_with("light_")) check_reseeded(name);
    }
    // The same network with batch normalisation folded by another tool, on the same input.
    const Loaded plain = load("rfb-320"), folded = load("rfb-320-simplified");
    REQUIRE(ir::same_bits(plain.inputs[0].tensor, folded.inputs[0].tensor));
    const Both a = run_both(plain, false), b = run_both(folded, false);
    CHECK(distance(a.outputs.at("scores").first, b.outputs.at("scores").first) <= 2e-5);
    CHECK(distance(a.outputs.at("scores").second, b.outputs.at("scores").second) <= 2e-5);
  }

  TEST_CASE("soak: models, strict is identical and falls back for hardly anything" *
            doctest::skip()) {
    if (!available("strict on shared models")) return;
    for (const std::string& name : model_names()) check_strict(name);
  }
}
