// What fuzzed text IR must satisfy: an error with a place, or a graph that verifies and whose text
// reads back as the same graph.
#pragma once

#include <string_view>

#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/support/assert.h"
#include "ir/verifier.h"

namespace driftc::fuzz {

inline void gir_file(std::string_view bytes) {
  if (bytes.size() > 1u << 16) return;  // longer texts only repeat what shorter ones find
  const auto graph = ir::parse_graph(bytes, "fuzz.gir");
  if (!graph.ok()) {
    const Diagnostic& error = graph.error();
    DRIFTC_ASSERT(error.kind == ErrorKind::kInput, "a bad file is the user's error");
    DRIFTC_ASSERT(error.place.file == "fuzz.gir" && error.place.line > 0,
                  "an error without its place");
    DRIFTC_ASSERT(!error.message.empty() && error.render().size() < 300'000, "a useless message");
    return;
  }
  DRIFTC_ASSERT(ir::verify(*graph).empty(), "a parsed graph does not verify");
  const auto back = ir::parse_graph(ir::print(*graph), "back.gir");
  DRIFTC_ASSERT(back.ok(), "what was printed does not parse");
  DRIFTC_ASSERT(*back == *graph, "what was printed parses as something else");
}

}  // namespace driftc::fuzz
