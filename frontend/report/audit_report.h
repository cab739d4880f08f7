// What each flag changes (--audit), for people and as JSON.
#pragma once

#include "frontend/report/json_text.h"
#include "frontend/report/table.h"
#include "runtime/study/report.h"

namespace driftc::frontend {

// A table of flags, with a line before it on the two equal runs and one of summary after it.
std::string audit_text(const runtime::study::KnobAudit& audit, const TextStyle& style);
// The part of driftc.compare/1.
Json audit_json(const runtime::study::KnobAudit& audit);

}  // namespace driftc::frontend
