// The operators import knows: one row each. A handler reads operands and attributes from its
// OpContext, checks what the operator sets 6 to 21 say about them, and emits nodes or binds a
// constant. To add an operator: a row in op_table.cpp, a handler in the ops_*.cpp file of its
// family, a test.
#pragma once

#include <string_view>

#include "frontend/onnx/op_context.h"

namespace driftc::frontend::onnx {

struct OpRow {
  std::string_view op_type;
  Result<void> (*import)(OpContext&);
  // The op of ops.def the handler emits, when it takes it from the row; the operator is unsupported
  // as long as ops.def has no such op.
  std::string_view ir_op;
};
const OpRow* find_op(std::string_view op_type);  // null: unknown, or its IR op does not exist

// ops_window.cpp: convolution and pooling
Result<void> import_conv(OpContext& op);
Result<void> import_conv_transpose(OpContext& op);
Result<void> import_max_pool(OpContext& op);
Result<void> import_average_pool(OpContext& op);
Result<void> import_global_average_pool(OpContext& op);
Result<void> import_lp_pool(OpContext& op);  // LpPool, GlobalLpPool

// ops_math.cpp: arithmetic on activations
Result<void> import_binary(OpContext& op);  // Add, Sub, Mul, Div
Result<void> import_sum(OpContext& op);
Result<void> import_unary(OpContext& op);  // elementwise, no attributes
Result<void> import_clip(OpContext& op);
Result<void> import_matmul(OpContext& op);
Result<void> import_gemm(OpContext& op);
Result<void> import_batch_norm(OpContext& op);
Result<void> import_softmax(OpContext& op);

// ops_activation.cpp: functions with parameters, powers, extremes
Result<void> import_leaky_relu(OpContext& op);  // LeakyRelu, Elu
Result<void> import_selu(OpContext& op);
Result<void> import_hard_sigmoid(OpContext& op);
Result<void> import_gelu(OpContext& op);
Result<void> import_reciprocal(OpContext& op);
Result<void> import_softsign(OpContext& op);
Result<void> import_prelu(OpContext& op);
Result<void> import_pow(OpContext& op);
Result<void> import_extreme(OpContext& op);  // Max, Min
Result<void> import_mean(OpContext& op);

// ops_norm.cpp: normalisations, written out
Result<void> import_instance_norm(OpContext& op);
Result<void> import_lrn(OpContext& op);
Result<void> import_log_softmax(OpContext& op);

// ops_reduce.cpp
Result<void> import_reduce(
    OpContext& op);  // ReduceMean, -Sum, -Max, -Min, -L1, -L2, -SumSquare, -LogSum, -LogSumExp
Result<void> import_argmax(OpContext& op);
Result<void> import_global_max_pool(OpContext& op);

// ops_resize.cpp
Result<void> import_resize(OpContext& op);
Result<void> import_upsample(OpContext& op);
Result<void> import_split(OpContext& op);
Result<void> import_depth_to_space(OpContext& op);  // DepthToSpace, SpaceToDepth

// ops_data.cpp: elements moved, not changed; on shape arithmetic they fold
Result<void> import_identity(OpContext& op);
Result<void> import_dropout(OpContext& op);
Result<void> import_cast(OpContext& op);
Result<void> import_reshape(OpContext& op);
Result<void> import_flatten(OpContext& op);
Result<void> import_squeeze(OpContext& op);
Result<void> import_unsqueeze(OpContext& op);
Result<void> import_transpose(OpContext& op);
Result<void> import_concat(OpContext& op);
Result<void> import_slice(OpContext& op);
Result<void> import_pad(OpContext& op);

// ops_shape.cpp: known at import, always
Result<void> import_constant(OpContext& op);
Result<void> import_constant_of_shape(OpContext& op);
Result<void> import_shape(OpContext& op);
Result<void> import_size(OpContext& op);
Result<void> import_gather(OpContext& op);
Result<void> import_range(OpContext& op);
Result<void> import_expand(OpContext& op);
Result<void> import_where(OpContext& op);
Result<void> import_compare(OpContext& op);   // Equal, Greater, Less
Result<void> import_rounding(OpContext& op);  // Floor, Ceil
Result<void> import_reduce_prod(OpContext& op);

}  // namespace driftc::frontend::onnx
