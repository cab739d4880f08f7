// One conformance case, run in one form, against the expected outputs of the ONNX project.
#pragma once

#include <string>

#include "tests/conformance/cases.h"

namespace driftc::conformance {

enum class Form {
  kInterpreter,
  kCompiled  // default passes; every value must also be proved by source replay
};

struct Outcome {
  std::string failure;       // "" = passed
  bool interpreted = false;  // compiled form: a node fell back, or nothing was left to compile
  std::size_t kernels = 0;   // compiled form: how many the graph has
};

// ONNX's own rule for its test data (onnx/backend/test: assert_allclose with rtol 1e-3, atol 1e-7):
// |a - b| <= 1e-7 + 1e-3 * |expected|, NaN equal to NaN. It is used here only to compare with
// values that another implementation wrote; driftc's own arms are held to equal bits.
std::string difference(const ir::Tensor& result, const ir::Tensor& expected);

Outcome run(const Case& c, Form form);

}  // namespace driftc::conformance
