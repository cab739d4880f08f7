#include "codegen/output_stage.h"

#include <fmt/format.h>

#include "codegen/round_code.h"

namespace driftc::codegen {

Result<OutputStage> OutputStage::plan(const KernelContext& context, const ir::Node& reduction) {
  OutputStage out;
  DRIFTC_TRY(pointwise, Pointwise::plan(context.body(), context.kernel.contract, reduction.result));
  out.pointwise_ = std::move(pointwise);
  out.label_ = out.pointwise_.label();
  out.contract_ = context.kernel.contract.contract;
  out.convolution_ = reduction.op == ir::Op::kConv2d || reduction.op == ir::Op::kConv1x1Matmul ||
                     reduction.op == ir::Op::kConvTranspose;
  const bool biased = reduction.operands.size() == 3;
  const ir::BiasPoint point = context.kernel.contract.order->bias;
  if (reduction.op == ir::Op::kGemm) {
    out.alpha_ = static_cast<float>(reduction.number("alpha"));
    out.beta_ = biased ? static_cast<float>(reduction.number("beta")) : 1.0f;
    if (out.alpha_ != 1.0f && biased && point != ir::BiasPoint::kStored &&
        point != ir::BiasPoint::kNone)
      return internal_error("gemm with alpha adds its bias after the rounding only");
  }
  if (!biased) return out;
  // An order without a bias point leaves eager's: after the rounding to storage.
  out.point_ = point == ir::BiasPoint::kNone ? ir::BiasPoint::kStored : point;
  Access access;
  access.operand = context.operand_index(reduction.operands[2]);
  if (access.operand < 0) return internal_error("a bias is an operand of its kernel");
  const ir::TensorType& type = context.operands[static_cast<std::size_t>(access.operand)];
  const std::size_t rank = type.shape.rank();
  if (reduction.op == ir::Op::kGemm) {
    for (std::size_t i = 0; i < rank; ++i) access.axes.push_back(static_cast<int>(2 - rank + i));
  } else {
    access.axes = {1};
  }
  const std::size_t before = out.accesses().size();
  out.bias_ = out.pointwise_.add_access(std::move(access));
  out.bias_shared_ = out.accesses().size() == before;
  return out;
}

std::vector<std::int64_t> OutputStage::strides(const KernelContext& context, std::size_t i) const {
  const Access& access = accesses()[i];
  return access_strides(access, context.operands[static_cast<std::size_t>(access.operand)],
                        context.result.shape);
}

std::vector<std::size_t> OutputStage::emitted() const {
  std::vector<std::size_t> out;
  for (std::size_t a = 0; a < accesses().size(); ++a)
    if (!starts_with_bias() || a != *bias_ || bias_shared_) out.push_back(a);
  return out;
}

void OutputStage::declare(KernelBuilder& builder) {
  pointwise_.declare(builder);
  alpha_name_ = alpha_ == 1.0f ? "" : builder.real("alpha", alpha_);
  beta_name_ = beta_ == 1.0f ? "" : builder.real("beta", beta_);
}

std::string OutputStage::load_bias(KernelBuilder& builder,
                                   const Pointwise::OffsetOf& offset) const {
  return fmt::format("{}[{}]", builder.operand(accesses()[*bias_].operand), offset(*bias_));
}
std::string OutputStage::emit_bias(KernelBuilder& builder,
                                   const Pointwise::OffsetOf& offset) const {
  const std::string load = load_bias(builder, offset);
  return beta_name_.empty() ? load : fmt::format("__fmul_rn({}, {})", beta_name_, load);
}

std::string OutputStage::emit(KernelBuilder& builder, CudaWriter& w,
                              const Pointwise::OffsetOf& offset, const std::string& total) const {
  std::string sum = total;
  if (bias_ && point_ == ir::BiasPoint::kLast)
    sum = fmt::format("plus({}, (total_t){})", sum, emit_bias(builder, offset));
  w.line(fmt::format("const float sum = rounded({});", sum));
  std::string value = "sum";
  if (!alpha_name_.empty()) {
    w.line(fmt::format("const float scaled = __fmul_rn({}, sum);", alpha_name_));
    value = "scaled";
  }
  // A convolution's sum is stored before a bias of the same type is added.
  const ir::Precision own = convolution_ ? pointwise_.root_precision() : ir::Precision::kF32;
  if (bias_ && point_ == ir::BiasPoint::kStored) {
    w.line(contract_ && !beta_name_.empty()
               ? fmt::format("const float biased = __fmaf_rn({}, {}, {});  // contracted",
                             beta_name_, load_bias(builder, offset), value)
               : fmt::format("const float biased = __fadd_rn({}, {});", rounded_to(own, value),
                             rounded_to(own, emit_bias(builder, offset))));
    value = "biased";
  }
  return pointwise_.emit(builder, w, offset, value);
}

}  // namespace driftc::codegen
