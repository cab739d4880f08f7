// One node being imported: its operands, attributes and results, and errors that name it.
// Handlers (ops_*.cpp) see the file only through this class. Internal to this folder.
//
// An operand is a value of the graph, or a constant known now. Integer constants, and floats
// computed from them, are "foldable": they are shape arithmetic, which import computes instead of
// putting it in the graph. Other constants (weights) enter the graph as `constant` nodes when a
// node first uses them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "frontend/onnx/proto.h"
#include "frontend/onnx/tensor_data.h"
#include "ir/builder.h"

namespace driftc::frontend::onnx {

struct Operand {
  ElemType declared = ElemType::kFloat;  // float16 stays float16 here although the graph holds f32
  ir::Shape shape;
  std::optional<ir::ValueId> value;             // once it is in the graph
  std::shared_ptr<const ir::Literal> constant;  // when known at import
  bool foldable = false;
};

// What the file's names stand for so far, and the graph that grows. One per import.
class Scope {
 public:
  Scope(const ModelSource& source, const GraphProto& proto, std::int64_t opset);

  ir::Graph& graph() { return graph_; }
  const ModelSource& source() const { return source_; }
  std::int64_t opset() const { return opset_; }

  void bind(std::string_view name, Operand operand);
  // An output that `node`'s handler did not bind; reading it is an error.
  void mark_unavailable(std::string_view name, const NodeProto& node);
  // Decodes initializers on first use.
  Result<Operand> operand(std::string_view name);
  // The operand as a value of the graph; constants are added to it under their own name.
  ir::ValueId materialise(std::string_view name, Operand& operand);
  // Counts elements that folding reads or makes; false when the whole import has used up its
  // budget. Real shape arithmetic needs a few thousand; without a limit, small files could ask for
  // hours and terabytes.
  bool charge(std::int64_t elements);
  // A name for a helper value: no name of the file and not yet in the graph.
  std::string helper_name(std::string_view wanted) const;
  Diagnostic error(std::string message, std::string hint = {}) const;  // with the file as its place

 private:
  const ModelSource& source_;
  std::int64_t opset_;
  ir::Graph graph_;
  std::int64_t folded_elements_ = 0;
  std::unordered_map<std::string_view, std::string_view> initializers_;  // name -> tensor body
  std::unordered_map<std::string_view, bool> file_names_;
  std::unordered_map<std::string_view, Operand> bound_;
  std::unordered_map<std::string_view, const NodeProto*> unavailable_;
};

class OpContext {
 public:
  static Result<OpContext> open(Scope& scope, const NodeProto& node, std::string_view ir_op);

  std::int64_t opset() const { return scope_->opset(); }
  std::string_view op_type() const { return node_->op_type; }
  std::string_view ir_op() const { return ir_op_; }  // of the table row; "" when it has none
  const ModelSource& source() const { return scope_->source(); }

  // Operands, by position. Optional ones may be absent or have an empty name.
  std::size_t operand_count() const { return node_->inputs.size(); }
  bool has(std::size_t i) const { return i < node_->inputs.size() && !node_->inputs[i].empty(); }
  Result<void> expect_operands(std::size_t least, std::size_t most) const;
  Result<Operand> operand(std::size_t i);
  Result<ir::ValueId> value(std::size_t i);  // as f32 in the graph
  // A constant operand as integers or as one float; the error says that it must be known at import.
  Result<std::vector<std::int64_t>> integers(std::size_t i, std::string_view what);
  Result<double> number(std::size_t i, std::string_view what);
  Result<std::vector<double>> numbers(std::size_t i, std::string_view what);
  bool charge(std::int64_t elements) { return scope_->charge(elements); }
  // All of the first `count` operands are known and at least one is foldable.
  Result<bool> folds(std::size_t count);
  // By value: the graph may grow while the caller holds it.
  ir::Shape shape_of(ir::ValueId v) const { return scope_->graph().value(v).type.shape; }

  // Attributes. A name that no handler asked for is an error (finish()).
  bool has_attribute(std::string_view name);
  Result<std::int64_t> integer_attribute(std::string_view name,
                                         std::optional<std::int64_t> fallback);
  Result<double> float_attribute(std::string_view name, std::optional<double> fallback);
  Result<std::optional<std::vector<std::int64_t>>> ints_attribute(std::string_view name);
  Result<std::optional<std::vector<float>>> floats_attribute(std::string_view name);
  Result<std::string> string_attribute(std::string_view name, std::string fallback);
  Result<std::optional<Constant>> tensor_attribute(std::string_view name);
  void ignore_attribute(std::string_view name) { find(name); }

  // Results.
  std::size_t output_count() const { return node_->outputs.size(); }
  bool wants_output(std::size_t i) const {
    return i < node_->outputs.size() && !node_->outputs[i].empty();
  }
  // Appends a node. `emit` makes an output of the file's node; `emit_helper` makes an intermediate
  // value called after output 0 with a suffix.
  Result<void> emit(ir::Op op, std::vector<ir::ValueId> operands,
                    const ir::AttributeList& attributes, std::size_t output = 0);
  Result<ir::ValueId> emit_helper(ir::Op op, std::vector<ir::ValueId> operands,
                                  const ir::AttributeList& attributes, std::string_view suffix);
  // The same for an output whose type in the file is not that of the first float input.
  Result<void> emit_as(ElemType declared, ir::Op op, std::vector<ir::ValueId> operands,
                       const ir::AttributeList& attributes, std::size_t output = 0);
  // A constant the handler made, as a value of the graph.
  ir::ValueId constant_helper(ir::Literal literal, std::string_view suffix);
  ir::ValueId scalar_helper(double value, std::string_view suffix);  // of f32
  // Output 0 is known now, and stays outside the graph until a node needs it there.
  void bind_constant(ir::Literal literal, ElemType declared, bool foldable);
  // After the handler: unknown attributes, and outputs that were wanted but not made.
  Result<void> finish();

  Diagnostic error(std::string message, std::string hint = {}) const;
  Diagnostic attribute_error(std::string_view name, std::string message,
                             std::string hint = {}) const;
  Diagnostic operand_error(std::size_t i, std::string message, std::string hint = {}) const;

 private:
  OpContext(Scope& scope, const NodeProto& node, std::string_view ir_op,
            std::vector<AttributeProto> attributes);
  const AttributeProto* find(std::string_view name);
  Diagnostic wrong_type(const AttributeProto& attribute, std::string_view wanted) const;
  ir::Location location() const;
  ElemType result_type() const;

  Scope* scope_;
  const NodeProto* node_;
  std::string_view ir_op_;
  std::vector<AttributeProto> attributes_;
  std::vector<bool> asked_;
};

}  // namespace driftc::frontend::onnx
