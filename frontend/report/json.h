// The comparison as JSON, schema driftc.compare/1 (docs/schema/compare-1.json). Every field of the
// schema is present; fields that this build cannot fill are null or empty. No times unless the view
// asks for them.
#pragma once

#include "frontend/report/compare_view.h"
#include "frontend/report/json_text.h"

namespace driftc::frontend {

Json compare_json(const runtime::study::PairReport& report, const CompareView& view);

// Counts and words of one value; the judge's report has the same.
Json specials_json(const runtime::compare::SpecialCounts& counts);

}  // namespace driftc::frontend
