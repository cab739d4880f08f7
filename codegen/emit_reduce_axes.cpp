// reduce_mean, reduce_sum, reduce_max, reduce_min: one thread per output element, which walks the
// reduced axes row by row.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/element_kernel.h"
#include "codegen/emitters.h"
#include "codegen/round_code.h"
#include "codegen/sum_code.h"

namespace driftc::codegen {

Result<LoweredKernel> emit_reduce_axes(const KernelContext& context) {
  const ir::Node& node = context.body().nodes()[0];
  const int operand = context.operand_index(node.operands[0]);
  if (context.body().node_count() != 1 || operand < 0 || context.result.dtype != ir::DType::kF32)
    return internal_error("a reduce kernel's body is one reduction of an f32 operand");
  const bool sums = ir::info(node.op).default_order.has_value();
  const ir::TensorType& x = context.operands[static_cast<std::size_t>(operand)];
  const auto in_strides = ir::storage_strides(x.shape, x.layout);
  const auto out_strides = ir::storage_strides(context.result.shape, context.result.layout);
  const auto& reduced = node.ints("axes");
  const bool keep = node.integer("keepdims") != 0;
  std::vector<Axis> outer, inner;
  std::int64_t outputs = 1, positions = 1;
  std::size_t kept = 0;
  for (std::size_t a = 0; a < x.shape.rank(); ++a) {
    if (std::find(reduced.begin(), reduced.end(), static_cast<std::int64_t>(a)) != reduced.end()) {
      inner.push_back({x.shape[a], {in_strides[a]}});
      positions *= x.shape[a];
      if (keep) ++kept;
      continue;
    }
    outer.push_back({x.shape[a], {out_strides[kept++], in_strides[a]}});
    outputs *= x.shape[a];
  }
  inner = collapse(std::move(inner), UnitAxes::kDrop, 1);

  std::string entry = fmt::format("{}_{}d", ir::info(node.op).name, inner.size());
  if (sums) entry += sum_suffix(context.kernel.contract);
  KernelBuilder builder(entry, context.wide());
  if (sums) {
    DRIFTC_TRY(prelude, sum_prelude(context.kernel.contract));
    builder.prelude(prelude);
    builder.describe("One output element per thread, which walks the reduced axes row by row.\n" +
                     explain_order(*context.kernel.contract.order));
  } else {
    builder.describe(
        "One output element per thread, which walks the reduced axes row by row. A NaN wins.\n");
  }
  const std::string in = builder.operand(operand), out = builder.result();
  CudaWriter& w = builder.body();
  begin_elements(builder, outputs);
  IndexCode code(builder, collapse(std::move(outer), UnitAxes::kDrop, 2));
  const std::size_t views[] = {0, 1};
  code.declare_coordinates(w, "i", views);
  w.line(
      fmt::format("const index_t to = {}, from = {};", code.offset(0, "i"), code.offset(1, "i")));
  if (sums) {
    w.line("Sum sum_of;");
    w.line("start(sum_of, 0.0f);");
  } else {
    w.line(node.op == ir::Op::kReduceMax ? "float best = __uint_as_float(0xff800000u);  // -inf"
                                         : "float best = __uint_as_float(0x7f800000u);  // +inf");
  }
  std::string at = "from";
  for (std::size_t a = 0; a < inner.size(); ++a) {
    w.open(fmt::format("for (index_t p{0} = 0; p{0} < {1}; ++p{0})", a,
                       builder.integer(fmt::format("positions{}", a), inner[a].extent)));
    at += fmt::format(" + p{}", a);
    if (inner[a].strides[0] != 1)
      at += " * " + builder.integer(fmt::format("step{}", a), inner[a].strides[0]);
  }
  const std::string load = fmt::format("{}[{}]", in, at);
  if (sums) {
    w.line(fmt::format("add_value(sum_of, {});", load));
  } else {
    w.line(fmt::format("const float v = {};", load));
    w.line(fmt::format("best = v {} best || v != v ? v : best;",
                       node.op == ir::Op::kReduceMax ? ">" : "<"));
  }
  for (std::size_t a = 0; a < inner.size(); ++a) w.close();
  const ir::Precision store = context.kernel.contract.store;
  declare_rounding(builder, store);
  if (node.op == ir::Op::kReduceMean) {
    w.line(fmt::format(
        "{}[to] = {};", out,
        rounded_to(store, fmt::format("__fdiv_rn(rounded(sum_of.value), {})",
                                      builder.real("count", static_cast<float>(positions))))));
  } else {
    w.line(fmt::format("{}[to] = {};", out,
                       rounded_to(store, sums ? "rounded(sum_of.value)" : "best")));
  }
  LoweredKernel lowered;
  lowered.launches.push_back(finish_elements(builder, outputs));
  return lowered;
}

}  // namespace driftc::codegen
