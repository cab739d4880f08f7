// What values of a graph should be when computed in a given precision, and how far rounding may
// have moved them, for results whose order of summation nobody knows (`judge`).
//
// The expected value is computed in f64, with operands of products (or all stored values) rounded
// as the hypothesis says. The variance is that of the f32 roundings of any implementation: local
// roundings plus what earlier roundings become on their way (numerics.md 4.2, 4.4):
// - a rounding of a result y is uniform within half an ulp, ulp <= 2u|y|, so its variance is at
// most u^2 y^2 / 3;
// - a sum of n terms in random order has partial sums s_j with sum_j E[s_j^2] <= n S^2 / 3 + n Q /
// 6 (S: the sum,
//   Q: the sum of squared terms), products rounded on their own add Q, a bias that starts the sum n
//   (b^2 + b S);
// - weights folded with a batch_norm, or products rounded twice, are within the same terms;
// - an operand that is rounded to a coarser type with step q either keeps its rounded value or
// moves to a neighbour:
//   min((largest move within 6 sigma)^2, V + q^2 / 4);
// - tensor cores truncate, so their results lie to one side, by less where a sum is cut into
// slices: the expected value is halfway to what one chain of blocks makes of the operands, and the
// variance counts that chain's roundings and the width of the way;
// - Winograd's roundings are those of its transforms (compare::winograd_variance); where it rounds
// to tf32 inside, what our evaluation makes is expected. A variance that is infinite means that
// nothing can be said (a division by something that may be zero).
//
// Nothing fails; thread-safe; results do not depend on threads.
#pragma once

#include <span>
#include <vector>

#include "ir/graph.h"
#include "runtime/study/precision_hypothesis.h"
#include "runtime/thread_pool.h"

namespace driftc::runtime::study {

// Values that are given (graph inputs, operands of a node): by value id, f32 or i64; undefined:
// computed.
using GivenValues = std::vector<ir::Tensor>;

struct Expectation {
  ir::Tensor value;     // f64
  ir::Tensor variance;  // f64
  // f64: how far any order of such operations may be from `value`: hypothesis_bound, twice on
  // tensor cores. Only for a reduction node all of whose operands are given or constant.
  ir::Tensor bound;
  bool direct = false;  // every operand of the node that makes it was given or constant: only its
                        // own roundings
};

// How far sums of the hypothesis' kind, in any order, may be from the exact ones on operands
// rounded as it says: n u sum|terms| (numerics.md 4.1), the transform bound (3.3) or that of a
// chain of blocks (1.8). For a reduction node whose operands are given or constant; f64.
ir::Tensor hypothesis_bound(const ir::Graph& graph, const GivenValues& given, ir::NodeId node,
                            const PrecisionHypothesis& hypothesis, ThreadPool& pool);

// `wanted`: floating-point results of nodes.
std::vector<Expectation> expect(const ir::Graph& graph, const GivenValues& given,
                                const std::vector<ir::ValueId>& wanted,
                                const PrecisionHypothesis& hypothesis, ThreadPool& pool);

// A healthy result under the hypothesis: the interpreter in f32, every reduction in the first of
// `orders` that fits (none: eager's).
std::vector<ir::Tensor> healthy_twin(const ir::Graph& graph, const GivenValues& given,
                                     const std::vector<ir::ValueId>& wanted,
                                     const PrecisionHypothesis& hypothesis,
                                     std::span<const ir::ReductionOrder> orders, ThreadPool& pool);

// Nodes that have to run to compute `wanted` from the given values, in order; constants left out.
std::vector<ir::NodeId> cone_of(const ir::Graph& graph, const GivenValues& given,
                                const std::vector<ir::ValueId>& wanted);

}  // namespace driftc::runtime::study
