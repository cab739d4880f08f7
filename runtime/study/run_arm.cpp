#include "runtime/eager/region.h"
#include "runtime/study/compile.h"
#include "runtime/study/compiled_arm.h"
#include "runtime/study/cudnn_arm.h"
#include "runtime/study/source_map.h"

namespace driftc::runtime::study {
namespace {

// Outputs that no node computes: constants, and inputs returned as they are.
void fill_known_outputs(const ir::Graph& source, const std::vector<NamedTensor>& bound,
                        ir::DType dtype, std::vector<NamedTensor>& outputs) {
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    if (outputs[o].tensor.defined()) continue;
    const ir::ValueId id = source.outputs()[o];
    if (source.is_constant(id))
      outputs[o].tensor = source.producer(id)->literal->tensor().converted(dtype);
    for (std::size_t i = 0; i < bound.size(); ++i)
      if (source.inputs()[i] == id) outputs[o].tensor = bound[i].tensor.converted(dtype);
  }
}

std::vector<Recipe> recipes_of(const ir::Graph& source, const PairSettings& settings) {
  std::vector<Recipe> recipes;
  for (ir::NumericContract& contract : eager_contracts(
           source, settings.eager_order, settings.eager_precision, settings.eager_contracts))
    recipes.push_back({std::move(contract), static_cast<int>(recipes.size())});
  if (settings.cudnn != nullptr) let_cudnn_run(recipes, *settings.cudnn);
  return recipes;
}

std::vector<NamedTensor> interpret(const ir::Graph& source, const std::vector<NamedTensor>& bound,
                                   std::vector<Recipe> recipes, ir::DType dtype,
                                   const EvalContext& context) {
  Evaluator evaluator(source, std::move(recipes), context, dtype);
  std::vector<ir::Tensor> inputs;
  for (const NamedTensor& input : bound) inputs.push_back(input.tensor);
  std::vector<NamedTensor> outputs;
  for (ir::ValueId output : source.outputs()) outputs.push_back({source.value(output).name, {}});
  const auto wanted = all_results(source);
  run_values(evaluator, inputs, wanted, [&](ir::ValueId value, const ir::Tensor& tensor) {
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (source.outputs()[i] == value) outputs[i].tensor = tensor;
  });
  fill_known_outputs(source, bound, dtype, outputs);
  return outputs;
}

}  // namespace

Result<std::vector<NamedTensor>> run_arm(const ir::Graph& source,
                                         const std::vector<NamedTensor>& inputs, Arm arm,
                                         const PairSettings& settings, const Services& services) {
  DRIFTC_TRY(bound, bind_inputs(source, inputs));
  const EvalContext context{services.pool, settings.schedule_seed};
  if (arm == Arm::kReference)
    return interpret(source, bound, eager_recipes(source), ir::DType::kF64, context);
  if (arm == Arm::kEager && !settings.declared) {
    auto outputs = interpret(source, bound, recipes_of(source, settings), ir::DType::kF32, context);
    if (settings.cudnn != nullptr) DRIFTC_CHECK(settings.cudnn->status());
    return outputs;
  }
  DRIFTC_TRY(compiled, compile(source, settings, services));
  if (arm == Arm::kEager) {
    const SourceMap map =
        map_to_source(source, compiled.graph,
                      eager_contracts(source, settings.eager_order, settings.eager_precision,
                                      settings.eager_contracts));
    return interpret(source, bound, map.compiled_recipes, ir::DType::kF32, context);
  }
  DRIFTC_TRY(runner, CompiledArm::prepare(compiled.graph, settings, services));
  DRIFTC_TRY(plan, runner->plan(settings.selection.mode == passes::Mode::kReduceOverhead));
  if (plan != nullptr) {
    std::vector<ir::Tensor> tensors;
    for (const NamedTensor& input : bound) tensors.push_back(input.tensor);
    DRIFTC_TRY(results, plan->run(tensors));
    std::vector<NamedTensor> outputs;
    for (std::size_t o = 0; o < results.size(); ++o)
      outputs.push_back({compiled.graph.value(compiled.graph.outputs()[o]).name, results[o]});
    fill_known_outputs(compiled.graph, bound, ir::DType::kF32, outputs);
    return outputs;
  }
  for (std::size_t i = 0; i < bound.size(); ++i)
    runner->set_input(compiled.graph.inputs()[i], bound[i].tensor);
  std::vector<NamedTensor> outputs;
  for (ir::ValueId output : compiled.graph.outputs())
    outputs.push_back({compiled.graph.value(output).name, {}});
  for (std::size_t i = 0; i < compiled.graph.node_count(); ++i) {
    const ir::NodeId id{static_cast<std::uint32_t>(i)};
    if (compiled.graph.node(id).op == ir::Op::kConstant) continue;
    DRIFTC_TRY(tensor, runner->run(id));
    for (std::size_t o = 0; o < outputs.size(); ++o)
      if (compiled.graph.outputs()[o] == compiled.graph.node(id).result) outputs[o].tensor = tensor;
  }
  fill_known_outputs(compiled.graph, bound, ir::DType::kF32, outputs);
  return outputs;
}

}  // namespace driftc::runtime::study
