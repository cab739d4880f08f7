#include "runtime/study/locate.h"

#include <fmt/format.h>

#include "runtime/eager/region.h"
#include "runtime/study/compile.h"
#include "runtime/study/source_map.h"

namespace driftc::runtime::study {

std::string FaultLocation::describe(const std::string& value) const {
  const auto found = by_value.find(value);
  if (found != by_value.end())
    return fmt::format("pass {}: its graph no longer computes what the source does", found->second);
  return "the graph replays after every pass: lowering, CUDA text or execution is wrong";
}

Result<FaultLocation> locate(const ir::Graph& source, const std::vector<NamedTensor>& inputs,
                             const PairSettings& settings, const Services& services) {
  FaultLocation location;
  const EvalContext context{services.pool, settings.schedule_seed};
  const std::vector<ir::NumericContract> eager = eager_contracts(
      source, settings.eager_order, settings.eager_precision, settings.eager_contracts);
  auto check = [&](std::string_view pass, const ir::Graph& stage) {
    const SourceMap map = map_to_source(source, stage, eager);
    std::vector<Recipe> stage_recipes;
    for (std::size_t i = 0; i < stage.node_count(); ++i)
      stage_recipes.push_back({stage_contract(stage.nodes()[i]), static_cast<int>(i)});
    Evaluator in_stage(stage, stage_recipes, context),
        in_source(source, map.compiled_recipes, context);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      in_stage.know(stage.inputs()[i], inputs[i].tensor);
      in_source.know(source.inputs()[i], inputs[i].tensor);
    }
    for (const Materialised& m : map.values) {
      const ir::ValueId value = stage.node(m.producer).result;
      const ir::Tensor made = in_stage.value(value);
      const bool equal = ir::same_bits(in_source.value(m.source), made);
      // Both go on with the stage's value, so that a wrong one is blamed once, where it is made.
      in_stage.know(value, made);
      in_source.know(m.source, made);
      if (equal) continue;
      location.by_value.emplace(source.value(m.source).name, pass);
      if (location.first_wrong_pass.empty()) location.first_wrong_pass = pass;
    }
  };
  DRIFTC_TRY(compiled, compile(source, settings, services, check));
  (void)compiled;
  return location;
}

}  // namespace driftc::runtime::study
