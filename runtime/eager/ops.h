// What the op families of the interpreter share. Internal to runtime/eager.
#pragma once

#include <cmath>
#include <limits>

#include "ir/support/assert.h"
#include "ir/support/round.h"
#include "runtime/eager/interpreter.h"
#include "runtime/sums/parallel.h"
#include "runtime/sums/sum_engine.h"
#include "runtime/sums/sum_plan.h"

namespace driftc::runtime {

// One node with everything its family needs.
struct OpCall {
  const ir::Graph& graph;
  const ir::Node& node;
  std::span<const ir::Tensor> operands;
  const ir::NumericContract& contract;
  const EvalContext& context;

  const ir::Shape& result_shape() const { return graph.value(node.result).type.shape; }
  const ir::Tensor& operand(std::size_t i) const { return operands[i]; }
};

// One function per family, one file each.
ir::Tensor evaluate_conv(const OpCall& call);         // conv2d, conv1x1_matmul
ir::Tensor evaluate_winograd(const OpCall& call);     // conv2d under a contract with a transform
ir::Tensor evaluate_matmul(const OpCall& call);       // matmul, gemm
ir::Tensor evaluate_elementwise(const OpCall& call);  // add .. clip, batch_norm
ir::Tensor evaluate_function(const OpCall& call);     // the functions of ir/functions.def
ir::Tensor evaluate_max_pool(const OpCall& call);
ir::Tensor evaluate_mean(const OpCall& call);            // avg_pool, global_avg_pool
ir::Tensor evaluate_reduce_sum(const OpCall& call);      // reduce_mean, reduce_sum
ir::Tensor evaluate_reduce_extreme(const OpCall& call);  // reduce_max, reduce_min
ir::Tensor evaluate_argmax(const OpCall& call);
ir::Tensor evaluate_conv_transpose(const OpCall& call);
ir::Tensor evaluate_resize(const OpCall& call);
ir::Tensor evaluate_softmax(const OpCall& call);
ir::Tensor evaluate_data_movement(const OpCall& call);

// mul and the add or sub that uses it, as one fma (contract=on): a * b + c, a * b - c or c - a * b.
enum class FusedForm : std::uint8_t { kPlus, kMinus, kReversed };
ir::Tensor fused_multiply_add(FusedForm form, const ir::Tensor& a, const ir::Tensor& b,
                              const ir::Tensor& c, const ir::Shape& result, bool flush,
                              const EvalContext& context);

// NaN -> the canonical NaN.
template <class T>
inline T canonical(T x) {
  return x == x ? x : static_cast<T>(canonical_nan());
}
// Subnormal -> zero of the same sign, where `kFlush` and the type is f32.
template <bool kFlush, class T>
inline T flushed(T x) {
  if constexpr (kFlush && sizeof(T) == 4)
    return std::abs(x) < std::numeric_limits<T>::min() ? std::copysign(T{0}, x) : x;
  return x;
}

// Everything about a reduction that its contract decides.
struct SumSettings {
  ir::ReductionOrder order;
  SumArith arith = SumArith::kFma;
  bool wide = false;           // chains and combinations in f64
  bool flush = false;          // f32 chains flush subnormals
  std::optional<MmaUnit> mma;  // chains of an mma order; not in the f64 arm
  ir::Precision in = ir::Precision::kF32;
  ir::BiasPoint bias = ir::BiasPoint::kStored;
};
SumSettings sum_settings(const OpCall& call);

// A convolution stored in 16 bits rounds its sum before a bias of the same type is added:
// add_rn(store(sum), store(bias)) per channel, where the order says bias.stored.
bool stores_before_bias(const OpCall& call, const SumSettings& settings);
ir::Tensor add_stored_bias(const ir::Tensor& sum, const OpCall& call);

// f32 values rounded to a type, in f32.
ir::Tensor rounded_to(const ir::Tensor& tensor, ir::Precision precision, ThreadPool& pool);

// The tensor's elements as T, rounded to `precision` first (products' operands). Borrows where it
// can.
template <class T>
class SumOperand {
 public:
  SumOperand() = default;
  SumOperand(const ir::Tensor& tensor, ir::Precision precision, ThreadPool& pool);
  const T* data() const { return data_; }

 private:
  ir::Tensor kept_;
  Scratch<T> owned_;
  const T* data_ = nullptr;
};

}  // namespace driftc::runtime
