#include "frontend/cli/show_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "frontend/report/tree_text.h"
#include "frontend/report/winograd_text.h"
#include "ir/kernel.h"
#include "runtime/study/compile.h"
#include "runtime/study/source_map.h"

namespace driftc::frontend {
namespace {

using runtime::study::NamedTensor;
using runtime::study::PairSettings;

constexpr std::string_view kAtForm = "--at NODE[INDEX], for example --at 'conv1[0,3,4,4]'";

std::string index_text(const std::vector<std::int64_t>& index) {
  std::string out = "[";
  for (std::size_t i = 0; i < index.size(); ++i) out += (i ? "," : "") + std::to_string(index[i]);
  return out + "]";
}

// The nodes that `wanted` values need, as a graph of their own whose outputs are those values.
ir::Graph graph_up_to(const ir::Graph& graph, const std::vector<ir::ValueId>& wanted) {
  std::vector<bool> needed(graph.value_count(), false);
  for (ir::ValueId v : wanted) needed[v.index] = true;
  for (std::size_t i = graph.node_count(); i-- > 0;) {
    const ir::Node& node = graph.nodes()[i];
    if (!needed[node.result.index]) continue;
    for (ir::ValueId v : node.operands) needed[v.index] = true;
  }
  ir::Rewriter rewriter(graph);
  for (std::size_t i = 0; i < graph.node_count(); ++i)
    if (needed[graph.nodes()[i].result.index]) rewriter.copy({static_cast<std::uint32_t>(i)});
  std::vector<ir::ValueId> outputs;
  for (ir::ValueId v : wanted) outputs.push_back(rewriter.mapped(v));
  ir::Graph out = std::move(rewriter.graph());
  out.set_outputs(std::move(outputs));
  return out;
}

// The operands of the node as eager computes them.
Result<std::vector<ir::Tensor>> eager_operands(const ir::Node& node, Session& session,
                                               const PairSettings& settings) {
  const ir::Graph& graph = session.graph();
  std::vector<ir::ValueId> wanted;
  for (ir::ValueId v : node.operands) {
    const ir::Node* producer = graph.producer(v);
    const bool computed = producer != nullptr && producer->op != ir::Op::kConstant;
    if (computed && std::find(wanted.begin(), wanted.end(), v) == wanted.end()) wanted.push_back(v);
  }
  DRIFTC_TRY(inputs, session.inputs());
  std::vector<NamedTensor> computed;
  if (!wanted.empty()) {
    const ir::Graph part = graph_up_to(graph, wanted);
    PairSettings eager = settings;
    eager.declared = false;
    DRIFTC_TRY(results,
               run_arm(part, *inputs, runtime::study::Arm::kEager, eager, session.services()));
    computed = std::move(results);
  }
  session.progress().clear();
  std::vector<ir::Tensor> out;
  for (ir::ValueId v : node.operands) {
    const ir::Value& value = graph.value(v);
    const ir::Node* producer = graph.producer(v);
    if (producer != nullptr && producer->op == ir::Op::kConstant) {
      out.push_back(producer->literal->tensor());
      continue;
    }
    const std::vector<NamedTensor>& source = producer == nullptr ? *inputs : computed;
    auto found = std::find_if(source.begin(), source.end(),
                              [&](const NamedTensor& t) { return t.name == value.name; });
    if (found == source.end())
      return input_error(fmt::format("input '{}' has no value", value.name));
    out.push_back(found->tensor);
  }
  return out;
}

Result<ir::NodeId> find_node(const ir::Graph& graph, const std::string& name) {
  std::vector<std::string> sums;
  for (std::size_t i = 0; i < graph.node_count(); ++i) {
    const ir::NodeId id{static_cast<std::uint32_t>(i)};
    if (graph.node(id).op != ir::Op::kConstant && graph.name_of(id) == name) return id;
    if (ir::info(graph.node(id).op).default_order) sums.push_back(graph.name_of(id));
  }
  return input_error(fmt::format("--at: the model has no node '{}'", name),
                     sums.empty() ? "no node of this model has a sum" : name_hint(name, sums));
}

}  // namespace

Result<TreeRequest> tree_request(const Arguments& arguments) {
  TreeRequest request;
  const std::optional<std::string> at = arguments.value("--at");
  if (!at)
    return input_error("--stage tree needs --at: the element whose sum is shown",
                       std::string(kAtForm));
  const std::size_t open = at->rfind('[');
  if (open == std::string::npos || open == 0 || !at->ends_with("]"))
    return input_error(fmt::format("--at '{}' names no element", *at), std::string(kAtForm));
  request.node = at->substr(0, open);
  const char* next = at->data() + open + 1;
  const char* const end = at->data() + at->size() - 1;
  while (next < end) {
    std::int64_t i = 0;
    auto [stop, status] = std::from_chars(next, end, i);
    if (status != std::errc() || i < 0 || (stop != end && *stop != ','))
      return input_error(fmt::format("--at '{}': the index is not a list of integers", *at),
                         std::string(kAtForm));
    request.index.push_back(i);
    next = stop == end ? end : stop + 1;
  }
  for (const std::string& text : arguments.all("--order")) {
    DRIFTC_TRY(order, ir::parse_order(text));
    request.orders.push_back(order);
  }
  if (request.orders.size() > 2)
    return input_error("--order is given more than twice", "one order for each side");
  return request;
}

Result<int> show_tree(const TreeRequest& request, Session& session, const PairSettings& settings,
                      const Context& context) {
  const ir::Graph& graph = session.graph();
  DRIFTC_TRY(id, find_node(graph, request.node));
  const ir::Node& node = graph.node(id);
  for (const ir::ReductionOrder& order : request.orders)
    if (!ir::order_fits(node.op, order))
      return input_error(
          fmt::format("order {} does not fit a {}", to_string(order), ir::info(node.op).name),
          fmt::format("walks that fit: {}", fmt::join(ir::info(node.op).walks, ", ")));
  DRIFTC_TRY(operands, eager_operands(node, session, settings));
  DRIFTC_TRY(sum, runtime::study::sum_operands(graph, id, request.index, operands));

  TreeView view;
  view.element = request.node + index_text(request.index);
  view.op = ir::info(node.op).name;
  const std::vector<ir::NumericContract> eager = runtime::study::eager_contracts(
      graph, settings.eager_order, settings.eager_precision, settings.eager_contracts);
  if (!eager[id.index].order)
    return input_error(fmt::format("'{}' has no sum that an order applies to", request.node));
  ir::ReductionOrder left = *eager[id.index].order, right = left;
  view.left_title = "eager: ";
  view.right_title = "kernel: ";
  std::optional<ir::NumericContract>
      transformed;  // the kernel's contract, where no order is enough
  if (request.orders.size() == 2) {
    left = request.orders[0];
    view.left_title.clear();
  }
  if (!request.orders.empty()) {
    right = request.orders.back();
    view.right_title.clear();
  } else {
    DRIFTC_TRY(compiled, runtime::study::compile(graph, settings, session.services()));
    session.progress().clear();
    const auto map = runtime::study::map_to_source(graph, compiled.graph, eager);
    const ir::NumericContract& contract = map.compiled_recipes[id.index].contract;
    if (contract.order) right = *contract.order;
    transformed = contract.transform.m != 0 ? std::optional(contract) : std::nullopt;
    if (contract.fold != ir::Fold::kNone)
      view.remark =
          "the kernel's weights have batch normalisation folded in; both sides show the source's "
          "weights";
  }
  // An order written without a bias point adds the bias as eager does.
  for (ir::ReductionOrder* order : {&left, &right})
    if (sum.bias && order->bias == ir::BiasPoint::kNone) order->bias = ir::BiasPoint::kStored;
  view.left_title += to_string(left);
  view.right_title += to_string(right);
  DRIFTC_TRY(a, runtime::study::trace_sum(left, sum, settings.schedule_seed));
  if (transformed) {
    view.right_title += fmt::format(" of channels in {}", to_string(transformed->transform));
    const auto b = runtime::study::trace_winograd(graph, id, request.index, operands, *transformed);
    DRIFTC_CHECK(print(winograd_text(sum, a, b, view, context.style(false))));
    return 0;
  }
  DRIFTC_TRY(b, runtime::study::trace_sum(right, sum, settings.schedule_seed));
  DRIFTC_CHECK(print(tree_text(sum, a, b, view, context.style(false))));
  return 0;
}

}  // namespace driftc::frontend
