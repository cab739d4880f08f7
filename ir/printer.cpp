#include "ir/printer.h"

#include <fmt/format.h>

#include "ir/kernel.h"
#include "ir/support/round.h"
#include "ir/text.h"

namespace driftc::ir {
namespace {

std::string value_ref(const std::string& name) { return identifier("%", name); }

std::string print_attribute(const AttributeSpec& spec, const AttributeValue& value) {
  switch (spec.type) {
    case AttributeType::kInt:
      return std::to_string(std::get<std::int64_t>(value));
    case AttributeType::kFloat:
      return hex_float(std::get<double>(value));
    case AttributeType::kInts: {
      std::string out = "[";
      for (std::int64_t v : std::get<std::vector<std::int64_t>>(value))
        out += (out.size() > 1 ? "," : "") + std::to_string(v);
      return out + "]";
    }
    case AttributeType::kWord:
      return std::get<std::string>(value);
  }
  return {};
}

bool same_attribute(const AttributeValue& a, const AttributeValue& b) {
  if (a.index() == 1 && b.index() == 1)
    return bits_of(std::get<double>(a)) == bits_of(std::get<double>(b));
  return a == b;
}

enum class Constants { kValues, kHashes };

std::string print_literal(const Literal& literal, const std::string& value_name,
                          Constants constants) {
  if (constants == Constants::kHashes && literal.origin() == Literal::Origin::kDense)
    return fmt::format("xxh3=0x{:016x}", literal.hash());
  switch (literal.origin()) {
    case Literal::Origin::kSplat:
      if (literal.type().dtype == DType::kI64)
        return fmt::format("splat({})", static_cast<std::int64_t>(literal.splat_value()));
      return fmt::format("splat({})", hex_float(literal.splat_value()));
    case Literal::Origin::kRandom:
      return fmt::format("random(seed={}, he{})", literal.seed(),
                         literal.name() == value_name ? "" : ", name=" + quoted(literal.name()));
    case Literal::Origin::kFile:
      return fmt::format("file({}, offset={}, xxh3=0x{:016x})", quoted(literal.name()),
                         literal.offset(), literal.hash());
    case Literal::Origin::kDense:
      break;
  }
  std::string out = "{";
  const Tensor& tensor = literal.tensor();
  const auto n = static_cast<std::size_t>(tensor.elements());
  for (std::size_t i = 0; i < n; ++i) {
    if (i) out += ", ";
    if (tensor.dtype() == DType::kF32) {
      out += hex_float(tensor.data<float>()[i]);
    } else if (tensor.dtype() == DType::kF64) {
      out += hex_float(tensor.data<double>()[i]);
    } else if (tensor.dtype() == DType::kI64) {
      out += std::to_string(tensor.data<std::int64_t>()[i]);
    }
  }
  return out + "}";
}

std::string refs(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + value_ref(name);
  return out;
}

std::string operand_list(const Graph& graph, const Node& node) {
  std::vector<std::string> names;
  for (ValueId v : node.operands) names.push_back(graph.value(v).name);
  return refs(names);
}

std::string location(const Node& node) {
  if (node.location.name.empty()) return {};
  return fmt::format("  loc({}, {})", quoted(node.location.file), quoted(node.location.name));
}

std::string print_plain(const Graph& graph, const Node& node, Constants constants) {
  const Value& result = graph.value(node.result);
  std::string out = value_ref(result.name) + " = " + std::string(info(node.op).name);
  if (node.op == Op::kConstant) {
    out +=
        " " + to_string(result.type) + " " + print_literal(*node.literal, result.name, constants);
  } else {
    if (!node.operands.empty()) out += " " + operand_list(graph, node);
    std::string attributes;
    const auto& specs = info(node.op).attributes;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      if (specs[i].fallback && same_attribute(*specs[i].fallback, node.attributes[i])) continue;
      attributes += (attributes.empty() ? "" : ", ") + specs[i].name + "=" +
                    print_attribute(specs[i], node.attributes[i]);
    }
    if (!attributes.empty()) out += " {" + attributes + "}";
    out += " : " + to_string(result.type);
  }
  if (node.from.size() != 1 || node.from[0] != result.name)
    out += " from=[" + refs(node.from) + "]";
  return out + location(node);
}

void print_nodes(const Graph& graph, const std::string& indent, Constants constants,
                 std::string& out);

std::string print_kernel(const Graph& graph, const Node& node, const std::string& indent,
                         Constants constants) {
  const Value& result = graph.value(node.result);
  const Kernel& kernel = *node.kernel;
  std::string out = fmt::format("{} : {} = kernel {}({}) from=[{}]\n", value_ref(result.name),
                                to_string(result.type), name_of(kernel.algorithm),
                                operand_list(graph, node), refs(node.from));
  if (!kernel.reason.empty()) out += indent + "    reason=" + quoted(kernel.reason) + "\n";
  if (kernel.schedule != Schedule{})
    out += indent + "    schedule=" + to_string(kernel.schedule) + "\n";
  out += indent + "    contract=" + to_string(kernel.contract) + " {\n";
  print_nodes(kernel.body, indent + "  ", constants, out);
  out += indent + "  yield " + value_ref(kernel.body.value(kernel.body.outputs()[0]).name) + "\n";
  return out + indent + "}" + location(node);
}

void print_nodes(const Graph& graph, const std::string& indent, Constants constants,
                 std::string& out) {
  for (const Node& node : graph.nodes())
    out += indent +
           (node.op == Op::kKernel ? print_kernel(graph, node, indent, constants)
                                   : print_plain(graph, node, constants)) +
           "\n";
}

std::string print_graph(const Graph& graph, Constants constants) {
  std::string inputs;
  for (ValueId v : graph.inputs())
    inputs += (inputs.empty() ? "" : ", ") + value_ref(graph.value(v).name) + ": " +
              to_string(graph.value(v).type);
  std::string out = "gir 1\ngraph " + identifier("@", graph.name()) + "(" + inputs + ") {\n";
  print_nodes(graph, "  ", constants, out);
  std::vector<std::string> outputs;
  for (ValueId v : graph.outputs()) outputs.push_back(graph.value(v).name);
  return out + "  return " + refs(outputs) + "\n}\n";
}

}  // namespace

std::string print(const Graph& graph) { return print_graph(graph, Constants::kValues); }
std::string print_outline(const Graph& graph) { return print_graph(graph, Constants::kHashes); }

std::string print_node(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  return node.op == Op::kKernel ? print_kernel(graph, node, "", Constants::kValues)
                                : print_plain(graph, node, Constants::kValues);
}

}  // namespace driftc::ir
