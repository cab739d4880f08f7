// The functions of ir/functions.def on every element, by the steps of ir/function_steps.h. Where
// subnormals are flushed, operands and results are; the steps between run as they are written.
#include "ir/function_steps.h"
#include "runtime/eager/broadcast.h"

namespace driftc::runtime {
namespace {

using ir::Function;

template <class S, bool kFlush>
ir::Tensor dispatch(const OpCall& call, const ir::FunctionCall& wanted) {
  ir::FunctionSteps<ir::NumericSteps<S>> steps{ir::NumericSteps<S>()};
  std::array<S, 2> scalars{};
  for (std::size_t i = 0; i < wanted.scalars.size(); ++i)
    scalars[i] = static_cast<S>(wanted.scalars[i]);
  const auto one = [&](const auto& f) {
    return unary<S>(call, [&](S x) { return canonical(flushed<kFlush>(f(flushed<kFlush>(x)))); });
  };
  const auto two = [&](const auto& f) {
    return binary<S>(
        call, [&](S x, S y) { return flushed<kFlush>(f(flushed<kFlush>(x), flushed<kFlush>(y))); });
  };
  switch (wanted.function) {
    case Function::kSqrt:
      return one([&](S x) { return steps.sqrt(x); });
    case Function::kExp:
      return one([&](S x) { return steps.exp(x); });
    case Function::kLog:
      return one([&](S x) { return steps.log(x); });
    case Function::kErf:
      return one([&](S x) { return steps.erf(x); });
    case Function::kAbs:
      return one([&](S x) { return steps.abs(x); });
    case Function::kNeg:
      return one([&](S x) { return steps.neg(x); });
    case Function::kSigmoid:
      return one([&](S x) { return steps.sigmoid(x); });
    case Function::kTanh:
      return one([&](S x) { return steps.tanh(x); });
    case Function::kSoftplus:
      return one([&](S x) { return steps.softplus(x); });
    case Function::kGelu:
      return one([&](S x) { return steps.gelu(x); });
    case Function::kGeluTanh:
      return one([&](S x) { return steps.gelu_tanh(x); });
    case Function::kElu:
      return one([&](S x) { return steps.elu(x, scalars[0]); });
    case Function::kLeakyRelu:
      return one([&](S x) { return steps.leaky_relu(x, scalars[0]); });
    case Function::kHardSigmoid:
      return one([&](S x) { return steps.hard_sigmoid(x, scalars[0], scalars[1]); });
    case Function::kHardSwish:
      return one([&](S x) { return steps.hard_swish(x); });
    case Function::kRoundF16:
      return one([&](S x) { return steps.round_f16(x); });
    case Function::kRoundBf16:
      return one([&](S x) { return steps.round_bf16(x); });
    case Function::kRoundF32:
      return one([&](S x) { return steps.round_f32(x); });
    case Function::kPrelu:
      return two([&](S x, S y) { return steps.prelu(x, y); });
    case Function::kMax:
      return two([&](S x, S y) { return steps.max(x, y); });
    case Function::kMin:
      return two([&](S x, S y) { return steps.min(x, y); });
    case Function::kPow:
      return two([&](S x, S y) { return steps.pow(x, y); });
  }
  DRIFTC_ASSERT(false, "unknown function");
}

}  // namespace

ir::Tensor evaluate_function(const OpCall& call) {
  const auto wanted = ir::function_call(call.node);
  DRIFTC_ASSERT(wanted.has_value(), "not a function");
  if (call.operand(0).dtype() == ir::DType::kF64) return dispatch<double, false>(call, *wanted);
  return call.contract.ftz ? dispatch<float, true>(call, *wanted)
                           : dispatch<float, false>(call, *wanted);
}

}  // namespace driftc::runtime
