// The test cases of the ONNX project (Debian: libonnx-testdata): models with inputs and expected
// outputs that were not written here.
// Integer inputs, and float inputs of which driftc needs the value at import (limits of Clip,
// scales of Resize), become initializers: shape arithmetic is computed while importing. A case that
// cannot apply has a `skip` reason, decided from the model's text and types before anything is
// imported, so that a fault cannot hide as a skip.
#pragma once

#include <string>
#include <vector>

#include "ir/support/result.h"
#include "runtime/study/pair_run.h"

namespace driftc::conformance {

inline constexpr const char* kFolder = "/usr/share/libonnx-testdata/data";

struct Case {
  std::string suite, name;             // "node", "test_relu"
  std::vector<std::string> operators;  // sorted, each once
  std::string skip;                    // why it does not apply; "" runs
  std::string model;                   // bytes of the ONNX file, constant inputs bound
  std::vector<runtime::study::NamedTensor> inputs;
  std::vector<runtime::study::NamedTensor> expected;
};

// False when the package is not installed.
bool installed();
// Every case of the suites node, pytorch-converted, pytorch-operator and simple, sorted. An
// unreadable case is an error: the package is part of the test.
Result<std::vector<Case>> all_cases();

}  // namespace driftc::conformance
