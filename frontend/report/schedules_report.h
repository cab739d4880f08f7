// What differs between schedules (--schedules), for people and as JSON.
#pragma once

#include "frontend/report/json_text.h"
#include "frontend/report/table.h"
#include "runtime/study/report.h"

namespace driftc::frontend {

// A table of the values that change, where each change begins, and one line of summary.
std::string schedules_text(const runtime::study::ScheduleReport& report, const TextStyle& style);
// The part of driftc.compare/1.
Json schedules_json(const runtime::study::ScheduleReport& report);
// driftc.schedules/1, for `run`: the same with the model.
Json schedules_document(const runtime::study::ScheduleReport& report, const std::string& model);

}  // namespace driftc::frontend
