// Convolution and pooling: kernel, strides, pads, dilations, and the rules that derive pads.
#include <fmt/format.h>

#include <algorithm>

#include "frontend/onnx/names.h"
#include "frontend/onnx/ops.h"

namespace driftc::frontend::onnx {
namespace {

using Ints = std::vector<std::int64_t>;

// Two spatial axes; anything beyond this bound is refused by shape inference, and products stay in
// range.
constexpr std::int64_t kMaxWindow = std::int64_t{1} << 24;

struct Window {
  Ints kernel{1, 1}, stride{1, 1}, dilation{1, 1}, pad{0, 0, 0, 0};
  std::int64_t ceil_mode = 0;
};

Result<Ints> spatial(OpContext& op, std::string_view name, std::size_t size, Ints fallback) {
  DRIFTC_TRY(given, op.ints_attribute(name));
  if (!given) return fallback;
  if (given->size() != size)
    return op.attribute_error(name, fmt::format("has {} entries, needs {}", given->size(), size));
  const std::int64_t least = name == "pads" || name == "output_padding" ? 0 : 1;
  for (std::int64_t v : *given)
    if (v < least || v > kMaxWindow)
      return op.attribute_error(
          name, fmt::format("holds {}, allowed are {} to {}", v, least, kMaxWindow));
  return *given;
}

// Pads that make the result ceil(in / stride) long; the odd one goes to the end for SAME_UPPER.
void same_pads(const ir::Shape& x, bool upper, Window& w) {
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::int64_t in = x[2 + axis], out = (in + w.stride[axis] - 1) / w.stride[axis];
    const std::int64_t span = w.dilation[axis] * (w.kernel[axis] - 1) + 1;
    const std::int64_t total = std::max<std::int64_t>(0, (out - 1) * w.stride[axis] + span - in);
    w.pad[axis] = upper ? total / 2 : total - total / 2;
    w.pad[2 + axis] = total - w.pad[axis];
  }
}

// An attribute with one entry per spatial axis (`ends`: two, begins first) as that of two axes: a
// single axis is the second of them.
Result<Ints> window_ints(OpContext& op, std::string_view name, std::size_t axes, bool ends,
                         const Ints& fallback) {
  if (axes == 2) return spatial(op, name, ends ? 4 : 2, fallback);
  DRIFTC_TRY(given, spatial(op, name, ends ? 2 : 1,
                            ends ? Ints{fallback[1], fallback[3]} : Ints{fallback[1]}));
  return ends ? Ints{fallback[0], given[0], fallback[2], given[1]} : Ints{fallback[0], given[0]};
}

// The input with two spatial axes, and how many the file gives it: one is put behind an axis of
// extent 1.
struct Image {
  ir::ValueId value;
  std::size_t axes = 2;
};
Result<Image> as_image(OpContext& op) {
  DRIFTC_TRY(x, op.value(0));
  const ir::Shape shape = op.shape_of(x);
  if (shape.rank() == 4) return Image{x, 2};
  if (shape.rank() != 3)
    return op.error(
        fmt::format("input 0 has shape {}, needs [N,C,H,W] or [N,C,L]", to_string(shape)),
        "only one or two spatial dimensions are supported");
  DRIFTC_TRY(image, op.emit_helper(ir::Op::kReshape, {x},
                                   {{"shape", Ints{shape[0], shape[1], 1, shape[2]}}}, "image"));
  return Image{image, 1};
}
Result<ir::ValueId> weight_as_image(OpContext& op, std::size_t axes) {
  DRIFTC_TRY(weight, op.value(1));
  const ir::Shape w = op.shape_of(weight);
  if (w.rank() != axes + 2)
    return op.operand_error(
        1, fmt::format("has shape {}: the input has {} spatial axes", to_string(w), axes));
  if (axes == 2) return weight;
  return op.emit_helper(ir::Op::kReshape, {weight}, {{"shape", Ints{w[0], w[1], 1, w[2]}}},
                        "filter");
}
// Emits the node that makes output 0, and takes the axis of extent 1 out again.
Result<void> emit_window(OpContext& op, ir::Op kind, std::vector<ir::ValueId> operands,
                         const ir::AttributeList& attributes, std::size_t axes) {
  if (axes == 2) return op.emit(kind, std::move(operands), attributes);
  DRIFTC_TRY(y, op.emit_helper(kind, std::move(operands), attributes, "window"));
  const ir::Shape shape = op.shape_of(y);
  return op.emit(ir::Op::kReshape, {y}, {{"shape", Ints{shape[0], shape[1], shape[3]}}});
}

// `kernel` comes from the weight of a convolution; pools must give kernel_shape. `x` has two
// spatial axes, of which the file knows `axes`.
Result<Window> read_window(OpContext& op, const ir::Shape& x, std::optional<Ints> weight_kernel,
                           std::size_t axes) {
  Window w;
  if (weight_kernel) {
    w.kernel = *weight_kernel;
    DRIFTC_TRY(declared, window_ints(op, "kernel_shape", axes, false, w.kernel));
    if (declared != w.kernel)
      return op.attribute_error("kernel_shape", fmt::format("is {}, but the weight has {}",
                                                            to_string(ir::Shape(declared)),
                                                            to_string(ir::Shape(w.kernel))));
  } else {
    if (!op.has_attribute("kernel_shape")) return op.attribute_error("kernel_shape", "is required");
    DRIFTC_TRY(declared, window_ints(op, "kernel_shape", axes, false, {1, 1}));
    w.kernel = declared;
  }
  DRIFTC_TRY(stride, window_ints(op, "strides", axes, false, {1, 1}));
  DRIFTC_TRY(dilation, window_ints(op, "dilations", axes, false, {1, 1}));
  w.stride = stride;
  w.dilation = dilation;
  DRIFTC_TRY(mode, op.string_attribute("auto_pad", "NOTSET"));
  DRIFTC_TRY(pads, window_ints(op, "pads", axes, true, {0, 0, 0, 0}));
  if (mode == "NOTSET" || mode.empty()) {
    w.pad = pads;
    return w;
  }
  if (mode != "SAME_UPPER" && mode != "SAME_LOWER" && mode != "VALID")
    return op.attribute_error("auto_pad", fmt::format("is {}", quoted(mode)),
                              "known: NOTSET, SAME_UPPER, SAME_LOWER, VALID");
  if (pads != Ints{0, 0, 0, 0})
    return op.attribute_error("pads", fmt::format("contradicts 'auto_pad' = {}", mode),
                              "give one of the two");
  if (mode != "VALID") same_pads(x, mode == "SAME_UPPER", w);
  return w;
}

}  // namespace

Result<void> import_conv(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(2, 3));
  DRIFTC_TRY(image, as_image(op));
  DRIFTC_TRY(weight, weight_as_image(op, image.axes));
  const ir::ValueId x = image.value;
  const ir::Shape w = op.shape_of(weight);
  DRIFTC_TRY(window, read_window(op, op.shape_of(x), Ints{w[2], w[3]}, image.axes));
  DRIFTC_TRY(groups, op.integer_attribute("group", 1));
  if (groups < 1 || op.shape_of(x)[1] % groups != 0 || w[0] % groups != 0 ||
      op.shape_of(x)[1] / groups != w[1])
    return op.attribute_error(
        "group",
        fmt::format("= {} does not fit input {} and weight {}", groups, to_string(op.shape_of(x)),
                    to_string(w)),
        "group must divide both channel counts, and the weight's second extent is C/group");
  std::vector<ir::ValueId> operands = {x, weight};
  if (op.has(2)) {
    DRIFTC_TRY(bias, op.value(2));
    operands.push_back(bias);
  }
  return emit_window(op, ir::Op::kConv2d, std::move(operands),
                     {{"stride", window.stride},
                      {"pad", window.pad},
                      {"dilation", window.dilation},
                      {"groups", groups}},
                     image.axes);
}

// Pads follow from output_shape where it is given, or from auto_pad (the result is stride times the
// input).
Result<void> import_conv_transpose(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(2, 3));
  DRIFTC_TRY(image, as_image(op));
  DRIFTC_TRY(weight, weight_as_image(op, image.axes));
  const ir::ValueId x = image.value;
  const ir::Shape w = op.shape_of(weight), shape = op.shape_of(x);
  const std::size_t axes = image.axes;
  for (std::size_t a = 2; a < 4; ++a)  // keeps the products below in range
    if (shape[a] > kMaxWindow || w[a] > kMaxWindow)
      return op.error("has more than 2^24 rows or columns");
  DRIFTC_TRY(kernel, window_ints(op, "kernel_shape", axes, false, {w[2], w[3]}));
  if (kernel != Ints{w[2], w[3]})
    return op.attribute_error(
        "kernel_shape", fmt::format("is {}, but the weight has {}", to_string(ir::Shape(kernel)),
                                    to_string(ir::Shape{w[2], w[3]})));
  DRIFTC_TRY(stride, window_ints(op, "strides", axes, false, {1, 1}));
  DRIFTC_TRY(dilation, window_ints(op, "dilations", axes, false, {1, 1}));
  DRIFTC_TRY(pad, window_ints(op, "pads", axes, true, {0, 0, 0, 0}));
  DRIFTC_TRY(extra, window_ints(op, "output_padding", axes, false, {0, 0}));
  DRIFTC_TRY(groups, op.integer_attribute("group", 1));
  DRIFTC_TRY(mode, op.string_attribute("auto_pad", "NOTSET"));
  const bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
  if (!same && mode != "NOTSET" && mode != "VALID" && !mode.empty())
    return op.attribute_error("auto_pad", fmt::format("is {}", quoted(mode)),
                              "known: NOTSET, SAME_UPPER, SAME_LOWER, VALID");
  const bool wanted = op.has_attribute("output_shape");
  if (wanted || same) {
    Ints target{shape[2] * stride[0], shape[3] * stride[1]};
    if (axes == 1) target[0] = 1;
    if (wanted) {
      DRIFTC_TRY(given,
                 window_ints(op, "output_shape", axes, false, axes == 1 ? Ints{1, 1} : target));
      target = given;
    }
    for (std::size_t a = 0; a < 2; ++a) {
      const std::int64_t total =
          stride[a] * (shape[2 + a] - 1) + extra[a] + (kernel[a] - 1) * dilation[a] + 1 - target[a];
      if (total <
          0) {  // what is missing is output padding; inference checks that there is not too much
        extra[a] -= total;
        pad[a] = pad[2 + a] = 0;
        continue;
      }
      pad[a] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
      pad[2 + a] = total - pad[a];
    }
  }
  std::vector<ir::ValueId> operands = {x, weight};
  if (op.has(2)) {
    DRIFTC_TRY(bias, op.value(2));
    operands.push_back(bias);
  }
  return emit_window(op, ir::Op::kConvTranspose, std::move(operands),
                     {{"stride", stride},
                      {"pad", pad},
                      {"output_pad", extra},
                      {"dilation", dilation},
                      {"groups", groups}},
                     axes);
}

Result<void> import_max_pool(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(1, 1));
  DRIFTC_TRY(image, as_image(op));
  const ir::ValueId x = image.value;
  DRIFTC_TRY(window, read_window(op, op.shape_of(x), std::nullopt, image.axes));
  DRIFTC_TRY(ceil_mode, op.integer_attribute("ceil_mode", 0));
  op.ignore_attribute("storage_order");  // concerns only the Indices output, which is not computed
  return emit_window(op, ir::Op::kMaxPool, {x},
                     {{"kernel", window.kernel},
                      {"stride", window.stride},
                      {"pad", window.pad},
                      {"dilation", window.dilation},
                      {"ceil_mode", std::int64_t{ceil_mode != 0}}},
                     image.axes);
}

Result<void> import_average_pool(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(1, 1));
  DRIFTC_TRY(image, as_image(op));
  const ir::ValueId x = image.value;
  DRIFTC_TRY(window, read_window(op, op.shape_of(x), std::nullopt, image.axes));
  if (window.dilation != Ints{1, 1})
    return op.attribute_error("dilations", "other than 1 are not supported for AveragePool");
  DRIFTC_TRY(ceil_mode, op.integer_attribute("ceil_mode", 0));
  // Before operator set 7 the attribute did not exist and padding never counted.
  std::int64_t count_include_pad = 0;
  if (op.opset() >= 7) {
    DRIFTC_TRY(given, op.integer_attribute("count_include_pad", 0));
    count_include_pad = given;
  }
  return emit_window(op, ir::Op::kAvgPool, {x},
                     {{"kernel", window.kernel},
                      {"stride", window.stride},
                      {"pad", window.pad},
                      {"ceil_mode", std::int64_t{ceil_mode != 0}},
                      {"count_include_pad", std::int64_t{count_include_pad != 0}}},
                     image.axes);
}

// (sum |x|^p)^(1/p) over windows: the mean of the powers times the number of taps, padding counting
// as zeros.
Result<void> import_lp_pool(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(1, 1));
  DRIFTC_TRY(image, as_image(op));
  const bool global = op.op_type() == "GlobalLpPool";
  DRIFTC_TRY(p, op.integer_attribute("p", 2));
  if (p < 1 || p > 1024) return op.attribute_error("p", fmt::format("= {} is out of range", p));
  const ir::Shape shape = op.shape_of(image.value);
  Window window;
  if (global) {
    window.kernel = {shape[2], shape[3]};
  } else {
    DRIFTC_TRY(given, read_window(op, shape, std::nullopt, image.axes));
    window = given;
    if (window.dilation != Ints{1, 1})
      return op.attribute_error("dilations", "other than 1 are not supported for LpPool");
    DRIFTC_TRY(ceil_mode, op.integer_attribute("ceil_mode", 0));
    if (ceil_mode != 0) return op.attribute_error("ceil_mode", "= 1 is not supported for LpPool");
  }
  DRIFTC_TRY(size, op.emit_helper(ir::Op::kAbs, {image.value}, {}, "abs"));
  ir::ValueId power = size;
  const auto exponent = static_cast<double>(p);
  if (p == 2) {
    DRIFTC_TRY(square, op.emit_helper(ir::Op::kMul, {size, size}, {}, "power"));
    power = square;
  } else if (p > 2) {
    DRIFTC_TRY(raised,
               op.emit_helper(ir::Op::kPow, {size, op.scalar_helper(exponent, "p")}, {}, "power"));
    power = raised;
  }
  DRIFTC_TRY(mean, op.emit_helper(ir::Op::kAvgPool, {power},
                                  {{"kernel", window.kernel},
                                   {"stride", window.stride},
                                   {"pad", window.pad},
                                   {"count_include_pad", std::int64_t{1}}},
                                  "mean"));
  const auto taps = static_cast<double>(window.kernel[0]) * static_cast<double>(window.kernel[1]);
  const ir::ValueId count = op.scalar_helper(taps, "taps");
  if (p == 1) return emit_window(op, ir::Op::kMul, {mean, count}, {}, image.axes);
  DRIFTC_TRY(sum, op.emit_helper(ir::Op::kMul, {mean, count}, {}, "sum"));
  if (p == 2) return emit_window(op, ir::Op::kSqrt, {sum}, {}, image.axes);
  return emit_window(op, ir::Op::kPow, {sum, op.scalar_helper(1 / exponent, "root")}, {},
                     image.axes);
}

Result<void> import_global_average_pool(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(1, 1));
  DRIFTC_TRY(image, as_image(op));
  return emit_window(op, ir::Op::kGlobalAvgPool, {image.value}, {}, image.axes);
}

}  // namespace driftc::frontend::onnx
