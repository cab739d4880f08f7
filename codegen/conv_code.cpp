#include "codegen/conv_code.h"

#include <fmt/format.h>

namespace driftc::codegen {

Result<ConvProblem> ConvProblem::of(const KernelContext& context, const ir::Node& conv) {
  ConvProblem p;
  if (conv.op != ir::Op::kConv2d) return internal_error("the body has no conv2d");
  p.input = context.operand_index(conv.operands[0]);
  p.weight = context.operand_index(conv.operands[1]);
  if (p.input < 0 || p.weight < 0)
    return internal_error("conv2d reads operands of the kernel only");
  const ir::TensorType& x = context.operands[static_cast<std::size_t>(p.input)];
  const ir::TensorType& w = context.operands[static_cast<std::size_t>(p.weight)];
  if (x.dtype != ir::DType::kF32 || w.dtype != ir::DType::kF32 ||
      context.result.dtype != ir::DType::kF32)
    return internal_error("convolution kernels are f32");
  const ir::Shape& y = context.result.shape;
  p.groups = conv.integer("groups");
  p.images = x.shape[0];
  p.channels = w.shape[1];
  p.columns = w.shape[0] / p.groups;
  p.in_h = x.shape[2];
  p.in_w = x.shape[3];
  p.kernel_h = w.shape[2];
  p.kernel_w = w.shape[3];
  p.out_h = y[2];
  p.out_w = y[3];
  p.stride_h = conv.ints("stride")[0];
  p.stride_w = conv.ints("stride")[1];
  p.pad_h = conv.ints("pad")[0];
  p.pad_w = conv.ints("pad")[1];
  p.dilation_h = conv.ints("dilation")[0];
  p.dilation_w = conv.ints("dilation")[1];
  p.x_strides = ir::storage_strides(x.shape, x.layout);
  p.channels_last = x.layout == ir::Layout::kNhwc;
  return p;
}

std::int64_t ConvProblem::padded_elements() const {
  const std::int64_t h = (out_h - 1) * stride_h + (kernel_h - 1) * dilation_h + 1;
  const std::int64_t w = (out_w - 1) * stride_w + (kernel_w - 1) * dilation_w + 1;
  // The larger of image and padded window walk, on each axis.
  return images * channels * groups * std::max(in_h + pad_h, h) * std::max(in_w + pad_w, w);
}

std::string walk_name(const ir::ReductionOrder& order) {
  ir::ReductionOrder walk;
  walk.walk = order.walk;
  walk.channel_tile = order.channel_tile;
  const std::string text = ir::to_string(walk);
  return text.substr(0, text.find('.'));
}

DeviceFunction within_function(const KernelBuilder& builder) {
  return {"within",
          fmt::format("// 0 <= v < extent in one comparison.\n"
                      "__device__ __forceinline__ bool within(index_t v, index_t extent) {{\n"
                      "  return ({0})v < ({0})extent;\n"
                      "}}\n",
                      builder.wide() ? "unsigned long long" : "unsigned")};
}

ConvCode::ConvCode(KernelBuilder& builder, const ConvProblem& p, Steps steps)
    : problem_(p), unit_columns_(steps == Steps::kLines && p.dilation_w * p.x_strides[3] == 1) {
  builder.prelude({within_function(builder)});
  static constexpr const char* kStrides[] = {"xs_n", "xs_c", "xs_h", "xs_w"};
  // Which stride is 1 follows from the layout, never from the extents.
  const int unit = p.channels_last ? 1 : 3;
  for (int a = 0; a < 4; ++a)
    if (a != unit) builder.integer(kStrides[a], p.x_strides[static_cast<std::size_t>(a)]);
  builder.integer("channels", p.channels);
  builder.integer("in_h", p.in_h);
  builder.integer("in_w", p.in_w);
  if (steps != Steps::kUnit) {
    builder.integer("stride_h", p.stride_h);
    builder.integer("stride_w", p.stride_w);
  }
  builder.integer("pad_h", p.pad_h);
  builder.integer("pad_w", p.pad_w);
  if (steps == Steps::kUnit) return;
  if (p.kernel_h > 1 && steps == Steps::kAny) {
    builder.integer("dilation_h", p.dilation_h);
    builder.integer("row_step", p.dilation_h * p.x_strides[2]);
  }
  if (p.kernel_w > 1 && !unit_columns_) {
    builder.integer("dilation_w", p.dilation_w);
    builder.integer("column_step", p.dilation_w * p.x_strides[3]);
  }
}

std::string ConvCode::along(int axis, const std::string& index) const {
  static constexpr const char* kStrides[] = {"xs_n", "xs_c", "xs_h", "xs_w"};
  if (axis == (problem_.channels_last ? 1 : 3)) return index;
  return fmt::format("{} * {}", index, kStrides[axis]);
}

std::string ConvCode::tap_offset(const std::string& r, const std::string& s) const {
  std::string out;
  if (problem_.kernel_h > 1) out = fmt::format("{} * row_step", r);
  if (problem_.kernel_w > 1) out += (out.empty() ? "" : " + ") + column_offset(s);
  return out.empty() ? "0" : out;
}

std::string ConvCode::column_offset(const std::string& s) const {
  return unit_columns_ ? s : s + " * column_step";
}

std::string ConvCode::column_inside(const std::string& x0, const std::string& s) const {
  return fmt::format("within({} + {}{}, in_w)", x0, s, unit_columns_ ? "" : " * dilation_w");
}

std::string ConvCode::inside(const std::string& y0, const std::string& x0, const std::string& r,
                             const std::string& s) {
  const std::string y = r.empty() ? y0 : fmt::format("{} + {} * dilation_h", y0, r);
  const std::string x = s.empty() ? x0 : fmt::format("{} + {} * dilation_w", x0, s);
  return fmt::format("within({}, in_h) && within({}, in_w)", y, x);
}

void ConvCode::declare_position(CudaWriter& w, const ir::ReductionOrder& order,
                                const std::string& p) const {
  const std::int64_t taps = problem_.taps(), kw = problem_.kernel_w;
  if (taps == 1) {  // every walk then visits channels 0, 1, 2, ...
    w.line(fmt::format("const index_t channel = {};", p));
    return;
  }
  switch (order.walk) {
    case ir::Walk::kRsc:
      w.line(fmt::format("const index_t tap = {0} / channels, channel = {0} - tap * channels;", p));
      break;
    case ir::Walk::kTiledCrs:
      w.line(fmt::format("const index_t tile = {} / {};", p, taps * order.channel_tile));
      w.line(fmt::format("const index_t rest = {} - tile * {};", p, taps * order.channel_tile));
      w.line(fmt::format(
          "const index_t left = channels - tile * {0}, width = left < {0} ? left : {0};",
          order.channel_tile));
      w.line("const index_t tap = rest / width;");
      w.line(fmt::format("const index_t channel = tile * {} + rest - tap * width;",
                         order.channel_tile));
      break;
    default:
      w.line(fmt::format("const index_t channel = {0} / {1}, tap = {0} - channel * {1};", p, taps));
      break;
  }
  if (kw == 1) {
    w.line("const index_t r = tap;");
  } else {
    w.line(fmt::format("const index_t r = tap / {0}, s = tap - r * {0};", kw));
  }
}

}  // namespace driftc::codegen
