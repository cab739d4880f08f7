// A sweep for people and as JSON (schema driftc.sweep/1).
#pragma once

#include "frontend/report/json_text.h"
#include "frontend/report/table.h"
#include "runtime/study/sweep.h"

namespace driftc::frontend {

// `what`: as given to --sweep.
std::string sweep_text(const std::vector<runtime::study::SweepRow>& rows, const std::string& model,
                       const std::string& what, const TextStyle& style);
Json sweep_json(const std::vector<runtime::study::SweepRow>& rows, const std::string& model,
                const std::string& what, const std::vector<std::string>& allowed, int exit_code);

}  // namespace driftc::frontend
