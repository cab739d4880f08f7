// Normalisations, written out as the nodes they are made of, so that every one of them is compiled
// and proved.
#include <fmt/format.h>

#include <numeric>

#include "frontend/onnx/ops.h"

namespace driftc::frontend::onnx {
namespace {

using Ints = std::vector<std::int64_t>;

}  // namespace

// d = x - mean(x); y = d * (1 / sqrt(mean(d * d) + epsilon)) * scale + shift, means over all axes
// from 2 on.
Result<void> import_instance_norm(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(3, 3));
  DRIFTC_TRY(x, op.value(0));
  DRIFTC_TRY(scale, op.value(1));
  DRIFTC_TRY(shift, op.value(2));
  if (op.opset() < 7) op.ignore_attribute("consumed_inputs");
  DRIFTC_TRY(epsilon, op.float_attribute("epsilon", static_cast<double>(1e-5f)));
  const ir::Shape shape = op.shape_of(x);
  if (shape.rank() < 3)
    return op.operand_error(0, fmt::format("has shape {}, needs [N,C,...]", to_string(shape)));
  for (std::size_t i = 1; i < 3; ++i)
    if (op.shape_of(i == 1 ? scale : shift) != ir::Shape{shape[1]})
      return op.operand_error(
          i, fmt::format("has shape {}, needs [{}]", to_string(op.shape_of(i == 1 ? scale : shift)),
                         shape[1]));
  Ints axes(shape.rank() - 2);
  std::iota(axes.begin(), axes.end(), 2);
  const ir::AttributeList over{{"axes", axes}};
  Ints per_channel(shape.rank() - 1, 1);
  per_channel[0] = shape[1];
  DRIFTC_TRY(mean, op.emit_helper(ir::Op::kReduceMean, {x}, over, "mean"));
  DRIFTC_TRY(d, op.emit_helper(ir::Op::kSub, {x, mean}, {}, "centred"));
  DRIFTC_TRY(square, op.emit_helper(ir::Op::kMul, {d, d}, {}, "square"));
  DRIFTC_TRY(variance, op.emit_helper(ir::Op::kReduceMean, {square}, over, "variance"));
  DRIFTC_TRY(raised, op.emit_helper(ir::Op::kAdd, {variance, op.scalar_helper(epsilon, "epsilon")},
                                    {}, "raised"));
  DRIFTC_TRY(root, op.emit_helper(ir::Op::kSqrt, {raised}, {}, "root"));
  DRIFTC_TRY(inverse,
             op.emit_helper(ir::Op::kDiv, {op.scalar_helper(1, "one"), root}, {}, "inverse"));
  DRIFTC_TRY(unit, op.emit_helper(ir::Op::kMul, {d, inverse}, {}, "unit"));
  DRIFTC_TRY(scales, op.emit_helper(ir::Op::kReshape, {scale}, {{"shape", per_channel}}, "scale"));
  DRIFTC_TRY(shifts, op.emit_helper(ir::Op::kReshape, {shift}, {{"shape", per_channel}}, "shift"));
  DRIFTC_TRY(scaled, op.emit_helper(ir::Op::kMul, {unit, scales}, {}, "scaled"));
  return op.emit(ir::Op::kAdd, {scaled, shifts}, {});
}

// y = x / (bias + alpha * (sum of squares of `size` neighbouring channels / size)) ^ beta. The mean
// is a pool over the channel axis whose padding counts.
Result<void> import_lrn(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(1, 1));
  DRIFTC_TRY(x, op.value(0));
  DRIFTC_TRY(size, op.integer_attribute("size", std::nullopt));
  DRIFTC_TRY(alpha, op.float_attribute("alpha", static_cast<double>(1e-4f)));
  DRIFTC_TRY(beta, op.float_attribute("beta", 0.75));
  DRIFTC_TRY(bias, op.float_attribute("bias", 1.0));
  const ir::Shape shape = op.shape_of(x);
  if (shape.rank() < 2 || shape.elements() == 0)
    return op.operand_error(0, fmt::format("has shape {}, needs [N,C,...]", to_string(shape)));
  if (size < 1 || size > (std::int64_t{1} << 20))
    return op.attribute_error("size", fmt::format("= {} is out of range", size));
  const std::int64_t before = (size - 1) / 2, after = size - 1 - before;
  const Ints flat{shape[0], 1, shape[1], shape.elements() / (shape[0] * shape[1])};
  DRIFTC_TRY(square, op.emit_helper(ir::Op::kMul, {x, x}, {}, "square"));
  DRIFTC_TRY(plane, op.emit_helper(ir::Op::kReshape, {square}, {{"shape", flat}}, "plane"));
  DRIFTC_TRY(mean, op.emit_helper(ir::Op::kAvgPool, {plane},
                                  {{"kernel", Ints{size, 1}},
                                   {"pad", Ints{before, 0, after, 0}},
                                   {"count_include_pad", std::int64_t{1}}},
                                  "mean"));
  DRIFTC_TRY(means, op.emit_helper(ir::Op::kReshape, {mean}, {{"shape", shape.dims()}}, "means"));
  DRIFTC_TRY(weighed, op.emit_helper(ir::Op::kMul, {means, op.scalar_helper(alpha, "alpha")}, {},
                                     "weighed"));
  DRIFTC_TRY(base,
             op.emit_helper(ir::Op::kAdd, {weighed, op.scalar_helper(bias, "bias")}, {}, "base"));
  DRIFTC_TRY(below,
             op.emit_helper(ir::Op::kPow, {base, op.scalar_helper(beta, "beta")}, {}, "below"));
  return op.emit(ir::Op::kDiv, {x, below}, {});
}

// d = x - max; y = d - log(sum exp(d))
Result<void> import_log_softmax(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(1, 1));
  DRIFTC_TRY(x, op.value(0));
  const ir::Shape shape = op.shape_of(x);
  const auto rank = static_cast<std::int64_t>(shape.rank());
  DRIFTC_TRY(axis, op.integer_attribute("axis", op.opset() < 13 ? 1 : -1));
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank)
    return op.attribute_error("axis", fmt::format("is out of range for {}", to_string(shape)));
  // Before 13 it ran over all axes from `axis` on, as one.
  Ints axes{axis};
  if (op.opset() < 13)
    for (std::int64_t a = axis + 1; a < rank; ++a) axes.push_back(a);
  const ir::AttributeList over{{"axes", axes}};
  DRIFTC_TRY(most, op.emit_helper(ir::Op::kReduceMax, {x}, over, "max"));
  DRIFTC_TRY(d, op.emit_helper(ir::Op::kSub, {x, most}, {}, "below"));
  DRIFTC_TRY(e, op.emit_helper(ir::Op::kExp, {d}, {}, "exp"));
  DRIFTC_TRY(sum, op.emit_helper(ir::Op::kReduceSum, {e}, over, "sum"));
  DRIFTC_TRY(log, op.emit_helper(ir::Op::kLog, {sum}, {}, "log"));
  return op.emit(ir::Op::kSub, {d, log}, {});
}

}  // namespace driftc::frontend::onnx
