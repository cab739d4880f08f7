#include "frontend/cli/print_after.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/printer.h"
#include "passes/form_kernels.h"
#include "runtime/study/compile.h"

namespace driftc::frontend {

Result<void> check_print_after(const std::string& pass,
                               const runtime::study::PairSettings& settings) {
  if (pass == "all" || pass == "changed" || pass == passes::kFormKernels) return {};
  std::vector<std::string> names = passes::pass_names(passes::all_passes());
  names.emplace_back(passes::kFormKernels);
  if (std::find(names.begin(), names.end(), pass) == names.end())
    return input_error(fmt::format("unknown pass '{}'", pass), name_hint(pass, names));
  if (!settings.selection.has(pass))
    return input_error(fmt::format("pass '{}' does not run here", pass),
                       fmt::format("switch it on with --passes=+{}", pass));
  return {};
}

Result<void> print_after(const std::string& pass, Session& session,
                         const runtime::study::PairSettings& settings) {
  std::string text, before = ir::print(session.graph());
  DRIFTC_CHECK(runtime::study::compile(
      session.graph(), settings, session.services(),
      [&](std::string_view name, const ir::Graph& graph) {
        const std::string now = ir::print(graph);
        if (pass == "all" || pass == name || (pass == "changed" && now != before))
          text += fmt::format("// after {}{}\n{}", name, now == before ? " (unchanged)" : "", now);
        before = now;
      }));
  session.progress().clear();
  return print(text, /*to_stderr=*/true);
}

}  // namespace driftc::frontend
