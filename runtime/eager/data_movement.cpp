// concat, flatten, reshape, transpose, slice, pad, identity: bits are copied, whatever the element
// type.
#include <algorithm>
#include <cstring>

#include "runtime/eager/ops.h"

namespace driftc::runtime {
namespace {

// Copies a strided box of elements. Strides are in elements and may be negative or zero.
template <class Bits>
void copy_box(const Bits* from, const std::vector<std::int64_t>& from_strides, Bits* to,
              const std::vector<std::int64_t>& to_strides, const std::vector<std::int64_t>& extents,
              std::size_t axis = 0) {
  if (axis == extents.size()) {
    *to = *from;
    return;
  }
  const std::int64_t a = from_strides[axis], b = to_strides[axis];
  if (axis + 1 == extents.size()) {
    if (a == 1 && b == 1) {
      std::copy_n(from, extents[axis], to);
    } else {
      for (std::int64_t i = 0; i < extents[axis]; ++i) to[i * b] = from[i * a];
    }
    return;
  }
  for (std::int64_t i = 0; i < extents[axis]; ++i)
    copy_box(from + i * a, from_strides, to + i * b, to_strides, extents, axis + 1);
}

template <class Bits>
const Bits* read(const ir::Tensor& t) {
  return reinterpret_cast<const Bits*>(t.bytes().data());
}
template <class Bits>
Bits* write(ir::Tensor& t) {
  return reinterpret_cast<Bits*>(t.bytes_mut().data());
}

template <class Bits>
ir::Tensor concat(const OpCall& call) {
  const ir::Shape& y = call.result_shape();
  const auto axis = static_cast<std::size_t>(call.node.integer("axis"));
  ir::Tensor result(call.operand(0).dtype(), y);
  Bits* to = write<Bits>(result);
  std::int64_t inner = 1, outer = 1;
  for (std::size_t i = axis + 1; i < y.rank(); ++i) inner *= y[i];
  for (std::size_t i = 0; i < axis; ++i) outer *= y[i];
  std::int64_t offset = 0;
  for (const ir::Tensor& operand : call.operands) {
    const std::int64_t run = operand.shape()[axis] * inner;
    for (std::int64_t i = 0; i < outer; ++i)
      std::copy_n(read<Bits>(operand) + i * run, run, to + i * y[axis] * inner + offset);
    offset += run;
  }
  return result;
}

template <class Bits>
ir::Tensor transpose(const OpCall& call) {
  const auto& perm = call.node.ints("perm");
  ir::Tensor result(call.operand(0).dtype(), call.result_shape());
  if (result.elements() == 0) return result;
  const auto own = call.operand(0).shape().row_major_strides();
  std::vector<std::int64_t> strides;
  for (std::int64_t p : perm) strides.push_back(own[static_cast<std::size_t>(p)]);
  copy_box(read<Bits>(call.operand(0)), strides, write<Bits>(result),
           call.result_shape().row_major_strides(), call.result_shape().dims());
  return result;
}

template <class Bits>
ir::Tensor slice(const OpCall& call) {
  const auto &starts = call.node.ints("starts"), &steps = call.node.ints("steps");
  ir::Tensor result(call.operand(0).dtype(), call.result_shape());
  if (result.elements() == 0) return result;
  auto strides = call.operand(0).shape().row_major_strides();
  std::int64_t first = 0;
  for (std::size_t i = 0; i < strides.size(); ++i) {
    first += starts[i] * strides[i];
    strides[i] *= steps[i];
  }
  copy_box(read<Bits>(call.operand(0)) + first, strides, write<Bits>(result),
           call.result_shape().row_major_strides(), call.result_shape().dims());
  return result;
}

template <class Bits>
ir::Tensor pad(const OpCall& call, Bits value) {
  const auto &before = call.node.ints("before"), &after = call.node.ints("after");
  const ir::Shape &x = call.operand(0).shape(), &y = call.result_shape();
  ir::Tensor result(call.operand(0).dtype(), y);
  std::fill_n(write<Bits>(result), result.elements(), value);
  const auto from_strides = x.row_major_strides(), to_strides = y.row_major_strides();
  std::vector<std::int64_t> extents;
  std::int64_t from = 0, to = 0;
  for (std::size_t i = 0; i < x.rank(); ++i) {
    const std::int64_t cut_before = std::max<std::int64_t>(0, -before[i]);
    const std::int64_t cut_after = std::max<std::int64_t>(0, -after[i]);
    extents.push_back(x[i] - cut_before - cut_after);
    if (extents.back() <= 0) return result;
    from += cut_before * from_strides[i];
    to += std::max<std::int64_t>(0, before[i]) * to_strides[i];
  }
  copy_box(read<Bits>(call.operand(0)) + from, from_strides, write<Bits>(result) + to, to_strides,
           extents);
  return result;
}

template <class Bits>
Bits pad_value(const OpCall& call) {
  const double value = call.node.number("value");
  switch (call.operand(0).dtype()) {
    case ir::DType::kF32:
      return static_cast<Bits>(bits_of(static_cast<float>(value)));
    case ir::DType::kF64:
      return static_cast<Bits>(bits_of(value));
    case ir::DType::kI64:
      return static_cast<Bits>(static_cast<std::int64_t>(value));
    case ir::DType::kF16:
    case ir::DType::kBF16:
      break;
  }
  DRIFTC_ASSERT(false, "16-bit tensors do not reach the interpreter");
}

template <class Bits>
ir::Tensor move(const OpCall& call) {
  switch (call.node.op) {
    case ir::Op::kConcat:
      return concat<Bits>(call);
    case ir::Op::kTranspose:
      return transpose<Bits>(call);
    case ir::Op::kSlice:
      return slice<Bits>(call);
    case ir::Op::kPad:
      return pad<Bits>(call, pad_value<Bits>(call));
    default:
      return call.operand(0).reshaped(call.result_shape());
  }
}

}  // namespace

ir::Tensor evaluate_data_movement(const OpCall& call) {
  return ir::byte_size(call.operand(0).dtype()) == 8 ? move<std::uint64_t>(call)
                                                     : move<std::uint32_t>(call);
}

}  // namespace driftc::runtime
