// From a cause to what a user can do about it: the passes that govern it, and what to try next.
#pragma once

#include "frontend/report/compare_view.h"

namespace driftc::frontend {

// A group of causes of one kind, in the order of the report.
struct CauseGroup {
  runtime::compare::CauseKind kind;
  std::vector<std::string> nodes;        // distinct, in source order
  std::string detail;                    // of the first node
  std::vector<std::string> governed_by;  // enabled passes or options that switch it
};
std::vector<CauseGroup> group_causes(const runtime::study::PairReport& report);

// Command line options worth trying, each with what it would show.
struct NextStep {
  std::string options, shows;
};
std::vector<NextStep> next_steps(const runtime::study::PairReport& report, const CompareView& view);

}  // namespace driftc::frontend
