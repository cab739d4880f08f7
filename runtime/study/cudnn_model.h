// Eager as cuDNN runs it, as contracts of the eager arm: replayed in the interpreter where no such
// GPU is (the plan of runtime/study/eager_plan.h), or what is known of the engines that a GPU ran.
//
// Known, from cuDNN: the engine's precision and class of algorithm. Assumed, since cuDNN does not
// say:
// - TF32 operands are rounded to nearest, ties away (numerics.md 1.5: NVIDIA's libraries round
//   first), and tensor-core engines use the device's own mma instruction in the walk crs;
// - other sums run in the order of eager's default (crs.fma), accumulated in f32; an engine's
//   tiles and split-k are not modelled;
// - the notes WINOGRAD_TILE_4x4 and _6x6 name the input tile: F(2,3) and F(4,3), filters
//   transformed in f32;
// - f16 and bf16 results are stored in that type, and what follows as autocast has it
//   (ir/precision.h);
// - the bias is a kernel of its own (PyTorch).
// Without a model the convolution is computed directly in its precision, and named: FFT, 13x13
// tiles, Winograd of what F(m,3) does not fit.
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
  bool ran = false;  // cuDNN itself ran on the GPU; the contracts are what is known of it
  std::vector<ModelledConvolution> convolutions;  // in graph order
  // Of every node of the graph, for PairSettings::eager_contracts.
  std::map<std::string, ir::NumericContract> contracts;
};

// `plan` asked about one device; it is the plan of `graph`.
CudnnModel cudnn_model(const ir::Graph& graph, const EagerPlan& plan, const DeviceProfile& device);

}  // namespace driftc::runtime::study
