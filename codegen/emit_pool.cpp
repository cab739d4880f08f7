// Windowed pooling: one thread per output element, the window's taps row by row.
#include <fmt/format.h>

#include "codegen/conv_code.h"
#include "codegen/element_kernel.h"
#include "codegen/emitters.h"
#include "codegen/line_windows.h"
#include "codegen/output_stage.h"
#include "codegen/sum_code.h"

namespace driftc::codegen {
namespace {

const ir::Node* pool_node(const ir::Graph& body) {
  for (const ir::Node& node : body.nodes())
    if (node.op == ir::Op::kMaxPool || node.op == ir::Op::kAvgPool) return &node;
  return nullptr;
}

}  // namespace

Result<LoweredKernel> emit_pool(const KernelContext& context) {
  const ir::Node* node = pool_node(context.body());
  if (node == nullptr) return internal_error("the body has no pool");
  const bool mean = node->op == ir::Op::kAvgPool;
  const int operand = context.operand_index(node->operands[0]);
  if (operand < 0 || context.result.dtype != ir::DType::kF32)
    return internal_error("a pool kernel reads an f32 operand of the kernel");
  const ir::TensorType& x = context.operands[static_cast<std::size_t>(operand)];
  const auto strides = ir::storage_strides(x.shape, x.layout);
  const std::int64_t kh = node->ints("kernel")[0], kw = node->ints("kernel")[1];
  const auto& pad = node->ints("pad");
  DRIFTC_TRY(pointwise, Pointwise::plan(context.body(), context.kernel.contract, node->result));

  std::string entry = fmt::format("{}_{}x{}", mean ? "avg_pool" : "max_pool", kh, kw);
  if (mean) entry += sum_suffix(context.kernel.contract);
  if (!pointwise.label().empty()) entry += "_" + pointwise.label().substr(0, 48);
  // Coordinates beyond the image are computed, so the padded image bounds the offsets.
  const std::int64_t padded = x.shape[0] * x.shape[1] * (x.shape[2] + pad[0] + pad[2] + kh) *
                              (x.shape[3] + pad[1] + pad[3] + kw);
  KernelBuilder builder(entry, context.wide({padded}));
  if (mean) {
    DRIFTC_TRY(prelude, sum_prelude(context.kernel.contract));
    builder.prelude(prelude);
    builder.describe(
        "Mean over a window, one output element per thread. Padding reads +0 and is added.\n" +
        explain_order(*context.kernel.contract.order));
  } else {
    builder.describe(
        "Maximum over a window, one output element per thread. A NaN in the window wins.\n");
  }
  builder.prelude({within_function(builder),
                   {"larger",
                    "// The later one where both are NaN, the earlier one where they are equal.\n"
                    "__device__ __forceinline__ float larger(float best, float v) {\n"
                    "  return v > best || v != v ? v : best;\n"
                    "}\n"}});
  const std::string in = builder.operand(operand), out = builder.result();

  // Views: the operand along the result's axes n and c only; then the epilogue's operands.
  CudaWriter& w = builder.body();
  pointwise.declare(builder);
  std::vector<std::vector<std::int64_t>> views;
  for (const Access& a : pointwise.accesses())
    views.push_back(access_strides(a, context.operands[static_cast<std::size_t>(a.operand)],
                                   context.result.shape));
  const std::string channels = builder.integer("channels", context.result.shape[1]);
  const std::string out_h = builder.integer("out_h", context.result.shape[2]);
  const std::string out_w = builder.integer("out_w", context.result.shape[3]);
  // Several lines a thread share the work on its index.
  const Places places = begin_places(builder, context.result, "channel", channels, out_h, out_w,
                                     kh * kw <= 9 ? 4 : 1);
  const bool x_last = x.layout == ir::Layout::kNhwc;
  auto stride = [&](const char* name, std::size_t axis) -> std::string {
    if (axis == (x_last ? 1u : 3u)) return "";
    return " * " + builder.integer(name, strides[axis]);
  };
  const std::string xs_n = stride("xs_n", 0), xs_c = stride("xs_c", 1), xs_h = stride("xs_h", 2),
                    xs_w = stride("xs_w", 3);
  builder.integer("in_h", x.shape[2]);
  builder.integer("in_w", x.shape[3]);
  w.line(fmt::format(
      "const index_t y0 = out_y * {} - {}, x0 = out_x * {} - {};",
      builder.integer("stride_h", node->ints("stride")[0]), builder.integer("pad_h", pad[0]),
      builder.integer("stride_w", node->ints("stride")[1]), builder.integer("pad_w", pad[1])));
  w.line(fmt::format("const index_t base = image{} + channel{} + y0{} + x0{};", xs_n, xs_c, xs_h,
                     xs_w));
  // All taps have one address plus what is the same for all threads.
  const bool dilated = !mean;
  const LineWindows windows(places.lines, kh, node->ints("stride")[0],
                            dilated ? node->ints("dilation")[0] : 1);
  const std::string row_step = builder.integer("row_step", windows.apart() * strides[2]);
  std::string rows_apart, column_step, dilation_w;
  if (dilated || windows.apart() != 1)
    rows_apart = " * " + builder.integer("rows_apart", windows.apart());
  const std::int64_t columns_apart = dilated ? node->ints("dilation")[1] : 1;
  // Neighbours in memory need no parameter, where lines make the kernel one of an NCHW image.
  if (places.lines == 1 || columns_apart * strides[3] != 1) {
    column_step = " * " + builder.integer("column_step", columns_apart * strides[3]);
    if (dilated) dilation_w = " * " + builder.integer("dilation_w", columns_apart);
  }
  if (!mean) w.line("const float lowest = __uint_as_float(0xff800000u);  // -inf");
  const std::string total = of_line(places, mean ? "window" : "best");
  const std::string totals = declaration(places, mean ? "window" : "best");
  if (mean)
    w.line(fmt::format("Sum {};", totals));
  else
    w.line(fmt::format("float {}{};", totals, places.lines == 1 ? " = lowest" : ""));
  if (mean) each_line(w, places, [&] { w.line(fmt::format("start({}, 0.0f);", total)); });
  // Small windows are unrolled; a large one is a loop.
  const char* unroll = kh * kw <= 64 ? "#pragma unroll" : "#pragma unroll 1";
  windows.each_row(w, unroll, [&] {
    w.line(fmt::format("const bool row = within(y0 + {}{}, in_h);", windows.row(), rows_apart));
    auto taps = [&](const std::function<void(const std::string& tap)>& inner) {
      w.line(unroll);
      w.open(fmt::format("for (int s = 0; s < {}; ++s)", kw));
      w.line(fmt::format("const bool inside = row && within(x0 + s{}, in_w);", dilation_w));
      inner(fmt::format("inside ? {}[base + {} * {} + s{}] : {}", in, windows.row(), row_step,
                        column_step, mean ? "0.0f" : "lowest"));
      w.close();
    };
    if (!mean) {
      // Which maximum wins does not depend on how a window is cut into rows.
      w.line("float most = lowest;");
      taps([&](const std::string& tap) {
        w.line(fmt::format("const float v = {};", tap));
        w.line("most = s == 0 ? v : larger(most, v);");
      });
      windows.each_window(
          w, [&] { w.line(fmt::format("{0} = r == 0 ? most : larger({0}, most);", total)); });
    } else if (places.lines == 1) {
      taps([&](const std::string& tap) { w.line(fmt::format("add_value({}, {});", total, tap)); });
    } else {
      w.line(fmt::format("float tap[{}];", kw));
      taps([&](const std::string& tap) { w.line(fmt::format("tap[s] = {};", tap)); });
      windows.each_window(w, [&] {
        w.line("#pragma unroll");
        w.line(fmt::format("for (int s = 0; s < {}; ++s) add_value({}, tap[s]);", kw, total));
      });
    }
  });
  each_element(builder, places, out_h, out_w, [&] {
    std::string value = total;
    if (mean) {
      // count_include_pad counts the declared padding, never what ceil_mode adds beyond it.
      const bool with_pad = node->integer("count_include_pad") != 0;
      w.comment(with_pad ? "Positions counted: image and padding."
                         : "Positions counted: those in the image.");
      std::string low = "0", high_h = "in_h", high_w = "in_w";
      if (with_pad) {
        high_h = builder.integer("padded_h", x.shape[2] + pad[2]);
        high_w = builder.integer("padded_w", x.shape[3] + pad[3]);
      }
      auto span = [&](const std::string& name, const std::string& first, std::int64_t k,
                      const std::string& high) {
        w.line(fmt::format("const index_t {0}_end = {1} + {2} < {3} ? {1} + {2} : {3};", name,
                           first, k, high));
        w.line(with_pad ? fmt::format("const index_t {0} = {0}_end - {1};", name, first)
                        : fmt::format("const index_t {0} = {0}_end - ({1} > 0 ? {1} : 0);", name,
                                      first));
      };
      span("lines", places.lines == 1 ? "y0" : "(y0 + e * stride_h)", kh, high_h);
      span("places", "x0", kw, high_w);
      w.line(fmt::format(
          "const float mean = __fdiv_rn(rounded({}.value), __int2float_rn((int)(lines * "
          "places)));",
          total));
      value = "mean";
    }
    ElementOffsets offsets(builder, context.result, views);
    const std::string stored = pointwise.emit(
        builder, w, [&](std::size_t a) { return offsets(a); }, value);
    w.line(fmt::format("{}[i] = {};", out, stored));
  });
  LoweredKernel lowered;
  lowered.launches.push_back(finish_places(builder, places));
  return lowered;
}

}  // namespace driftc::codegen
