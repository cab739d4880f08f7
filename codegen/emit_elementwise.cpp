// Elementwise kernels: any DAG of pointwise nodes over operands that broadcast to the result.
#include <fmt/format.h>

#include "codegen/element_kernel.h"
#include "codegen/emitters.h"

namespace driftc::codegen {

Result<LoweredKernel> emit_elementwise(const KernelContext& context) {
  if (context.result.dtype != ir::DType::kF32) return internal_error("elementwise kernels are f32");
  DRIFTC_TRY(pointwise, Pointwise::plan(context.body(), context.kernel.contract, std::nullopt));
  const std::int64_t elements = context.result.shape.elements();
  KernelBuilder builder("elementwise_" + pointwise.label().substr(0, 48), context.wide());
  // Large tensors: four elements a thread, so that index and launch cost a quarter.
  constexpr std::int64_t kLarge = 1 << 18;
  const int each = elements >= kLarge ? 4 : 1;
  builder.describe(fmt::format(
      "{} a thread, neighbours in storage order. Every operation is rounded on its own:\n"
      "the _rn forms are never fused, so the bits are those of one kernel per operation.\n",
      each == 1 ? "One output element" : fmt::format("{} output elements", each)));
  const std::string out = builder.result();
  CudaWriter& w = builder.body();
  if (each == 1) begin_elements(builder, elements);
  std::vector<std::vector<std::int64_t>> views;
  for (const Access& a : pointwise.accesses())
    views.push_back(access_strides(a, context.operands[static_cast<std::size_t>(a.operand)],
                                   context.result.shape));
  auto element = [&] {
    ElementOffsets offsets(builder, context.result, views);
    const std::string value = pointwise.emit(
        builder, w, [&](std::size_t a) { return offsets(a); }, "");
    w.line(fmt::format("{}[i] = {};", out, value));
  };
  LoweredKernel lowered;
  if (each == 1) {
    pointwise.declare(builder);
    element();
    lowered.launches.push_back(finish_elements(builder, elements));
    return lowered;
  }
  builder.integer("elements", elements);
  pointwise.declare(builder);
  w.line(fmt::format("const index_t first = (index_t)blockIdx.x * {} + threadIdx.x;",
                     each * kElementThreads));
  w.line("#pragma unroll");
  w.loop(fmt::format("for (int e = 0; e < {}; ++e)", each), [&] {
    w.line(fmt::format("const index_t i = first + e * {};", kElementThreads));
    w.line("if (i >= elements) break;");
    element();
  });
  lowered.launches.push_back(builder.finish(
      {static_cast<std::uint32_t>(ceil_div(elements, each * std::int64_t{kElementThreads})), 1, 1},
      {kElementThreads, 1, 1}));
  return lowered;
}

}  // namespace driftc::codegen
