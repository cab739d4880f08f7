#include "tests/conformance/run.h"

#include <fmt/format.h>

#include <cmath>

#include "frontend/onnx/onnx.h"
#include "ir/verifier.h"
#include "tests/support/services.h"

namespace driftc::conformance {
namespace {

namespace study = runtime::study;

std::string check(const Case& c, const std::vector<study::NamedTensor>& outputs) {
  if (outputs.size() != c.expected.size()) return "another number of outputs";
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].tensor.defined()) return fmt::format("no value for '{}'", outputs[i].name);
    const std::string why = difference(outputs[i].tensor, c.expected[i].tensor);
    if (!why.empty()) return fmt::format("'{}': {}", outputs[i].name, why);
  }
  return "";
}

// The message alone; the place is always the case itself.
std::string text(const Diagnostic& d) { return d.message; }

}  // namespace

std::string difference(const ir::Tensor& result, const ir::Tensor& expected) {
  if (result.shape() != expected.shape())
    return fmt::format("shape {}, expected {}", to_string(result.shape()),
                       to_string(expected.shape()));
  if (result.dtype() != expected.dtype())
    return fmt::format("type {}, expected {}", name_of(result.dtype()), name_of(expected.dtype()));
  if (result.dtype() == ir::DType::kI64)
    return ir::same_bits(result, expected) ? "" : "indices differ";
  const auto a = result.data<float>();
  const auto b = expected.data<float>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (a[i] == b[i]) continue;
    const double distance = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (distance <= 1e-7 + 1e-3 * std::abs(static_cast<double>(b[i]))) continue;
    return fmt::format("element {} is {}, expected {}", i, a[i], b[i]);
  }
  return "";
}

Outcome run(const Case& c, Form form) {
  Outcome out;
  frontend::onnx::ImportOptions options;
  for (const study::NamedTensor& input : c.inputs)
    options.input_shapes[input.name] = input.tensor.shape();
  auto graph = frontend::onnx::import_onnx_bytes(c.model, c.name + ".onnx", options);
  if (!graph.ok()) return {.failure = "import: " + text(graph.error())};
  if (!ir::verify(*graph).empty()) return {.failure = "the imported graph does not verify"};
  study::PairSettings settings = tests::settings("default");
  settings.reference = false;
  if (form == Form::kInterpreter) {
    auto outputs =
        study::run_arm(*graph, c.inputs, study::Arm::kEager, settings, tests::services());
    if (!outputs.ok()) return {.failure = "run: " + text(outputs.error())};
    out.failure = check(c, *outputs);
    return out;
  }
  auto outputs =
      study::run_arm(*graph, c.inputs, study::Arm::kCompiled, settings, tests::services());
  if (!outputs.ok()) return {.failure = "compiled: " + text(outputs.error())};
  out.failure = check(c, *outputs);
  if (!out.failure.empty()) return out;
  auto report = study::pair_run(*graph, c.inputs, settings, tests::services());
  if (!report.ok()) return {.failure = "compare: " + text(report.error())};
  out.kernels = report->kernels.size();
  out.interpreted = !report->fallbacks.empty() || report->kernels.empty();
  if (report->verdict == runtime::compare::Verdict::kUnexplained)
    out.failure = "source replay fails: " + tests::findings(*report);
  return out;
}

}  // namespace driftc::conformance
