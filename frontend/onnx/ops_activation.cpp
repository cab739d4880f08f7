// Functions of single elements with parameters, powers, and extremes of several tensors.
#include <fmt/format.h>

#include <limits>

#include "frontend/onnx/names.h"
#include "frontend/onnx/ops.h"

namespace driftc::frontend::onnx {
namespace {

using Ints = std::vector<std::int64_t>;

constexpr std::size_t kAnyNumber = std::numeric_limits<std::size_t>::max();

// The float32 value, widened: what a file that leaves the attribute out means.
constexpr double f32(float value) { return static_cast<double>(value); }

// A chain of binary nodes over all inputs, left to right; one input is an identity.
Result<ir::ValueId> chain(OpContext& op, ir::Op binary, std::string_view suffix,
                          std::size_t count) {
  DRIFTC_TRY(value, op.value(0));
  for (std::size_t i = 1; i < count; ++i) {
    DRIFTC_TRY(next, op.value(i));
    if (op.opset() < 8 && op.shape_of(next) != op.shape_of(value))
      return op.operand_error(
          i, fmt::format("differs in shape, which {} allows from operator set 8 on", op.op_type()));
    DRIFTC_TRY(partial, op.emit_helper(binary, {value, next}, {}, fmt::format("{}{}", suffix, i)));
    value = partial;
  }
  return value;
}

}  // namespace

Result<void> import_leaky_relu(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(1, 1));
  DRIFTC_TRY(x, op.value(0));
  const bool elu = op.op_type() == "Elu";
  DRIFTC_TRY(alpha, op.float_attribute("alpha", elu ? 1.0 : f32(0.01f)));
  if (op.opset() < 7) op.ignore_attribute("consumed_inputs");
  return op.emit(elu ? ir::Op::kElu : ir::Op::kLeakyRelu, {x}, {{"alpha", alpha}});
}

Result<void> import_selu(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(1, 1));
  DRIFTC_TRY(x, op.value(0));
  DRIFTC_TRY(alpha, op.float_attribute("alpha", f32(1.67326319217681884765625f)));
  DRIFTC_TRY(gamma, op.float_attribute("gamma", f32(1.05070102214813232421875f)));
  if (op.opset() < 7) op.ignore_attribute("consumed_inputs");
  DRIFTC_TRY(unit, op.emit_helper(ir::Op::kElu, {x}, {{"alpha", alpha}}, "elu"));
  return op.emit(ir::Op::kMul, {unit, op.scalar_helper(gamma, "gamma")}, {});
}

Result<void> import_hard_sigmoid(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(1, 1));
  DRIFTC_TRY(x, op.value(0));
  DRIFTC_TRY(alpha, op.float_attribute("alpha", f32(0.2f)));
  DRIFTC_TRY(beta, op.float_attribute("beta", 0.5));
  if (op.opset() < 7) op.ignore_attribute("consumed_inputs");
  return op.emit(ir::Op::kHardSigmoid, {x}, {{"alpha", alpha}, {"beta", beta}});
}

Result<void> import_gelu(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(1, 1));
  DRIFTC_TRY(x, op.value(0));
  DRIFTC_TRY(form, op.string_attribute("approximate", "none"));
  if (form != "none" && form != "tanh")
    return op.attribute_error("approximate", fmt::format("is {}", quoted(form)),
                              "known: none, tanh");
  return op.emit(ir::Op::kGelu, {x}, {{"form", std::string(form == "tanh" ? "tanh" : "erf")}});
}

Result<void> import_reciprocal(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(1, 1));
  DRIFTC_TRY(x, op.value(0));
  if (op.opset() < 7) op.ignore_attribute("consumed_inputs");
  return op.emit(ir::Op::kDiv, {op.scalar_helper(1, "one"), x}, {});
}

// x / (1 + |x|)
Result<void> import_softsign(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(1, 1));
  DRIFTC_TRY(x, op.value(0));
  DRIFTC_TRY(magnitude, op.emit_helper(ir::Op::kAbs, {x}, {}, "abs"));
  DRIFTC_TRY(below,
             op.emit_helper(ir::Op::kAdd, {op.scalar_helper(1, "one"), magnitude}, {}, "below"));
  return op.emit(ir::Op::kDiv, {x, below}, {});
}

Result<void> import_prelu(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(2, 2));
  DRIFTC_TRY(x, op.value(0));
  DRIFTC_TRY(slope, op.value(1));
  const ir::Shape shape = op.shape_of(x), given = op.shape_of(slope);
  if (op.opset() < 7) {
    op.ignore_attribute("consumed_inputs");
    // One slope per channel, or one for all.
    if (given.rank() == 1 && shape.rank() > 2 && given[0] == shape[1] && given[0] != 1) {
      Ints dims{given[0]};
      dims.insert(dims.end(), shape.rank() - 2, 1);
      DRIFTC_TRY(placed, op.emit_helper(ir::Op::kReshape, {slope}, {{"shape", dims}}, "slope"));
      slope = placed;
    }
  }
  return op.emit(ir::Op::kPrelu, {x, slope}, {});
}

Result<void> import_pow(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(2, 2));
  DRIFTC_TRY(exponent, op.operand(1));
  if (is_float(exponent.declared)) return import_binary(op);
  // From operator set 12 on the exponent may be an integer.
  if (!exponent.constant || op.opset() < 12)
    return op.operand_error(1, "is an integer exponent that is not a constant");
  DRIFTC_TRY(x, op.value(0));
  const ir::Tensor& integers = exponent.constant->tensor();
  ir::Tensor reals(ir::DType::kF32, integers.shape());
  for (std::int64_t i = 0; i < integers.elements(); ++i)
    reals.data_mut<float>()[static_cast<std::size_t>(i)] =
        static_cast<float>(integers.data<std::int64_t>()[static_cast<std::size_t>(i)]);
  const ir::ValueId y = op.constant_helper(ir::Literal::dense(std::move(reals)), "exponent");
  return op.emit(ir::Op::kPow, {x, y}, {});
}

Result<void> import_extreme(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(1, kAnyNumber));
  if (op.opset() < 7) op.ignore_attribute("consumed_inputs");
  const ir::Op binary = op.op_type() == "Max" ? ir::Op::kMax : ir::Op::kMin;
  const std::size_t count = op.operand_count();
  DRIFTC_TRY(before, chain(op, binary, "part", count - 1));
  if (count == 1) {
    DRIFTC_TRY(x, op.value(0));
    return op.emit(ir::Op::kIdentity, {x}, {});
  }
  DRIFTC_TRY(last, op.value(count - 1));
  if (op.opset() < 8 && op.shape_of(last) != op.shape_of(before))
    return op.operand_error(count - 1, "differs in shape, which is allowed from operator set 8 on");
  return op.emit(binary, {before, last}, {});
}

// The sum from left to right, divided by the number of tensors.
Result<void> import_mean(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(1, kAnyNumber));
  if (op.opset() < 7) op.ignore_attribute("consumed_inputs");
  DRIFTC_TRY(sum, chain(op, ir::Op::kAdd, "sum", op.operand_count()));
  return op.emit(ir::Op::kDiv,
                 {sum, op.scalar_helper(static_cast<double>(op.operand_count()), "count")}, {});
}

}  // namespace driftc::frontend::onnx
