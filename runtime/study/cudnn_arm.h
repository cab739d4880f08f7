// The convolutions of the eager arm by cuDNN itself on a GPU: per convolution the engine that
// PyTorch eager would take there, run as it is. Everything else of the arm stays in the
// interpreter: PyTorch pads asymmetric convolutions and adds the bias with kernels of their own,
// and depthwise convolutions do not go to cuDNN (eager_plan.h).
//
// The bits are cuDNN's; its order of summation is not known, so a difference is not proved by
// replay but judged (judge.h) against what the contract of cudnn_model.h allows.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "runtime/cuda/cudnn_convolution.h"
#include "runtime/eager/region.h"
#include "runtime/study/cudnn_model.h"
#include "runtime/study/judge.h"

namespace driftc::runtime::study {

class CudnnArm : public NodeRunner {
 public:
  // Makes cuDNN's plans for the convolutions of `graph` with PyTorch's default settings, NCHW.
  // kUnavailable: a convolution that cuDNN has no engine for, named. `graph` is borrowed.
  static Result<std::shared_ptr<CudnnArm>> open(const ir::Graph& graph,
                                                std::shared_ptr<cuda::CudnnExecutor> cudnn,
                                                const DeviceProfile& device);

  const CudnnModel& model() const { return model_; }
  bool runs(ir::NodeId node) const { return plan_of_[node.index].has_value(); }
  ir::Tensor run(ir::NodeId node, std::span<const ir::Tensor> operands) override;
  // The first failure of a run, with the convolution's name.
  Result<void> status() const;
  // Whether `result` is a correct value of the convolution `node` of these operands, and in which
  // precision.
  Result<JudgedFile> judged(ir::NodeId node, std::span<const ir::Tensor> operands,
                            const ir::Tensor& result, const Services& services) const;

 private:
  explicit CudnnArm(const ir::Graph& graph) : graph_(graph), plan_of_(graph.node_count()) {}
  const ir::Graph& graph_;
  std::vector<cuda::CudnnConvolution> plans_;        // one per different convolution
  std::vector<std::optional<std::size_t>> plan_of_;  // by node
  CudnnModel model_;
  std::optional<Diagnostic> failed_;
};

// Marks the nodes that `arm` runs.
void let_cudnn_run(std::vector<Recipe>& recipes, CudnnArm& arm);

}  // namespace driftc::runtime::study
