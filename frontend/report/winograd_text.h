// One output element of a Winograd kernel beside eager's sum: the sums over channels at the places
// of its tile, and how the output transform joins them.
#pragma once

#include "frontend/report/tree_text.h"
#include "runtime/study/winograd_trace.h"

namespace driftc::frontend {

// `left` is eager's sum of the same element.
std::string winograd_text(const runtime::study::SumOperands& operands,
                          const runtime::study::SumTrace& left,
                          const runtime::study::WinogradTrace& right, const TreeView& view,
                          const TextStyle& style);

}  // namespace driftc::frontend
