// Small random graphs for property tests: a chain-like DAG of all ops that passes rewrite, with the
// shapes that trip rewrites up (height != width, broadcasts of every kind, shared weights, aliased
// operands, several outputs, identities in between). The same seed gives the same graph on every
// machine.
#pragma once

#include <cstdint>

#include "ir/graph.h"

namespace driftc::tests {

ir::Graph random_graph(std::uint64_t seed);

}  // namespace driftc::tests
