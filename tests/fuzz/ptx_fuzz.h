// What fuzzed PTX must satisfy: parser and decoder end with a program or an error, whatever the
// text.
#pragma once

#include <string_view>

#include "ir/support/assert.h"
#include "runtime/ptx/decode.h"
#include "runtime/ptx/parser.h"

namespace driftc::fuzz {

inline void ptx_file(std::string_view bytes) {
  // Longer inputs only repeat what shorter ones find, and make every run slow.
  if (bytes.size() > 1u << 16) return;
  const auto module = runtime::ptx::parse_module(bytes, "fuzz.ptx");
  if (!module.ok()) {
    DRIFTC_ASSERT(!module.error().message.empty(), "an empty message");
    return;
  }
  for (const runtime::ptx::Entry& entry : module->entries) {
    const auto program = runtime::ptx::decode(*module, entry.name);
    DRIFTC_ASSERT(program.ok() || !program.error().message.empty(), "an empty message");
  }
}

}  // namespace driftc::fuzz
