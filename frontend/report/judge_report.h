// The verdict on other systems' outputs as text and as JSON, schema driftc.judge/1
// (docs/schema/judge-1.json).
#pragma once

#include "frontend/report/json_text.h"
#include "frontend/report/table.h"
#include "runtime/study/judge.h"

namespace driftc::frontend {

struct JudgeView {
  std::string model, a, b;  // as given
  std::vector<std::string> allowed;
  int exit_code = 0;
};

std::string judge_text(const runtime::study::JudgeReport& report, const JudgeView& view,
                       const TextStyle& style);
Json judge_json(const runtime::study::JudgeReport& report, const JudgeView& view);

}  // namespace driftc::frontend
