// What a fuzzed tuning file must satisfy: an error with its place, or knowledge that, written,
// reads back the same.
#pragma once

#include <string_view>

#include "frontend/tuning/tuning_file.h"
#include "ir/support/assert.h"

namespace driftc::fuzz {

inline void tuning_file(std::string_view bytes) {
  if (bytes.size() > 65536) return;
  const auto file = frontend::parse_tuning(bytes, "fuzz.json");
  if (!file.ok()) {
    const Diagnostic& error = file.error();
    DRIFTC_ASSERT(error.kind == ErrorKind::kInput && !error.message.empty() && !error.hint.empty(),
                  "not the user's error, or no hint");
    DRIFTC_ASSERT(error.render().size() < 20'000, "a useless message");
    return;
  }
  for (const auto& [problem, tuned] : file->problems) {
    DRIFTC_ASSERT(!problem.empty() && !tuned.candidates.empty(), "a problem without a choice");
    for (const auto& c : tuned.candidates)
      DRIFTC_ASSERT(c.microseconds >= 0 && c.error >= 0 && c.choice.split >= 1,
                    "no such candidate");
  }
  const std::string text = frontend::tuning_text(*file);
  const auto again = frontend::parse_tuning(text, "again.json");
  DRIFTC_ASSERT(again.ok() && again->device == file->device && again->problems == file->problems,
                "what was written reads otherwise");
  DRIFTC_ASSERT(frontend::tuning_text(*again) == text, "another text for the same knowledge");
}

}  // namespace driftc::fuzz
