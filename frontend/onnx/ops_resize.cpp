// Resize and Upsample of height and width; Split; DepthToSpace and SpaceToDepth.
#include <fmt/format.h>

#include <cmath>

#include "frontend/onnx/names.h"
#include "frontend/onnx/ops.h"

namespace driftc::frontend::onnx {
namespace {

using Ints = std::vector<std::int64_t>;

constexpr double kMost = 16'777'216;  // extents and scales beyond 2^24 are refused

struct Target {
  std::vector<double> scales;  // one per axis
  Ints sizes;
};

// Extents from scales: floor(in * scale).
Result<Target> from_scales(OpContext& op, const ir::Shape& x, const std::vector<double>& scales) {
  if (scales.size() != x.rank())
    return op.error(fmt::format("scales has {} entries, needs {}", scales.size(), x.rank()));
  Target target{scales, {}};
  for (std::size_t a = 0; a < x.rank(); ++a) {
    if (!(scales[a] > 0 && scales[a] <= kMost))
      return op.error(fmt::format("scales holds {}, allowed are 0 to 2^24", scales[a]));
    const double extent = std::floor(static_cast<double>(x[a]) * scales[a]);
    if (extent > kMost) return op.error("the result has more than 2^24 rows or columns");
    target.sizes.push_back(static_cast<std::int64_t>(extent));
  }
  return target;
}

Result<Target> from_sizes(OpContext& op, const ir::Shape& x, const Ints& sizes) {
  if (sizes.size() != x.rank())
    return op.error(fmt::format("sizes has {} entries, needs {}", sizes.size(), x.rank()));
  Target target{{}, sizes};
  for (std::size_t a = 0; a < x.rank(); ++a) {
    if (sizes[a] < 1 || static_cast<double>(sizes[a]) > kMost || x[a] < 1)
      return op.error(fmt::format("sizes holds {}, allowed are 1 to 2^24", sizes[a]));
    target.scales.push_back(static_cast<double>(sizes[a]) / static_cast<double>(x[a]));
  }
  return target;
}

Result<void> emit_resize(OpContext& op, ir::ValueId x, const Target& target,
                         const std::string& mode, const std::string& coordinates,
                         const std::string& rounding) {
  const ir::Shape shape = op.shape_of(x);
  if (shape.rank() != 4)
    return op.operand_error(0, fmt::format("has shape {}, needs [N,C,H,W]", to_string(shape)),
                            "only two spatial dimensions are supported");
  if (target.sizes[0] != shape[0] || target.sizes[1] != shape[1])
    return op.error(
        fmt::format("changes {} to {}", to_string(shape), to_string(ir::Shape(target.sizes))),
        "only height and width can be resized");
  return op.emit(ir::Op::kResize, {x},
                 {{"mode", mode},
                  {"coordinates", coordinates},
                  {"rounding", rounding},
                  {"sizes", Ints{target.sizes[2], target.sizes[3]}},
                  {"scale_h", target.scales[2]},
                  {"scale_w", target.scales[3]}});
}

Result<std::string> read_mode(OpContext& op) {
  DRIFTC_TRY(mode, op.string_attribute("mode", "nearest"));
  if (mode == "bilinear") mode = "linear";  // Upsample of early files
  if (mode != "nearest" && mode != "linear")
    return op.attribute_error("mode", fmt::format("is {}", quoted(mode)),
                              "supported: nearest, linear");
  return mode;
}

}  // namespace

// Asymmetric coordinates, nearest rounded down.
Result<void> import_upsample(OpContext& op) {
  DRIFTC_TRY(x, op.value(0));
  DRIFTC_TRY(mode, read_mode(op));
  std::vector<double> scales;
  if (op.opset() < 7) return op.error("has no scales before operator set 7");
  if (op.opset() < 9) {
    DRIFTC_CHECK(op.expect_operands(1, 1));
    DRIFTC_TRY(given, op.floats_attribute("scales"));
    if (!given) return op.attribute_error("scales", "is required");
    scales.assign(given->begin(), given->end());
  } else {
    DRIFTC_CHECK(op.expect_operands(2, 2));
    DRIFTC_TRY(given, op.numbers(1, "scales"));
    scales = given;
  }
  DRIFTC_TRY(target, from_scales(op, op.shape_of(x), scales));
  return emit_resize(op, x, target, mode, "asymmetric", "floor");
}

Result<void> import_resize(OpContext& op) {
  if (op.opset() < 11) {  // operator set 10: as Upsample
    DRIFTC_CHECK(op.expect_operands(2, 2));
    DRIFTC_TRY(x, op.value(0));
    DRIFTC_TRY(mode, read_mode(op));
    DRIFTC_TRY(scales, op.numbers(1, "scales"));
    DRIFTC_TRY(target, from_scales(op, op.shape_of(x), scales));
    return emit_resize(op, x, target, mode, "asymmetric", "floor");
  }
  DRIFTC_CHECK(op.expect_operands(1, 4));
  DRIFTC_TRY(x, op.value(0));
  const ir::Shape shape = op.shape_of(x);
  DRIFTC_TRY(mode, read_mode(op));
  DRIFTC_TRY(coordinates, op.string_attribute("coordinate_transformation_mode", "half_pixel"));
  DRIFTC_TRY(rounding, op.string_attribute("nearest_mode", "round_prefer_floor"));
  if (coordinates == "tf_crop_and_resize" || coordinates == "half_pixel_symmetric")
    return op.attribute_error(
        "coordinate_transformation_mode", fmt::format("is {}", quoted(coordinates)),
        "supported: half_pixel, pytorch_half_pixel, align_corners, asymmetric");
  DRIFTC_TRY(outside, op.integer_attribute("exclude_outside", 0));
  if (outside != 0 && mode != "nearest")
    return op.attribute_error("exclude_outside", "= 1 is not supported");
  op.ignore_attribute("cubic_coeff_a");        // concerns cubic only
  op.ignore_attribute("extrapolation_value");  // concerns tf_crop_and_resize only
  Ints axes;
  for (std::size_t a = 0; a < shape.rank(); ++a) axes.push_back(static_cast<std::int64_t>(a));
  if (op.opset() >= 18) {
    DRIFTC_TRY(antialias, op.integer_attribute("antialias", 0));
    if (antialias != 0) return op.attribute_error("antialias", "= 1 is not supported");
    DRIFTC_TRY(policy, op.string_attribute("keep_aspect_ratio_policy", "stretch"));
    if (policy != "stretch")
      return op.attribute_error("keep_aspect_ratio_policy", fmt::format("is {}", quoted(policy)),
                                "supported: stretch");
    DRIFTC_TRY(given, op.ints_attribute("axes"));
    if (given) axes = *given;
  }
  // Scales or sizes of `axes`; an empty tensor counts as absent.
  std::vector<double> scales(shape.rank(), 1.0);
  Ints sizes = shape.dims();
  std::vector<double> given_scales;
  Ints given_sizes;
  if (op.has(2)) {
    DRIFTC_TRY(given, op.numbers(2, "scales"));
    given_scales = given;
  }
  if (op.has(3)) {
    DRIFTC_TRY(given, op.integers(3, "sizes"));
    given_sizes = given;
  }
  if (given_scales.empty() == given_sizes.empty()) return op.error("needs either scales or sizes");
  const std::size_t count = given_scales.empty() ? given_sizes.size() : given_scales.size();
  if (count != axes.size())
    return op.error(fmt::format("{} has {} entries, needs {}",
                                given_scales.empty() ? "sizes" : "scales", count, axes.size()));
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t axis =
        axes[i] < 0 ? axes[i] + static_cast<std::int64_t>(shape.rank()) : axes[i];
    if (axis < 0 || axis >= static_cast<std::int64_t>(shape.rank()))
      return op.attribute_error("axes", fmt::format("holds {}, out of range", axes[i]));
    if (given_scales.empty())
      sizes[static_cast<std::size_t>(axis)] = given_sizes[i];
    else
      scales[static_cast<std::size_t>(axis)] = given_scales[i];
  }
  if (given_scales.empty()) {
    DRIFTC_TRY(target, from_sizes(op, shape, sizes));
    return emit_resize(op, x, target, mode, coordinates, rounding);
  }
  DRIFTC_TRY(target, from_scales(op, shape, scales));
  return emit_resize(op, x, target, mode, coordinates, rounding);
}

// One slice per output.
Result<void> import_split(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(1, op.opset() < 13 ? 1 : 2));
  DRIFTC_TRY(x, op.value(0));
  const ir::Shape shape = op.shape_of(x);
  const auto rank = static_cast<std::int64_t>(shape.rank());
  DRIFTC_TRY(axis, op.integer_attribute("axis", 0));
  if (axis < -rank || axis >= rank)
    return op.attribute_error("axis",
                              fmt::format("= {} is out of range for {}", axis, to_string(shape)));
  const auto at = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
  Ints parts;
  if (op.opset() < 13) {
    DRIFTC_TRY(given, op.ints_attribute("split"));
    if (given) parts = *given;
  } else if (op.has(1)) {
    DRIFTC_TRY(given, op.integers(1, "split"));
    parts = given;
  }
  const auto outputs = static_cast<std::int64_t>(op.output_count());
  if (op.opset() >= 18) {
    DRIFTC_TRY(count, op.integer_attribute("num_outputs", outputs));
    if (count != outputs)
      return op.attribute_error("num_outputs",
                                fmt::format("= {}, but the node has {} outputs", count, outputs));
  }
  if (parts.empty()) {
    // Equal parts; from operator set 18 on the last may be smaller.
    const std::int64_t part = (shape[at] + outputs - 1) / outputs;
    if (op.opset() < 18 && shape[at] % outputs != 0)
      return op.error(
          fmt::format("{} has no {} equal parts along axis {}", to_string(shape), outputs, at));
    for (std::int64_t i = 0; i < outputs; ++i)
      parts.push_back(std::min(part, std::max<std::int64_t>(0, shape[at] - i * part)));
  }
  std::int64_t total = 0;
  for (std::int64_t part : parts)
    if (part < 0 || __builtin_add_overflow(total, part, &total))
      return op.error("'split' holds a negative part");
  if (total != shape[at] || parts.size() != op.output_count())
    return op.error(fmt::format("'split' is {} for {} outputs and axis {} of {}",
                                to_string(ir::Shape(parts)), outputs, at, to_string(shape)));
  Ints starts(shape.rank(), 0), sizes = shape.dims();
  const Ints steps(shape.rank(), 1);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    sizes[at] = parts[i];
    Ints from = starts;
    if (parts[i] == 0) from[at] = 0;
    if (op.wants_output(i))
      DRIFTC_CHECK(
          op.emit(ir::Op::kSlice, {x}, {{"starts", from}, {"steps", steps}, {"sizes", sizes}}, i));
    starts[at] += parts[i];
  }
  return {};
}

// Blocks of channels to blocks of pixels and back: a transpose between two reshapes.
Result<void> import_depth_to_space(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(1, 1));
  DRIFTC_TRY(x, op.value(0));
  const ir::Shape s = op.shape_of(x);
  DRIFTC_TRY(b, op.integer_attribute("blocksize", std::nullopt));
  const bool to_space = op.op_type() == "DepthToSpace";
  std::string mode = "DCR";
  if (to_space && op.opset() >= 11) {
    DRIFTC_TRY(given, op.string_attribute("mode", "DCR"));
    mode = given;
  }
  if (mode != "DCR" && mode != "CRD")
    return op.attribute_error("mode", fmt::format("is {}", quoted(mode)), "known: DCR, CRD");
  if (s.rank() != 4)
    return op.operand_error(0, fmt::format("has shape {}, needs [N,C,H,W]", to_string(s)));
  if (b < 1 || b > (1 << 20) || (to_space ? s[1] % (b * b) != 0 : s[2] % b != 0 || s[3] % b != 0))
    return op.attribute_error("blocksize", fmt::format("= {} does not divide {}", b, to_string(s)));
  Ints split, perm, joined;
  if (to_space) {
    const std::int64_t c = s[1] / (b * b);
    split = mode == "DCR" ? Ints{s[0], b, b, c, s[2], s[3]} : Ints{s[0], c, b, b, s[2], s[3]};
    perm = mode == "DCR" ? Ints{0, 3, 4, 1, 5, 2} : Ints{0, 1, 4, 2, 5, 3};
    joined = {s[0], c, s[2] * b, s[3] * b};
  } else {
    split = {s[0], s[1], s[2] / b, b, s[3] / b, b};
    perm = {0, 3, 5, 1, 2, 4};
    joined = {s[0], s[1] * b * b, s[2] / b, s[3] / b};
  }
  DRIFTC_TRY(blocks, op.emit_helper(ir::Op::kReshape, {x}, {{"shape", split}}, "blocks"));
  DRIFTC_TRY(moved, op.emit_helper(ir::Op::kTranspose, {blocks}, {{"perm", perm}}, "moved"));
  return op.emit(ir::Op::kReshape, {moved}, {{"shape", joined}});
}

}  // namespace driftc::frontend::onnx
