#include "frontend/cli/pair_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "frontend/cli/executor_choice.h"
#include "frontend/cli/output.h"

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
  if (order.arith == ir::Arith::kMma)
    return input_error(
        fmt::format("--eager-order {}: this build replays no tensor-core order", *text),
        "an order of fma, muladd, add, kahan or f64");
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
  if (const std::optional<std::string> nodes = arguments.value("--fallback")) {
    DRIFTC_TRY(list, split_list("--fallback", *nodes));
    settings.fallback = list;
    request.fallback_named = true;
  }
  DRIFTC_TRY(selection, passes::select_passes(request));
  settings.selection = selection;
  DRIFTC_CHECK(set_eager_order(arguments, settings));
  DRIFTC_TRY(choice, choose_executor(arguments, environment));
  settings.device = choice.device;
  settings.executor = choice.executor;
  return settings;
}

Result<void> check_against(const ir::Graph& graph, const PairSettings& settings) {
  std::vector<std::string> names;
  for (const ir::Node& node : graph.nodes())
    if (node.op != ir::Op::kConstant) names.push_back(graph.value(node.result).name);
  for (const std::string& name : settings.fallback)
    if (std::find(names.begin(), names.end(), name) == names.end())
      return input_error(fmt::format("--fallback: the model has no node '{}'", name),
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
