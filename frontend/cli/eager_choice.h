// What the eager arm is: --eager interpreter | cudnn | cudnn:DEVICE.
#pragma once

#include <memory>
#include <optional>

#include "frontend/cli/arguments.h"
#include "frontend/cli/model.h"
#include "ir/support/env.h"
#include "runtime/study/cudnn_arm.h"
#include "runtime/study/pair_run.h"

namespace driftc::frontend {

// What can be said without the model: a word or device that is not known, options that do not go
// with it (--eager-order; --mode strict, which is defined against the interpreter; with cudnn
// --reference exact, whose bounds need an order).
Result<void> check_eager(const Arguments& arguments, const runtime::study::PairSettings& settings);

struct EagerChoice {
  runtime::study::CudnnModel model;
  std::shared_ptr<runtime::study::CudnnArm> arm;  // null: the model is replayed
};

// Empty for the interpreter. For cudnn:DEVICE cuDNN is asked (kUnavailable without one) with
// PyTorch's defaults: TF32 allowed, not deterministic, NCHW. For cudnn it runs on the GPU of this
// machine (kUnavailable without one); `graph` of the model must outlive the arm.
Result<std::optional<EagerChoice>> choose_eager(const Arguments& arguments, const Model& model,
                                                const Settings& environment);
void apply(const EagerChoice& eager, runtime::study::PairSettings& settings);

}  // namespace driftc::frontend
