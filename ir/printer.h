// Graph -> text (architecture.md, "Text IR"). parse(print(g)) == g; floats are hex.
#pragma once

#include <string>

#include "ir/graph.h"

namespace driftc::ir {

std::string print(const Graph& graph);
// One node without its line break, as in print (for messages and docs).
std::string print_node(const Graph& graph, NodeId node);

}  // namespace driftc::ir
