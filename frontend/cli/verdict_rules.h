// When a comparison ends with 0 and when with 1: --allow, --require-compiled,
// --fail-on-label-change.
#pragma once

#include "frontend/cli/arguments.h"
#include "runtime/study/report.h"

namespace driftc::frontend {

struct VerdictRules {
  std::vector<std::string> allowed;  // effective: `identical` where `order` is; "any" alone
  enum class Required { kNothing, kConvolutions, kAll, kShare };
  Required required = Required::kNothing;
  double required_percent = 0;  // kShare: of multiply-adds
  bool fail_on_label_change = false;

  bool allows(runtime::compare::Verdict verdict) const;
};
Result<VerdictRules> verdict_rules(const Arguments& arguments);

// Why the exit code is 1, one sentence each; empty: 0.
std::vector<std::string> broken_rules(const VerdictRules& rules, runtime::compare::Verdict verdict,
                                      const runtime::study::Coverage& coverage,
                                      const std::optional<runtime::compare::ClassChanges>& classes);
// 2 for the verdict `invalid`, else 1 or 0.
int exit_code(runtime::compare::Verdict verdict, const std::vector<std::string>& broken);

}  // namespace driftc::frontend
