// What the eager arm is: --eager interpreter | cudnn:DEVICE.
#pragma once

#include <optional>

#include "frontend/cli/arguments.h"
#include "frontend/cli/model.h"
#include "ir/support/env.h"
#include "runtime/study/cudnn_model.h"
#include "runtime/study/pair_run.h"

namespace driftc::frontend {

// What can be said without the model: a word or device that is not known, options that do not go
// with it (--eager-order; --mode strict, which is defined against the interpreter).
Result<void> check_eager(const Arguments& arguments, const runtime::study::PairSettings& settings);

// Empty for the interpreter. For cudnn:DEVICE cuDNN is asked (kUnavailable without one) with
// PyTorch's defaults: TF32 allowed, not deterministic, NCHW.
Result<std::optional<runtime::study::CudnnModel>> choose_eager(const Arguments& arguments,
                                                               const Model& model,
                                                               const Settings& environment);

}  // namespace driftc::frontend
