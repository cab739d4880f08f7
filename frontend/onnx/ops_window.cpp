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
  const std::int64_t least = name == "pads" ? 0 : 1;
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

// `kernel` comes from the weight of a convolution; pools must give kernel_shape.
Result<Window> read_window(OpContext& op, const ir::Shape& x, std::optional<Ints> weight_kernel) {
  if (x.rank() != 4)
    return op.error(fmt::format("input 0 has shape {}, needs [N,C,H,W]", to_string(x)),
                    "only two spatial dimensions are supported");
  Window w;
  if (weight_kernel) {
    w.kernel = *weight_kernel;
    DRIFTC_TRY(declared, spatial(op, "kernel_shape", 2, w.kernel));
    if (declared != w.kernel)
      return op.attribute_error("kernel_shape", fmt::format("is {}, but the weight has {}",
                                                            to_string(ir::Shape(declared)),
                                                            to_string(ir::Shape(w.kernel))));
  } else {
    if (!op.has_attribute("kernel_shape")) return op.attribute_error("kernel_shape", "is required");
    DRIFTC_TRY(declared, spatial(op, "kernel_shape", 2, {}));
    w.kernel = declared;
  }
  DRIFTC_TRY(stride, spatial(op, "strides", 2, {1, 1}));
  DRIFTC_TRY(dilation, spatial(op, "dilations", 2, {1, 1}));
  w.stride = stride;
  w.dilation = dilation;
  DRIFTC_TRY(mode, op.string_attribute("auto_pad", "NOTSET"));
  DRIFTC_TRY(pads, spatial(op, "pads", 4, {0, 0, 0, 0}));
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
  DRIFTC_TRY(x, op.value(0));
  DRIFTC_TRY(weight, op.value(1));
  const ir::Shape w = op.shape_of(weight);
  if (w.rank() != op.shape_of(x).rank() || w.rank() < 3)
    return op.error(
        fmt::format("input is {} and weight is {}; they need the same number of dimensions",
                    to_string(op.shape_of(x)), to_string(w)),
        "for two spatial dimensions: [N,C,H,W] and [K,C/group,R,S]");
  if (w.rank() != 4)
    return op.error(fmt::format("convolves over {} spatial dimension(s)", w.rank() - 2),
                    "only two spatial dimensions are supported");
  DRIFTC_TRY(window, read_window(op, op.shape_of(x), Ints{w[2], w[3]}));
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
  return op.emit(ir::Op::kConv2d, std::move(operands),
                 {{"stride", window.stride},
                  {"pad", window.pad},
                  {"dilation", window.dilation},
                  {"groups", groups}});
}

Result<void> import_max_pool(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(1, 1));
  DRIFTC_TRY(x, op.value(0));
  DRIFTC_TRY(window, read_window(op, op.shape_of(x), std::nullopt));
  DRIFTC_TRY(ceil_mode, op.integer_attribute("ceil_mode", 0));
  op.ignore_attribute("storage_order");  // concerns only the Indices output, which is not computed
  return op.emit(ir::Op::kMaxPool, {x},
                 {{"kernel", window.kernel},
                  {"stride", window.stride},
                  {"pad", window.pad},
                  {"dilation", window.dilation},
                  {"ceil_mode", std::int64_t{ceil_mode != 0}}});
}

Result<void> import_average_pool(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(1, 1));
  DRIFTC_TRY(x, op.value(0));
  DRIFTC_TRY(window, read_window(op, op.shape_of(x), std::nullopt));
  if (window.dilation != Ints{1, 1})
    return op.attribute_error("dilations", "other than 1 are not supported for AveragePool");
  DRIFTC_TRY(ceil_mode, op.integer_attribute("ceil_mode", 0));
  // Before operator set 7 the attribute did not exist and padding never counted.
  std::int64_t count_include_pad = 0;
  if (op.opset() >= 7) {
    DRIFTC_TRY(given, op.integer_attribute("count_include_pad", 0));
    count_include_pad = given;
  }
  return op.emit(ir::Op::kAvgPool, {x},
                 {{"kernel", window.kernel},
                  {"stride", window.stride},
                  {"pad", window.pad},
                  {"ceil_mode", std::int64_t{ceil_mode != 0}},
                  {"count_include_pad", std::int64_t{count_include_pad != 0}}});
}

Result<void> import_global_average_pool(OpContext& op) {
  DRIFTC_CHECK(op.expect_operands(1, 1));
  DRIFTC_TRY(x, op.value(0));
  return op.emit(ir::Op::kGlobalAvgPool, {x}, {});
}

}  // namespace driftc::frontend::onnx
