#include "runtime/eager/interpreter.h"

#include <algorithm>

#include "ir/eager_order.h"
#include "ir/kernel.h"
#include "ir/support/half.h"
#include "runtime/eager/ops.h"
#include "runtime/eager/region.h"

namespace driftc::runtime {

ir::NumericContract eager_contract(const ir::Node& node,
                                   const std::optional<ir::ReductionOrder>& wanted) {
  ir::NumericContract contract;
  contract.order = ir::eager_order(node, wanted);
  if (contract.order && contract.order->arith == ir::Arith::kMma)
    contract.in = ir::operand_precision(contract.order->mma);
  return contract;
}

ir::Tensor evaluate(const ir::Graph& graph, ir::NodeId id, std::span<const ir::Tensor> operands,
                    const ir::NumericContract& contract, const EvalContext& context) {
  const ir::Node& node = graph.node(id);
  DRIFTC_ASSERT(operands.size() == node.operands.size(), "operand count");
  const OpCall call{graph, node, operands, contract, context};
  switch (node.op) {
    case ir::Op::kConstant:
      return node.literal->tensor();
    case ir::Op::kKernel:
      return evaluate_kernel(node, operands, context);
    case ir::Op::kConv2d:
    case ir::Op::kConv1x1Matmul:
      return evaluate_conv(call);
    case ir::Op::kMatmul:
    case ir::Op::kGemm:
      return evaluate_matmul(call);
    case ir::Op::kAdd:
    case ir::Op::kSub:
    case ir::Op::kMul:
    case ir::Op::kDiv:
    case ir::Op::kRelu:
    case ir::Op::kClip:
    case ir::Op::kBatchNorm:
      return evaluate_elementwise(call);
    case ir::Op::kMax:
    case ir::Op::kMin:
    case ir::Op::kPow:
    case ir::Op::kPrelu:
    case ir::Op::kSqrt:
    case ir::Op::kExp:
    case ir::Op::kLog:
    case ir::Op::kErf:
    case ir::Op::kAbs:
    case ir::Op::kNeg:
    case ir::Op::kSigmoid:
    case ir::Op::kTanh:
    case ir::Op::kSoftplus:
    case ir::Op::kGelu:
    case ir::Op::kElu:
    case ir::Op::kLeakyRelu:
    case ir::Op::kHardSigmoid:
    case ir::Op::kHardSwish:
    case ir::Op::kCast:
      return evaluate_function(call);
    case ir::Op::kMaxPool:
      return evaluate_max_pool(call);
    case ir::Op::kAvgPool:
    case ir::Op::kGlobalAvgPool:
      return evaluate_mean(call);
    case ir::Op::kReduceMean:
    case ir::Op::kReduceSum:
      return evaluate_reduce_sum(call);
    case ir::Op::kReduceMax:
    case ir::Op::kReduceMin:
      return evaluate_reduce_extreme(call);
    case ir::Op::kArgmax:
      return evaluate_argmax(call);
    case ir::Op::kConvTranspose:
      return evaluate_conv_transpose(call);
    case ir::Op::kResize:
      return evaluate_resize(call);
    case ir::Op::kSoftmax:
      return evaluate_softmax(call);
    case ir::Op::kConcat:
    case ir::Op::kFlatten:
    case ir::Op::kReshape:
    case ir::Op::kTranspose:
    case ir::Op::kSlice:
    case ir::Op::kPad:
    case ir::Op::kIdentity:
      return evaluate_data_movement(call);
  }
  DRIFTC_ASSERT(false, "unknown op");
}

SumSettings sum_settings(const OpCall& call) {
  const ir::OpInfo& row = ir::info(call.node.op);
  const ir::NumericContract& contract = call.contract;
  SumSettings s;
  s.order = contract.order ? *contract.order : *row.default_order;
  const bool products = row.op_class == ir::OpClass::conv || row.op_class == ir::OpClass::matmul;
  s.arith = sum_arith(s.order.arith, products);
  s.bias = s.order.bias == ir::BiasPoint::kNone ? ir::BiasPoint::kStored : s.order.bias;
  // In the f64 arm everything is double already, and operand precision and flushing do not apply.
  if (call.operand(0).dtype() == ir::DType::kF64) return s;
  s.wide = s.order.arith == ir::Arith::kF64 || contract.acc == ir::Precision::kF64 ||
           contract.in == ir::Precision::kF64;
  s.flush = contract.ftz;
  s.in = contract.in;
  if (s.order.arith == ir::Arith::kMma) {
    const auto core = tensor_core(s.order.mma);
    DRIFTC_ASSERT(core.has_value(), "an mma order names a tensor core that exists");
    s.mma = MmaUnit{*core, s.order.mma.k()};
    // The unit takes nothing wider than its format.
    if (s.in == ir::Precision::kF32) s.in = ir::operand_precision(s.order.mma);
    s.flush = false;
  }
  return s;
}

namespace {

template <class To, class From, class Round>
void convert(std::span<const From> from, To* to, ThreadPool& pool, const Round& round) {
  for_ranges(pool, static_cast<std::int64_t>(from.size()),
             [&](std::int64_t begin, std::int64_t end) {
               for (std::int64_t i = begin; i < end; ++i)
                 to[i] = static_cast<To>(round(from[static_cast<std::size_t>(i)]));
             });
}

}  // namespace

template <class T>
SumOperand<T>::SumOperand(const ir::Tensor& tensor, ir::Precision precision, ThreadPool& pool)
    : kept_(tensor) {
  if (tensor.dtype() == ir::DType::kF64) {
    if constexpr (sizeof(T) == 8) data_ = kept_.data<double>().data();
    DRIFTC_ASSERT(data_ != nullptr, "f64 operand of an f32 sum");
    return;
  }
  const auto from = tensor.data<float>();
  const bool exact = precision == ir::Precision::kF32 || precision == ir::Precision::kF64;
  if constexpr (sizeof(T) == 4) {
    if (exact) {
      data_ = from.data();
      return;
    }
  }
  owned_ = Scratch<T>(from.size());
  data_ = owned_.data();
  switch (precision) {
    case ir::Precision::kF32:
    case ir::Precision::kF64:
      convert(from, owned_.data(), pool, [](float v) { return v; });
      break;
    case ir::Precision::kTf32Rna:
      convert(from, owned_.data(), pool, tf32_rna);
      break;
    case ir::Precision::kTf32Trunc:
      convert(from, owned_.data(), pool, tf32_trunc);
      break;
    case ir::Precision::kF16:
      convert(from, owned_.data(), pool, [](float v) { return f16_to_f32(f32_to_f16_rne(v)); });
      break;
    case ir::Precision::kBF16:
      convert(from, owned_.data(), pool, [](float v) { return bf16_to_f32(f32_to_bf16_rne(v)); });
      break;
  }
}

ir::Tensor rounded_to(const ir::Tensor& tensor, ir::Precision precision, ThreadPool& pool) {
  const SumOperand<float> values(tensor, precision, pool);
  ir::Tensor out(ir::DType::kF32, tensor.shape());
  std::copy_n(values.data(), out.elements(), out.data_mut<float>().data());
  return out;
}

template class SumOperand<float>;
template class SumOperand<double>;

}  // namespace driftc::runtime
