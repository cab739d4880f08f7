// The emitters, one per family of algorithms. Private to codegen; `lower` (lower.h) chooses among
// them.
#pragma once

#include <vector>

#include "codegen/lower.h"

namespace driftc::codegen {

// What every emitter needs to know about the kernel node.
struct KernelContext {
  const ir::Kernel& kernel;
  std::vector<ir::TensorType> operands;  // types as stored, in the order of the body's inputs
  ir::TensorType result;
  LowerOptions options;

  const ir::Graph& body() const { return kernel.body; }
  // Position of a body value among the kernel's operands; -1 when it is not an input of the body.
  int operand_index(ir::ValueId value) const;
  // Whether offsets need 64 bits, given element counts beyond those of operands and result.
  bool wide(std::vector<std::int64_t> counts = {}) const;
};

Result<LoweredKernel> emit_elementwise(const KernelContext& context);
Result<LoweredKernel> emit_copy(const KernelContext& context);
Result<LoweredKernel> emit_pool(const KernelContext& context);
Result<LoweredKernel> emit_reduce(const KernelContext& context);
Result<LoweredKernel> emit_reduce_axes(const KernelContext& context);
Result<LoweredKernel> emit_resize(const KernelContext& context);
Result<LoweredKernel> emit_softmax(const KernelContext& context);
Result<LoweredKernel> emit_conv_direct(const KernelContext& context);
Result<LoweredKernel> emit_conv_transpose(const KernelContext& context);
Result<LoweredKernel> emit_conv_implicit_gemm(const KernelContext& context);
// im2col: the matrix of input values as a launch of its own, read by the tiled product.
Result<LoweredKernel> emit_conv_im2col(const KernelContext& context);
Result<LoweredKernel> emit_winograd(const KernelContext& context);
Result<LoweredKernel> emit_winograd_fused(const KernelContext& context);
// The same for orders of tensor cores.
Result<LoweredKernel> emit_conv_mma(const KernelContext& context);
Result<LoweredKernel> emit_matmul(const KernelContext& context);

}  // namespace driftc::codegen
