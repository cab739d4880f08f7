// --tuning FILE of mode max-autotune.
#pragma once

#include "frontend/cli/arguments.h"
#include "runtime/study/pair_run.h"

namespace driftc::frontend {

// Gives settings of mode max-autotune what the tuner knows (the file, where there is one) and where
// it goes when it learns more. In another mode --tuning is an error. Reads settings.device.
Result<void> set_tuning(const Arguments& arguments, runtime::study::PairSettings& settings);

}  // namespace driftc::frontend
