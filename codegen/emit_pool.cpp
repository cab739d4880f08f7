// Windowed pooling: one thread per output element, the window's taps row by row.
#include <fmt/format.h>

#include "codegen/element_kernel.h"
#include "codegen/emitters.h"
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
  const std::int64_t elements = context.result.shape.elements();
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
  const std::string in = builder.operand(operand), out = builder.result();
  begin_elements(builder, elements);

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
  declare_place(w, context.result.layout, "channel", channels, out_h, out_w);
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
  w.line(fmt::format("const index_t base = image{} + channel{};", xs_n, xs_c));
  std::string dilation_h, dilation_w;
  if (!mean) {
    dilation_h = " * " + builder.integer("dilation_h", node->ints("dilation")[0]);
    dilation_w = " * " + builder.integer("dilation_w", node->ints("dilation")[1]);
    w.line("float best = __uint_as_float(0xff800000u);  // -inf");
  } else {
    w.line("Sum window;");
    w.line("start(window, 0.0f);");
  }
  // Small windows are unrolled; a large one is a loop.
  w.line(kh * kw <= 64 ? "#pragma unroll" : "#pragma unroll 1");
  w.open(fmt::format("for (int r = 0; r < {}; ++r)", kh));
  w.line(fmt::format("const index_t y = y0 + r{};", dilation_h));
  w.line(kh * kw <= 64 ? "#pragma unroll" : "#pragma unroll 1");
  w.open(fmt::format("for (int s = 0; s < {}; ++s)", kw));
  w.line(fmt::format("const index_t x = x0 + s{};", dilation_w));
  w.line("const bool inside = y >= 0 && y < in_h && x >= 0 && x < in_w;");
  const std::string load = fmt::format("{}[base + y{} + x{}]", in, xs_h, xs_w);
  if (mean) {
    w.line(fmt::format("add_value(window, inside ? {} : 0.0f);", load));
  } else {
    w.open("if (inside)");
    w.line(fmt::format("const float v = {};", load));
    w.line("best = v > best || v != v ? v : best;");
    w.close();
  }
  w.close();
  w.close();
  std::string value = "best";
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
      w.line(fmt::format("const index_t {0}_end = {1} + {2} < {3} ? {1} + {2} : {3};", name, first,
                         k, high));
      w.line(with_pad
                 ? fmt::format("const index_t {0} = {0}_end - {1};", name, first)
                 : fmt::format("const index_t {0} = {0}_end - ({1} > 0 ? {1} : 0);", name, first));
    };
    span("lines", "y0", kh, high_h);
    span("places", "x0", kw, high_w);
    w.line(
        "const float mean = __fdiv_rn(rounded(window.value), __int2float_rn((int)(lines * "
        "places)));");
    value = "mean";
  }
  ElementOffsets offsets(builder, context.result, views);
  const std::string stored = pointwise.emit(
      builder, w, [&](std::size_t a) { return offsets(a); }, value);
  w.line(fmt::format("{}[i] = {};", out, stored));
  LoweredKernel lowered;
  lowered.launches.push_back(finish_elements(builder, elements));
  return lowered;
}

}  // namespace driftc::codegen
