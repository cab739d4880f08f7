#include "runtime/study/compile.h"

#include <fmt/format.h>

#include "runtime/eager/interpreter.h"

namespace driftc::runtime::study {
namespace {

// Mode eager: the compiled arm is the interpreter too (an A/A run); every kernel says so.
void keep_in_interpreter(ir::Graph& graph) {
  for (std::size_t i = 0; i < graph.node_count(); ++i) {
    ir::Node& node = graph.mutable_node({static_cast<std::uint32_t>(i)});
    if (node.op != ir::Op::kKernel) continue;
    auto kernel = std::make_shared<ir::Kernel>(*node.kernel);
    kernel->algorithm = ir::Algorithm::kInterpreter;
    kernel->reason = "mode eager";
    node.kernel = std::move(kernel);
  }
}

// Sums of slices by atomics come out in the order in which blocks happen to finish.
Result<void> refuse_atomics(const ir::Graph& graph) {
  for (const ir::Node& node : graph.nodes()) {
    if (node.op != ir::Op::kKernel || node.kernel->algorithm == ir::Algorithm::kInterpreter)
      continue;
    const auto& order = node.kernel->contract.order;
    if (order && order->split > 1 && order->combine == ir::SplitCombine::kAtomic)
      return input_error(
          fmt::format("--deterministic: the kernel of '{}' has order {}: its slices are added by "
                      "atomics, in the order in which blocks finish, which changes from run to run",
                      graph.value(node.result).name, to_string(*order)),
          "--set split-k.combine=serial or pairwise adds them in a fixed order");
  }
  return {};
}

// Each pass did its part of a choice: together they made the kernel that was tried.
Result<void> check_choices(const ir::Graph& base, const ir::Graph& tuned,
                           const std::vector<TuningTask>& tasks,
                           const passes::KernelChoices& choices) {
  for (const TuningTask& task : tasks) {
    const std::string& name = base.name_of(task.node);
    const passes::KernelChoice& choice = choices.at(task.value);
    const ir::Kernel& before = *base.node(task.node).kernel;
    const auto value = tuned.find(name);
    const ir::Node* node = value ? tuned.producer(*value) : nullptr;
    std::string fault = "it is gone";
    if (node != nullptr && node->op == ir::Op::kKernel) {
      fault = passes::why_not(before, choice);
      if (fault.empty()) {
        const ir::Kernel wanted = passes::with_choice(before, choice), &made = *node->kernel;
        if (made.algorithm == wanted.algorithm && made.schedule == wanted.schedule &&
            made.contract == wanted.contract)
          continue;
        fault = fmt::format("the passes made {} {} {}", name_of(made.algorithm),
                            to_string(made.schedule), to_string(made.contract));
      }
    }
    return internal_error(fmt::format("tuning: the kernel of '{}' was to become {}, but {}", name,
                                      to_string(choice), fault));
  }
  return {};
}

}  // namespace

Result<CompiledGraph> compile(
    const ir::Graph& source, const PairSettings& settings, const Services& services,
    const std::function<void(std::string_view, const ir::Graph&)>& on_stage) {
  passes::PassContext context;
  context.source = &source;
  context.evaluate = [&](const ir::Graph& graph, ir::NodeId node,
                         std::span<const ir::Tensor> operands) -> Result<ir::Tensor> {
    return evaluate(graph, node, operands, eager_contract(graph.node(node)),
                    EvalContext{services.pool, 0});
  };
  context.sm_count = settings.device.sm_count;
  context.eager_order = settings.eager_order;
  context.precision = settings.precision;
  context.eager_precision = settings.eager_precision;
  context.fallback = settings.fallback;
  context.options = settings.selection.options;
  passes::PipelineOptions options;
  options.after_pass = [&](const passes::PassTrace& trace, const ir::Graph& graph) {
    if (on_stage) on_stage(trace.name, graph);
  };
  const std::span<const passes::PassInfo> table =
      settings.pass_table.empty() ? passes::all_passes() : settings.pass_table;
  std::vector<TuningTask> tasks;
  std::vector<TunedKernelReport> tuned;
  passes::KernelChoices choices;
  std::optional<ir::Graph> base;
  if (settings.selection.mode == passes::Mode::kMaxAutotune) {
    DRIFTC_TRY(untuned, passes::run_pipeline(source, settings.selection, context, {}, table));
    base = std::move(untuned.graph);
    const TuningRequest request{source, *base, settings};
    tasks = tuning_tasks(request);
    Tuning own;
    Tuning& tuning = settings.tuning ? *settings.tuning : own;
    DRIFTC_TRY(chosen, tuned_choices(request, tuning, services));
    choices = std::move(chosen);
    tuned = tuned_kernels(tasks, tuning);
    context.tuned = &choices;
  }
  DRIFTC_TRY(result, passes::run_pipeline(source, settings.selection, context, options, table));
  if (base) DRIFTC_CHECK(check_choices(*base, result.graph, tasks, choices));
  if (settings.selection.mode == passes::Mode::kEager) keep_in_interpreter(result.graph);
  if (settings.deterministic) DRIFTC_CHECK(refuse_atomics(result.graph));
  if (settings.faults != nullptr && settings.faults->graph) settings.faults->graph(result.graph);
  return CompiledGraph{std::move(result.graph), std::move(result.trace), std::move(tuned)};
}

}  // namespace driftc::runtime::study
