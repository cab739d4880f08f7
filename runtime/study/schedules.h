// Nondeterminism on demand: the compiled arm under several schedule seeds, which order blocks,
// warps and with them atomics (ptx/machine.h). Which values can change from run to run, how far,
// and in which kernel the change begins. Deterministic: seeds are 0, 1, 2, ...; 0 is the ascending
// order that other studies run.
#pragma once

#include <string>
#include <vector>

#include "runtime/study/pair_run.h"

namespace driftc::runtime::study {

// The arms run in lock-step: `count` activations of every live value are held. Errors as pair_run.
Result<ScheduleReport> run_schedules(const ir::Graph& source,
                                     const std::vector<NamedTensor>& inputs, int count,
                                     const PairSettings& settings, const Services& services);

}  // namespace driftc::runtime::study
