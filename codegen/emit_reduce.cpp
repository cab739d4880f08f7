// Reductions over a whole axis or image: global average pooling (one thread per channel, or the
// lanes of a warp with a shuffle tree) and softmax (one thread per row).
#include <fmt/format.h>

#include "codegen/element_kernel.h"
#include "codegen/emitters.h"
#include "codegen/function_code.h"
#include "codegen/sum_code.h"

namespace driftc::codegen {
namespace {

// Parameter "stride" or nothing for a unit stride.
std::string times(KernelBuilder& builder, const char* name, std::int64_t stride) {
  return stride == 1 ? "" : " * " + builder.integer(name, stride);
}

}  // namespace

Result<LoweredKernel> emit_reduce(const KernelContext& context) {
  const ir::Node* node = ir::reduction_node(context.body());
  if (node == nullptr || node->op != ir::Op::kGlobalAvgPool)
    return internal_error("the body has no global_avg_pool");
  const ir::NumericContract& contract = context.kernel.contract;
  const int operand = context.operand_index(node->operands[0]);
  if (operand < 0 || context.result.dtype != ir::DType::kF32)
    return internal_error("a reduce kernel reads an f32 operand of the kernel");
  DRIFTC_TRY(pointwise, Pointwise::plan(context.body(), contract, node->result));
  DRIFTC_TRY(prelude, sum_prelude(contract));
  const ir::TensorType& x = context.operands[static_cast<std::size_t>(operand)];
  const auto strides = ir::storage_strides(x.shape, x.layout);
  const std::int64_t outputs = x.shape[0] * x.shape[1];
  const int lanes = contract.order->lanes;

  std::string entry = "global_avg_pool";
  if (lanes > 1) entry += fmt::format("_lanes{}", lanes);
  entry += sum_suffix(contract);
  if (!pointwise.label().empty()) entry += "_" + pointwise.label().substr(0, 48);
  KernelBuilder builder(entry, context.wide());
  builder.prelude(prelude);
  builder.describe("Mean over all positions of one channel of one image.\n" +
                   explain_order(*contract.order));
  if (lanes > 1)
    builder.describe(
        fmt::format("{0} lanes share a channel: lane l sums positions l, l + {0}, ...; then every "
                    "lane adds the sum of the\n"
                    "lane whose number differs in one bit, from the highest bit to the lowest.\n",
                    lanes));
  const std::string in = builder.operand(operand), out = builder.result();
  const std::string total = builder.integer("outputs", outputs);
  const std::string channels = builder.integer("channels", x.shape[1]);
  const std::string positions = builder.integer("positions", x.shape[2] * x.shape[3]);
  const std::string step_n = times(builder, "xs_n", strides[0]),
                    step_c = times(builder, "xs_c", strides[1]);
  // Positions run row by row; in both layouts they lie at equal distances.
  const bool last = x.layout == ir::Layout::kNhwc;
  const std::string step_p = last ? " * " + builder.integer("xs_p", strides[3]) : "";
  pointwise.declare(builder);
  std::vector<std::vector<std::int64_t>> views;
  for (const Access& a : pointwise.accesses())
    views.push_back(access_strides(a, context.operands[static_cast<std::size_t>(a.operand)],
                                   context.result.shape));

  CudaWriter& w = builder.body();
  std::array<std::uint32_t, 3> block{kElementThreads, 1, 1};
  std::uint32_t per_block = kElementThreads;
  if (lanes == 1) {
    w.line("const index_t i = (index_t)blockIdx.x * 256 + threadIdx.x;");
    w.line(fmt::format("if (i >= {}) return;", total));
    w.line("const index_t source = i;");
  } else {
    per_block = kElementThreads / static_cast<std::uint32_t>(lanes);
    block = {static_cast<std::uint32_t>(lanes), per_block, 1};
    w.line("const int lane = threadIdx.x;");
    w.line(fmt::format("const index_t i = (index_t)blockIdx.x * {} + threadIdx.y;", per_block));
    w.comment(
        "Every thread takes part in the shuffles: those past the end read the last channel again.");
    w.line(fmt::format("const index_t source = i < {0} ? i : {0} - 1;", total));
  }
  w.line(
      fmt::format("const index_t image = source / {0}, channel = source - image * {0};", channels));
  w.line(fmt::format("const index_t base = image{} + channel{};", step_n, step_c));
  w.line("Sum sum_of;");
  w.line("start(sum_of, 0.0f);");
  w.line(fmt::format("for (index_t p = {}; p < {}; p += {}) add_value(sum_of, {}[base + p{}]);",
                     lanes == 1 ? "0" : "lane", positions, lanes, in, step_p));
  w.line("total_t total = sum_of.value;");
  if (lanes > 1) {
    w.line("#pragma unroll");
    w.line(fmt::format("for (int bit = {}; bit >= 1; bit /= 2)", lanes / 2));
    w.line("  total = plus(total, __shfl_xor_sync(0xffffffffu, total, bit));");
    w.line(fmt::format("if (lane != 0 || i >= {}) return;", total));
  }
  w.line(fmt::format("const float mean = __fdiv_rn(rounded(total), __int2float_rn((int){}));",
                     positions));
  ElementOffsets offsets(builder, context.result, views);
  const std::string value = pointwise.emit(
      builder, w, [&](std::size_t a) { return offsets(a); }, "mean");
  w.line(fmt::format("{}[i] = {};", out, value));
  LoweredKernel lowered;
  lowered.launches.push_back(
      builder.finish({static_cast<std::uint32_t>(ceil_div(outputs, per_block)), 1, 1}, block));
  return lowered;
}

Result<LoweredKernel> emit_softmax(const KernelContext& context) {
  const ir::Node* node = ir::reduction_node(context.body());
  if (node == nullptr || node->op != ir::Op::kSoftmax || context.body().node_count() != 1)
    return internal_error("a softmax kernel's body is one softmax");
  const ir::NumericContract& contract = context.kernel.contract;
  const int operand = context.operand_index(node->operands[0]);
  if (operand < 0 || context.result.dtype != ir::DType::kF32)
    return internal_error("a softmax kernel reads an f32 operand of the kernel");
  DRIFTC_TRY(prelude, sum_prelude(contract));
  const ir::TensorType& x = context.operands[static_cast<std::size_t>(operand)];
  const std::size_t rank = x.shape.rank();
  const std::int64_t given = node->integer("axis");
  const auto axis =
      static_cast<std::size_t>(given < 0 ? given + static_cast<std::int64_t>(rank) : given);
  const auto in_strides = ir::storage_strides(x.shape, x.layout);
  const auto out_strides = ir::storage_strides(context.result.shape, context.result.layout);
  std::vector<Axis> axes;
  std::int64_t rows = 1;
  for (std::size_t a = 0; a < rank; ++a) {
    if (a == axis) continue;
    axes.push_back({x.shape[a], {out_strides[a], in_strides[a]}});
    rows *= x.shape[a];
  }
  KernelBuilder builder("softmax" + sum_suffix(contract), context.wide());
  builder.prelude(prelude);
  builder.prelude(exp_prelude());
  builder.describe(
      "Softmax along one axis, one row per thread: maximum, sum of exp(x - max), quotients.\n" +
      explain_order(*contract.order));
  const std::string in = builder.operand(operand), out = builder.result();
  builder.integer("rows", rows);
  builder.integer("length", x.shape[axis]);
  const std::string in_step = " * " + builder.integer("in_step", in_strides[axis]);
  const std::string out_step = " * " + builder.integer("out_step", out_strides[axis]);
  CudaWriter& w = builder.body();
  w.line("const index_t i = (index_t)blockIdx.x * 256 + threadIdx.x;");
  w.line("if (i >= rows) return;");
  IndexCode code(builder, collapse(std::move(axes), UnitAxes::kDrop, 2));
  const std::size_t views[] = {0, 1};
  code.declare_coordinates(w, "i", views);
  w.line(
      fmt::format("const index_t to = {}, from = {};", code.offset(0, "i"), code.offset(1, "i")));
  w.line("float best = __uint_as_float(0xff800000u);  // -inf; a NaN wins");
  w.open("for (index_t k = 0; k < length; ++k)");
  w.line(fmt::format("const float v = {}[from + k{}];", in, in_step));
  w.line("best = v > best || v != v ? v : best;");
  w.close();
  w.line("Sum row;");
  w.line("start(row, 0.0f);");
  w.line("for (index_t k = 0; k < length; ++k)");
  w.line(
      fmt::format("  add_value(row, exp_by_steps(__fsub_rn({}[from + k{}], best)));", in, in_step));
  w.line("const float total = rounded(row.value);");
  w.line("for (index_t k = 0; k < length; ++k)");
  w.line(fmt::format(
      "  {}[to + k{}] = __fdiv_rn(exp_by_steps(__fsub_rn({}[from + k{}], best)), total);", out,
      out_step, in, in_step));
  LoweredKernel lowered;
  lowered.launches.push_back(finish_elements(builder, rows));
  return lowered;
}

}  // namespace driftc::codegen
