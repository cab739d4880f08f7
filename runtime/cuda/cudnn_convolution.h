// Convolutions by cuDNN on a GPU: the engine that PyTorch eager would take there (its ranking, then
// PyTorch's filter), run as it is. The order of its sums is cuDNN's own; only determinism,
// precision and class of algorithm are known, from its notes.
#pragma once

#include <memory>
#include <vector>

#include "ir/tensor.h"
#include "runtime/cuda/cudnn_heuristics.h"
#include "runtime/cuda/gpu.h"

namespace driftc::runtime::cuda {

struct ConvGraph;

class CudnnConvolution;

// cuDNN bound to a Gpu and its stream. Not thread-safe.
class CudnnExecutor : public std::enable_shared_from_this<CudnnExecutor> {
 public:
  // kUnavailable: no cuDNN, too old, or it does not take the GPU.
  static Result<std::shared_ptr<CudnnExecutor>> open(const Settings& environment,
                                                     std::shared_ptr<Gpu> gpu);
  ~CudnnExecutor();
  CudnnExecutor(const CudnnExecutor&) = delete;
  CudnnExecutor& operator=(const CudnnExecutor&) = delete;

  std::string version() const { return api_->version_text(); }
  // The first engine that passes the filter and of which cuDNN makes a plan. kUnavailable for none.
  Result<CudnnConvolution> convolution(const ConvProblem& problem, const PytorchFlags& flags);

 private:
  friend class CudnnConvolution;
  CudnnExecutor(std::shared_ptr<const CudnnApi> api, std::shared_ptr<Gpu> gpu)
      : api_(std::move(api)), gpu_(std::move(gpu)) {}
  std::shared_ptr<const CudnnApi> api_;
  std::shared_ptr<Gpu> gpu_;
  CudnnHandle handle_ = nullptr;
};

class CudnnConvolution {
 public:
  CudnnConvolution(CudnnConvolution&&) noexcept;
  ~CudnnConvolution();
  const EngineChoice& choice() const { return choice_; }
  // x and w in f32, logical NCHW and KCRS whatever the problem's layout; y likewise, without bias.
  Result<ir::Tensor> run(const ir::Tensor& x, const ir::Tensor& w);
  // Device time of each of `runs` runs on the operands of the last `run`, in milliseconds.
  Result<std::vector<double>> time(int runs);

 private:
  friend class CudnnExecutor;
  CudnnConvolution(std::shared_ptr<CudnnExecutor> executor, ConvProblem problem,
                   std::unique_ptr<ConvGraph> graph, Descriptor config, Descriptor plan,
                   EngineChoice choice);
  Result<void> queue();

  std::shared_ptr<CudnnExecutor> executor_;
  ConvProblem problem_;
  std::unique_ptr<ConvGraph> graph_;
  Descriptor config_, plan_;  // the plan refers to the configuration, that to the graph
  EngineChoice choice_;
  DeviceBuffer x_, w_, y_, workspace_;
};

}  // namespace driftc::runtime::cuda
