// Eager as cuDNN would run it on a named GPU, replayed in the interpreter where no such GPU is: the
// plan (runtime/study/eager_plan.h) as contracts of the eager arm.
//
// Known, from cuDNN: the engine's precision and class of algorithm. Assumed, since cuDNN does not
// say:
// - TF32 operands are rounded to nearest, ties away (numerics.md 1.5: NVIDIA's libraries round
// first);
// - sums run in the order of eager's default (crs.fma), accumulated in f32; a tensor core's blocks
// and an
//   engine's tiles and split-k are not modelled;
// - the bias is a kernel of its own (PyTorch).
// Without a model the convolution is computed directly in its precision, and named: Winograd, FFT.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/study/eager_plan.h"

namespace driftc::runtime::study {

struct ModelledConvolution {
  std::string node;
  Answer answer;
  ir::NumericContract contract;
  std::string gap;  // what of the engine has no model; "" for none
};

struct CudnnModel {
  std::string cudnn_version, device;
  std::vector<ModelledConvolution> convolutions;  // in graph order
  // For PairSettings::eager_contracts.
  std::map<std::string, ir::NumericContract> contracts() const;
};

// `plan` asked about one device; it is the plan of `graph`.
CudnnModel cudnn_model(const ir::Graph& graph, const EagerPlan& plan, const DeviceProfile& device);

}  // namespace driftc::runtime::study
