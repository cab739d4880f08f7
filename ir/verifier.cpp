#include "ir/verifier.h"

#include <fmt/format.h>

#include <unordered_set>

#include "ir/builder.h"
#include "ir/kernel.h"
#include "ir/text.h"

namespace driftc::ir {
namespace {

class Verifier {
 public:
  Verifier(const Graph& graph, std::string where) : graph_(graph), where_(std::move(where)) {}

  std::vector<Diagnostic> run() {
    check_values();
    for (std::size_t i = 0; i < graph_.node_count(); ++i)
      check_node(NodeId{static_cast<std::uint32_t>(i)});
    for (ValueId v : graph_.outputs())
      if (v.index >= graph_.value_count()) fault(nullptr, "an output does not exist");
    if (graph_.outputs().empty()) fault(nullptr, "the graph returns nothing");
    return std::move(faults_);
  }

 private:
  void fault(const Node* node, std::string message, std::string hint = {}) {
    std::string place = where_;
    Diagnostic d = input_error({}, std::move(hint));
    if (node != nullptr) {
      place += (place.empty() ? "" : ", ") + std::string("node ") +
               identifier("%", graph_.value(node->result).name);
      if (node->location.line > 0) d.place = {node->location.file, node->location.line, 0};
    }
    d.message = place.empty() ? std::move(message) : place + ": " + std::move(message);
    faults_.push_back(std::move(d));
  }

  void check_values() {
    std::unordered_set<std::string> names;
    for (const Value& value : graph_.values()) {
      if (!names.insert(value.name).second)
        fault(nullptr, "value name " + identifier("%", value.name) + " is used twice");
      if (!value.type.shape.checked_elements())
        fault(nullptr,
              identifier("%", value.name) + " has a negative extent or more than 2^40 elements");
    }
  }

  void check_node(NodeId id) {
    const Node& node = graph_.node(id);
    for (ValueId v : node.operands) {
      if (v.index >= graph_.value_count()) return fault(&node, "an operand does not exist");
      if (v.index >= node.result.index)
        return fault(&node, "operand " + identifier("%", graph_.value(v).name) + " comes later");
    }
    if (node.op == Op::kConstant) return check_constant(node);
    if (node.op == Op::kKernel) return check_kernel(node);
    std::vector<TensorType> types;
    for (ValueId v : node.operands) types.push_back(graph_.value(v).type);
    if (node.attributes.size() != info(node.op).attributes.size())
      return fault(&node, "wrong number of attributes");
    auto type = infer_type(node.op, node.attributes, types);
    if (!type.ok()) return fault(&node, type.error().message, type.error().hint);
    const TensorType& declared = graph_.value(node.result).type;
    if (type->dtype != declared.dtype || type->shape != declared.shape)
      fault(&node, fmt::format("result is {}, but '{}' makes {}", to_string(declared),
                               info(node.op).name, to_string(*type)));
    for (std::string_view name : {"fold"})
      for (const AttributeSpec& spec : info(node.op).attributes)
        if (spec.name == name) {
          const std::string& word = node.word(name);
          if (word != "none" && word != "f64" && word != "f32")
            fault(&node, "attribute 'fold' is none, f64 or f32, not '" + word + "'");
        }
  }

  void check_constant(const Node& node) {
    if (!node.literal) return fault(&node, "constant without a value");
    const TensorType& type = graph_.value(node.result).type;
    if (type.dtype != node.literal->type().dtype || type.shape != node.literal->type().shape)
      fault(&node, fmt::format("type {} differs from its value's {}", to_string(type),
                               to_string(node.literal->type())));
  }

  void check_kernel(const Node& node) {
    if (!node.kernel) return fault(&node, "kernel without a body");
    const Kernel& kernel = *node.kernel;
    const Graph& body = kernel.body;
    if (!where_.empty()) return fault(&node, "a kernel inside a kernel");
    if (body.inputs().size() != node.operands.size())
      return fault(&node, "body inputs and operands differ in number");
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      const Value &outer = graph_.value(node.operands[i]), &inner = body.value(body.inputs()[i]);
      if (outer.name != inner.name || outer.type != inner.type)
        fault(&node, fmt::format("body input {} of type {} does not match operand {} of type {}",
                                 identifier("%", inner.name), to_string(inner.type),
                                 identifier("%", outer.name), to_string(outer.type)));
    }
    if (body.outputs().size() != 1) return fault(&node, "a kernel yields one value");
    const Value &yielded = body.value(body.outputs()[0]), &result = graph_.value(node.result);
    if (yielded.name != result.name || yielded.type != result.type)
      fault(&node, fmt::format("yields {} of type {}, but its result is {} of type {}",
                               identifier("%", yielded.name), to_string(yielded.type),
                               identifier("%", result.name), to_string(result.type)));
    for (Diagnostic& d : Verifier(body, "kernel " + identifier("%", result.name)).run())
      faults_.push_back(std::move(d));
    int reductions = 0;
    for (const Node& inner : body.nodes())
      if (info(inner.op).default_order) ++reductions;
    if (reductions > 1) return fault(&node, "more than one reduction in a kernel");
    const Node* reduction = reduction_node(body);
    if ((reduction != nullptr) != kernel.contract.order.has_value())
      return fault(&node, reduction != nullptr ? "the contract gives no order for its reduction"
                                               : "the contract gives an order without a reduction");
    if (reduction != nullptr && !order_fits(reduction->op, *kernel.contract.order))
      fault(&node, fmt::format("order {} does not fit '{}'", to_string(*kernel.contract.order),
                               info(reduction->op).name));
    if (reduction != nullptr && !supports_order(kernel.algorithm, *kernel.contract.order))
      fault(&node, fmt::format("algorithm {} has no order {}", name_of(kernel.algorithm),
                               to_string(*kernel.contract.order)));
    check_transform(node, kernel, reduction);
  }

  // The contract's transform is that of the algorithm, and one that fits the convolution.
  void check_transform(const Node& node, const Kernel& kernel, const Node* reduction) {
    const Transform& transform = kernel.contract.transform;
    const int m = winograd_tile(kernel.algorithm);
    if (kernel.algorithm != Algorithm::kInterpreter && transform.m != m)
      return fault(&node, fmt::format("algorithm {} under a contract with transform {}",
                                      name_of(kernel.algorithm), to_string(transform)));
    if (transform.m == 0) return;
    if (reduction == nullptr) return fault(&node, "a transform without a convolution");
    const std::string why = why_not(
        transform.m == 2 ? Algorithm::kWinograd2 : Algorithm::kWinograd4, kernel.body, *reduction);
    if (!why.empty()) fault(&node, fmt::format("transform {}: {}", to_string(transform), why));
  }

  const Graph& graph_;
  std::string where_;
  std::vector<Diagnostic> faults_;
};

}  // namespace

std::vector<Diagnostic> verify(const Graph& graph) { return Verifier(graph, "").run(); }

Result<void> verified(const Graph& graph) {
  std::vector<Diagnostic> faults = verify(graph);
  if (faults.empty()) return {};
  Diagnostic first = std::move(faults[0]);
  for (std::size_t i = 1; i < faults.size() && i < 20; ++i)
    first.notes.push_back(faults[i].message);
  return first;
}

}  // namespace driftc::ir
