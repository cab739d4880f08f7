// What a tuner may choose: the convolution and matmul kernels of a compiled graph, what the passes
// that are on leave open for each, and every candidate that code generation takes.
#pragma once

#include <string>
#include <vector>

#include "passes/kernel_choice.h"
#include "runtime/study/pair_run.h"
#include "runtime/study/tuning.h"

namespace driftc::runtime::study {

struct TuningRequest {
  const ir::Graph& source;
  const ir::Graph& base;  // as the passes left it without choices
  const PairSettings& settings;
};

// In the order of the graph; kernels that stay in the interpreter and empty ones have none.
std::vector<TuningTask> tuning_tasks(const TuningRequest& request);

// Every candidate of a kernel of `base`, the kernel as it is first; unranked.
std::vector<passes::KernelChoice> candidates_of(const TuningRequest& request, ir::NodeId node);

// Why the passes could not make that of a kernel of `base` (a choice that came from a file), or "".
std::string why_not_chosen(const TuningRequest& request, ir::NodeId node,
                           const passes::KernelChoice& choice);

}  // namespace driftc::runtime::study
