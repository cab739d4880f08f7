// Invariants of a graph. All faults are collected; the text form of each names the node.
//   Structure: operands exist and come before their use; value names are unique; outputs exist.
//   Ops: operand counts, attribute types, result type == inferred type (layout aside), constants
//   have literals of their type. Kernels: body inputs match operands by name and type; the body
//   verifies; one output; at most one reduction; contract.order is present exactly when there is a
//   reduction and its walk fits it.
#pragma once

#include "ir/graph.h"

namespace driftc::ir {

std::vector<Diagnostic> verify(const Graph& graph);
// The first fault as an error, the others as its notes.
Result<void> verified(const Graph& graph);

}  // namespace driftc::ir
