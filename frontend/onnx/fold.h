// Shape arithmetic on host tensors: what import computes instead of putting it in the graph.
// Integers are i64 whatever the file's type (overflow is an error); floats keep f32 or f64. Results
// above 2^20 elements are refused: nothing that describes a shape is larger. Internal to this
// folder.
#pragma once

#include <functional>
#include <string_view>

#include "frontend/onnx/op_context.h"

namespace driftc::frontend::onnx {

// The tensor of a known operand. The caller made sure that it is known (`folds`).
Result<ir::Tensor> known(OpContext& op, std::size_t i);

// Reads element sum(index * strides) + offset for every index of `shape`: slices, transposes,
// broadcasts.
Result<ir::Tensor> strided_copy(OpContext& op, const ir::Tensor& from, ir::Shape shape,
                                const std::vector<std::int64_t>& strides, std::int64_t offset);
Result<ir::Tensor> broadcast_to(OpContext& op, const ir::Tensor& from, const ir::Shape& shape);

// Add, Sub, Mul, Div (integers: truncating), Equal, Greater, Less by ONNX name, with broadcasting.
Result<ir::Tensor> fold_binary(OpContext& op, std::string_view name, const ir::Tensor& a,
                               const ir::Tensor& b);
// ONNX's Cast; `to` is a type driftc can fold (integer, bool, float32, float64).
Result<ir::Tensor> fold_cast(OpContext& op, const ir::Tensor& from, ElemType to);
Result<ir::Tensor> fold_concat(OpContext& op, const std::vector<ir::Tensor>& parts,
                               std::size_t axis);

// Binds output 0 to a folded tensor.
Result<void> bind_folded(OpContext& op, ir::Tensor tensor, ElemType declared);

}  // namespace driftc::frontend::onnx
