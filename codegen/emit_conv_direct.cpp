// Direct convolution: one thread per output element, channels and taps in a loop, in any walk, with
// or without the padding positions. The form for depthwise and grouped convolutions and for small
// problems.
#include <fmt/format.h>

#include <optional>

#include "codegen/conv_code.h"
#include "codegen/element_kernel.h"
#include "codegen/emitters.h"
#include "codegen/line_windows.h"
#include "codegen/output_stage.h"
#include "codegen/sum_code.h"

namespace driftc::codegen {

Result<LoweredKernel> emit_conv_direct(const KernelContext& context) {
  const ir::Node* conv = ir::reduction_node(context.body());
  if (conv == nullptr) return internal_error("the body has no conv2d");
  const ir::NumericContract& contract = context.kernel.contract;
  const ir::ReductionOrder& order = *contract.order;
  DRIFTC_TRY(problem, ConvProblem::of(context, *conv));
  DRIFTC_TRY(stage, OutputStage::plan(context, *conv));
  DRIFTC_TRY(prelude, sum_prelude(contract));
  const std::int64_t kh = problem.kernel_h, kw = problem.kernel_w;

  ir::ReductionOrder walk;
  walk.walk = order.walk;
  walk.channel_tile = order.channel_tile;
  const std::string walk_text = ir::to_string(walk);
  std::string entry =
      fmt::format("conv_direct_{}x{}_{}", kh, kw, walk_text.substr(0, walk_text.find('.')));
  if (problem.channels == 1) entry += "_depthwise";
  if (order.skip) entry += "_skip";
  entry += sum_suffix(contract);
  if (!stage.label().empty()) entry += "_" + stage.label().substr(0, 48);
  KernelBuilder builder(
      entry,
      context.wide({problem.padded_elements(),
                    problem.positions() * padded_columns(problem.columns * problem.groups)}));
  builder.prelude(prelude);
  builder.describe(fmt::format("Convolution {}x{}, one output element per thread.\n{}", kh, kw,
                               explain_order(order)));
  builder.describe(order.skip
                       ? "Taps outside the image are not executed.\n"
                       : "Taps outside the image read +0 and are multiplied like the others.\n");
  const std::string in = builder.operand(problem.input), weights = builder.prepared(0, "weights"),
                    out = builder.result();
  builder.integer("columns", problem.columns);
  builder.integer("all_columns", problem.columns * problem.groups);
  builder.integer("matrix_row", padded_columns(problem.columns * problem.groups));
  builder.integer("out_h", problem.out_h);
  builder.integer("out_w", problem.out_w);
  const Places geometry =
      places_of(context.result, direct_lines(kh * kw, stage.starts_with_bias()));
  const bool by_rows = LineWindows::apply(order, problem.channels, geometry.lines);
  const LineWindows windows(by_rows ? geometry.lines : 1, kh, problem.stride_h, problem.dilation_h);
  ConvCode code(builder, problem, by_rows ? Steps::kLines : Steps::kAny);
  stage.declare(builder);
  CudaWriter& w = builder.body();
  const Places places =
      begin_places(builder, context.result, "k", "all_columns", "out_h", "out_w", geometry.lines);
  w.line("const index_t y0 = out_y * stride_h - pad_h, x0 = out_x * stride_w - pad_w;");
  w.line(fmt::format("const index_t base = {} + {} + {} + {};", code.along(0, "image"),
                     code.along(1, "(k / columns * channels)"), code.along(2, "y0"),
                     code.along(3, "x0")));
  std::string y = "y0", at = "base";
  if (by_rows) {
    y += " + j * " + builder.integer("rows_apart", windows.apart());
    at += " + j * " + builder.integer("row_step", windows.apart() * problem.x_strides[2]);
  } else if (places.lines > 1) {
    y += " + e * stride_h";
    at += " + e * " + builder.integer("x_line_step", problem.stride_h * problem.x_strides[2]);
  }
  std::vector<std::vector<std::int64_t>> views;
  for (std::size_t a = 0; a < stage.accesses().size(); ++a)
    views.push_back(stage.strides(context, a));
  std::optional<ElementOffsets> offsets;
  if (places.lines == 1) offsets.emplace(builder, context.result, views);
  auto offset = [&](std::size_t a) { return (*offsets)(a); };
  const std::string acc = of_line(places, "acc");
  w.line(fmt::format("Sum {};", declaration(places, "acc")));
  each_line(w, places, [&] {
    w.line(fmt::format("start({}, {});", acc,
                       stage.starts_with_bias() ? stage.emit_bias(builder, offset) : "0.0f"));
  });

  // Row p of the prepared weights belongs to position p of the walk.
  const std::string r = kh > 1 ? "r" : "", s = kw > 1 ? "s" : "";
  w.line("const float* w = weights + k;");
  auto tap = [&](const std::string& channel) {
    const std::string load =
        fmt::format("{}[{} + {} + {}]", in, at, code.along(1, channel), code.tap_offset("r", "s"));
    each_line(w, places, [&] {
      w.line(fmt::format("const bool inside = {};", ConvCode::inside(y, "x0", r, s)));
      if (order.skip) {
        w.line(fmt::format("if (inside) add_product({}, operand({}), operand(*w));", acc, load));
      } else {
        w.line(
            fmt::format("add_product({}, operand(inside ? {} : 0.0f), operand(*w));", acc, load));
      }
    });
    w.line("w += matrix_row;");
  };
  const char* unroll = kh * kw <= 25 ? "#pragma unroll" : "#pragma unroll 1";
  // A row of the image, once for all lines whose window it is in.
  auto rows = [&](const std::string& channel) {
    w.line(fmt::format("float weight[{}];", kh * kw));
    w.line("#pragma unroll");
    w.line(fmt::format("for (int p = 0; p < {}; ++p) weight[p] = operand(w[p * matrix_row]);",
                       kh * kw));
    w.line(fmt::format("w += {} * matrix_row;", kh * kw));
    windows.each_row(w, unroll, [&] {
      w.line(fmt::format("const bool row = within({}, in_h);", y));
      w.line(fmt::format("float tap[{}];", kw));
      const std::string inside = kw > 1 ? code.column_inside("x0", "s") : "within(x0, in_w)";
      w.line("#pragma unroll");
      w.line(fmt::format(
          "for (int s = 0; s < {}; ++s) tap[s] = operand(row && {} ? {}[{} + {}{}] : 0.0f);", kw,
          inside, in, at, code.along(1, channel), kw > 1 ? " + " + code.column_offset("s") : ""));
      windows.each_window(w, [&] {
        w.line("#pragma unroll");
        w.line(fmt::format("for (int s = 0; s < {}; ++s)", kw));
        w.line(fmt::format("  {}add_product({}, tap[s], weight[r * {} + s]);",
                           order.skip ? "if (row && " + inside + ") " : "", acc, kw));
      });
    });
  };
  auto taps = [&](const std::function<void()>& inner) {
    w.line(unroll);
    w.open(fmt::format("for (int r = 0; r < {}; ++r)", kh));
    w.line(unroll);
    w.open(fmt::format("for (int s = 0; s < {}; ++s)", kw));
    inner();
    w.close();
    w.close();
  };
  if (problem.channels == 1 && by_rows) {
    rows("0");
  } else if (problem.channels == 1) {
    taps([&] { tap("0"); });
  } else if (by_rows) {
    w.line("#pragma unroll 1");
    w.loop("for (index_t c = 0; c < channels; ++c)", [&] { rows("c"); });
  } else if (order.walk == ir::Walk::kCrs) {
    w.line("#pragma unroll 1");
    w.loop("for (index_t c = 0; c < channels; ++c)", [&] { taps([&] { tap("c"); }); });
  } else if (order.walk == ir::Walk::kRsc) {
    taps([&] {
      w.line("#pragma unroll 1");
      w.loop("for (index_t c = 0; c < channels; ++c)", [&] { tap("c"); });
    });
  } else {
    w.line("#pragma unroll 1");
    w.open(fmt::format("for (index_t c_tile = 0; c_tile < channels; c_tile += {})",
                       order.channel_tile));
    w.line(fmt::format("const index_t c_end = c_tile + {0} < channels ? c_tile + {0} : channels;",
                       order.channel_tile));
    taps([&] {
      w.line("#pragma unroll 1");
      w.loop("for (index_t c = c_tile; c < c_end; ++c)", [&] { tap("c"); });
    });
    w.close();
  }
  each_element(builder, places, "out_h", "out_w", [&] {
    if (!offsets) offsets.emplace(builder, context.result, views);
    const std::string value = stage.emit(builder, w, offset, acc + ".value");
    w.line(fmt::format("{}[i] = {};", out, value));
  });
  LoweredKernel lowered;
  lowered.launches.push_back(finish_places(builder, places));
  lowered.preparations.push_back(walk_major(
      problem.weight, context.operands[static_cast<std::size_t>(problem.weight)].shape, order));
  return lowered;
}

}  // namespace driftc::codegen
