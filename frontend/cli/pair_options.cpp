#include "frontend/cli/pair_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "frontend/cli/executor_choice.h"
#include "frontend/cli/output.h"
#include "frontend/cli/tuning_option.h"
#include "passes/inductor.h"

namespace driftc::frontend {

using runtime::study::PairSettings;

Result<std::vector<std::string>> split_list(std::string_view flag, const std::string& text) {
  std::vector<std::string> words;
  std::size_t begin = 0;
  while (true) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    if (comma == begin)
      return input_error(fmt::format("{}: an empty name in '{}'", flag, text),
                         "names with ',' between them");
    words.push_back(text.substr(begin, comma - begin));
    if (comma == text.size()) return words;
    begin = comma + 1;
  }
}

namespace {

Result<void> set_eager_order(const Arguments& arguments, PairSettings& settings) {
  const std::optional<std::string> text = arguments.value("--eager-order");
  if (!text) return {};
  if (*text == "declared") {
    settings.declared = true;
    return {};
  }
  DRIFTC_TRY(order, ir::parse_order(*text));
  settings.eager_order = order;
  return {};
}

}  // namespace

Result<PairSettings> pair_settings(const Arguments& arguments, const Settings& environment) {
  PairSettings settings;
  passes::SelectionRequest request;
  request.mode = arguments.value_or("--mode", "");
  request.passes = arguments.value_or("--passes", "");
  request.sets = arguments.all("--set");
  DRIFTC_TRY(inductor, passes::parse_inductor(arguments.all("--inductor")));
  DRIFTC_CHECK(passes::add_inductor(inductor, request));
  if (const std::optional<std::string> nodes = arguments.value("--fallback")) {
    DRIFTC_TRY(list, split_list("--fallback", *nodes));
    settings.fallback = list;
    request.fallback_named = true;
  }
  if (const std::optional<std::string> text = arguments.value("--precision")) {
    DRIFTC_TRY(plan, ir::parse_precision_plan(*text, "--precision"));
    settings.precision = settings.eager_precision = plan;
    settings.eager_precision.nodes.clear();
    request.precision_named = true;
  }
  if (const std::optional<std::string> text = arguments.value("--eager-precision")) {
    DRIFTC_TRY(plan, ir::parse_precision_plan(*text, "--eager-precision"));
    settings.eager_precision = plan;
  }
  DRIFTC_TRY(selection, passes::select_passes(request));
  DRIFTC_CHECK(passes::finish_inductor(inductor, request, selection));
  for (const passes::InductorSetting& setting : inductor) note(passes::explain(setting));
  for (const std::string& text : selection.notes) note(text);
  settings.selection = selection;
  DRIFTC_CHECK(set_eager_order(arguments, settings));
  DRIFTC_TRY(choice, choose_executor(arguments, environment));
  settings.device = choice.device;
  settings.executor = choice.executor;
  settings.precision.mma_arch = settings.eager_precision.mma_arch = settings.device.mma_arch;
  settings.deterministic =
      arguments.has("--deterministic") || passes::asks_for_deterministic(inductor);
  DRIFTC_CHECK(set_tuning(arguments, settings));
  return settings;
}

Result<int> schedule_count(const Arguments& arguments) {
  DRIFTC_TRY(count, arguments.integer("--schedules", 2, 1024));
  return static_cast<int>(count.value_or(0));
}

Result<void> check_against(const ir::Graph& graph, const PairSettings& settings) {
  std::vector<std::string> names;
  for (const ir::Node& node : graph.nodes())
    if (node.op != ir::Op::kConstant) names.push_back(graph.value(node.result).name);
  for (const std::string& name : settings.fallback)
    if (std::find(names.begin(), names.end(), name) == names.end())
      return input_error(fmt::format("--fallback: the model has no node '{}'", name),
                         name_hint(name, names));
  for (const ir::PrecisionPlan* plan : {&settings.precision, &settings.eager_precision})
    for (const auto& [name, precision] : plan->nodes)
      if (std::find(names.begin(), names.end(), name) == names.end())
        return input_error(fmt::format("--precision {}={}: the model has no node '{}'", name,
                                       ir::name_of(precision), name),
                           name_hint(name, names));
  if (settings.eager_order &&
      std::none_of(graph.nodes().begin(), graph.nodes().end(), [&](const ir::Node& node) {
        return ir::order_fits(node.op, *settings.eager_order);
      }))
    note(fmt::format("--eager-order {} fits no op of this model; it changes nothing",
                     ir::to_string(*settings.eager_order)));
  return {};
}

}  // namespace driftc::frontend
