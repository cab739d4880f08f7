// The compiled arm: every kernel of a compiled graph lowered, compiled by NVRTC (through the
// cache), decoded and run by the executor of the services: on the CPU, or on a GPU. Kernels that
// stay in the interpreter run there. Values are freed after their last use; results come back in
// logical order.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/study/pair_run.h"

namespace driftc::runtime::study {

class CompiledArm {
 public:
  // `graph` must outlive the arm; every compute node is a kernel.
  static Result<std::unique_ptr<CompiledArm>> prepare(const ir::Graph& graph,
                                                      const PairSettings& settings,
                                                      const Services& services);
  ~CompiledArm();

  void set_input(ir::ValueId input, const ir::Tensor& tensor);
  // Replaces a value that was computed, for its readers to come; nothing where none is left.
  void set_value(ir::ValueId value, const ir::Tensor& tensor);
  // Runs one kernel node; nodes must be run in order.
  Result<ir::Tensor> run(ir::NodeId node);

  // The whole network as one launch plan, or null (Executor::plan). The arm must outlive it.
  Result<std::unique_ptr<LaunchPlan>> plan(bool as_graph) const;

  std::size_t node_count() const;
  bool is_compiled(ir::NodeId node) const;         // false: runs in the interpreter
  std::string kernel_name(ir::NodeId node) const;  // entry point; "" when interpreted
  ir::Layout layout(ir::NodeId node) const;
  std::vector<KernelReport> kernel_reports() const;
  std::vector<FallbackReport> fallback_reports() const;
  std::vector<FallbackReport> refusal_reports() const;
  std::size_t kernels_compiled() const;

 private:
  struct State;
  explicit CompiledArm(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace driftc::runtime::study
