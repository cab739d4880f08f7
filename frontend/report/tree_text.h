// Two summation trees of one output element side by side: what each step adds, the partial sum
// after it in decimal and hex, and the first step that differs. Chains longer than 64 are folded.
#pragma once

#include <string>

#include "frontend/report/json_text.h"
#include "frontend/report/table.h"
#include "runtime/study/tree.h"

namespace driftc::frontend {

struct TreeView {
  std::string element;  // "conv1[0,3,4,4]"
  std::string op;
  std::string left_title, right_title;  // "eager: crs.fma+bias.stored"
  std::string remark;                   // "" or a line below the heading
};

std::string tree_text(const runtime::study::SumOperands& operands,
                      const runtime::study::SumTrace& left, const runtime::study::SumTrace& right,
                      const TreeView& view, const TextStyle& style);

}  // namespace driftc::frontend
