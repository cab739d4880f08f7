// The main study: run one graph eagerly and compiled, in lock-step, and say of every value how and
// why the two differ (product.md, idea 2; architecture.md, "What a proof proves"). Memory: values
// live until their last use in any arm; nothing is kept unless `on_value` keeps it. Deterministic:
// the report depends on graph, inputs and settings, not on threads or earlier runs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codegen/cache.h"
#include "ir/graph.h"
#include "ir/precision.h"
#include "passes/selection.h"
#include "runtime/devices/profile.h"
#include "runtime/executor.h"
#include "runtime/kernel_runner.h"
#include "runtime/study/report.h"
#include "runtime/thread_pool.h"

namespace driftc::runtime::study {

class CudnnArm;

struct NamedTensor {
  std::string name;
  ir::Tensor tensor;
};

// Things a study needs from outside; borrowed for the call.
struct Services {
  codegen::KernelCache& cache;
  ThreadPool& pool;
  std::function<void(const std::string&)> progress = {};  // one short line per step; may be empty
};

// Faults planted on purpose, to test the checker (certify); none by default.
struct Faults {
  // The compiled graph after the passes. Also how certify sets operand precisions.
  std::function<void(ir::Graph&)> graph;
  // The compiled graph once its kernels are lowered: what source replay is told, not what runs.
  std::function<void(ir::Graph&)> declaration;
  // Every kernel before NVRTC: CUDA text, launch arguments, preparations.
  std::function<void(const ir::Node&, codegen::LoweredKernel&)> lowered;
  // The operands of every kernel as they lie in memory, before it runs.
  std::function<void(const ir::Node&, std::vector<DeviceTensor>&)> operands;
};

struct Tuning;  // tune.h

struct PairSettings {
  passes::PassSelection selection;  // mode, passes, options
  std::optional<ir::ReductionOrder>
      eager_order;                    // applied where it fits; others keep their default
  ir::PrecisionPlan precision;        // of the compiled arm (the pass `precision` applies it)
  ir::PrecisionPlan eager_precision;  // of the eager arm
  bool declared = false;              // --eager-order=declared: the eager arm runs the
                                      // source graph under the compiled arm's contracts
  std::vector<std::string> fallback;  // source nodes kept in the interpreter
  DeviceProfile device;
  std::shared_ptr<Executor> executor = {};  // where kernels run; null: the PTX executor
  std::span<const passes::PassInfo> pass_table =
      {};  // empty: passes::all_passes(); tests plant faults
  // Mode max-autotune: what the tuner knows, and learns. Null: it is tuned for one compilation.
  std::shared_ptr<Tuning> tuning = {};
  std::uint64_t schedule_seed = 0;  // order of blocks, warps and atomics
  // Contracts of the eager arm by the name of a source value, where they are not eager's own: an
  // eager library that picks other algorithms, orders or precisions per node.
  std::map<std::string, ir::NumericContract> eager_contracts = {};
  // Runs the convolutions of the eager arm on a GPU; null: the interpreter does.
  std::shared_ptr<CudnnArm> cudnn = {};
  bool deterministic = false;      // refuse kernels whose order of atomics can change
  bool check = false;              // kernels run in checked mode (ptx/machine.h)
  bool reference = true;           // run the f64 arm
  bool exact = false;              // exact values and bounds of every value (exact_study.h), not
                                   // only of those that replay does not prove
  const Faults* faults = nullptr;  // borrowed; null: none
  // Called for every compared value while its tensors live: name, eager, compiled, reference (or
  // null).
  std::function<void(const std::string&, const ir::Tensor&, const ir::Tensor&, const ir::Tensor*)>
      on_value = {};
};

// Errors: inputs that do not fit (kInput), no compiler and no recorded PTX (kUnavailable), a kernel
// that NVRTC or the executor rejects (kInternal).
Result<PairReport> pair_run(const ir::Graph& source, const std::vector<NamedTensor>& inputs,
                            const PairSettings& settings, const Services& services);

// One arm alone: the outputs of the graph, f64 for kReference, else f32.
enum class Arm { kEager, kCompiled, kReference };
Result<std::vector<NamedTensor>> run_arm(const ir::Graph& source,
                                         const std::vector<NamedTensor>& inputs, Arm arm,
                                         const PairSettings& settings, const Services& services);

}  // namespace driftc::runtime::study
