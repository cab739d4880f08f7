// Operators that exist only as shape arithmetic: what they compute is known at import or is an
// error.
#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "frontend/onnx/fold.h"
#include "frontend/onnx/ops.h"
#include "ir/support/round.h"

namespace driftc::frontend::onnx {
namespace {

using Ints = std::vector<std::int64_t>;

ir::Tensor integers(ir::Shape shape, const Ints& values) {
  return ir::Tensor::of<std::int64_t>(std::move(shape), values);
}

// Operand `i` as a tensor; an error when it depends on an input.
Result<ir::Tensor> need_known(OpContext& op, std::size_t i) {
  DRIFTC_TRY(operand, op.operand(i));
  if (!operand.constant)
    return op.operand_error(i, "must be known at import",
                            std::string(op.op_type()) + " is supported in shape arithmetic only");
  return known(op, i);
}

Result<void> bind_constant_attribute(OpContext& op, Constant constant) {
  const bool foldable = is_integer(constant.declared);
  op.bind_constant(std::move(constant.literal), constant.declared, foldable);
  return {};
}

}  // namespace

Result<void> import_constant(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(0, 0));
  DRIFTC_TRY(tensor, op.tensor_attribute("value"));
  if (tensor) return bind_constant_attribute(op, std::move(*tensor));
  if (op.has_attribute("value_float")) {
    DRIFTC_TRY(v, op.float_attribute("value_float", std::nullopt));
    const float value[] = {static_cast<float>(v)};
    op.bind_constant(ir::Literal::dense(ir::Tensor::of<float>(ir::Shape{}, value)),
                     ElemType::kFloat, false);
    return {};
  }
  DRIFTC_TRY(floats, op.floats_attribute("value_floats"));
  if (floats) {
    op.bind_constant(ir::Literal::dense(ir::Tensor::of<float>(
                         ir::Shape{static_cast<std::int64_t>(floats->size())}, *floats)),
                     ElemType::kFloat, false);
    return {};
  }
  if (op.has_attribute("value_int")) {
    DRIFTC_TRY(v, op.integer_attribute("value_int", std::nullopt));
    return bind_folded(op, integers(ir::Shape{}, {v}), ElemType::kInt64);
  }
  DRIFTC_TRY(ints, op.ints_attribute("value_ints"));
  if (ints)
    return bind_folded(op, integers(ir::Shape{static_cast<std::int64_t>(ints->size())}, *ints),
                       ElemType::kInt64);
  return op.error(
      "holds no value that driftc reads",
      "value, value_float(s) and value_int(s) are; sparse and string constants are not");
}

Result<void> import_constant_of_shape(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(1, 1));
  DRIFTC_TRY(dims, op.integers(0, "shape"));
  const ir::Shape shape(dims);
  if (dims.size() > kMaxRank || !shape.checked_elements())
    return op.operand_error(
        0, fmt::format("(shape) is {}: negative or more than 2^40 elements", to_string(shape)));
  DRIFTC_TRY(value, op.tensor_attribute("value"));
  const ElemType declared = value ? value->declared : ElemType::kFloat;
  double number = 0;
  std::int64_t integer = 0;
  if (value) {
    if (value->literal.type().shape.elements() != 1)
      return op.attribute_error("value", "must hold one element");
    const ir::Tensor& tensor = value->literal.tensor();
    if (is_float(declared))
      number = tensor.converted(ir::DType::kF64).data<double>()[0];
    else
      integer = tensor.data<std::int64_t>()[0];
  }
  if (is_float(declared)) {
    // float64 is rounded here, not when a node uses it: the splat may be too large to be written
    // out.
    op.bind_constant(
        ir::Literal::splat({ir::DType::kF32, shape, ir::Layout::kNchw}, to_f32_rn(number)),
        declared == ElemType::kDouble ? ElemType::kFloat : declared, false);
    return {};
  }
  // A splat keeps integers as doubles, which not all are; shapes are small, so they are written
  // out.
  const ir::Tensor one = integers(ir::Shape{}, {integer});
  DRIFTC_TRY(filled, broadcast_to(op, one, shape));
  return bind_folded(op, std::move(filled), declared);
}

Result<void> import_shape(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(1, 1));
  DRIFTC_TRY(x, op.operand(0));
  const auto rank = static_cast<std::int64_t>(x.shape.rank());
  std::int64_t start = 0, end = rank;
  if (op.opset() >= 15) {
    DRIFTC_TRY(s, op.integer_attribute("start", 0));
    DRIFTC_TRY(e, op.integer_attribute("end", rank));
    const auto place = [&](std::int64_t v) {
      return v < 0 ? (v < -rank ? 0 : v + rank) : std::min(v, rank);
    };
    start = place(s);
    end = std::max(start, place(e));
  }
  const auto& dims = x.shape.dims();
  const Ints part(dims.begin() + start, dims.begin() + end);
  return bind_folded(op, integers(ir::Shape{end - start}, part), ElemType::kInt64);
}

Result<void> import_size(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(1, 1));
  DRIFTC_TRY(x, op.operand(0));
  return bind_folded(op, integers(ir::Shape{}, {x.shape.elements()}), ElemType::kInt64);
}

Result<void> import_gather(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(2, 2));
  DRIFTC_TRY(declared, op.operand(0));
  DRIFTC_TRY(data, need_known(op, 0));
  DRIFTC_TRY(indices, need_known(op, 1));
  if (indices.dtype() != ir::DType::kI64) return op.operand_error(1, "(indices) must be integers");
  DRIFTC_TRY(given, op.integer_attribute("axis", 0));
  const auto rank = static_cast<std::int64_t>(data.shape().rank());
  const std::int64_t at = given < 0 ? given + rank : given;
  if (at < 0 || at >= rank)
    return op.attribute_error(
        "axis", fmt::format("= {} is out of range for {}", given, to_string(data.shape())));
  const auto axis = static_cast<std::size_t>(at);
  const auto& dims = data.shape().dims();
  // One part per index, joined along the axis, then the axis takes the shape of the indices.
  std::vector<ir::Tensor> parts;
  ir::Shape one = data.shape();
  one[axis] = 1;
  const auto strides = data.shape().row_major_strides();
  for (std::int64_t index : indices.data<std::int64_t>()) {
    const std::int64_t i = index < 0 ? index + dims[axis] : index;
    if (i < 0 || i >= dims[axis])
      return op.operand_error(1, fmt::format("(indices) holds {}, out of range for {}", index,
                                             to_string(data.shape())));
    DRIFTC_TRY(part, strided_copy(op, data, one, strides, i * strides[axis]));
    parts.push_back(part);
  }
  Ints out(dims.begin(), dims.begin() + at);
  out.insert(out.end(), indices.shape().dims().begin(), indices.shape().dims().end());
  out.insert(out.end(), dims.begin() + at + 1, dims.end());
  if (parts.empty())
    return bind_folded(op, ir::Tensor(data.dtype(), ir::Shape(out)), declared.declared);
  DRIFTC_TRY(joined, fold_concat(op, parts, axis));
  return bind_folded(op, joined.reshaped(ir::Shape(out)), declared.declared);
}

Result<void> import_range(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(3, 3));
  Ints v;
  for (std::size_t i = 0; i < 3; ++i) {
    DRIFTC_TRY(given, op.integers(i, i == 0 ? "start" : i == 1 ? "limit" : "delta"));
    if (given.size() != 1) return op.operand_error(i, "must be one number");
    v.push_back(given[0]);
  }
  if (v[2] == 0) return op.operand_error(2, "(delta) is 0");
  constexpr std::size_t kMost = std::size_t{1} << 20;
  Ints out;
  for (std::int64_t at = v[0]; v[2] > 0 ? at < v[1] : at > v[1];) {
    if (out.size() == kMost) return op.error("gives more than 2^20 elements");
    out.push_back(at);
    if (__builtin_add_overflow(at, v[2], &at)) break;
  }
  return bind_folded(op, integers(ir::Shape{static_cast<std::int64_t>(out.size())}, out),
                     ElemType::kInt64);
}

Result<void> import_expand(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(2, 2));
  DRIFTC_TRY(declared, op.operand(0));
  DRIFTC_TRY(data, need_known(op, 0));
  DRIFTC_TRY(dims, op.integers(1, "shape"));
  const ir::Shape wanted(dims);
  const auto shape = dims.size() <= kMaxRank && wanted.checked_elements()
                         ? ir::broadcast(data.shape(), wanted)
                         : std::nullopt;
  if (!shape)
    return op.operand_error(1, fmt::format("(shape) is {}, which {} does not expand to",
                                           to_string(wanted), to_string(data.shape())));
  DRIFTC_TRY(result, broadcast_to(op, data, *shape));
  return bind_folded(op, std::move(result), declared.declared);
}

Result<void> import_where(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(3, 3));
  DRIFTC_TRY(declared, op.operand(1));
  DRIFTC_TRY(condition, need_known(op, 0));
  DRIFTC_TRY(a, need_known(op, 1));
  DRIFTC_TRY(b, need_known(op, 2));
  if (condition.dtype() != ir::DType::kI64) return op.operand_error(0, "must be bool");
  if (a.dtype() != ir::DType::kI64 || b.dtype() != ir::DType::kI64)
    return op.error("chooses between tensors that are not integers");
  auto shape = ir::broadcast(a.shape(), b.shape());
  if (shape) shape = ir::broadcast(*shape, condition.shape());
  if (!shape) return op.error("operands do not broadcast");
  DRIFTC_TRY(c, broadcast_to(op, condition, *shape));
  DRIFTC_TRY(x, broadcast_to(op, a, *shape));
  DRIFTC_TRY(y, broadcast_to(op, b, *shape));
  ir::Tensor out(ir::DType::kI64, *shape);
  auto to = out.data_mut<std::int64_t>();
  for (std::size_t i = 0; i < to.size(); ++i)
    to[i] = (c.data<std::int64_t>()[i] != 0 ? x : y).data<std::int64_t>()[i];
  return bind_folded(op, std::move(out), declared.declared);
}

Result<void> import_compare(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(2, 2));
  DRIFTC_TRY(a, need_known(op, 0));
  DRIFTC_TRY(b, need_known(op, 1));
  DRIFTC_TRY(result, fold_binary(op, op.op_type(), a, b));
  return bind_folded(op, std::move(result), ElemType::kBool);
}

Result<void> import_rounding(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(1, 1));
  DRIFTC_TRY(declared, op.operand(0));
  DRIFTC_TRY(x, need_known(op, 0));
  const bool down = op.op_type() == "Floor";
  ir::Tensor out(x.dtype(), x.shape());
  const auto apply = [&](auto from, auto to) {
    for (std::size_t i = 0; i < to.size(); ++i)
      to[i] = down ? std::floor(from[i]) : std::ceil(from[i]);
  };
  if (x.dtype() == ir::DType::kF32)
    apply(x.data<float>(), out.data_mut<float>());
  else if (x.dtype() == ir::DType::kF64)
    apply(x.data<double>(), out.data_mut<double>());
  else
    return op.operand_error(0, "must be a float");
  return bind_folded(op, std::move(out), declared.declared);
}

Result<void> import_reduce_prod(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(1, op.opset() < 18 ? 1 : 2));
  DRIFTC_TRY(x, need_known(op, 0));
  if (x.dtype() != ir::DType::kI64 || x.shape().rank() != 1)
    return op.operand_error(0, "must be a list of integers");
  DRIFTC_TRY(keep, op.integer_attribute("keepdims", 1));
  op.ignore_attribute("axes");  // a list has one axis
  if (op.opset() >= 18) op.ignore_attribute("noop_with_empty_axes");
  std::int64_t product = 1;
  for (std::int64_t v : x.data<std::int64_t>())
    if (__builtin_mul_overflow(product, v, &product)) return op.error("shape arithmetic overflows");
  return bind_folded(op, integers(keep != 0 ? ir::Shape{1} : ir::Shape{}, {product}),
                     ElemType::kInt64);
}

}  // namespace driftc::frontend::onnx
