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
  builder.describe(
      "One output element per thread, neighbours in storage order. Every operation is rounded on "
      "its own:\n"
      "the _rn forms are never fused, so the bits are those of one kernel per operation.\n");
  const std::string out = builder.result();
  begin_elements(builder, elements);
  std::vector<std::vector<std::int64_t>> views;
  for (const Access& a : pointwise.accesses())
    views.push_back(access_strides(a, context.operands[static_cast<std::size_t>(a.operand)],
                                   context.result.shape));
  pointwise.declare(builder);
  ElementOffsets offsets(builder, context.result, views);
  CudaWriter& w = builder.body();
  const std::string value = pointwise.emit(
      builder, w, [&](std::size_t a) { return offsets(a); }, "");
  w.line(fmt::format("{}[i] = {};", out, value));
  LoweredKernel lowered;
  lowered.launches.push_back(finish_elements(builder, elements));
  return lowered;
}

}  // namespace driftc::codegen
