// The comparison for people: a table of values, why they differ, one verdict line, what to try
// next. At most about 110 columns; long tables show the first difference and the worst ten values.
#pragma once

#include "frontend/report/compare_view.h"
#include "frontend/report/table.h"

namespace driftc::frontend {

std::string compare_text(const runtime::study::PairReport& report, const CompareView& view,
                         const TextStyle& style);
// "verdict: order (replayed) · 19/19 convolutions, ..." without a line break.
std::string verdict_line(const runtime::study::PairReport& report, const TextStyle& style);

}  // namespace driftc::frontend
