// resize: one thread per output element. Where it reads is computed in f64 by the formulas of
// ops.def.
#include <fmt/format.h>

#include <bit>

#include "codegen/element_kernel.h"
#include "codegen/emitters.h"
#include "codegen/round_code.h"
#include "ir/resize.h"

namespace driftc::codegen {
namespace {

std::string number(double value) {
  return fmt::format("__longlong_as_double(0x{:016x}ll)", std::bit_cast<std::uint64_t>(value));
}

// Declares `c<axis>`: the coordinate in the operand.
void coordinate(CudaWriter& w, const ir::Node& node, const std::string& axis,
                const std::string& out, double scale, double aligned, const std::string& in_extent,
                const std::string& out_extent) {
  const std::string& rule = node.word("coordinates");
  std::string c;
  if (rule == "asymmetric") {
    c = fmt::format("__ddiv_rn((double){}, {})", out, number(scale));
  } else if (rule == "align_corners") {
    c = fmt::format("{2} == 1 ? 0.0 : __ddiv_rn(__dmul_rn((double){0}, (double)({1} - 1)), {3})",
                    out, in_extent, out_extent, number(sub_rn(aligned, 1.0)));
  } else {
    c = fmt::format("__ddiv_rn(__dadd_rn((double){}, 0.5), {})", out, number(scale));
    if (rule != "tf_half_pixel_for_nn") c = fmt::format("__dsub_rn({}, 0.5)", c);
    if (rule == "pytorch_half_pixel") c = fmt::format("{} == 1 ? 0.0 : {}", out_extent, c);
  }
  w.line(fmt::format("double c{} = {};", axis, c));
}

std::string rounded(const ir::Node& node, const std::string& c) {
  const std::string& rule = node.word("rounding");
  if (rule == "floor") return fmt::format("floor({})", c);
  if (rule == "ceil") return fmt::format("ceil({})", c);
  return rule == "round_prefer_floor" ? fmt::format("ceil(__dsub_rn({}, 0.5))", c)
                                      : fmt::format("floor(__dadd_rn({}, 0.5))", c);
}

}  // namespace

Result<LoweredKernel> emit_resize(const KernelContext& context) {
  const ir::Node& node = context.body().nodes()[0];
  const int operand = context.operand_index(node.operands[0]);
  if (context.body().node_count() != 1 || operand < 0 || context.result.dtype != ir::DType::kF32)
    return internal_error("a resize kernel's body is one resize of an f32 operand");
  const ir::TensorType& x = context.operands[static_cast<std::size_t>(operand)];
  const bool nearest = node.word("mode") == "nearest";
  KernelBuilder builder(fmt::format("resize_{}_{}", node.word("mode"), node.word("coordinates")),
                        context.wide());
  builder.describe(
      nearest ? "Nearest neighbour: one output element per thread.\n"
              : "Linear interpolation along columns, then rows: one output element per thread.\n");
  const std::string in = builder.operand(operand), out = builder.result();
  CudaWriter& w = builder.body();
  const std::string channels = builder.integer("channels", context.result.shape[1]);
  const std::string out_h = builder.integer("out_h", context.result.shape[2]);
  const std::string out_w = builder.integer("out_w", context.result.shape[3]);
  const Places places = begin_places(builder, context.result, "channel", channels, out_h, out_w);
  const std::string in_h = builder.integer("in_h", x.shape[2]),
                    in_w = builder.integer("in_w", x.shape[3]);
  const auto aligned = [&](const char* scale, std::size_t axis) {
    return ir::aligned_extent(node.number(scale), x.shape[axis], context.result.shape[axis]);
  };
  coordinate(w, node, "y", "out_y", node.number("scale_h"), aligned("scale_h", 2), in_h, out_h);
  coordinate(w, node, "x", "out_x", node.number("scale_w"), aligned("scale_w", 3), in_w, out_w);
  if (nearest) {
    w.line(fmt::format("cy = {};", rounded(node, "cy")));
    w.line(fmt::format("cx = {};", rounded(node, "cx")));
  }
  w.comment("Clamped to the image.");
  for (const auto& [c, extent] : {std::pair{"cy", in_h}, std::pair{"cx", in_w}}) {
    w.line(fmt::format("{0} = {0} < 0.0 ? 0.0 : {0};", c));
    w.line(fmt::format("{0} = {0} > (double)({1} - 1) ? (double)({1} - 1) : {0};", c, extent));
  }
  const auto strides = ir::storage_strides(x.shape, x.layout);
  const bool last = x.layout == ir::Layout::kNhwc;
  auto times = [&](const char* name, std::size_t axis) -> std::string {
    if (axis == (last ? 1u : 3u)) return "";
    return " * " + builder.integer(name, strides[axis]);
  };
  const std::string xs_n = times("xs_n", 0), xs_c = times("xs_c", 1), xs_h = times("xs_h", 2),
                    xs_w = times("xs_w", 3);
  w.line(fmt::format("const index_t base = image{} + channel{};", xs_n, xs_c));
  if (nearest) {
    w.line(fmt::format("{}[i] = {}[base + (index_t)cy{} + (index_t)cx{}];", out, in, xs_h, xs_w));
  } else {
    for (const auto& [a, extent] : {std::pair{"y", in_h}, std::pair{"x", in_w}}) {
      w.line(fmt::format("const double f{0} = floor(c{0}), ratio_{0} = __dsub_rn(c{0}, f{0});", a));
      w.line(fmt::format(
          "const index_t {0}0 = (index_t)f{0}, {0}1 = {0}0 + 1 < {1} ? {0}0 + 1 : {1} - 1;", a,
          extent));
      w.line(
          fmt::format("const float w{0} = __double2float_rn(ratio_{0}), v{0} = "
                      "__double2float_rn(__dsub_rn(1.0, ratio_{0}));",
                      a));
    }
    for (int row = 0; row < 2; ++row)
      w.line(
          fmt::format("const float t{0} = __fadd_rn(__fmul_rn(vx, {1}[base + y{0}{2} + x0{3}]), "
                      "__fmul_rn(wx, {1}[base + y{0}{2} + x1{3}]));",
                      row, in, xs_h, xs_w));
    const ir::Precision store = context.kernel.contract.store;
    declare_rounding(builder, store);
    w.line(fmt::format("{}[i] = {};", out,
                       rounded_to(store, "__fadd_rn(__fmul_rn(vy, t0), __fmul_rn(wy, t1))")));
  }
  LoweredKernel lowered;
  lowered.launches.push_back(finish_places(builder, places));
  return lowered;
}

}  // namespace driftc::codegen
