#include "runtime/study/schedules.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/study/compile.h"
#include "runtime/study/compiled_arm.h"

namespace driftc::runtime::study {
namespace {

// What the tensors of one value (one per seed) say; nothing where they are the same bits.
std::optional<ScheduleChange> change_of(const std::vector<ir::Tensor>& tensors) {
  ScheduleChange change;
  std::vector<const ir::Tensor*> distinct = {&tensors[0]};
  for (std::size_t seed = 1; seed < tensors.size(); ++seed) {
    const bool known = std::any_of(distinct.begin(), distinct.end(), [&](const ir::Tensor* t) {
      return ir::same_bits(*t, tensors[seed]);
    });
    if (!known) distinct.push_back(&tensors[seed]);
    if (ir::same_bits(tensors[0], tensors[seed])) continue;
    ++change.schedules;
    if (tensors[0].dtype() != ir::DType::kF32) continue;
    const compare::Metrics m = compare::measure(tensors[0], tensors[seed], nullptr, 0);
    change.elements = m.elements;
    change.mismatched = std::max(change.mismatched, m.mismatched);
    change.max_ulp = std::max(change.max_ulp, m.max_ulp);
    change.max_abs = std::max(change.max_abs, m.max_abs);
  }
  if (change.schedules == 0) return std::nullopt;
  change.distinct = static_cast<int>(distinct.size());
  return change;
}

}  // namespace

Result<ScheduleReport> run_schedules(const ir::Graph& source,
                                     const std::vector<NamedTensor>& inputs, int count,
                                     const PairSettings& settings, const Services& services) {
  DRIFTC_TRY(bound, bind_inputs(source, inputs));
  DRIFTC_TRY(compiled, compile(source, settings, services));
  const ir::Graph& graph = compiled.graph;
  std::vector<std::unique_ptr<CompiledArm>> arms;
  for (int seed = 0; seed < count; ++seed) {
    PairSettings one = settings;
    one.schedule_seed = static_cast<std::uint64_t>(seed);
    DRIFTC_TRY(arm, CompiledArm::prepare(graph, one, services));
    for (std::size_t i = 0; i < bound.size(); ++i)
      arm->set_input(graph.inputs()[i], bound[i].tensor);
    arms.push_back(std::move(arm));
  }
  ScheduleReport report;
  report.schedules = count;
  report.outputs_of = static_cast<std::int64_t>(graph.outputs().size());
  std::vector<bool> varies(graph.value_count());
  for (std::size_t i = 0; i < graph.node_count(); ++i) {
    const ir::NodeId id{static_cast<std::uint32_t>(i)};
    const ir::Node& node = graph.node(id);
    if (node.op == ir::Op::kConstant) continue;
    if (services.progress)
      services.progress(
          fmt::format("schedules {}/{} {}", i + 1, graph.node_count(), graph.name_of(id)));
    std::vector<ir::Tensor> tensors;
    for (const auto& arm : arms) {
      DRIFTC_TRY(tensor, arm->run(id));
      tensors.push_back(std::move(tensor));
    }
    std::optional<ScheduleChange> change = change_of(tensors);
    if (!change) continue;
    varies[node.result.index] = true;
    change->value = graph.name_of(id);
    change->kernel = arms[0]->kernel_name(id);
    change->order = node.kernel->contract.order ? to_string(*node.kernel->contract.order) : "";
    change->atomics = node.kernel->contract.order && node.kernel->contract.order->split > 1 &&
                      node.kernel->contract.order->combine == ir::SplitCombine::kAtomic;
    change->output = graph.is_output(node.result);
    change->begins_here = std::none_of(node.operands.begin(), node.operands.end(),
                                       [&](ir::ValueId v) { return bool{varies[v.index]}; });
    if (change->output) ++report.outputs_changed;
    report.changed.push_back(std::move(*change));
  }
  return report;
}

}  // namespace driftc::runtime::study
