// What a fuzzed ONNX file must satisfy: an error with a place, or a graph that verifies.
#pragma once

#include <string_view>

#include "frontend/onnx/onnx.h"
#include "ir/support/assert.h"
#include "ir/verifier.h"

namespace driftc::fuzz {

inline void onnx_file(std::string_view bytes) {
  const auto graph = frontend::onnx::import_onnx_bytes(bytes, "fuzz.onnx");
  if (graph.ok()) {
    DRIFTC_ASSERT(ir::verify(*graph).empty(), "an imported graph does not verify");
  } else {
    const Diagnostic& error = graph.error();
    DRIFTC_ASSERT(error.kind == ErrorKind::kInput, "a bad file is the user's error");
    DRIFTC_ASSERT(error.place.file == "fuzz.onnx", "an error without its file");
    DRIFTC_ASSERT(!error.message.empty() && error.render().size() < 20'000, "a useless message");
  }
  const auto info = frontend::onnx::inspect_onnx_bytes(bytes, "fuzz.onnx");
  DRIFTC_ASSERT(info.ok() || !graph.ok(), "import accepts what inspect refuses");
}

}  // namespace driftc::fuzz
