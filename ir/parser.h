// Text -> Graph. Errors carry file:line:column, the source line and a hint; a graph that parses is
// also verified. Never reads outside `text` except constants given as file("path", ...), which are
// resolved against the folder of `file`, then against the working folder, and checked by hash.
#pragma once

#include <string>
#include <string_view>

#include "ir/graph.h"

namespace driftc::ir {

Result<Graph> parse_graph(std::string_view text, const std::string& file);

}  // namespace driftc::ir
