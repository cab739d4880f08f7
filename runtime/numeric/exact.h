// The exact reference of a reduction node: the correctly rounded f32 value of the exact real result
// on given f32 operands. Products, sum, bias (and gemm's alpha and beta, a mean's division) are
// exact; there is one rounding to nearest, ties to even, at the end. It depends on no order, so it
// is the same for every arm.
//
// Three tiers, each with a rigorous bound; an output leaves a tier only when both ends of its
// interval round to the same f32 (numerics.md 4.1, 4.5):
//   1. f64 chains of 64 terms, error <= h u sum|terms|, with sum|terms| <= ||row|| ||column|| +
//   |bias| (Cauchy and
//      Schwarz: two norms per output instead of a second convolution). Proven exact where all terms
//      are multiples of a power of two that is large enough.
//   2. sums split on a grid (exact_kernel.h), error <= n^2 2^-105 sum|terms|, mostly zero.
//   3. Kulisch accumulator (wide_sum.h), exact.
//
// Padding positions are multiplied as +0, as the interpreter does: 0 * Inf = NaN. Operands that are
// not finite follow IEEE limit rules: any NaN product, or infinities of both signs, gives the
// canonical NaN; otherwise Inf. Zeros: an exact zero is +0 whatever the signs of its terms, because
// driftc's chains start at +0 (architecture.md); -0 appears only where a negative value rounds to
// zero. A mean over no elements is 0/0 = NaN.
//
// Precision-matched: operands of products are rounded as a hypothesis says, the addend is not. kFtz
// flushes subnormal operands, addend and results.
//
// Nothing fails; thread-safe; results do not depend on threads or vector width.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "ir/graph.h"
#include "ir/tensor.h"
#include "runtime/numeric/hypothesis.h"
#include "runtime/numeric/sum_problem.h"
#include "runtime/thread_pool.h"

namespace driftc::runtime {

// Where the sum starts to be computed; tests force the later tiers.
enum class ExactTier : std::uint8_t { kDouble, kCompensated, kKulisch };

struct ExactSettings {
  Hypothesis operands = Hypothesis::kF32;
  bool intervals = false;  // fill value64 and radius
  ExactTier first_tier = ExactTier::kDouble;
};

struct ExactResult {
  ir::Tensor value;  // f32, the node's shape
  // f64: the exact result lies within `radius` of `value64`; not flushed. Undefined unless asked
  // for.
  ir::Tensor value64, radius;
  std::int64_t compensated = 0, kulisch = 0;  // outputs that needed the second and third tier
};

// The node must be a sum node (sum_problem.h); operands are f32, in the node's order.
ExactResult exact_value(const ir::Graph& graph, ir::NodeId node,
                        std::span<const ir::Tensor> operands, const ExactSettings& settings,
                        ThreadPool& pool);
ExactResult exact_value(SumProblem problem, const ExactSettings& settings, ThreadPool& pool);

}  // namespace driftc::runtime
