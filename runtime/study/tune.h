// The tuner of mode max-autotune. For each distinct convolution or matmul kernel of a graph it
// enumerates algorithm x tile x split candidates, ranks them by a roofline, compiles the best few,
// runs each on a cropped problem and drops what source replay does not reproduce bit for bit; the
// fastest of the rest is the choice. Time is an estimate (roofline.h) with the registers and shared
// memory that ptxas reports, or measured where the executor has a device (Executor::plan).
//
// Deterministic: the same problem, device and compiler give the same choice, for any number of
// threads. Times are compared in whole nanoseconds; of two equal ones the candidate that comes
// first counts: the kernel as the other passes left it, then algorithms in the order of
// ir::Algorithm, and of one algorithm its default tile, then tiles by ascending extents (rows,
// columns, step, the thread's), then fewer slices.
#pragma once

#include <string>
#include <vector>

#include "runtime/study/candidates.h"

namespace driftc::runtime::study {

// The kernels of a graph by problem, for a report.
std::vector<TunedKernelReport> tuned_kernels(const std::vector<TuningTask>& tasks,
                                             const Tuning& tuning);

// Tunes what `tuning` does not know yet and tells what to choose. What is decided is added to
// `tuning` at once, problem by problem in graph order: on an error those before it are there, and
// the next call goes on after them (by estimated times to the same choices). A choice known already
// that does not fit its kernel is the user's error. `faults` (optional) are planted in candidates,
// on purpose.
Result<passes::KernelChoices> tuned_choices(const TuningRequest& request, Tuning& tuning,
                                            const Services& services,
                                            const Faults* faults = nullptr);

}  // namespace driftc::runtime::study
