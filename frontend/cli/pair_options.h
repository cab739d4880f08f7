// Options of the two arms as the settings of a pair run.
#pragma once

#include "frontend/cli/arguments.h"
#include "ir/graph.h"
#include "ir/support/env.h"
#include "runtime/study/pair_run.h"

namespace driftc::frontend {

// Everything that can be checked without a model: mode, passes, options, device, executor, eager
// order. kUnavailable where --executor cuda finds no usable GPU.
Result<runtime::study::PairSettings> pair_settings(const Arguments& arguments,
                                                   const Settings& environment);
// --schedules N; 0 when it is not given.
Result<int> schedule_count(const Arguments& arguments);
// What needs the model: that the nodes of --fallback exist, and that --eager-order fits one of its
// ops (else a note on stderr, since it then changes nothing).
Result<void> check_against(const ir::Graph& graph, const runtime::study::PairSettings& settings);

// The words of a list with ',' between them; no word is empty.
Result<std::vector<std::string>> split_list(std::string_view flag, const std::string& text);

}  // namespace driftc::frontend
