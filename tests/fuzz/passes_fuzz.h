// What a fuzzed selection of passes must satisfy: an error, or known passes in the table's order.
// The lines of the text are --mode, --passes, then one --set each, or --inductor where one begins
// with '@'.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/support/assert.h"
#include "passes/inductor.h"

namespace driftc::fuzz {

inline passes::SelectionRequest selection_request(std::string_view text,
                                                  std::vector<std::string>& inductor) {
  passes::SelectionRequest request;
  std::size_t line = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string word(text.substr(0, end));
    if (line == 0)
      request.mode = word;
    else if (line == 1)
      request.passes = word;
    else if (word.starts_with('@'))
      inductor.push_back(word.substr(1));
    else
      request.sets.push_back(word);
    ++line;
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return request;
}

// As the command line does it.
inline Result<passes::PassSelection> selected(std::string_view text) {
  std::vector<std::string> named;
  passes::SelectionRequest request = selection_request(text, named);
  DRIFTC_TRY(inductor, passes::parse_inductor(named));
  DRIFTC_CHECK(passes::add_inductor(inductor, request));
  DRIFTC_TRY(selection, passes::select_passes(request));
  DRIFTC_CHECK(passes::finish_inductor(inductor, request, selection));
  for (const passes::InductorSetting& setting : inductor)
    DRIFTC_ASSERT(!passes::explain(setting).empty(), "nothing to say of a setting");
  return selection;
}

inline void pass_list(std::string_view text) {
  if (text.size() > 4096) return;
  const auto selection = selected(text);
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
