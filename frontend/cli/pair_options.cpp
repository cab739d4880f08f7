#include "frontend/cli/pair_options.h"

#include <fmt/format.h>

#include <algorithm>

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
  settings.eager_order = order;
  return {};
}

Result<void> check_executor(const Arguments& arguments) {
  DRIFTC_TRY(executor, arguments.word("--executor", {"auto", "ptx", "cuda"}, "auto"));
  if (executor == "cuda")
    return unavailable("--executor cuda: this build has no GPU executor",
                       "--executor ptx runs the same kernels, with the same bits, on this CPU");
  return {};
}

}  // namespace

Result<PairSettings> pair_settings(const Arguments& arguments) {
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
  settings.selection = selection;
  DRIFTC_TRY(device,
             runtime::device_profile(arguments.value_or("--device", runtime::kDefaultDevice)));
  settings.device = device;
  settings.precision.mma_arch = settings.eager_precision.mma_arch = device.mma_arch;
  DRIFTC_CHECK(check_executor(arguments));
  DRIFTC_CHECK(set_eager_order(arguments, settings));
  settings.deterministic = arguments.has("--deterministic");
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
