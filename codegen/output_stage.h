// From the sum of an output element to the value that is stored: bias, rounding to f32, gemm's
// alpha and beta, then the pointwise nodes fused to the reduction. The same code ends a kernel, or,
// when the sum was split, the kernel that combines the slices.
#pragma once

#include "codegen/emitters.h"
#include "codegen/pointwise.h"

namespace driftc::codegen {

class OutputStage {
 public:
  // `reduction` is the body's reduction node; its bias (conv2d, conv1x1_matmul: operand 2, gemm: c)
  // is added where the contract's order says.
  static Result<OutputStage> plan(const KernelContext& context, const ir::Node& reduction);

  const std::vector<Access>& accesses() const { return pointwise_.accesses(); }
  // Strides of access `i` along the axes of the result.
  std::vector<std::int64_t> strides(const KernelContext& context, std::size_t i) const;
  void declare(KernelBuilder& builder);

  // Whether chains start with the bias (bias.first), and the expression of that start value.
  bool starts_with_bias() const { return bias_ && point_ == ir::BiasPoint::kFirst; }
  std::string emit_bias(KernelBuilder& builder, const Pointwise::OffsetOf& offset) const;
  std::size_t bias_access() const { return *bias_; }

  // The accesses that `emit` reads: all but a bias that only starts the chains.
  std::vector<std::size_t> emitted() const;
  // Statements from `total` (an expression of type total_t) to the stored value.
  std::string emit(KernelBuilder& builder, CudaWriter& w, const Pointwise::OffsetOf& offset,
                   const std::string& total) const;
  const std::string& label() const { return label_; }

 private:
  std::string load_bias(KernelBuilder& builder, const Pointwise::OffsetOf& offset) const;

  Pointwise pointwise_;
  std::optional<std::size_t> bias_;
  bool bias_shared_ = false;  // a pointwise node reads the same access
  ir::BiasPoint point_ = ir::BiasPoint::kStored;
  float alpha_ = 1, beta_ = 1;
  bool contract_ = false, convolution_ = false;
  std::string alpha_name_, beta_name_, label_;
};

}  // namespace driftc::codegen
