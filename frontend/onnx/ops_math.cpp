// Arithmetic on activations. Two operands that are both shape arithmetic fold instead.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "frontend/onnx/fold.h"
#include "frontend/onnx/ops.h"

namespace driftc::frontend::onnx {
namespace {

using Ints = std::vector<std::int64_t>;

// Operator set 6: B is used as it is unless `broadcast` is set; then its axes lie at `axis` of A
// (default: at the end), and it is brought into NumPy's form by appending extents of 1.
Result<ir::ValueId> legacy_broadcast(OpContext& op, ir::ValueId a, ir::ValueId b) {
  DRIFTC_TRY(enabled, op.integer_attribute("broadcast", 0));
  const ir::Shape sa = op.shape_of(a), sb = op.shape_of(b);
  const auto ra = static_cast<std::int64_t>(sa.rank()), rb = static_cast<std::int64_t>(sb.rank());
  DRIFTC_TRY(axis, op.integer_attribute("axis", ra - rb));
  if (enabled == 0) {
    if (sa != sb)
      return op.error(fmt::format("operands {} and {} differ and 'broadcast' is 0", to_string(sa),
                                  to_string(sb)));
    return b;
  }
  if (axis < 0 || axis + rb > ra)
    return op.attribute_error(
        "axis", fmt::format("= {} does not place {} in {}", axis, to_string(sb), to_string(sa)));
  if (axis + rb == ra) return b;
  Ints dims = sb.dims();
  dims.insert(dims.end(), static_cast<std::size_t>(ra - axis - rb), 1);
  return op.emit_helper(ir::Op::kReshape, {b}, {{"shape", dims}}, "axis");
}

// A binary operator on integers that depend on an input cannot be imported; this says so.
Result<void> fold_arithmetic(OpContext& op) {
  DRIFTC_TRY(declared, op.operand(0));
  DRIFTC_TRY(a, known(op, 0));
  DRIFTC_TRY(b, known(op, 1));
  DRIFTC_TRY(result, fold_binary(op, op.op_type(), a, b));
  return bind_folded(op, std::move(result), declared.declared);
}

}  // namespace

Result<void> import_binary(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(2, 2));
  DRIFTC_TRY(folds, op.folds(2));
  if (folds) return fold_arithmetic(op);
  DRIFTC_TRY(a, op.value(0));
  DRIFTC_TRY(b, op.value(1));
  if (op.opset() < 7) {
    DRIFTC_TRY(placed, legacy_broadcast(op, a, b));
    b = placed;
    op.ignore_attribute("consumed_inputs");
  }
  return op.emit(*ir::parse_op(op.ir_op()), {a, b}, {});
}

Result<void> import_sum(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(1, std::numeric_limits<std::size_t>::max()));
  DRIFTC_TRY(first, op.value(0));
  ir::ValueId sum = first;
  const std::size_t count = op.operand_count();
  if (count == 1) return op.emit(ir::Op::kIdentity, {sum}, {});
  for (std::size_t i = 1; i < count; ++i) {
    DRIFTC_TRY(next, op.value(i));
    if (op.opset() < 8 && op.shape_of(next) != op.shape_of(sum))
      return op.operand_error(i, "differs in shape, which Sum allows from operator set 8 on");
    if (i + 1 == count) return op.emit(ir::Op::kAdd, {sum, next}, {});
    DRIFTC_TRY(partial, op.emit_helper(ir::Op::kAdd, {sum, next}, {}, fmt::format("sum{}", i)));
    sum = partial;
  }
  return {};
}

Result<void> import_unary(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(1, 1));
  if (op.op_type() == "Neg") {  // of shapes
    DRIFTC_TRY(folds, op.folds(1));
    DRIFTC_TRY(declared, op.operand(0));
    if (folds && is_integer(declared.declared)) {
      DRIFTC_TRY(x, known(op, 0));
      DRIFTC_TRY(result, fold_binary(op, "Sub", ir::Tensor(ir::DType::kI64, ir::Shape{}), x));
      return bind_folded(op, std::move(result), declared.declared);
    }
  }
  DRIFTC_TRY(x, op.value(0));
  if (op.opset() < 7) op.ignore_attribute("consumed_inputs");
  return op.emit(*ir::parse_op(op.ir_op()), {x}, {});
}

Result<void> import_clip(OpContext& op) {
  // The defaults are the finite limits of float32, so that infinities are clipped too.
  double low = static_cast<double>(std::numeric_limits<float>::lowest()), high = -low;
  if (op.opset() < 11) {
    DRIFTC_CHECK(op.expect_operands(1, 1));
    DRIFTC_TRY(min, op.float_attribute("min", low));
    DRIFTC_TRY(max, op.float_attribute("max", high));
    low = min;
    high = max;
    op.ignore_attribute("consumed_inputs");
  } else {
    DRIFTC_CHECK(op.expect_operands(1, 3));
    if (op.has(1)) {
      DRIFTC_TRY(min, op.number(1, "min"));
      low = min;
    }
    if (op.has(2)) {
      DRIFTC_TRY(max, op.number(2, "max"));
      high = max;
    }
  }
  if (std::isnan(low) || std::isnan(high)) return op.error("a limit is NaN");
  DRIFTC_TRY(x, op.value(0));
  return op.emit(ir::Op::kClip, {x}, {{"min", low}, {"max", high}});
}

Result<void> import_matmul(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(2, 2));
  DRIFTC_TRY(a, op.value(0));
  DRIFTC_TRY(b, op.value(1));
  const ir::Shape sa = op.shape_of(a), sb = op.shape_of(b);
  if (sa.rank() > 1 && sb.rank() > 1) return op.emit(ir::Op::kMatmul, {a, b}, {});
  if (sa.rank() == 0 || sb.rank() == 0) return op.error("an operand is a scalar");
  // A vector gets an axis of extent 1, which leaves the result again.
  if (sa.rank() == 1) {
    DRIFTC_TRY(row, op.emit_helper(ir::Op::kReshape, {a}, {{"shape", Ints{1, sa[0]}}}, "row"));
    a = row;
  }
  if (sb.rank() == 1) {
    DRIFTC_TRY(column,
               op.emit_helper(ir::Op::kReshape, {b}, {{"shape", Ints{sb[0], 1}}}, "column"));
    b = column;
  }
  DRIFTC_TRY(product, op.emit_helper(ir::Op::kMatmul, {a, b}, {}, "product"));
  Ints dims = op.shape_of(product).dims();
  if (sb.rank() == 1) dims.pop_back();
  if (sa.rank() == 1) dims.erase(dims.end() - (sb.rank() == 1 ? 1 : 2));
  return op.emit(ir::Op::kReshape, {product}, {{"shape", dims}});
}

Result<void> import_gemm(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(op.opset() < 11 ? 3 : 2, 3));
  DRIFTC_TRY(a, op.value(0));
  DRIFTC_TRY(b, op.value(1));
  DRIFTC_TRY(alpha, op.float_attribute("alpha", 1.0));
  DRIFTC_TRY(beta, op.float_attribute("beta", 1.0));
  DRIFTC_TRY(trans_a, op.integer_attribute("transA", 0));
  DRIFTC_TRY(trans_b, op.integer_attribute("transB", 0));
  std::vector<ir::ValueId> operands = {a, b};
  if (op.has(2)) {
    DRIFTC_TRY(c, op.value(2));
    operands.push_back(c);
  }
  if (op.opset() < 7) {
    DRIFTC_TRY(broadcast, op.integer_attribute("broadcast", 0));
    const ir::Shape sa = op.shape_of(a), sb = op.shape_of(b), sc = op.shape_of(operands[2]);
    if (broadcast == 0 && sa.rank() == 2 && sb.rank() == 2 &&
        sc != ir::Shape{sa[trans_a != 0 ? 1 : 0], sb[trans_b != 0 ? 0 : 1]})
      return op.operand_error(2, fmt::format("has shape {} and 'broadcast' is 0", to_string(sc)));
  }
  return op.emit(ir::Op::kGemm, std::move(operands),
                 {{"alpha", alpha},
                  {"beta", beta},
                  {"trans_a", std::int64_t{trans_a != 0}},
                  {"trans_b", std::int64_t{trans_b != 0}}});
}

Result<void> import_batch_norm(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(5, 5));
  std::vector<ir::ValueId> operands;
  for (std::size_t i = 0; i < 5; ++i) {
    DRIFTC_TRY(v, op.value(i));
    operands.push_back(v);
  }
  // Inference in all forms. In operator set 6 `is_test` = 0 with one output is what inference
  // exporters wrote too; training shows in its further outputs, and using one of those is an error.
  if (op.opset() < 7) {
    op.ignore_attribute("is_test");
    op.ignore_attribute("consumed_inputs");
  }
  if (op.opset() < 9) {
    DRIFTC_TRY(spatial, op.integer_attribute("spatial", 1));
    if (spatial == 0)
      return op.attribute_error("spatial", "= 0 (statistics per element) is not supported");
  }
  if (op.opset() >= 14) {
    DRIFTC_TRY(training, op.integer_attribute("training_mode", 0));
    if (training != 0)
      return op.attribute_error("training_mode", "= 1 is not supported",
                                "export in inference mode");
  }
  op.ignore_attribute("momentum");
  // The default is the float32 value of 1e-5, widened.
  DRIFTC_TRY(epsilon, op.float_attribute("epsilon", static_cast<double>(1e-5f)));
  return op.emit(ir::Op::kBatchNorm, std::move(operands), {{"epsilon", epsilon}});
}

Result<void> import_softmax(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(1, 1));
  DRIFTC_TRY(x, op.value(0));
  const ir::Shape shape = op.shape_of(x);
  const auto rank = static_cast<std::int64_t>(shape.rank());
  DRIFTC_TRY(axis, op.integer_attribute("axis", op.opset() < 13 ? 1 : -1));
  if (axis < 0) axis += rank;
  // Before 13 the axis may be the rank itself: every row has one element then.
  const std::int64_t most = op.opset() < 13 ? rank : rank - 1;
  if (axis < 0 || axis > most)
    return op.attribute_error("axis", fmt::format("is out of range for {}", to_string(shape)));
  if (op.opset() >= 13) return op.emit(ir::Op::kSoftmax, {x}, {{"axis", axis}});
  // Before 13 softmax ran over all axes from `axis` on, as one. Where only one of them is longer
  // than 1 (and it is the first) this is the same as the single axis.
  std::int64_t rows = 1, columns = 1, behind = 1;
  for (std::int64_t i = 0; i < rank; ++i) {
    const std::int64_t extent = shape[static_cast<std::size_t>(i)];
    (i < axis ? rows : columns) *= extent;
    if (i > axis) behind *= extent;
  }
  if (axis < rank && behind == 1) return op.emit(ir::Op::kSoftmax, {x}, {{"axis", axis}});
  DRIFTC_TRY(flat, op.emit_helper(ir::Op::kReshape, {x}, {{"shape", Ints{rows, columns}}}, "flat"));
  DRIFTC_TRY(soft,
             op.emit_helper(ir::Op::kSoftmax, {flat}, {{"axis", std::int64_t{1}}}, "softmax"));
  return op.emit(ir::Op::kReshape, {soft}, {{"shape", shape.dims()}});
}

}  // namespace driftc::frontend::onnx
