// Reductions over axes.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "frontend/onnx/ops.h"

namespace driftc::frontend::onnx {
namespace {

using Ints = std::vector<std::int64_t>;

// Axes in ascending order: the attribute, or input 1 from operator set `since` on. Empty: none
// given.
Result<Ints> read_axes(OpContext& op, std::int64_t since, std::size_t rank) {
  Ints axes;
  if (op.opset() < since) {
    DRIFTC_TRY(given, op.ints_attribute("axes"));
    if (given) axes = *given;
  } else if (op.has(1)) {
    DRIFTC_TRY(given, op.integers(1, "axes"));
    axes = given;
  }
  for (std::int64_t& axis : axes) {
    const std::int64_t given = axis;
    if (axis < 0) axis += static_cast<std::int64_t>(rank);
    if (axis < 0 || axis >= static_cast<std::int64_t>(rank))
      return op.attribute_error("axes",
                                fmt::format("holds {}, out of range for rank {}", given, rank));
  }
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end())
    return op.attribute_error("axes", "names an axis twice");
  return axes;
}

}  // namespace

// ReduceMean, -Sum, -Max, -Min; -L1, -L2, -SumSquare, -LogSum and -LogSumExp as a sum with
// functions around it.
Result<void> import_reduce(OpContext& op) {
  const std::string_view type = op.op_type();
  const std::int64_t since = type == "ReduceSum" ? 13 : 18;
  DRIFTC_CHECK(op.expect_operands(1, op.opset() < since ? 1 : 2));
  DRIFTC_TRY(x, op.value(0));
  const std::size_t rank = op.shape_of(x).rank();
  DRIFTC_TRY(axes, read_axes(op, since, rank));
  DRIFTC_TRY(keep, op.integer_attribute("keepdims", 1));
  std::int64_t noop = 0;
  if (op.opset() >= since) {
    DRIFTC_TRY(given, op.integer_attribute("noop_with_empty_axes", 0));
    noop = given;
  }
  const bool whole = axes.empty() && noop == 0;
  if (whole) {
    axes.resize(rank);
    std::iota(axes.begin(), axes.end(), 0);
  }
  const bool squares = type == "ReduceL2" || type == "ReduceSumSquare";
  if (squares || type == "ReduceL1" || type == "ReduceLogSumExp") {
    const std::vector<ir::ValueId> operands = squares ? std::vector{x, x} : std::vector{x};
    const ir::Op function = squares              ? ir::Op::kMul
                            : type == "ReduceL1" ? ir::Op::kAbs
                                                 : ir::Op::kExp;
    DRIFTC_TRY(part, op.emit_helper(function, operands, {}, "part"));
    x = part;
  }
  const bool root = type == "ReduceL2", log = type == "ReduceLogSum" || type == "ReduceLogSumExp";
  const ir::Op reduction = type == "ReduceMean"  ? ir::Op::kReduceMean
                           : type == "ReduceMax" ? ir::Op::kReduceMax
                           : type == "ReduceMin" ? ir::Op::kReduceMin
                                                 : ir::Op::kReduceSum;
  const bool reduces = !axes.empty();
  const ir::AttributeList over{{"axes", axes}, {"keepdims", std::int64_t{keep != 0}}};
  if (root || log) {
    if (reduces) {
      DRIFTC_TRY(sum, op.emit_helper(reduction, {x}, over, "sum"));
      x = sum;
    }
    return op.emit(root ? ir::Op::kSqrt : ir::Op::kLog, {x}, {});
  }
  // A scalar, or no axes by request.
  if (!reduces) return op.emit(ir::Op::kIdentity, {x}, {});
  return op.emit(reduction, {x}, over);
}

Result<void> import_argmax(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(1, 1));
  DRIFTC_TRY(x, op.value(0));
  const auto rank = static_cast<std::int64_t>(op.shape_of(x).rank());
  DRIFTC_TRY(axis, op.integer_attribute("axis", 0));
  if (axis < -rank || axis >= rank)
    return op.attribute_error("axis", fmt::format("= {} is out of range for rank {}", axis, rank));
  if (axis < 0) axis += rank;
  DRIFTC_TRY(keep, op.integer_attribute("keepdims", 1));
  std::int64_t last = 0;
  if (op.opset() >= 12) {
    DRIFTC_TRY(given, op.integer_attribute("select_last_index", 0));
    last = given;
  }
  return op.emit_as(
      ElemType::kInt64, ir::Op::kArgmax, {x},
      {{"axis", axis}, {"keepdims", std::int64_t{keep != 0}}, {"last", std::int64_t{last != 0}}});
}

Result<void> import_global_max_pool(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(1, 1));
  DRIFTC_TRY(x, op.value(0));
  const std::size_t rank = op.shape_of(x).rank();
  if (rank < 3) return op.operand_error(0, "needs spatial dimensions: [N,C,...]");
  Ints axes(rank - 2);
  std::iota(axes.begin(), axes.end(), 2);
  return op.emit(ir::Op::kReduceMax, {x}, {{"axes", axes}});
}

}  // namespace driftc::frontend::onnx
