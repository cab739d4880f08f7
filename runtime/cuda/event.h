// Device time by the events of the driver.
#pragma once

#include <functional>
#include <vector>

#include "runtime/cuda/gpu.h"

namespace driftc::runtime::cuda {

// Milliseconds of each of `runs` runs of `work`, which queues on the stream of `gpu`.
Result<std::vector<double>> timed(Gpu& gpu, int runs, const std::function<Result<void>()>& work);

}  // namespace driftc::runtime::cuda
