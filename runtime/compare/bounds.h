// How far a computed f32 result can be from the exact one, by where that is known from. Every bound
// says its kind and source. Knows tensors and contracts; nodes come as SumProblem
// (runtime/numeric/sum_problem.h).
//
// All bounds are distances to the exact value on the problem's operands as they are: where a
// contract rounds or flushes operands, give them rounded (`matched`), and add `input_rounding` to
// compare with unrounded ones. They hold while no operation overflows; where operands are not
// finite they are not finite either. Notation of numerics.md 4: u = 2^-24, eta = 2^-150 (half the
// smallest subnormal), gamma_d = d u / (1 - d u). Bounds are f64, evaluated with slack for their
// own rounding. Nothing fails; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ir/numeric.h"
#include "ir/tensor.h"
#include "ir/winograd.h"
#include "runtime/numeric/hypothesis.h"
#include "runtime/numeric/sum_problem.h"
#include "runtime/sums/tensor_core.h"
#include "runtime/thread_pool.h"

namespace driftc::runtime::compare {

enum class BoundKind : std::uint8_t { kRunning, kAPriori, kTransform, kTensorCore, kPropagated };
std::string_view name_of(BoundKind kind);  // running a-priori transform tensor-core propagated

// One bound per element, f64, in the shape of the value.
struct TensorBound {
  ir::Tensor value;
  BoundKind kind = BoundKind::kAPriori;
  std::string source;  // "per leaf, rsc.split2.fma", "n u, order unknown", ...
};

// --- The tree of an order (numerics.md 4.1) --------------------------------------------------

// Roundings between a term and the end of the sum; adding to an exact zero is none, a product that
// is not fused one.
struct LeafRoundings {
  std::vector<std::int32_t> f32;            // per canonical position
  std::vector<std::int32_t> f64;            // of chains kept in double
  std::int32_t bias_f32 = 0, bias_f64 = 0;  // of the bias, as the order places it
  std::int64_t operations = 0;  // f32 results that can be subnormal and inexact: fma, mul
};
// `order.arith` must not be kMma. Kahan chains count as 3 roundings of each term (2 u + O(n u^2),
// Higham 2002, 4.3; for chains up to 2^20 terms), 4 with the product's. `has_bias`: the node has an
// addend; it is placed as eager does (stored) where the order says nothing.
LeafRoundings leaf_roundings(const ir::SumProgram& program, const ir::ReductionOrder& order,
                             std::int64_t positions, bool has_bias, bool wide = false);

// Per-leaf bound of the contract's tree: sum_i gamma(d_i) |x_i w_i| + n eta, with the roundings of
// bias, alpha, beta and division. For `.skip` every leaf counts as the deepest, because border
// pixels have trees of their own; for mma orders it is the tensor-core bound below. ftz: eta is
// 2^-126 for every operation.
TensorBound a_priori_bound(const SumProblem& problem, const ir::NumericContract& contract,
                           ThreadPool& pool, std::uint64_t atomic_seed = 0);

// Any order of f32 operations, with or without fused products: n u sum|x w| (numerics.md 4.1;
// Jeannerod and Rump 2013), n terms with the bias, plus the roundings after the sum. Subnormals are
// kept.
TensorBound any_order_bound(const SumProblem& problem, ThreadPool& pool);

// --- Replay of a tree (4.1 running bound, 4.2 statistics) -------------------------------------

// A replay of the contract's tree with what its partial sums say: bound = half an ulp of every
// rounded result, variance = ulp^2 / 12 of each. Terms that are exactly zero round nothing.
struct Replay {
  ir::Tensor value;     // f32: the result of that contract, bit for bit
  TensorBound bound;    // kRunning
  ir::Tensor variance;  // f64
};
// Empty where partial sums do not give a bound: Kahan chains, mma orders, ftz.
std::optional<Replay> replay_bound(const SumProblem& problem, const ir::NumericContract& contract,
                                   ThreadPool& pool, std::uint64_t atomic_seed = 0);

// z = difference / sqrt(variance_a + variance_b); 0 for no difference, infinite where only the
// variance is 0.
double z_value(double difference, double variance_a, double variance_b);
inline constexpr double kExplainedZ = 6;  // |z| <= 6 is explained by order (4.2)

// --- Algorithms and units that are no tree ----------------------------------------------------

// Winograd F(m, 3) of a 3x3, stride 1, dilation 1 convolution (3.3): (gamma_N) |AT| [sum_c
// |G||g||G'| o |BT||d||B|] |A|, N = 2 (tau_G + tau_B + tau_A) + h. `accumulate_roundings` is h
// (fused sequential sum over channels: their number); filters transformed in f64 and rounded once
// count 1 instead of 2 tau_G. Bias stored after. `operand_error`: by which factor at most rounding
// moves an operand of the products (tf32 and f16: 2^-11 nearest, tf32 2^-10 truncated, bf16: 2^-9),
// or by `operand_floor` where it is tiny (f16: 2^-25).
struct WinogradSettings {
  std::int64_t accumulate_roundings = 0;  // 0: the number of channels of a group
  bool filters_in_f64 = false;
  double operand_error = 0;
  double operand_floor = 0x1p-136;
};
// Those of a contract with a transform. Empty for mma orders, which no transform has.
std::optional<WinogradSettings> winograd_settings(const ir::NumericContract& contract,
                                                  std::int64_t channels);
bool winograd_fits(const SumProblem& problem);
TensorBound winograd_bound(const SumProblem& problem, const ir::WinogradMatrices& matrices,
                           const WinogradSettings& settings, ThreadPool& pool);

// Variance of the result's roundings, for outputs whose order of sums nobody knows: u^2 / 3 times
// the square of every term that a rounding scales (transforms over absolute values, as the bound
// has them; sums over C channels: C S^2 / 3 + (C / 6 + 1) Q as of any sum, S its value, Q its sum
// of squared terms), carried through the output transform. `operand_error` e adds e^2 (Q + S^2): a
// truncation moves every operand to the same side. f64, in the shape of the value.
ir::Tensor winograd_variance(const SumProblem& problem, const ir::WinogradMatrices& matrices,
                             const WinogradSettings& settings, ThreadPool& pool);

// A chain of tensor-core blocks over all terms in any order of k (1.8), bias stored after.
TensorBound tensor_core_chain_bound(const SumProblem& problem, const TensorCore& core,
                                    int instruction_k, ThreadPool& pool);

// What rounding the operands of products changes, against unrounded operands: sum |x w| (e_x + e_w
// + e_x e_w) (4.3.5), with half a subnormal step for operands that become f16 subnormals.
TensorBound input_rounding(const SumProblem& problem, Hypothesis hypothesis, ThreadPool& pool);
// The problem on rounded operands, and the hypothesis of a contract's operand precision.
SumProblem matched(SumProblem problem, Hypothesis hypothesis, ThreadPool& pool);
Hypothesis hypothesis_of(const ir::NumericContract& contract);

// --- Figures ----------------------------------------------------------------------------------

// cond = 2 sum|x w| / |sum x w| and omega = |y - exact| / sum|x w| (4.1), the bias being one more
// term. `exact` is the f64 value of the reference. Elements that are not finite do not count; 0/0
// is 0.
struct Conditioning {
  double condition_max = 0;
  double omega_max = 0, omega_mean = 0;  // in units of 1, not of u
};
Conditioning conditioning(const SumProblem& problem, const ir::Tensor& value,
                          const ir::Tensor& exact, ThreadPool& pool);

// The smallest error a test with this tolerance is certain to see: a correct result may lie
// anywhere within the tolerance, so an error of one element must exceed twice it. `rms`: of the
// finite elements of `value`.
struct Detectable {
  double largest = 0;  // at the element where the test is weakest
  double median = 0;
  double rms = 0;
  double largest_of_rms = 0, median_of_rms = 0;  // infinite when rms is 0 and they are not
};
Detectable detectable(const ir::Tensor& tolerance, const ir::Tensor& value);

}  // namespace driftc::runtime::compare
