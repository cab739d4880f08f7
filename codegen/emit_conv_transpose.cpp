// Transposed convolution: one thread per output element gathers what reaches it. Position (c, r, s)
// reads input row (y + pad - r * dilation) / stride where that is whole and inside the image.
#include <fmt/format.h>

#include "codegen/element_kernel.h"
#include "codegen/emitters.h"
#include "codegen/output_stage.h"
#include "codegen/sum_code.h"

namespace driftc::codegen {

Result<LoweredKernel> emit_conv_transpose(const KernelContext& context) {
  const ir::Node* conv = ir::reduction_node(context.body());
  if (conv == nullptr || conv->op != ir::Op::kConvTranspose)
    return internal_error("the body has no conv_transpose");
  const ir::NumericContract& contract = context.kernel.contract;
  const ir::ReductionOrder& order = *contract.order;
  const int input = context.operand_index(conv->operands[0]),
            weight = context.operand_index(conv->operands[1]);
  if (input < 0 || weight < 0 || context.result.dtype != ir::DType::kF32)
    return internal_error("conv_transpose reads f32 operands of the kernel only");
  DRIFTC_TRY(stage, OutputStage::plan(context, *conv));
  DRIFTC_TRY(prelude, sum_prelude(contract));
  const ir::TensorType& x = context.operands[static_cast<std::size_t>(input)];
  const ir::TensorType& filter = context.operands[static_cast<std::size_t>(weight)];
  const std::int64_t kh = filter.shape[2], kw = filter.shape[3];
  const std::int64_t groups = conv->integer("groups");

  ir::ReductionOrder walk;
  walk.walk = order.walk;
  walk.channel_tile = order.channel_tile;
  const std::string walk_text = ir::to_string(walk);
  std::string entry =
      fmt::format("conv_transpose_{}x{}_{}", kh, kw, walk_text.substr(0, walk_text.find('.')));
  if (order.skip) entry += "_skip";
  entry += sum_suffix(contract);
  if (!stage.label().empty()) entry += "_" + stage.label().substr(0, 48);
  KernelBuilder builder(entry, context.wide());
  builder.prelude(prelude);
  builder.describe(fmt::format("Transposed convolution {}x{}, one output element per thread.\n{}",
                               kh, kw, explain_order(order)));
  builder.describe(
      order.skip ? "Positions without an input are not executed.\n"
                 : "Positions without an input read +0 and are multiplied like the others.\n");
  const std::string in = builder.operand(input),
                    weights = builder.operand(weight, "float", "weights"), out = builder.result();
  builder.integer("columns", filter.shape[1]);
  builder.integer("all_columns", filter.shape[1] * groups);
  builder.integer("channels", filter.shape[0] / groups);
  builder.integer("out_h", context.result.shape[2]);
  builder.integer("out_w", context.result.shape[3]);
  builder.integer("in_h", x.shape[2]);
  builder.integer("in_w", x.shape[3]);
  for (const auto& [axis, at] : {std::pair{"h", 0u}, std::pair{"w", 1u}}) {
    builder.integer(fmt::format("stride_{}", axis), conv->ints("stride")[at]);
    builder.integer(fmt::format("pad_{}", axis), conv->ints("pad")[at]);
    builder.integer(fmt::format("dilation_{}", axis), conv->ints("dilation")[at]);
  }
  const auto x_strides = ir::storage_strides(x.shape, x.layout);
  const auto w_strides = ir::storage_strides(filter.shape, filter.layout);
  static constexpr const char* kAxes[] = {"n", "c", "h", "w"};
  for (std::size_t a = 0; a < 4; ++a) {
    builder.integer(fmt::format("xs_{}", kAxes[a]), x_strides[a]);
    builder.integer(fmt::format("ws_{}", kAxes[a]), w_strides[a]);
  }
  stage.declare(builder);
  CudaWriter& w = builder.body();
  const Places places = begin_places(builder, context.result, "k", "all_columns", "out_h", "out_w");
  w.line("const index_t group = k / columns, first = group * channels;");
  w.line("const index_t base = image * xs_n + first * xs_c;");
  w.line("const float* filter = weights + first * ws_n + (k - group * columns) * ws_c;");
  std::vector<std::vector<std::int64_t>> views;
  for (std::size_t a = 0; a < stage.accesses().size(); ++a)
    views.push_back(stage.strides(context, a));
  ElementOffsets offsets(builder, context.result, views);
  auto offset = [&](std::size_t a) { return offsets(a); };
  w.line("Sum acc;");
  w.line(fmt::format("start(acc, {});",
                     stage.starts_with_bias() ? stage.emit_bias(builder, offset) : "0.0f"));

  auto tap = [&] {
    w.line(
        "const index_t ty = out_y + pad_h - r * dilation_h, tx = out_x + pad_w - s * dilation_w;");
    w.line("const index_t y = ty / stride_h, x = tx / stride_w;");
    w.line(
        "const bool inside = ty >= 0 && tx >= 0 && y * stride_h == ty && x * stride_w == tx && y < "
        "in_h && x < in_w;");
    const std::string load = fmt::format("{}[base + c * xs_c + y * xs_h + x * xs_w]", in);
    const std::string factor = "operand(filter[c * ws_n + r * ws_h + s * ws_w])";
    if (order.skip) {
      w.line(fmt::format("if (inside) add_product(acc, operand({}), {});", load, factor));
    } else {
      w.line(fmt::format("add_product(acc, operand(inside ? {} : 0.0f), {});", load, factor));
    }
  };
  auto taps = [&](const std::function<void()>& inner) {
    w.line("#pragma unroll 1");
    w.open(fmt::format("for (int r = 0; r < {}; ++r)", kh));
    w.line("#pragma unroll 1");
    w.open(fmt::format("for (int s = 0; s < {}; ++s)", kw));
    inner();
    w.close();
    w.close();
  };
  if (order.walk == ir::Walk::kCrs) {
    w.loop("for (index_t c = 0; c < channels; ++c)", [&] { taps(tap); });
  } else if (order.walk == ir::Walk::kRsc) {
    taps([&] { w.loop("for (index_t c = 0; c < channels; ++c)", tap); });
  } else {
    w.open(fmt::format("for (index_t c_tile = 0; c_tile < channels; c_tile += {})",
                       order.channel_tile));
    w.line(fmt::format("const index_t c_end = c_tile + {0} < channels ? c_tile + {0} : channels;",
                       order.channel_tile));
    taps([&] { w.loop("for (index_t c = c_tile; c < c_end; ++c)", tap); });
    w.close();
  }
  const std::string value = stage.emit(builder, w, offset, "acc.value");
  w.line(fmt::format("{}[i] = {};", out, value));
  LoweredKernel lowered;
  lowered.launches.push_back(finish_places(builder, places));
  return lowered;
}

}  // namespace driftc::codegen
