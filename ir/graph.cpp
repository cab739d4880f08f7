#include "ir/graph.h"

#include <algorithm>

#include "ir/printer.h"

namespace driftc::ir {

std::size_t Node::attribute_index(std::string_view name) const {
  const auto& specs = info(op).attributes;
  for (std::size_t i = 0; i < specs.size(); ++i)
    if (specs[i].name == name) return i;
  DRIFTC_ASSERT(false, "unknown attribute");
}
std::int64_t Node::integer(std::string_view name) const {
  return std::get<std::int64_t>(attributes[attribute_index(name)]);
}
double Node::number(std::string_view name) const {
  return std::get<double>(attributes[attribute_index(name)]);
}
const std::vector<std::int64_t>& Node::ints(std::string_view name) const {
  return std::get<std::vector<std::int64_t>>(attributes[attribute_index(name)]);
}
const std::string& Node::word(std::string_view name) const {
  return std::get<std::string>(attributes[attribute_index(name)]);
}
void Node::set(std::string_view name, AttributeValue value) {
  attributes[attribute_index(name)] = std::move(value);
}

Result<std::vector<AttributeValue>> complete_attributes(Op op, const AttributeList& given) {
  const OpInfo& row = info(op);
  std::vector<AttributeValue> out;
  std::vector<std::string> known;
  for (const AttributeSpec& spec : row.attributes) known.push_back(spec.name);
  for (const auto& [name, value] : given)
    if (std::find(known.begin(), known.end(), name) == known.end())
      return input_error("'" + std::string(row.name) + "' has no attribute '" + name + "'",
                         known.empty() ? "it takes none" : name_hint(name, known));
  for (const AttributeSpec& spec : row.attributes) {
    const AttributeValue* found = nullptr;
    for (const auto& [name, value] : given)
      if (name == spec.name) found = &value;
    if (found == nullptr) {
      if (!spec.fallback)
        return input_error("'" + std::string(row.name) + "' needs attribute '" + spec.name + "'");
      out.push_back(*spec.fallback);
      continue;
    }
    // An integer literal may stand for a float.
    if (spec.type == AttributeType::kFloat && std::holds_alternative<std::int64_t>(*found)) {
      out.emplace_back(static_cast<double>(std::get<std::int64_t>(*found)));
      continue;
    }
    const bool fits = (spec.type == AttributeType::kInt && found->index() == 0) ||
                      (spec.type == AttributeType::kFloat && found->index() == 1) ||
                      (spec.type == AttributeType::kInts && found->index() == 2) ||
                      (spec.type == AttributeType::kWord && found->index() == 3);
    if (!fits) {
      static constexpr const char* kTypes[] = {"an integer", "a number", "a list of integers",
                                               "a word"};
      return input_error("attribute '" + spec.name + "' of '" + std::string(row.name) + "' is " +
                         kTypes[static_cast<std::size_t>(spec.type)]);
    }
    out.push_back(*found);
  }
  return out;
}

std::optional<ValueId> Graph::find(std::string_view value_name) const {
  auto it = by_name_.find(std::string(value_name));
  if (it == by_name_.end()) return std::nullopt;
  return ValueId{it->second};
}
const Node* Graph::producer(ValueId id) const {
  const auto& p = value(id).producer;
  return p ? &node(*p) : nullptr;
}
bool Graph::is_constant(ValueId id) const {
  const Node* p = producer(id);
  return p != nullptr && p->op == Op::kConstant;
}
bool Graph::is_output(ValueId id) const {
  for (ValueId o : outputs_)
    if (o == id) return true;
  return false;
}
std::vector<int> Graph::use_counts() const {
  std::vector<int> counts(values_.size());
  for (const Node& n : nodes_)
    for (ValueId v : n.operands) ++counts[v.index];
  return counts;
}
std::string Graph::fresh_name(std::string_view wanted) const {
  std::string name(wanted.empty() ? "v" : wanted);
  if (!by_name_.contains(name)) return name;
  for (int i = 1;; ++i) {
    std::string candidate = name + '.' + std::to_string(i);
    if (!by_name_.contains(candidate)) return candidate;
  }
}

ValueId Graph::add_input(std::string value_name, TensorType type) {
  const ValueId id{static_cast<std::uint32_t>(values_.size())};
  const bool inserted = by_name_.emplace(value_name, id.index).second;
  DRIFTC_ASSERT(inserted, "value name taken");
  values_.push_back({std::move(value_name), std::move(type), std::nullopt});
  inputs_.push_back(id);
  return id;
}
NodeId Graph::add_node(Node node, std::string value_name, TensorType type) {
  const NodeId id{static_cast<std::uint32_t>(nodes_.size())};
  const ValueId result{static_cast<std::uint32_t>(values_.size())};
  const bool inserted = by_name_.emplace(value_name, result.index).second;
  DRIFTC_ASSERT(inserted, "value name taken");
  values_.push_back({std::move(value_name), std::move(type), id});
  node.result = result;
  nodes_.push_back(std::move(node));
  return id;
}
ValueId Graph::add_constant(std::string value_name, Literal literal) {
  Node node;
  node.op = Op::kConstant;
  const TensorType type = literal.type();
  node.literal = std::make_shared<const Literal>(std::move(literal));
  node.from = {value_name};
  return this->node(add_node(std::move(node), std::move(value_name), type)).result;
}
void Graph::rename_value(ValueId id, std::string name) {
  DRIFTC_ASSERT(!by_name_.contains(name), "value name taken");
  by_name_.erase(values_[id.index].name);
  by_name_.emplace(name, id.index);
  values_[id.index].name = std::move(name);
}

bool operator==(const Graph& a, const Graph& b) { return print_outline(a) == print_outline(b); }

Rewriter::Rewriter(const Graph& old) : old_(old), graph_(old.name()), map_(old.value_count()) {
  for (ValueId input : old.inputs())
    map_[input.index] = graph_.add_input(old.value(input).name, old.value(input).type);
}
ValueId Rewriter::mapped(ValueId old_value) const {
  DRIFTC_ASSERT(map_[old_value.index].has_value(), "use of a dropped value");
  return *map_[old_value.index];
}
bool Rewriter::has(ValueId old_value) const { return map_[old_value.index].has_value(); }
NodeId Rewriter::copy(NodeId old_node) {
  Node node = old_.node(old_node);
  for (ValueId& operand : node.operands) operand = mapped(operand);
  const Value& value = old_.value(old_.node(old_node).result);
  const NodeId id = graph_.add_node(std::move(node), value.name, value.type);
  map_[old_.node(old_node).result.index] = graph_.node(id).result;
  return id;
}
void Rewriter::replace(ValueId old_value, ValueId new_value) { map_[old_value.index] = new_value; }
Graph Rewriter::finish() {
  std::vector<ValueId> outputs;
  for (ValueId output : old_.outputs()) outputs.push_back(mapped(output));
  graph_.set_outputs(std::move(outputs));
  return std::move(graph_);
}

}  // namespace driftc::ir
