#include <algorithm>
#include <array>

#include "frontend/onnx/onnx.h"
#include "frontend/onnx/ops.h"

namespace driftc::frontend::onnx {
namespace {

constexpr std::array kOps = {
    OpRow{"Abs", import_unary, "abs"},
    OpRow{"Add", import_binary, "add"},
    OpRow{"AveragePool", import_average_pool, "avg_pool"},
    OpRow{"BatchNormalization", import_batch_norm, "batch_norm"},
    OpRow{"Cast", import_cast, ""},
    OpRow{"Ceil", import_rounding, ""},
    OpRow{"Clip", import_clip, "clip"},
    OpRow{"Concat", import_concat, "concat"},
    OpRow{"Constant", import_constant, ""},
    OpRow{"ConstantOfShape", import_constant_of_shape, ""},
    OpRow{"Conv", import_conv, "conv2d"},
    OpRow{"Div", import_binary, "div"},
    OpRow{"Dropout", import_dropout, "identity"},
    OpRow{"Equal", import_compare, ""},
    OpRow{"Exp", import_unary, "exp"},
    OpRow{"Expand", import_expand, ""},
    OpRow{"Flatten", import_flatten, "flatten"},
    OpRow{"Floor", import_rounding, ""},
    OpRow{"Gather", import_gather, ""},
    OpRow{"Gemm", import_gemm, "gemm"},
    OpRow{"GlobalAveragePool", import_global_average_pool, "global_avg_pool"},
    OpRow{"Greater", import_compare, ""},
    OpRow{"Identity", import_identity, "identity"},
    OpRow{"Less", import_compare, ""},
    OpRow{"MatMul", import_matmul, "matmul"},
    OpRow{"MaxPool", import_max_pool, "max_pool"},
    OpRow{"Mul", import_binary, "mul"},
    OpRow{"Neg", import_unary, "neg"},
    OpRow{"Pad", import_pad, "pad"},
    OpRow{"Range", import_range, ""},
    OpRow{"ReduceProd", import_reduce_prod, ""},
    OpRow{"Relu", import_unary, "relu"},
    OpRow{"Reshape", import_reshape, "reshape"},
    OpRow{"Shape", import_shape, ""},
    OpRow{"Sigmoid", import_unary, "sigmoid"},
    OpRow{"Size", import_size, ""},
    OpRow{"Slice", import_slice, "slice"},
    OpRow{"Softmax", import_softmax, "softmax"},
    OpRow{"Sqrt", import_unary, "sqrt"},
    OpRow{"Squeeze", import_squeeze, "reshape"},
    OpRow{"Sub", import_binary, "sub"},
    OpRow{"Sum", import_sum, "add"},
    OpRow{"Tanh", import_unary, "tanh"},
    OpRow{"Transpose", import_transpose, "transpose"},
    OpRow{"Unsqueeze", import_unsqueeze, "reshape"},
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
