// The file of --tuning (docs/schema/tuning-1.json): what the tuner chose and what it chose from,
// for one device. Sorted by problem, the same text for the same knowledge, fit for committing.
#pragma once

#include <string>
#include <string_view>

#include "frontend/report/json_text.h"
#include "runtime/study/tuning.h"

namespace driftc::frontend {

struct TuningFile {
  std::string device;
  runtime::study::TunedProblems problems;
};

std::string tuning_text(const TuningFile& file);
// Strict: unknown or missing fields, wrong types and values that no kernel has are errors with
// their place ("kernels[3].candidates[0].block"). `name` is that of the file, for messages.
Result<TuningFile> parse_tuning(std::string_view text, const std::string& name);

// One candidate as JSON, as in the file.
Json candidate_json(const runtime::study::TunedCandidate& candidate);

}  // namespace driftc::frontend
