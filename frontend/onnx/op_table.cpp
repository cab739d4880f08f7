#include <algorithm>
#include <array>

#include "frontend/onnx/onnx.h"
#include "frontend/onnx/ops.h"

namespace driftc::frontend::onnx {
namespace {

constexpr std::array kOps = {
    OpRow{"Abs", import_unary, "abs"},
    OpRow{"Add", import_binary, "add"},
    OpRow{"ArgMax", import_argmax, "argmax"},
    OpRow{"AveragePool", import_average_pool, "avg_pool"},
    OpRow{"BatchNormalization", import_batch_norm, "batch_norm"},
    OpRow{"Cast", import_cast, ""},
    OpRow{"Ceil", import_rounding, ""},
    OpRow{"Clip", import_clip, "clip"},
    OpRow{"Concat", import_concat, "concat"},
    OpRow{"Constant", import_constant, ""},
    OpRow{"ConstantOfShape", import_constant_of_shape, ""},
    OpRow{"Conv", import_conv, "conv2d"},
    OpRow{"ConvTranspose", import_conv_transpose, "conv_transpose"},
    OpRow{"DepthToSpace", import_depth_to_space, "transpose"},
    OpRow{"Div", import_binary, "div"},
    OpRow{"Dropout", import_dropout, "identity"},
    OpRow{"Elu", import_leaky_relu, "elu"},
    OpRow{"Equal", import_compare, ""},
    OpRow{"Erf", import_unary, "erf"},
    OpRow{"Exp", import_unary, "exp"},
    OpRow{"Expand", import_expand, ""},
    OpRow{"Flatten", import_flatten, "flatten"},
    OpRow{"Floor", import_rounding, ""},
    OpRow{"Gather", import_gather, ""},
    OpRow{"Gelu", import_gelu, "gelu"},
    OpRow{"Gemm", import_gemm, "gemm"},
    OpRow{"GlobalAveragePool", import_global_average_pool, "global_avg_pool"},
    OpRow{"GlobalLpPool", import_lp_pool, "avg_pool"},
    OpRow{"GlobalMaxPool", import_global_max_pool, "reduce_max"},
    OpRow{"Greater", import_compare, ""},
    OpRow{"HardSigmoid", import_hard_sigmoid, "hard_sigmoid"},
    OpRow{"HardSwish", import_unary, "hard_swish"},
    OpRow{"Identity", import_identity, "identity"},
    OpRow{"InstanceNormalization", import_instance_norm, "reduce_mean"},
    OpRow{"LRN", import_lrn, "avg_pool"},
    OpRow{"LeakyRelu", import_leaky_relu, "leaky_relu"},
    OpRow{"Less", import_compare, ""},
    OpRow{"Log", import_unary, "log"},
    OpRow{"LogSoftmax", import_log_softmax, "log"},
    OpRow{"LpPool", import_lp_pool, "avg_pool"},
    OpRow{"MatMul", import_matmul, "matmul"},
    OpRow{"Max", import_extreme, "max"},
    OpRow{"MaxPool", import_max_pool, "max_pool"},
    OpRow{"Mean", import_mean, "add"},
    OpRow{"Min", import_extreme, "min"},
    OpRow{"Mul", import_binary, "mul"},
    OpRow{"Neg", import_unary, "neg"},
    OpRow{"PRelu", import_prelu, "prelu"},
    OpRow{"Pad", import_pad, "pad"},
    OpRow{"Pow", import_pow, "pow"},
    OpRow{"Range", import_range, ""},
    OpRow{"Reciprocal", import_reciprocal, "div"},
    OpRow{"ReduceL1", import_reduce, "reduce_sum"},
    OpRow{"ReduceL2", import_reduce, "reduce_sum"},
    OpRow{"ReduceLogSum", import_reduce, "reduce_sum"},
    OpRow{"ReduceLogSumExp", import_reduce, "reduce_sum"},
    OpRow{"ReduceMax", import_reduce, "reduce_max"},
    OpRow{"ReduceMean", import_reduce, "reduce_mean"},
    OpRow{"ReduceMin", import_reduce, "reduce_min"},
    OpRow{"ReduceProd", import_reduce_prod, ""},
    OpRow{"ReduceSum", import_reduce, "reduce_sum"},
    OpRow{"ReduceSumSquare", import_reduce, "reduce_sum"},
    OpRow{"Relu", import_unary, "relu"},
    OpRow{"Reshape", import_reshape, "reshape"},
    OpRow{"Resize", import_resize, "resize"},
    OpRow{"Selu", import_selu, "elu"},
    OpRow{"Shape", import_shape, ""},
    OpRow{"Sigmoid", import_unary, "sigmoid"},
    OpRow{"Size", import_size, ""},
    OpRow{"Slice", import_slice, "slice"},
    OpRow{"Softmax", import_softmax, "softmax"},
    OpRow{"Softplus", import_unary, "softplus"},
    OpRow{"Softsign", import_softsign, "abs"},
    OpRow{"SpaceToDepth", import_depth_to_space, "transpose"},
    OpRow{"Split", import_split, "slice"},
    OpRow{"Sqrt", import_unary, "sqrt"},
    OpRow{"Squeeze", import_squeeze, "reshape"},
    OpRow{"Sub", import_binary, "sub"},
    OpRow{"Sum", import_sum, "add"},
    OpRow{"Tanh", import_unary, "tanh"},
    OpRow{"Transpose", import_transpose, "transpose"},
    OpRow{"Unsqueeze", import_unsqueeze, "reshape"},
    OpRow{"Upsample", import_upsample, "resize"},
    OpRow{"Where", import_where, ""},
};
static_assert(std::is_sorted(kOps.begin(), kOps.end(),
                             [](const OpRow& a, const OpRow& b) { return a.op_type < b.op_type; }));

bool available(const OpRow& row) {
  return row.ir_op.empty() || ir::parse_op(row.ir_op).has_value();
}

}  // namespace

const OpRow* find_op(std::string_view op_type) {
  const auto at = std::lower_bound(
      kOps.begin(), kOps.end(), op_type,
      [](const OpRow& row, std::string_view wanted) { return row.op_type < wanted; });
  return at != kOps.end() && at->op_type == op_type && available(*at) ? &*at : nullptr;
}

std::vector<std::string> supported_operators() {
  std::vector<std::string> out;
  for (const OpRow& row : kOps)
    if (available(row)) out.emplace_back(row.op_type);
  return out;
}

}  // namespace driftc::frontend::onnx
