#include "runtime/study/compiled_arm.h"

#include <fmt/format.h>

#include "codegen/lower.h"
#include "ir/support/hash.h"
#include "runtime/eager/interpreter.h"
#include "runtime/kernel_runner.h"

namespace driftc::runtime::study {

struct CompiledArm::State {
  const ir::Graph& graph;
  const Services& services;
  EvalContext context;
  std::vector<std::optional<CompiledKernel>> kernels;  // by node; empty: constant or interpreted
  std::vector<std::size_t> last_use;                   // by value: the last node that reads it
  std::vector<DeviceTensor> values;                    // by value; constants are uploaded per use
  std::shared_ptr<Executor> executor;
  bool check = false;
  std::size_t compiled = 0;  // by NVRTC, for this arm
  const Faults* faults;      // planted, or null

  const ir::Kernel& kernel(ir::NodeId id) const { return *graph.node(id).kernel; }
  DeviceTensor operand(ir::ValueId id) const {
    const ir::Node* producer = graph.producer(id);
    if (producer != nullptr && producer->op == ir::Op::kConstant)
      return upload(producer->literal->tensor(), ir::Layout::kNchw);
    return values[id.index];
  }
};

namespace {

std::string kernel_of(const ir::Graph& graph, ir::NodeId id) {
  return "kernel of %" + graph.name_of(id) + ": ";
}

// A sum whose slices meet in atomics has no known order on a GPU, so that a bound must stand in for
// the replay; there is one for a sum alone, not for what else its kernel would compute.
Result<void> check_atomics(const ir::Graph& graph, const ir::Node& node,
                           const codegen::LoweredKernel& lowered, const Executor& executor) {
  const auto& order = lowered.contract.order;
  if (executor.orders_atomics() || !order || order->combine != ir::SplitCombine::kAtomic ||
      order->split == 1 || node.from.size() == 1)
    return {};
  return input_error(
      fmt::format("kernel of %{}: atomics add the slices of a sum that is computed together with "
                  "other nodes; on a GPU nothing can be proved of it",
                  graph.value(node.result).name),
      "--executor ptx, or --set split-k.combine=serial");
}

}  // namespace

CompiledArm::CompiledArm(std::unique_ptr<State> state) : state_(std::move(state)) {}
CompiledArm::~CompiledArm() = default;

Result<std::unique_ptr<CompiledArm>> CompiledArm::prepare(const ir::Graph& graph,
                                                          const PairSettings& settings,
                                                          const Services& services) {
  auto state = std::make_unique<State>(State{graph,
                                             services,
                                             EvalContext{services.pool, settings.schedule_seed},
                                             {},
                                             {},
                                             {},
                                             settings.executor,
                                             settings.check,
                                             0,
                                             settings.faults});
  if (state->executor == nullptr) state->executor = std::make_shared<PtxExecutor>(services.pool);
  state->kernels.resize(graph.node_count());
  state->values.resize(graph.value_count());
  state->last_use.resize(graph.value_count());
  if (settings.device.ptx_target.empty())
    return unavailable("device '" + settings.device.name + "' has no PTX target");

  struct Pending {
    ir::NodeId node;
    codegen::LoweredKernel lowered;
    std::size_t first_request, request_count;
  };
  std::vector<Pending> pending;
  std::vector<codegen::CompileRequest> requests;
  for (std::size_t i = 0; i < graph.node_count(); ++i) {
    const ir::NodeId id{static_cast<std::uint32_t>(i)};
    const ir::Node& node = graph.node(id);
    for (ir::ValueId v : node.operands) state->last_use[v.index] = i;
    if (node.op != ir::Op::kKernel || node.kernel->algorithm == ir::Algorithm::kInterpreter)
      continue;
    auto lowered = codegen::lower(graph, id);
    if (!lowered.ok()) {
      lowered.error().message = kernel_of(graph, id) + lowered.error().message;
      return std::move(lowered.error());
    }
    if (settings.faults != nullptr && settings.faults->lowered)
      settings.faults->lowered(node, *lowered);
    DRIFTC_CHECK(check_atomics(graph, node, *lowered, *state->executor));
    auto wanted = compile_requests(*lowered, settings.device.ptx_target);
    pending.push_back({id, std::move(*lowered), requests.size(), wanted.size()});
    for (auto& request : wanted) requests.push_back(std::move(request));
  }
  if (services.progress && !requests.empty())
    services.progress(fmt::format("compiling {} kernels", requests.size()));
  const std::size_t before = services.cache.counters().compiled;
  DRIFTC_TRY(ptx, services.cache.compile_all(requests, services.pool.threads()));
  state->compiled = services.cache.counters().compiled - before;
  for (Pending& p : pending) {
    auto kernel =
        assemble(std::move(p.lowered), std::span(ptx).subspan(p.first_request, p.request_count));
    if (!kernel.ok()) {
      kernel.error().message = kernel_of(graph, p.node) + kernel.error().message;
      return std::move(kernel.error());
    }
    state->kernels[p.node.index] = std::move(*kernel);
  }
  return std::unique_ptr<CompiledArm>(new CompiledArm(std::move(state)));
}

void CompiledArm::set_input(ir::ValueId input, const ir::Tensor& tensor) {
  state_->values[input.index] = upload(tensor, state_->graph.value(input).type.layout);
}

void CompiledArm::set_value(ir::ValueId value, const ir::Tensor& tensor) {
  if (state_->values[value.index].defined()) set_input(value, tensor);
}

Result<ir::Tensor> CompiledArm::run(ir::NodeId id) {
  State& s = *state_;
  const ir::Node& node = s.graph.node(id);
  const ir::TensorType& type = s.graph.value(node.result).type;
  ir::Tensor tensor;
  if (s.kernels[id.index]) {
    // Weights are prepared from the graph's own tensor and before they are uploaded, so that few
    // copies of them live at once. A planted fault changes them in memory, so there they are not.
    std::vector<DeviceTensor> prepared;
    for (const codegen::Preparation& p : s.kernels[id.index]->lowered.preparations) {
      const ir::Node* producer =
          s.graph.producer(node.operands[static_cast<std::size_t>(p.operand)]);
      const bool constant = producer != nullptr && producer->op == ir::Op::kConstant;
      prepared.push_back(constant && s.faults == nullptr
                             ? prepare_operand(p, producer->literal->tensor())
                             : DeviceTensor());
    }
    std::vector<DeviceTensor> operands;
    for (ir::ValueId v : node.operands) operands.push_back(s.operand(v));
    if (s.faults != nullptr && s.faults->operands) s.faults->operands(node, operands);
    DeviceTensor result(type);
    auto ran = s.executor->run(*s.kernels[id.index], operands, prepared, result,
                               RunOptions{s.context.atomic_seed, s.check});
    if (!ran.ok()) {
      ran.error().message = kernel_of(s.graph, id) + ran.error().message;
      return std::move(ran.error());
    }
    tensor = download(result);
    s.values[node.result.index] = std::move(result);
  } else {
    std::vector<ir::Tensor> operands;
    for (ir::ValueId v : node.operands) operands.push_back(download(s.operand(v)));
    tensor = evaluate(s.graph, id, operands, node.kernel->contract, s.context);
    s.values[node.result.index] = upload(tensor, type.layout);
  }
  for (ir::ValueId v : node.operands)
    if (s.last_use[v.index] == id.index) s.values[v.index] = {};
  return tensor;
}

std::size_t CompiledArm::node_count() const { return state_->graph.node_count(); }
bool CompiledArm::is_compiled(ir::NodeId id) const { return state_->kernels[id.index].has_value(); }
std::string CompiledArm::kernel_name(ir::NodeId id) const {
  const auto& kernel = state_->kernels[id.index];
  return kernel ? kernel->lowered.launches.front().entry : "";
}
ir::Layout CompiledArm::layout(ir::NodeId id) const {
  return state_->graph.value(state_->graph.node(id).result).type.layout;
}
std::size_t CompiledArm::kernels_compiled() const { return state_->compiled; }

Result<std::unique_ptr<LaunchPlan>> CompiledArm::plan(bool as_graph) const {
  if (state_->faults != nullptr) return std::unique_ptr<LaunchPlan>();
  std::vector<const CompiledKernel*> kernels;
  for (const auto& kernel : state_->kernels) kernels.push_back(kernel ? &*kernel : nullptr);
  return state_->executor->plan(state_->graph, kernels, as_graph);
}

std::vector<KernelReport> CompiledArm::kernel_reports() const {
  std::vector<KernelReport> reports;
  for (std::size_t i = 0; i < state_->kernels.size(); ++i) {
    if (!state_->kernels[i]) continue;
    const ir::NodeId id{static_cast<std::uint32_t>(i)};
    const CompiledKernel& compiled = *state_->kernels[i];
    const ir::Kernel& kernel = state_->kernel(id);
    KernelReport report;
    report.name = kernel_name(id);
    report.value = state_->graph.name_of(id);
    report.from = state_->graph.node(id).from;
    report.order = kernel.contract.order ? to_string(*kernel.contract.order) : "none";
    report.contract = to_string(kernel.contract);
    report.algorithm = name_of(kernel.algorithm);
    report.schedule = to_string(kernel.schedule);
    FieldHasher source, ptx;
    for (const codegen::Launch& launch : compiled.lowered.launches) source.add(launch.source);
    for (const codegen::CompiledPtx& p : compiled.ptx) ptx.add(p.ptx);
    report.source_hash = source.hex128();
    report.ptx_hash = ptx.hex128();
    report.nvrtc = compiled.ptx.front().compiler;
    reports.push_back(std::move(report));
  }
  return reports;
}

namespace {

// Kernels with a reason, among those that are interpreted or among those that are not.
std::vector<FallbackReport> reasons(const ir::Graph& graph, bool interpreted) {
  std::vector<FallbackReport> reports;
  for (const ir::Node& node : graph.nodes())
    if (node.op == ir::Op::kKernel && !node.kernel->reason.empty() &&
        (node.kernel->algorithm == ir::Algorithm::kInterpreter) == interpreted)
      reports.push_back({graph.value(node.result).name, node.kernel->reason});
  return reports;
}

}  // namespace

std::vector<FallbackReport> CompiledArm::fallback_reports() const {
  return reasons(state_->graph, true);
}
std::vector<FallbackReport> CompiledArm::refusal_reports() const {
  return reasons(state_->graph, false);
}

}  // namespace driftc::runtime::study
