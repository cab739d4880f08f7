#include "passes/fallback.h"

#include <fmt/format.h>

#include <algorithm>

#include "passes/match_order.h"
#include "passes/rewrite.h"

namespace driftc::passes {

Result<void> check_node_names(std::string_view flag, const ir::Graph& source,
                              const std::vector<std::string>& names) {
  std::vector<std::string> known;
  for (const ir::Node& node : source.nodes())
    if (node.op != ir::Op::kConstant) known.push_back(source.value(node.result).name);
  for (const std::string& name : names)
    if (std::ranges::find(known, name) == known.end())
      return input_error(fmt::format("{}: no node of the graph is called '{}'", flag, name),
                         name_hint(name, known));
  return {};
}
Result<void> check_fallback_names(const ir::Graph& source, const std::vector<std::string>& names) {
  return check_node_names("--fallback", source, names);
}

Result<ir::Graph> fallback(const ir::Graph& graph, const PassContext& context) {
  DRIFTC_CHECK(check_fallback_names(*context.source, context.fallback));
  return edit_kernels(graph, [&](const ir::Node& node, ir::Kernel& kernel) {
    if (!stays_eager(context, node.from)) return false;
    kernel.contract = eager_contract_of_kernel(kernel, context);
    kernel.algorithm = ir::Algorithm::kInterpreter;
    kernel.schedule = {};
    kernel.reason = "asked by --fallback";
    return true;
  });
}

}  // namespace driftc::passes
