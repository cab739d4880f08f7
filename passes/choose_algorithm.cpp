#include "passes/choose_algorithm.h"

#include <fmt/format.h>

#include <algorithm>

#include "passes/fallback.h"
#include "passes/rewrite.h"
#include "passes/tiling.h"

namespace driftc::passes {
namespace {

// Below this many channels on either side the transforms cost more than the products they save.
constexpr std::int64_t kWinogradChannels = 64;

ir::Algorithm algorithm_of(const std::string& word, bool fused) {
  if (word == "winograd2" && fused) return ir::Algorithm::kWinograd2Fused;
  if (word == "winograd4" && fused) return ir::Algorithm::kWinograd4Fused;
  return *ir::parse_algorithm(word);
}

std::string refusal(ir::Algorithm algorithm, const ir::Kernel& kernel, const ir::Node& conv) {
  std::string why = ir::why_not(algorithm, kernel.body, conv);
  if (!why.empty()) return why;
  const ir::ReductionOrder order = order_for(algorithm, *kernel.contract.order);
  return ir::supports_order(algorithm, order) ? "" : "it has no order " + ir::to_string(order);
}

bool saves_products(const ir::Graph& body, const ir::Node& conv) {
  const ir::Shape& w = body.value(conv.operands[1]).type.shape;
  return w[1] >= kWinogradChannels && w[0] / conv.integer("groups") >= kWinogradChannels;
}

// Empty: every convolution. Else the source nodes that are named.
Result<std::vector<std::string>> named_nodes(const PassContext& context) {
  const std::string& text = context.options.get("choose-algorithm.nodes");
  std::vector<std::string> names;
  if (text == "all") return names;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    names.push_back(text.substr(begin, comma - begin));
    begin = comma + 1;
  }
  DRIFTC_CHECK(check_node_names("--set choose-algorithm.nodes", *context.source, names));
  return names;
}

ir::Graph tuned_algorithms(const ir::Graph& graph, const PassContext& context) {
  return edit_kernels(graph, [&](const ir::Node& node, ir::Kernel& kernel) {
    const KernelChoice* choice = choice_for(context.tuned, kernel);
    if (choice == nullptr || choice->algorithm == kernel.algorithm ||
        stays_eager(context, node.from) ||
        !refusal(choice->algorithm, kernel, *ir::reduction_node(kernel.body)).empty())
      return false;
    set_algorithm(kernel, choice->algorithm, choice->filters);
    kernel.schedule = choice->schedule;
    return true;
  });
}

}  // namespace

Result<ir::Graph> choose_algorithm(const ir::Graph& graph, const PassContext& context) {
  const std::string& word = context.options.get("choose-algorithm.algorithm");
  if (word == "tuned") {
    if (context.options.get("choose-algorithm.nodes") != "all")
      return input_error("--set choose-algorithm.nodes: a tuner chooses for all convolutions",
                         "--set choose-algorithm.algorithm=NAME as well");
    return tuned_algorithms(graph, context);
  }
  const bool automatic = word == "auto";
  const ir::Algorithm wanted = algorithm_of(
      automatic ? "winograd2" : word, context.options.get("choose-algorithm.form") == "fused");
  DRIFTC_TRY(names, named_nodes(context));
  std::optional<Diagnostic> refused;
  ir::Graph result = edit_kernels(graph, [&](const ir::Node& node, ir::Kernel& kernel) {
    const auto name = std::ranges::find_first_of(node.from, names);
    const bool named = name != node.from.end();
    if (!names.empty() && !named) return false;
    const ir::Node* conv = ir::reduction_node(kernel.body);
    if (conv == nullptr) conv = &kernel.body.nodes().back();
    std::string why;
    if (kernel.algorithm == ir::Algorithm::kInterpreter || stays_eager(context, node.from)) {
      why = "it stays in the interpreter";
    } else {
      why = refusal(wanted, kernel, *conv);
    }
    if (!why.empty()) {
      if (named && !refused)
        refused = input_error(fmt::format("--set choose-algorithm.algorithm={}: node '{}' cannot "
                                          "be computed by it: {}",
                                          word, *name, why),
                              "without choose-algorithm.nodes such nodes keep their algorithm");
      // What no algorithm of convolutions was asked for says nothing.
      if (automatic || conv->op != ir::Op::kConv2d) return false;
      kernel.reason = fmt::format("no {}: {}", word, why);
      return true;
    }
    if (automatic && !named && !saves_products(kernel.body, *conv)) return false;
    set_algorithm(kernel, wanted,
                  context.options.get("choose-algorithm.filters") == "f64" ? ir::Precision::kF64
                                                                           : ir::Precision::kF32);
    kernel.schedule = schedule_for(kernel, context.sm_count);
    return true;
  });
  if (refused) return *refused;
  return result;
}

}  // namespace driftc::passes
