// What PyTorch eager would run for each convolution of a model on named GPUs, by cuDNN's own
// heuristics; no GPU is needed. Convolutions with the same shapes and parameters are asked once.
//
// Known from cuDNN: engine, notes, knobs, hence precision and algorithm class. Not known: summation
// order. Known from PyTorch: its filter, and that in NCHW a depthwise convolution in f32 or f64
// does not go to cuDNN at all. Assumed: cudnn.benchmark off, tensors 16-byte aligned and dense, a
// bias added by its own kernel afterwards, padding that differs on two sides added to the tensor
// first.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/support/env.h"
#include "runtime/cuda/cudnn_heuristics.h"
#include "runtime/devices/profile.h"

namespace driftc::runtime::study {

struct EagerPlanSettings {
  std::vector<DeviceProfile> devices;
  cuda::PytorchFlags flags;
  ir::Layout layout = ir::Layout::kNchw;
  ir::DType dtype = ir::DType::kF32;  // of the model as declared; the graph itself is f32
  std::function<void(std::size_t done, std::size_t of)> progress;  // may be empty
};

// How two answers differ, mildest first; only kClass says that the numbers are of another kind. A
// different engine or knob may sum in another order.
enum class Difference { kNone, kKnobs, kEngine, kClass };
std::string_view name_of(Difference difference);  // "none", "knobs", "engine", "class"

struct Answer {
  bool depthwise_kernel = false;  // PyTorch's own kernel, not cuDNN; then `choice` says f32, direct
  cuda::EngineChoice choice;
};
Difference difference(const Answer& a, const Answer& b);

struct DeviceAnswer {
  Answer answer;
  // The same question with that setting turned over; empty: nothing that PyTorch would take.
  std::optional<Answer> other_layout, other_tf32;
  Difference by_layout = Difference::kNone, by_tf32 = Difference::kNone;
};

struct PlanGroup {
  cuda::ConvProblem problem;
  std::vector<std::string> nodes;            // in graph order
  bool padded_first = false;                 // the tensor is padded by its own kernel first
  std::vector<DeviceAnswer> devices;         // as EagerPlanSettings::devices
  Difference by_device = Difference::kNone;  // the greatest between any two
};

struct EagerPlan {
  std::string cudnn_version, cudnn_path;
  std::vector<PlanGroup> groups;  // by first node
  std::size_t convolutions = 0;
};

// The different convolutions of a graph, without answers; nothing is asked.
std::vector<PlanGroup> convolution_groups(const ir::Graph& graph,
                                          const EagerPlanSettings& settings);
// PyTorch's own kernel for such a convolution.
Answer depthwise_answer(ir::DType dtype);
// PyTorch's own rule for what does not go to cuDNN: depthwise in NCHW.
bool uses_depthwise_kernel(const cuda::ConvProblem& problem);

// kUnavailable: no cuDNN, too old, or a call of it fails; a convolution that cuDNN has nothing for
// is one of these, named.
Result<EagerPlan> eager_plan(const ir::Graph& graph, const EagerPlanSettings& settings,
                             const Settings& environment);

}  // namespace driftc::runtime::study
