// Graph -> text (architecture.md, "Text IR"). parse(print(g)) == g; floats are hex.
#pragma once

#include <string>

#include "ir/graph.h"

namespace driftc::ir {

std::string print(const Graph& graph);
// The same with the hash of each dense constant in place of its values: short for any weights,
// equal exactly for equal graphs. For hashing and comparing; not valid input.
std::string print_outline(const Graph& graph);
// One node without its line break, as in print (for messages and docs).
std::string print_node(const Graph& graph, NodeId node);

}  // namespace driftc::ir
