#include "frontend/onnx/fold.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

namespace driftc::frontend::onnx {
namespace {

constexpr std::int64_t kMaxFoldedElements = std::int64_t{1} << 20;

Result<void> check_size(OpContext& op, const ir::Shape& shape) {
  const auto elements = shape.checked_elements();
  if (!elements || *elements > kMaxFoldedElements)
    return op.error(fmt::format("shape arithmetic on a tensor {}, allowed are 2^20 elements",
                                to_string(shape)));
  if (!op.charge(*elements))
    return op.error("shape arithmetic on more than 2^24 elements in the whole model");
  return {};
}

// One integer operation; empty on overflow or division by zero.
std::optional<std::int64_t> integer_op(std::string_view name, std::int64_t a, std::int64_t b) {
  std::int64_t r = 0;
  if (name == "Add") return __builtin_add_overflow(a, b, &r) ? std::nullopt : std::optional(r);
  if (name == "Sub") return __builtin_sub_overflow(a, b, &r) ? std::nullopt : std::optional(r);
  if (name == "Mul") return __builtin_mul_overflow(a, b, &r) ? std::nullopt : std::optional(r);
  if (name == "Div") {
    if (b == 0 || (b == -1 && a == INT64_MIN)) return std::nullopt;
    return a / b;
  }
  if (name == "Equal") return a == b;
  if (name == "Greater") return a > b;
  if (name == "Less") return a < b;
  return std::nullopt;
}
template <class T>
T float_op(std::string_view name, T a, T b) {
  if (name == "Add") return a + b;
  if (name == "Sub") return a - b;
  if (name == "Mul") return a * b;
  return a / b;
}
bool is_comparison(std::string_view name) {
  return name == "Equal" || name == "Greater" || name == "Less";
}
template <class T>
bool compare(std::string_view name, T a, T b) {
  return name == "Equal" ? a == b : name == "Greater" ? a > b : a < b;
}

template <class T>
ir::Tensor float_binary(std::string_view name, const ir::Tensor& a, const ir::Tensor& b) {
  const auto x = a.data<T>(), y = b.data<T>();
  if (is_comparison(name)) {
    ir::Tensor out(ir::DType::kI64, a.shape());
    auto to = out.data_mut<std::int64_t>();
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = compare(name, x[i], y[i]);
    return out;
  }
  ir::Tensor out(a.dtype(), a.shape());
  auto to = out.data_mut<T>();
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = float_op(name, x[i], y[i]);
  return out;
}

// Range of an integer type that shape arithmetic may be cast to.
std::pair<std::int64_t, std::int64_t> range_of(ElemType type) {
  switch (type) {
    case ElemType::kInt8:
      return {INT8_MIN, INT8_MAX};
    case ElemType::kUint8:
      return {0, UINT8_MAX};
    case ElemType::kInt16:
      return {INT16_MIN, INT16_MAX};
    case ElemType::kUint16:
      return {0, UINT16_MAX};
    case ElemType::kInt32:
      return {INT32_MIN, INT32_MAX};
    case ElemType::kUint32:
      return {0, UINT32_MAX};
    case ElemType::kUint64:
      return {0, INT64_MAX};
    case ElemType::kInt64:
    case ElemType::kBool:
    case ElemType::kUndefined:
    case ElemType::kFloat:
    case ElemType::kString:
    case ElemType::kFloat16:
    case ElemType::kDouble:
    case ElemType::kBfloat16:
      break;
  }
  return {INT64_MIN, INT64_MAX};
}

}  // namespace

Result<ir::Tensor> known(OpContext& op, std::size_t i) {
  DRIFTC_TRY(operand, op.operand(i));
  DRIFTC_ASSERT(operand.constant != nullptr, "folding an unknown operand");
  DRIFTC_CHECK(check_size(op, operand.shape));
  return operand.constant->tensor();
}

Result<ir::Tensor> strided_copy(OpContext& op, const ir::Tensor& from, ir::Shape shape,
                                const std::vector<std::int64_t>& strides, std::int64_t offset) {
  DRIFTC_CHECK(check_size(op, shape));
  ir::Tensor out(from.dtype(), shape);
  const std::size_t item = ir::byte_size(from.dtype()), rank = shape.rank();
  std::vector<std::int64_t> index(rank, 0);
  std::byte* to = out.bytes_mut().data();
  const std::byte* base = from.bytes().data();
  std::int64_t at = offset;
  for (std::int64_t n = out.elements(); n > 0; --n, to += item) {
    DRIFTC_ASSERT(at >= 0 && at < from.elements(), "strided copy outside its source");
    std::memcpy(to, base + static_cast<std::size_t>(at) * item, item);
    for (std::size_t axis = rank; axis-- > 0;) {
      at += strides[axis];
      if (++index[axis] < shape[axis]) break;
      at -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
  }
  return out;
}

Result<ir::Tensor> broadcast_to(OpContext& op, const ir::Tensor& from, const ir::Shape& shape) {
  if (from.shape() == shape) return from;
  const std::size_t lead = shape.rank() - from.shape().rank();
  const auto dense = from.shape().row_major_strides();
  std::vector<std::int64_t> strides(shape.rank(), 0);
  for (std::size_t i = lead; i < shape.rank(); ++i)
    strides[i] = from.shape()[i - lead] == 1 ? 0 : dense[i - lead];
  return strided_copy(op, from, shape, strides, 0);
}

Result<ir::Tensor> fold_binary(OpContext& op, std::string_view name, const ir::Tensor& a,
                               const ir::Tensor& b) {
  if (a.dtype() != b.dtype())
    return op.error(fmt::format("operands differ in type: {} and {}", ir::name_of(a.dtype()),
                                ir::name_of(b.dtype())));
  const auto shape = ir::broadcast(a.shape(), b.shape());
  if (!shape)
    return op.error(fmt::format("operands do not broadcast: {} and {}", to_string(a.shape()),
                                to_string(b.shape())));
  DRIFTC_TRY(x, broadcast_to(op, a, *shape));
  DRIFTC_TRY(y, broadcast_to(op, b, *shape));
  if (a.dtype() == ir::DType::kF32) return float_binary<float>(name, x, y);
  if (a.dtype() == ir::DType::kF64) return float_binary<double>(name, x, y);
  ir::Tensor out(ir::DType::kI64, *shape);
  auto to = out.data_mut<std::int64_t>();
  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::int64_t p = x.data<std::int64_t>()[i], q = y.data<std::int64_t>()[i];
    const auto r = integer_op(name, p, q);
    if (!r)
      return op.error(
          fmt::format("shape arithmetic overflows or divides by zero: {} and {}", p, q));
    to[i] = *r;
  }
  return out;
}

Result<ir::Tensor> fold_cast(OpContext& op, const ir::Tensor& from, ElemType to) {
  if (to == ElemType::kFloat) return from.converted(ir::DType::kF32);
  if (to == ElemType::kDouble) return from.converted(ir::DType::kF64);
  if (!is_integer(to)) return op.error("casts shape arithmetic to " + name_of(to));
  ir::Tensor out(ir::DType::kI64, from.shape());
  auto values = out.data_mut<std::int64_t>();
  const bool integers = from.dtype() == ir::DType::kI64;
  const ir::Tensor wide = integers ? from : from.converted(ir::DType::kF64);
  const auto [least, most] = range_of(to);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::int64_t v = 0;
    if (integers) {
      v = wide.data<std::int64_t>()[i];
    } else {
      const double d = wide.data<double>()[i];
      if (to == ElemType::kBool) {
        values[i] = d != 0;
        continue;
      }
      if (!(d > -0x1p63 && d < 0x1p63))
        return op.error(fmt::format("casts {} to {}", d, name_of(to)));
      v = static_cast<std::int64_t>(d);  // toward zero, as ONNX says
    }
    if (to == ElemType::kBool) v = v != 0;
    if (v < least || v > most) return op.error(fmt::format("casts {} to {}", v, name_of(to)));
    values[i] = v;
  }
  return out;
}

Result<ir::Tensor> fold_concat(OpContext& op, const std::vector<ir::Tensor>& parts,
                               std::size_t axis) {
  ir::Shape shape = parts[0].shape();
  if (axis >= shape.rank()) return op.attribute_error("axis", "is out of range");
  for (std::size_t i = 1; i < parts.size(); ++i) {
    ir::Shape other = parts[i].shape();
    if (other.rank() == shape.rank()) {
      const std::int64_t extent = other[axis];
      other[axis] = shape[axis];
      if (other == shape && parts[i].dtype() == parts[0].dtype()) {
        shape[axis] += extent;
        continue;
      }
    }
    return op.error(fmt::format("input {} does not join the others along axis {}", i, axis));
  }
  DRIFTC_CHECK(check_size(op, shape));
  ir::Tensor out(parts[0].dtype(), shape);
  std::size_t outer = 1;
  for (std::size_t i = 0; i < axis; ++i) outer *= static_cast<std::size_t>(shape[i]);
  std::byte* to = out.bytes_mut().data();
  for (std::size_t o = 0; o < outer; ++o)
    for (const ir::Tensor& part : parts) {
      const std::size_t run = part.byte_count() / outer;
      if (run > 0) std::memcpy(to, part.bytes().data() + o * run, run);
      to += run;
    }
  return out;
}

Result<void> bind_folded(OpContext& op, ir::Tensor tensor, ElemType declared) {
  DRIFTC_CHECK(check_size(op, tensor.shape()));
  op.bind_constant(ir::Literal::dense(std::move(tensor)), declared, /*foldable=*/true);
  return {};
}

}  // namespace driftc::frontend::onnx
