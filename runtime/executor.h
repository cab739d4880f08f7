// Where compiled kernels run. Every executor takes the same kernels (the same PTX) and must give
// the same bits; the one exception is the order of atomics, which only the PTX executor can fix.
// Not thread-safe: one run at a time.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "runtime/kernel_runner.h"

namespace driftc::runtime {

// A whole network as one list of launches on a device, its values and constants resident there.
class LaunchPlan {
 public:
  virtual ~LaunchPlan() = default;
  // Runs it once; `inputs` in the order of the graph. The outputs that kernels make, in the order
  // of the graph; others are undefined tensors.
  virtual Result<std::vector<ir::Tensor>> run(std::span<const ir::Tensor> inputs) = 0;
  // Device time of each of `runs` runs on the inputs of the last `run`, in milliseconds; copies to
  // and from the device are not in it.
  virtual Result<std::vector<double>> time(int runs) = 0;
  // The same for each launch step alone, one value per kernel node in graph order.
  virtual Result<std::vector<double>> time_kernels(int runs) = 0;
  virtual std::size_t launches() const = 0;
};

class Executor {
 public:
  virtual ~Executor() = default;
  virtual std::string_view name() const = 0;  // "ptx" or "cuda"
  virtual std::string device() const = 0;     // what it runs on, for a reader
  // What it can do beyond running kernels.
  virtual bool checks() const = 0;          // RunOptions::check
  virtual bool orders_atomics() const = 0;  // RunOptions::schedule_seed
  // As runtime::run (kernel_runner.h).
  virtual Result<void> run(const CompiledKernel& kernel, std::span<const DeviceTensor> operands,
                           std::span<const DeviceTensor> prepared, DeviceTensor& result,
                           const RunOptions& options) = 0;
  // `kernels` by node, null where there is none; they must outlive the plan. Null where the
  // executor has no such plan, or the network none: a node stays in the interpreter, or weights are
  // no constants. With `as_graph` the launches are recorded once and started together (mode
  // reduce-overhead: a CUDA graph).
  virtual Result<std::unique_ptr<LaunchPlan>> plan(const ir::Graph& graph,
                                                   std::span<const CompiledKernel* const> kernels,
                                                   bool as_graph) = 0;
};

// On this CPU: runtime/ptx.
class PtxExecutor final : public Executor {
 public:
  explicit PtxExecutor(ThreadPool& pool) : pool_(pool) {}
  std::string_view name() const override { return "ptx"; }
  std::string device() const override { return "this CPU"; }
  bool checks() const override { return true; }
  bool orders_atomics() const override { return true; }
  Result<void> run(const CompiledKernel& kernel, std::span<const DeviceTensor> operands,
                   std::span<const DeviceTensor> prepared, DeviceTensor& result,
                   const RunOptions& options) override {
    return runtime::run(kernel, operands, prepared, result, pool_, options);
  }
  Result<std::unique_ptr<LaunchPlan>> plan(const ir::Graph&, std::span<const CompiledKernel* const>,
                                           bool) override {
    return std::unique_ptr<LaunchPlan>();
  }

 private:
  ThreadPool& pool_;
};

}  // namespace driftc::runtime
