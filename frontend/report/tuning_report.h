// What the tuner chose and what it chose from.
#pragma once

#include <string>
#include <vector>

#include "frontend/report/json_text.h"
#include "frontend/report/table.h"
#include "runtime/study/report.h"

namespace driftc::frontend {

// At most `kernels` problems, the slowest first, and `others` runners-up each, which then differ in
// more than their tiles; kAllRunnersUp: every candidate. "" for none.
inline constexpr std::size_t kAllRunnersUp = ~std::size_t{0};
std::string tuning_table(const std::vector<runtime::study::TunedKernelReport>& tuned,
                         const std::string& device, std::size_t kernels, std::size_t others,
                         const TextStyle& style);
// {"device", "kernels": [...]}, or null for none.
Json tuning_json(const std::vector<runtime::study::TunedKernelReport>& tuned,
                 const std::string& device);

// "estimated time: 12 us against 10 us of default on h200 (estimated)" with its line break.
std::string time_line(const runtime::study::TimeEstimate& time, const std::string& device);
Json time_json(const std::optional<runtime::study::TimeEstimate>& time, const std::string& device);

}  // namespace driftc::frontend
