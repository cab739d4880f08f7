// fallback: the source nodes named by --fallback run in the interpreter, under eager's contract: a
// graph break on purpose. NumericEffect: ChangesRounding, the opposite of what it undoes. Runs
// last; all earlier passes leave the named nodes unmerged and unchanged. A name that no node of the
// source has is an error.
#pragma once

#include "passes/pass.h"

namespace driftc::passes {

Result<ir::Graph> fallback(const ir::Graph& graph, const PassContext& context);
// Errors for names that are no compute node of the source graph.
// Error (kInput) for the first name that is no node of the source; `flag` begins the message.
Result<void> check_node_names(std::string_view flag, const ir::Graph& source,
                              const std::vector<std::string>& names);
Result<void> check_fallback_names(const ir::Graph& source, const std::vector<std::string>& names);

}  // namespace driftc::passes
