// The IR: a DAG of nodes in topological order, each with one typed result.
// Ids are indices, not pointers; they stay valid until the graph is rebuilt. Copying a Graph is
// cheap in weights (literals are shared) and deep in structure. Nothing here checks the semantics
// of a graph: `verify` (verifier.h) does, and reports every fault it finds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/literal.h"
#include "ir/numeric.h"
#include "ir/op.h"
#include "ir/types.h"

namespace driftc::ir {

struct ValueId {
  std::uint32_t index = 0;
  friend bool operator==(ValueId, ValueId) = default;
};
struct NodeId {
  std::uint32_t index = 0;
  friend bool operator==(NodeId, NodeId) = default;
};

// Where a node came from: loc("net.onnx", "Conv_0"), or a line of a .gir file.
struct Location {
  std::string file, name;
  int line = 0;  // of the text the node was parsed from; not part of equality
  friend bool operator==(const Location& a, const Location& b) {
    return a.file == b.file && a.name == b.name;
  }
};

struct Value {
  std::string name;  // unique in its graph
  TensorType type;
  std::optional<NodeId> producer;  // empty: graph input
};

struct Kernel;  // ir/kernel.h

struct Node {
  Op op = Op::kIdentity;
  std::vector<ValueId> operands;
  ValueId result;
  std::vector<AttributeValue>
      attributes;  // in the order of info(op).attributes, defaults filled in
  std::shared_ptr<const Literal> literal;  // op == kConstant
  std::shared_ptr<const Kernel> kernel;    // op == kKernel
  // Names of the source nodes (of the graph as imported) whose work this node does; passes merge
  // them. The name of a node is the name of its result.
  std::vector<std::string> from;
  Location location;

  // Attribute by name; the name must be one of info(op).attributes.
  std::int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  const std::vector<std::int64_t>& ints(std::string_view name) const;
  const std::string& word(std::string_view name) const;
  void set(std::string_view name, AttributeValue value);

 private:
  std::size_t attribute_index(std::string_view name) const;
};

// Named attributes as a caller writes them: {{"stride", ints}, {"groups", 2}}.
using AttributeList = std::vector<std::pair<std::string, AttributeValue>>;
// Attribute values of `op` with defaults filled in. Unknown names, wrong types and missing required
// attributes are errors that name the attribute.
Result<std::vector<AttributeValue>> complete_attributes(Op op, const AttributeList& given);

class Graph {
 public:
  explicit Graph(std::string name = "main") : name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  const std::vector<ValueId>& inputs() const { return inputs_; }
  const std::vector<ValueId>& outputs() const { return outputs_; }
  std::size_t node_count() const { return nodes_.size(); }
  std::size_t value_count() const { return values_.size(); }
  const Node& node(NodeId id) const { return nodes_[id.index]; }
  const Value& value(ValueId id) const { return values_[id.index]; }
  std::span<const Node> nodes() const { return nodes_; }
  std::span<const Value> values() const { return values_; }
  const std::string& name_of(NodeId id) const { return value(node(id).result).name; }
  std::optional<ValueId> find(std::string_view value_name) const;
  // The node that makes the value; null for a graph input.
  const Node* producer(ValueId id) const;
  bool is_constant(ValueId id) const;
  bool is_output(ValueId id) const;
  // Number of node operands (not outputs) that use each value.
  std::vector<int> use_counts() const;
  // A name not yet taken: `wanted`, else `wanted`.1, .2, ...
  std::string fresh_name(std::string_view wanted) const;

  // Building. Names must be unique (asserted); types are the caller's or inferred (builder.h).
  ValueId add_input(std::string value_name, TensorType type);
  NodeId add_node(Node node, std::string value_name, TensorType type);  // sets node.result
  ValueId add_constant(std::string value_name, Literal literal);
  void set_outputs(std::vector<ValueId> outputs) { outputs_ = std::move(outputs); }
  void rename_value(ValueId id, std::string name);
  void set_layout(ValueId id, Layout layout) { values_[id.index].type.layout = layout; }
  Node& mutable_node(NodeId id) { return nodes_[id.index]; }

  // Structural equality: same text.
  friend bool operator==(const Graph& a, const Graph& b);

 private:
  std::string name_;
  std::vector<Value> values_;
  std::vector<Node> nodes_;
  std::vector<ValueId> inputs_, outputs_;
  std::unordered_map<std::string, std::uint32_t> by_name_;
};

// Rebuilds a graph node by node: the way every pass changes a graph. `visit` is called for each
// node of `old` in order and either copies it (`rewriter.copy(id)`), maps its result to another new
// value
// (`rewriter.replace`), or drops it (does nothing; then nothing may use it).
class Rewriter {
 public:
  explicit Rewriter(const Graph& old);
  const Graph& old() const { return old_; }
  Graph& graph() { return graph_; }
  ValueId mapped(ValueId old_value) const;  // the new value of an old one; asserts that it exists
  bool has(ValueId old_value) const;
  NodeId copy(NodeId old_node);  // operands mapped, name kept
  void replace(ValueId old_value, ValueId new_value);
  Graph finish();  // maps the outputs

 private:
  const Graph& old_;
  Graph graph_;
  std::vector<std::optional<ValueId>> map_;
};

}  // namespace driftc::ir
