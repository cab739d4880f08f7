#include "frontend/onnx/op_context.h"

#include <fmt/format.h>

#include "frontend/onnx/graph_order.h"
#include "frontend/onnx/names.h"
#include "ir/support/round.h"

namespace driftc::frontend::onnx {
namespace {

std::string base_name(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

// AttributeProto.AttributeType, as far as driftc reads it.
constexpr std::int32_t kFloat = 1, kInt = 2, kString = 3, kTensor = 4, kFloats = 6, kInts = 7;

std::string_view attribute_type_name(const AttributeProto& a) {
  switch (a.type) {
    case kFloat:
      return "a float";
    case kInt:
      return "an integer";
    case kString:
      return "a string";
    case kTensor:
      return "a tensor";
    case kFloats:
      return "a list of floats";
    case kInts:
      return "a list of integers";
    default:
      return a.has_graph ? "a graph" : "of another type";
  }
}

}  // namespace

Scope::Scope(const ModelSource& source, const GraphProto& proto, std::int64_t opset)
    : source_(source),
      opset_(opset),
      graph_(proto.name.empty() ? "main" : std::string(proto.name)) {
  for (const Named& tensor : proto.initializers) {
    initializers_.emplace(tensor.name, tensor.body);
    file_names_.emplace(tensor.name, true);
  }
  for (const Named& input : proto.inputs) file_names_.emplace(input.name, true);
  for (const NodeProto& node : proto.nodes)
    for (std::string_view output : node.outputs) file_names_.emplace(output, true);
}

void Scope::bind(std::string_view name, Operand operand) {
  bound_.insert_or_assign(name, std::move(operand));
}

void Scope::mark_unavailable(std::string_view name, const NodeProto& node) {
  if (!bound_.contains(name)) unavailable_.emplace(name, &node);
}

Result<Operand> Scope::operand(std::string_view name) {
  if (const auto found = bound_.find(name); found != bound_.end()) return found->second;
  if (const auto found = unavailable_.find(name); found != unavailable_.end())
    return error(fmt::format("{}: output {} is used, but driftc does not compute it",
                             describe(*found->second), quoted(name)));
  const auto initializer = initializers_.find(name);
  DRIFTC_ASSERT(initializer != initializers_.end(), "graph order let an unknown name pass");
  const auto fail = [&](const Diagnostic& why) {
    return error(fmt::format("initializer {}: {}", quoted(name), why.message), why.hint);
  };
  auto tensor = decode_tensor(initializer->second);
  if (!tensor.ok()) return fail(tensor.error());
  auto constant = decode_constant(*tensor, source_);
  if (!constant.ok()) return fail(constant.error());
  Operand operand;
  operand.declared = constant->declared;
  operand.shape = constant->literal.type().shape;
  operand.foldable = is_integer(constant->declared);
  operand.constant = std::make_shared<const ir::Literal>(std::move(constant->literal));
  bind(name, operand);
  return operand;
}

ir::ValueId Scope::materialise(std::string_view name, Operand& operand) {
  if (!operand.value) {
    const ir::Literal& literal = *operand.constant;
    operand.value = graph_.add_constant(
        std::string(name), literal.type().dtype == ir::DType::kF64
                               ? ir::Literal::dense(literal.tensor().converted(ir::DType::kF32))
                               : literal);
    bind(name, operand);
  }
  return *operand.value;
}

bool Scope::charge(std::int64_t elements) {
  constexpr std::int64_t kBudget = std::int64_t{1} << 24;
  folded_elements_ +=
      elements;  // each is at most 2^20, so this cannot overflow before it is refused
  return folded_elements_ <= kBudget;
}

std::string Scope::helper_name(std::string_view wanted) const {
  std::string name(wanted);
  for (int i = 1; file_names_.contains(name) || graph_.find(name); ++i)
    name = fmt::format("{}.{}", wanted, i);
  return name;
}

Diagnostic Scope::error(std::string message, std::string hint) const {
  Diagnostic d = input_error(std::move(message), std::move(hint));
  d.place.file = source_.path;
  return d;
}

OpContext::OpContext(Scope& scope, const NodeProto& node, std::string_view ir_op,
                     std::vector<AttributeProto> attributes)
    : scope_(&scope),
      node_(&node),
      ir_op_(ir_op),
      attributes_(std::move(attributes)),
      asked_(attributes_.size(), false) {}

Result<OpContext> OpContext::open(Scope& scope, const NodeProto& node, std::string_view ir_op) {
  auto attributes = decode_attributes(node);
  if (!attributes.ok())
    return scope.error(describe(node) + ": " + attributes.error().message, attributes.error().hint);
  OpContext context(scope, node, ir_op, std::move(*attributes));
  if (!context.wants_output(0))
    return context.error("has no first output",
                         "driftc computes only the first output of an operator");
  for (const AttributeProto& a : context.attributes_)
    if (a.has_graph || a.has_reference)
      return context.attribute_error(a.name,
                                     "holds a sub-graph or refers to a function's attribute",
                                     "control flow and local functions are not supported");
  return context;
}

Result<void> OpContext::expect_operands(std::size_t least, std::size_t most) const {
  const std::size_t given = operand_count();
  std::size_t present = given;
  while (present > 0 && !has(present - 1)) --present;
  if (present > most || given < least)
    return error(least == most   ? fmt::format("takes {} input(s), {} given", least, given)
                 : given < least ? fmt::format("takes at least {} input(s), {} given", least, given)
                                 : fmt::format("takes at most {} input(s), {} given", most, given));
  for (std::size_t i = 0; i < least; ++i)
    if (!has(i)) return error(fmt::format("input {} is missing", i));
  return {};
}

Result<Operand> OpContext::operand(std::size_t i) {
  if (!has(i)) return error(fmt::format("input {} is missing", i));
  return scope_->operand(node_->inputs[i]);
}

Result<ir::ValueId> OpContext::value(std::size_t i) {
  DRIFTC_TRY(found, operand(i));
  if (!is_float(found.declared))
    return operand_error(
        i, fmt::format("is {}; driftc computes on float32 and float16", name_of(found.declared)),
        "integer tensors may only be shapes, axes and the like");
  return scope_->materialise(node_->inputs[i], found);
}

Result<std::vector<std::int64_t>> OpContext::integers(std::size_t i, std::string_view what) {
  DRIFTC_TRY(found, operand(i));
  if (!is_integer(found.declared))
    return operand_error(i,
                         fmt::format("({}) is {}, must be int64", what, name_of(found.declared)));
  if (!found.constant)
    return operand_error(i, fmt::format("({}) must be known at import", what),
                         "it depends on the values of an input; export with fixed shapes");
  const auto& tensor = found.constant->tensor();
  if (tensor.shape().rank() > 1)
    return operand_error(
        i, fmt::format("({}) has shape {}, must be a list", what, to_string(tensor.shape())));
  const auto data = tensor.data<std::int64_t>();
  return std::vector<std::int64_t>(data.begin(), data.end());
}

Result<double> OpContext::number(std::size_t i, std::string_view what) {
  DRIFTC_TRY(found, operand(i));
  if (!is_float(found.declared))
    return operand_error(i,
                         fmt::format("({}) is {}, must be a float", what, name_of(found.declared)));
  if (!found.constant) return operand_error(i, fmt::format("({}) must be a constant", what));
  if (found.shape.elements() != 1)
    return operand_error(
        i, fmt::format("({}) has shape {}, must be one number", what, to_string(found.shape)));
  return found.constant->tensor().converted(ir::DType::kF64).data<double>()[0];
}

Result<std::vector<double>> OpContext::numbers(std::size_t i, std::string_view what) {
  DRIFTC_TRY(found, operand(i));
  if (!is_float(found.declared))
    return operand_error(i,
                         fmt::format("({}) is {}, must be floats", what, name_of(found.declared)));
  if (!found.constant)
    return operand_error(i, fmt::format("({}) must be known at import", what),
                         "it depends on the values of an input; export with fixed shapes");
  if (found.shape.rank() > 1)
    return operand_error(
        i, fmt::format("({}) has shape {}, must be a list", what, to_string(found.shape)));
  const ir::Tensor wide = found.constant->tensor().converted(ir::DType::kF64);
  return std::vector<double>(wide.data<double>().begin(), wide.data<double>().end());
}

Result<bool> OpContext::folds(std::size_t count) {
  bool foldable = false;
  for (std::size_t i = 0; i < count; ++i) {
    DRIFTC_TRY(found, operand(i));
    if (!found.constant) return false;
    foldable = foldable || found.foldable;
  }
  return foldable;
}

const AttributeProto* OpContext::find(std::string_view name) {
  for (std::size_t i = 0; i < attributes_.size(); ++i)
    if (attributes_[i].name == name) {
      asked_[i] = true;
      return &attributes_[i];
    }
  return nullptr;
}
bool OpContext::has_attribute(std::string_view name) { return find(name) != nullptr; }

Diagnostic OpContext::wrong_type(const AttributeProto& attribute, std::string_view wanted) const {
  return attribute_error(attribute.name,
                         fmt::format("is {}, must be {}", attribute_type_name(attribute), wanted));
}

// A type of 0 (the first IR versions) and a value left out because it is zero are both accepted.
Result<std::int64_t> OpContext::integer_attribute(std::string_view name,
                                                  std::optional<std::int64_t> fallback) {
  const AttributeProto* a = find(name);
  if (a == nullptr) {
    if (fallback) return *fallback;
    return attribute_error(name, "is required");
  }
  if ((a->type != 0 && a->type != kInt) || (a->type == 0 && !a->i))
    return wrong_type(*a, "an integer");
  return a->i.value_or(0);
}
Result<double> OpContext::float_attribute(std::string_view name, std::optional<double> fallback) {
  const AttributeProto* a = find(name);
  if (a == nullptr) {
    if (fallback) return *fallback;
    return attribute_error(name, "is required");
  }
  if ((a->type != 0 && a->type != kFloat) || (a->type == 0 && !a->f))
    return wrong_type(*a, "a float");
  return static_cast<double>(a->f.value_or(0.0f));
}
Result<std::optional<std::vector<std::int64_t>>> OpContext::ints_attribute(std::string_view name) {
  const AttributeProto* a = find(name);
  if (a == nullptr) return std::optional<std::vector<std::int64_t>>();
  if (a->type != 0 && a->type != kInts) return wrong_type(*a, "a list of integers");
  return std::optional(a->ints);
}
Result<std::optional<std::vector<float>>> OpContext::floats_attribute(std::string_view name) {
  const AttributeProto* a = find(name);
  if (a == nullptr) return std::optional<std::vector<float>>();
  if (a->type != 0 && a->type != kFloats) return wrong_type(*a, "a list of floats");
  return std::optional(a->floats);
}
Result<std::string> OpContext::string_attribute(std::string_view name, std::string fallback) {
  const AttributeProto* a = find(name);
  if (a == nullptr) return fallback;
  if ((a->type != 0 && a->type != kString) || (a->type == 0 && !a->s))
    return wrong_type(*a, "a string");
  return std::string(a->s.value_or(std::string_view()));
}
Result<std::optional<Constant>> OpContext::tensor_attribute(std::string_view name) {
  const AttributeProto* a = find(name);
  if (a == nullptr) return std::optional<Constant>();
  if (!a->tensor) return wrong_type(*a, "a tensor");
  auto tensor = decode_tensor(*a->tensor);
  if (!tensor.ok()) return attribute_error(name, tensor.error().message, tensor.error().hint);
  auto constant = decode_constant(*tensor, source());
  if (!constant.ok()) return attribute_error(name, constant.error().message, constant.error().hint);
  return std::optional(std::move(*constant));
}

ir::Location OpContext::location() const {
  // A node without a name is known by what it makes.
  const std::string_view name = node_->name.empty() ? node_->outputs[0] : node_->name;
  return {base_name(source().path), std::string(name), 0};
}

// float16 as long as every float operand is: what the file's own type inference would say.
ElemType OpContext::result_type() const {
  for (std::string_view name : node_->inputs) {
    if (name.empty()) continue;
    const auto found = scope_->operand(name);
    if (found.ok() && is_float(found.value().declared)) return found.value().declared;
  }
  return ElemType::kFloat;
}

Result<ir::ValueId> OpContext::emit_helper(ir::Op op, std::vector<ir::ValueId> operands,
                                           const ir::AttributeList& attributes,
                                           std::string_view suffix) {
  const std::string name = scope_->helper_name(fmt::format("{}.{}", node_->outputs[0], suffix));
  auto value =
      ir::Builder(scope_->graph()).add(op, std::move(operands), attributes, name, location());
  if (!value.ok()) return error(value.error().message, value.error().hint);
  return *value;
}

ir::ValueId OpContext::constant_helper(ir::Literal literal, std::string_view suffix) {
  const std::string name = scope_->helper_name(fmt::format("{}.{}", node_->outputs[0], suffix));
  return scope_->graph().add_constant(scope_->graph().fresh_name(name), std::move(literal));
}
ir::ValueId OpContext::scalar_helper(double value, std::string_view suffix) {
  return constant_helper(
      ir::Literal::splat({ir::DType::kF32, ir::Shape{}, ir::Layout::kNchw}, to_f32_rn(value)),
      suffix);
}

Result<void> OpContext::emit(ir::Op op, std::vector<ir::ValueId> operands,
                             const ir::AttributeList& attributes, std::size_t output) {
  return emit_as(result_type(), op, std::move(operands), attributes, output);
}

Result<void> OpContext::emit_as(ElemType declared, ir::Op op, std::vector<ir::ValueId> operands,
                                const ir::AttributeList& attributes, std::size_t output) {
  const std::string_view name = node_->outputs[output];
  auto value =
      ir::Builder(scope_->graph()).add(op, std::move(operands), attributes, name, location());
  if (!value.ok()) return error(value.error().message, value.error().hint);
  Operand result;
  result.declared = declared;
  result.shape = shape_of(*value);
  result.value = *value;
  scope_->bind(name, std::move(result));
  return {};
}

void OpContext::bind_constant(ir::Literal literal, ElemType declared, bool foldable) {
  Operand result;
  result.declared = declared;
  result.shape = literal.type().shape;
  result.foldable = foldable;
  result.constant = std::make_shared<const ir::Literal>(std::move(literal));
  scope_->bind(node_->outputs[0], std::move(result));
}

Result<void> OpContext::finish() {
  for (std::size_t i = 0; i < attributes_.size(); ++i)
    if (!asked_[i])
      return attribute_error(attributes_[i].name,
                             fmt::format("is unknown at operator set {}", opset()),
                             "it would change what the node means in a way driftc does not know");
  for (std::string_view output : node_->outputs)
    if (!output.empty()) scope_->mark_unavailable(output, *node_);
  return {};
}

Diagnostic OpContext::error(std::string message, std::string hint) const {
  return scope_->error(fmt::format("{}: {}", describe(*node_), message), std::move(hint));
}
Diagnostic OpContext::attribute_error(std::string_view name, std::string message,
                                      std::string hint) const {
  return error(fmt::format("attribute {} {}", quoted(name), message), std::move(hint));
}
Diagnostic OpContext::operand_error(std::size_t i, std::string message, std::string hint) const {
  return error(fmt::format("input {} {} {}", i, quoted(node_->inputs[i]), message),
               std::move(hint));
}

}  // namespace driftc::frontend::onnx
