// What a mitigation costs, from a model: the graph compiled with it and without it, operations
// counted and the time of all kernels on the device estimated (roofline.h). Every figure is
// labelled as an estimate.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/study/pair_run.h"

namespace driftc::runtime::study {

// The work of a compiled graph's convolutions and matrix products.
struct Work {
  double operations = 0;   // f32 instructions of sums and transforms; an fma is one
  double f64 = 0;          // of them, those in f64
  double interpreted = 0;  // multiply-adds that run in the interpreter
};
Work work_of(const ir::Graph& compiled);

// One entry per mitigation that the settings have on: match-order, fallback, a node in f64,
// accumulate=kahan|f64, batch-invariant. `compiled`: the source as the settings compile it. No
// kernel is compiled.
Result<std::vector<MitigationCost>> mitigation_costs(const ir::Graph& source,
                                                     const ir::Graph& compiled,
                                                     const PairSettings& settings,
                                                     const Services& services);

// For the modes that are held against default (strict, max-autotune), else empty. Registers are
// guessed for both sides.
Result<std::optional<TimeEstimate>> time_against_default(const ir::Graph& source,
                                                         const ir::Graph& compiled,
                                                         const PairSettings& settings,
                                                         const Services& services);

}  // namespace driftc::runtime::study
