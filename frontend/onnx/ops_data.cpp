// Operators that move elements. On shape arithmetic they are computed at import; on activations and
// weights they become nodes, so that the graph says what the file says.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "frontend/onnx/fold.h"
#include "frontend/onnx/names.h"
#include "frontend/onnx/ops.h"

namespace driftc::frontend::onnx {
namespace {

using Ints = std::vector<std::int64_t>;

// Operand 0 under another shape: folded or as a reshape node.
Result<void> reshape_to(OpContext& op, const ir::Shape& shape) {
  DRIFTC_TRY(x, op.operand(0));
  const auto wanted = shape.checked_elements();
  if (!wanted || *wanted != x.shape.elements())
    return op.error(fmt::format("cannot turn {} into {}", to_string(x.shape), to_string(shape)));
  DRIFTC_TRY(folds, op.folds(1));
  if (folds) {
    DRIFTC_TRY(tensor, known(op, 0));
    return bind_folded(op, tensor.reshaped(shape), x.declared);
  }
  DRIFTC_TRY(v, op.value(0));
  return op.emit(ir::Op::kReshape, {v}, {{"shape", shape.dims()}});
}

// Axes as attribute (before operator set `since`) or as input 1; empty optional: not given.
// Negative axes count from the end; duplicates are refused.
Result<std::optional<Ints>> read_axes(OpContext& op, std::int64_t since, std::size_t rank) {
  std::optional<Ints> axes;
  if (op.opset() < since) {
    DRIFTC_TRY(given, op.ints_attribute("axes"));
    axes = given;
  } else if (op.has(1)) {
    DRIFTC_TRY(given, op.integers(1, "axes"));
    axes = given;
  }
  if (!axes) return axes;
  std::vector<bool> seen(rank, false);
  for (std::int64_t& axis : *axes) {
    const std::int64_t given = axis;
    if (axis < 0) axis += static_cast<std::int64_t>(rank);
    if (axis < 0 || axis >= static_cast<std::int64_t>(rank))
      return op.attribute_error("axes",
                                fmt::format("holds {}, out of range for rank {}", given, rank));
    if (seen[static_cast<std::size_t>(axis)])
      return op.attribute_error("axes", fmt::format("names axis {} twice", given));
    seen[static_cast<std::size_t>(axis)] = true;
  }
  return axes;
}

}  // namespace

Result<void> import_identity(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(1, 1));
  DRIFTC_TRY(x, op.operand(0));
  if (x.constant && (x.foldable || !is_float(x.declared))) {
    op.bind_constant(*x.constant, x.declared, x.foldable);
    return {};
  }
  DRIFTC_TRY(v, op.value(0));
  return op.emit(ir::Op::kIdentity, {v}, {});
}

Result<void> import_dropout(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(1, 3));
  if (op.has(2)) {
    DRIFTC_TRY(training, op.integers(2, "training_mode"));
    if (training != Ints{0})
      return op.operand_error(2, "(training_mode) is true; only inference is supported");
  }
  op.ignore_attribute("ratio");
  op.ignore_attribute("seed");
  if (op.opset() < 7) {
    op.ignore_attribute("is_test");
    op.ignore_attribute("consumed_inputs");
  }
  DRIFTC_TRY(x, op.value(0));
  return op.emit(ir::Op::kIdentity, {x}, {});
}

Result<void> import_cast(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(1, 1));
  DRIFTC_TRY(number, op.integer_attribute("to", std::nullopt));
  op.ignore_attribute("saturate");  // concerns float8 only
  const auto to = static_cast<ElemType>(number);
  DRIFTC_TRY(x, op.operand(0));
  // A constant cast between integers and floats is shape arithmetic from here on.
  if (x.constant && (x.foldable || is_integer(to))) {
    DRIFTC_TRY(tensor, known(op, 0));
    DRIFTC_TRY(result, fold_cast(op, tensor, to));
    return bind_folded(op, std::move(result), to);
  }
  if (!is_float(to))
    return op.attribute_error(
        "to", fmt::format("= {} of a {} value is not supported", name_of(to), name_of(x.declared)),
        "casts between floats and shape arithmetic work");
  DRIFTC_TRY(v, op.value(0));
  // Values are kept in float32: a cast to a narrower type rounds, every other one keeps the bits.
  const bool half = to == ElemType::kFloat16, brain = to == ElemType::kBfloat16;
  if ((half || brain) && x.declared != to)
    return op.emit_as(to, ir::Op::kCast, {v}, {{"to", std::string(half ? "f16" : "bf16")}});
  return op.emit_as(to, ir::Op::kIdentity, {v}, {});
}

Result<void> import_reshape(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(2, 2));
  DRIFTC_TRY(x, op.operand(0));
  DRIFTC_TRY(wanted, op.integers(1, "shape"));
  std::int64_t allow_zero = 0;
  if (op.opset() >= 14) {
    DRIFTC_TRY(given, op.integer_attribute("allowzero", 0));
    allow_zero = given;
  }
  const std::string text = to_string(ir::Shape(wanted));
  if (wanted.size() > kMaxRank) return op.operand_error(1, "(shape) has more than 32 axes");
  std::int64_t open = -1, product = 1;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == 0 && allow_zero == 0) {
      if (i >= x.shape.rank())
        return op.operand_error(
            1, fmt::format("(shape) is {}: entry {} copies an axis that {} lacks", text, i,
                           to_string(x.shape)));
      wanted[i] = x.shape[i];
    }
    if (wanted[i] == -1) {
      if (open >= 0)
        return op.operand_error(1, fmt::format("(shape) is {}: two entries are -1", text));
      open = static_cast<std::int64_t>(i);
      continue;
    }
    if (wanted[i] < 0 || __builtin_mul_overflow(product, wanted[i], &product))
      return op.operand_error(1, fmt::format("(shape) is {}: negative or too large", text));
  }
  if (open >= 0) {
    if (product == 0 || x.shape.elements() % product != 0)
      return op.operand_error(
          1, fmt::format("(shape) is {}: {} has no whole extent for -1", text, to_string(x.shape)));
    wanted[static_cast<std::size_t>(open)] = x.shape.elements() / product;
  }
  return reshape_to(op, ir::Shape(wanted));
}

Result<void> import_flatten(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(1, 1));
  DRIFTC_TRY(x, op.value(0));
  const auto rank = static_cast<std::int64_t>(op.shape_of(x).rank());
  DRIFTC_TRY(axis, op.integer_attribute("axis", 1));
  const std::int64_t at = axis < 0 ? axis + rank : axis;
  if (at < 0 || at > rank)
    return op.attribute_error(
        "axis", fmt::format("= {} is out of range for {}", axis, to_string(op.shape_of(x))));
  return op.emit(ir::Op::kFlatten, {x}, {{"axis", at}});
}

Result<void> import_squeeze(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(1, op.opset() < 13 ? 1 : 2));
  DRIFTC_TRY(x, op.operand(0));
  DRIFTC_TRY(axes, read_axes(op, 13, x.shape.rank()));
  Ints dims;
  for (std::size_t i = 0; i < x.shape.rank(); ++i) {
    const bool named =
        axes && std::find(axes->begin(), axes->end(), static_cast<std::int64_t>(i)) != axes->end();
    if (named && x.shape[i] != 1)
      return op.attribute_error(
          "axes", fmt::format("names axis {} of {}, which is not 1", i, to_string(x.shape)));
    if (!named && (axes || x.shape[i] != 1)) dims.push_back(x.shape[i]);
  }
  return reshape_to(op, ir::Shape(std::move(dims)));
}

Result<void> import_unsqueeze(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(op.opset() < 13 ? 1 : 2, op.opset() < 13 ? 1 : 2));
  DRIFTC_TRY(x, op.operand(0));
  // Axes count in the result, whose rank their number decides.
  std::size_t count = 0;
  if (op.opset() < 13) {
    DRIFTC_TRY(given, op.ints_attribute("axes"));
    if (!given) return op.attribute_error("axes", "is required");
    count = given->size();
  } else {
    DRIFTC_TRY(given, op.integers(1, "axes"));
    count = given.size();
  }
  const std::size_t rank = x.shape.rank() + count;
  if (rank > kMaxRank) return op.error("gives more than 32 axes");
  DRIFTC_TRY(axes, read_axes(op, 13, rank));
  Ints dims;
  std::size_t from = 0;
  for (std::size_t i = 0; i < rank; ++i) {
    const bool added =
        std::find(axes->begin(), axes->end(), static_cast<std::int64_t>(i)) != axes->end();
    dims.push_back(added ? 1 : x.shape[from++]);
  }
  return reshape_to(op, ir::Shape(std::move(dims)));
}

Result<void> import_transpose(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(1, 1));
  DRIFTC_TRY(x, op.operand(0));
  const std::size_t rank = x.shape.rank();
  DRIFTC_TRY(given, op.ints_attribute("perm"));
  Ints perm(rank);
  std::iota(perm.rbegin(), perm.rend(), 0);
  if (given) perm = *given;
  std::vector<bool> seen(rank, false);
  bool valid = perm.size() == rank;
  for (std::int64_t p : perm) {
    valid = valid && p >= 0 && p < static_cast<std::int64_t>(rank) &&
            !seen[static_cast<std::size_t>(p)];
    if (!valid) break;
    seen[static_cast<std::size_t>(p)] = true;
  }
  if (!valid)
    return op.attribute_error("perm", fmt::format("is no permutation of the {} axes", rank));
  DRIFTC_TRY(folds, op.folds(1));
  if (folds) {
    DRIFTC_TRY(tensor, known(op, 0));
    const auto dense = x.shape.row_major_strides();
    Ints dims, strides;
    for (std::int64_t p : perm) {
      dims.push_back(x.shape[static_cast<std::size_t>(p)]);
      strides.push_back(dense[static_cast<std::size_t>(p)]);
    }
    DRIFTC_TRY(result, strided_copy(op, tensor, ir::Shape(dims), strides, 0));
    return bind_folded(op, std::move(result), x.declared);
  }
  DRIFTC_TRY(v, op.value(0));
  return op.emit(ir::Op::kTranspose, {v}, {{"perm", perm}});
}

Result<void> import_concat(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(1, std::numeric_limits<std::size_t>::max()));
  DRIFTC_TRY(first, op.operand(0));
  DRIFTC_TRY(axis, op.integer_attribute("axis", std::nullopt));
  const auto rank = static_cast<std::int64_t>(first.shape.rank());
  const std::int64_t at = axis < 0 ? axis + rank : axis;
  if (at < 0 || at >= rank)
    return op.attribute_error(
        "axis", fmt::format("= {} is out of range for {}", axis, to_string(first.shape)));
  DRIFTC_TRY(folds, op.folds(op.operand_count()));
  if (folds) {
    std::vector<ir::Tensor> parts;
    for (std::size_t i = 0; i < op.operand_count(); ++i) {
      DRIFTC_TRY(part, known(op, i));
      parts.push_back(part);
    }
    DRIFTC_TRY(result, fold_concat(op, parts, static_cast<std::size_t>(at)));
    return bind_folded(op, std::move(result), first.declared);
  }
  std::vector<ir::ValueId> operands;
  for (std::size_t i = 0; i < op.operand_count(); ++i) {
    DRIFTC_TRY(v, op.value(i));
    operands.push_back(v);
  }
  return op.emit(ir::Op::kConcat, std::move(operands), {{"axis", at}});
}

Result<void> import_slice(OpContext& op) {
  DRIFTC_TRY(x, op.operand(0));
  const std::size_t rank = x.shape.rank();
  Ints starts, ends, steps;
  std::optional<Ints> axes;
  if (op.opset() < 10) {
    DRIFTC_CHECK(op.expect_operands(1, 1));
    DRIFTC_TRY(s, op.ints_attribute("starts"));
    DRIFTC_TRY(e, op.ints_attribute("ends"));
    DRIFTC_TRY(a, op.ints_attribute("axes"));
    if (!s) return op.attribute_error("starts", "is required");
    if (!e) return op.attribute_error("ends", "is required");
    starts = *s;
    ends = *e;
    axes = a;
  } else {
    DRIFTC_CHECK(op.expect_operands(3, 5));
    DRIFTC_TRY(s, op.integers(1, "starts"));
    DRIFTC_TRY(e, op.integers(2, "ends"));
    starts = s;
    ends = e;
    if (op.has(3)) {
      DRIFTC_TRY(a, op.integers(3, "axes"));
      axes = a;
    }
    if (op.has(4)) {
      DRIFTC_TRY(given, op.integers(4, "steps"));
      steps = given;
    }
  }
  if (!axes) {
    axes.emplace(starts.size());
    std::iota(axes->begin(), axes->end(), 0);
  }
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (starts.size() != ends.size() || starts.size() != axes->size() ||
      starts.size() != steps.size())
    return op.error(fmt::format("starts, ends, axes and steps have {}, {}, {} and {} entries",
                                starts.size(), ends.size(), axes->size(), steps.size()));
  Ints start(rank, 0), step(rank, 1), size = x.shape.dims();
  std::vector<bool> seen(rank, false);
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::int64_t given = (*axes)[i];
    const std::int64_t axis = given < 0 ? given + static_cast<std::int64_t>(rank) : given;
    if (axis < 0 || axis >= static_cast<std::int64_t>(rank))
      return op.attribute_error(
          "axes", fmt::format("holds {}, out of range for {}", given, to_string(x.shape)));
    const auto at = static_cast<std::size_t>(axis);
    if (seen[at]) return op.attribute_error("axes", fmt::format("names axis {} twice", given));
    seen[at] = true;
    const std::int64_t extent = x.shape[at];
    if (steps[i] == 0) return op.error("a step is 0");
    // Steps beyond the extent all take one element; the bound keeps what follows in range.
    const std::int64_t bound = std::max<std::int64_t>(extent, 1);
    step[at] = std::clamp<std::int64_t>(steps[i], -bound, bound);
    // Positions count from the end when negative, then are clamped to what the direction can reach.
    const auto place = [&](std::int64_t v, std::int64_t least, std::int64_t most) {
      if (v < 0) v = v < -extent ? least : v + extent;
      return std::clamp(v, least, most);
    };
    if (step[at] > 0) {
      start[at] = place(starts[i], 0, extent);
      const std::int64_t end = place(ends[i], 0, extent);
      size[at] = std::max<std::int64_t>(0, (end - start[at] + step[at] - 1) / step[at]);
    } else {
      start[at] = place(starts[i], 0, std::max<std::int64_t>(0, extent - 1));
      const std::int64_t end = place(ends[i], -1, std::max<std::int64_t>(-1, extent - 1));
      size[at] =
          extent == 0 ? 0 : std::max<std::int64_t>(0, (start[at] - end - step[at] - 1) / -step[at]);
    }
    if (size[at] == 0) start[at] = 0;
  }
  DRIFTC_TRY(folds, op.folds(1));
  if (folds) {
    DRIFTC_TRY(tensor, known(op, 0));
    Ints strides = x.shape.row_major_strides();
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < rank; ++i) {
      offset += start[i] * strides[i];
      strides[i] *= step[i];
    }
    DRIFTC_TRY(result, strided_copy(op, tensor, ir::Shape(size), strides, offset));
    return bind_folded(op, std::move(result), x.declared);
  }
  DRIFTC_TRY(v, op.value(0));
  return op.emit(ir::Op::kSlice, {v}, {{"starts", start}, {"steps", step}, {"sizes", size}});
}

Result<void> import_pad(OpContext& op) {
  DRIFTC_TRY(x, op.value(0));
  const std::size_t rank = op.shape_of(x).rank();
  DRIFTC_TRY(mode, op.string_attribute("mode", "constant"));
  if (mode != "constant")
    return op.attribute_error("mode", fmt::format("is {}", quoted(mode)),
                              "only 'constant' is supported");
  Ints pads;
  double value = 0;
  Ints axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  if (op.opset() < 11) {
    DRIFTC_CHECK(op.expect_operands(1, 1));
    DRIFTC_TRY(given, op.ints_attribute("pads"));
    if (!given) return op.attribute_error("pads", "is required");
    DRIFTC_TRY(v, op.float_attribute("value", 0.0));
    pads = *given;
    value = v;
  } else {
    DRIFTC_CHECK(op.expect_operands(2, op.opset() < 18 ? 3 : 4));
    DRIFTC_TRY(given, op.integers(1, "pads"));
    pads = given;
    if (op.has(2)) {
      DRIFTC_TRY(v, op.number(2, "constant_value"));
      value = v;
    }
    if (op.has(3)) {
      DRIFTC_TRY(a, op.integers(3, "axes"));
      axes = a;
    }
  }
  if (pads.size() != 2 * axes.size())
    return op.error(fmt::format("'pads' has {} entries, needs {} (begin and end of {} axes)",
                                pads.size(), 2 * axes.size(), axes.size()));
  Ints before(rank, 0), after(rank, 0);
  std::vector<bool> seen(rank, false);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t axis = axes[i] < 0 ? axes[i] + static_cast<std::int64_t>(rank) : axes[i];
    if (axis < 0 || axis >= static_cast<std::int64_t>(rank) || seen[static_cast<std::size_t>(axis)])
      return op.error(fmt::format("'axes' holds {}: out of range or named twice", axes[i]));
    const auto at = static_cast<std::size_t>(axis);
    seen[at] = true;
    before[at] = pads[i];
    after[at] = pads[axes.size() + i];
    constexpr std::int64_t kMaxPad = std::int64_t{1} << 24;
    if (std::min(before[at], after[at]) < -kMaxPad || std::max(before[at], after[at]) > kMaxPad)
      return op.error(fmt::format("'pads' holds {} and {} for axis {}, allowed are +-2^24",
                                  before[at], after[at], axis));
  }
  return op.emit(ir::Op::kPad, {x}, {{"before", before}, {"after", after}, {"value", value}});
}

}  // namespace driftc::frontend::onnx
