// Where kernels run, and for which device they are made: --executor and --device together.
#pragma once

#include <memory>

#include "frontend/cli/arguments.h"
#include "ir/support/env.h"
#include "runtime/devices/profile.h"
#include "runtime/executor.h"

namespace driftc::frontend {

struct ExecutorChoice {
  std::shared_ptr<runtime::Executor> executor;  // null: the PTX executor
  runtime::DeviceProfile device;
};

// auto: the GPU where there is one that runs the profile's kernels, else the PTX executor; with
// --check always the PTX executor, which alone can check. cuda: the GPU, whose own profile is the
// default then; kUnavailable when it cannot be used.
Result<ExecutorChoice> choose_executor(const Arguments& arguments, const Settings& environment);

}  // namespace driftc::frontend
