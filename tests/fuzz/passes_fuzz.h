// What a fuzzed selection of passes must satisfy: an error, or known passes in the table's order.
// The lines of the text are --mode, --passes, then one --set each.
#pragma once

#include <string>
#include <string_view>

#include "ir/support/assert.h"
#include "passes/selection.h"

namespace driftc::fuzz {

inline passes::SelectionRequest selection_request(std::string_view text) {
  passes::SelectionRequest request;
  std::size_t line = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string word(text.substr(0, end));
    if (line == 0)
      request.mode = word;
    else if (line == 1)
      request.passes = word;
    else
      request.sets.push_back(word);
    ++line;
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return request;
}

inline void pass_list(std::string_view text) {
  if (text.size() > 4096) return;
  const auto selection = passes::select_passes(selection_request(text));
  if (!selection.ok()) {
    const Diagnostic& error = selection.error();
    DRIFTC_ASSERT(error.kind == ErrorKind::kInput && !error.message.empty(),
                  "not the user's error");
    DRIFTC_ASSERT(error.render().size() < 20'000, "a useless message");
    return;
  }
  std::size_t next = 0;
  for (const passes::PassInfo& pass : passes::all_passes())
    if (next < selection->enabled.size() && selection->enabled[next] == pass.name) ++next;
  DRIFTC_ASSERT(next == selection->enabled.size(), "unknown passes, or not in the table's order");
}

}  // namespace driftc::fuzz
