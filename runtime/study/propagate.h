// How errors travel through a graph (numerics.md 4.4): for every value an absolute bound E >= 0 on
// the distance between an arm's value and the value that the real-number graph has on the same
// inputs, and a variance V of that distance. At each node
//   E = inherited (what the operands' errors become) + local (the rounding of the node itself),
// in worst-case form and in variance form. The worst case grows with the product of the layers'
// norms and soon says nothing; the variance form is a model: errors count as independent, so a
// value that reaches a node by two paths (a residual sum) is counted twice.
//
// The values are those of one arm. For the distance of two arms give both local parts added up.
// Everything is f64 with a factor 1 + 2^-40 for its own rounding; an element that is not finite, or
// whose error has no bound (division by an interval around 0), has an infinite bound. Bounds hold
// while the real-number values exist and the arm does not overflow.
// Plain ops only (source graphs): no kernel nodes. Thread-safe between objects.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/numeric.h"
#include "ir/tensor.h"
#include "runtime/compare/bounds.h"
#include "runtime/thread_pool.h"

namespace driftc::runtime::study {

// f64 tensors in the shape of the value; undefined: zero everywhere.
struct ErrorTensors {
  ir::Tensor bound, variance;
};

struct LocalError {
  ErrorTensors error;
  compare::BoundKind kind = compare::BoundKind::kAPriori;
  std::string source;
};

// The distance of a node's f32 result to the exact one on the same f32 operands, under a contract
// (its `in`, `store` and `ftz` included: rounding operands and results is local). Reductions: the
// running bound of a replay, else the per-leaf one, the transform's or that of tensor-core blocks;
// elementwise ops: half an ulp for each rounding; copies, relu, clip and max_pool: zero; half a
// step of the type where a result is stored in 16 bits. `result` is the value that the contract
// makes on these operands.
//
// `kMatched`: sums are held against the exact one on operands rounded as the contract says, so that
// two arms that round them alike are not charged for it.
//
// A convolution and its batch_norm under a fold contract: the folded weights are off by u (f64) or
// 5 u (f32) each, the bias by 6 u |(b - mean) s| + u |b'| (4.4), which is counted at the two nodes.
enum class Against : std::uint8_t { kExact, kMatched };
LocalError local_error(const ir::Graph& graph, ir::NodeId node,
                       std::span<const ir::Tensor> operands, const ir::Tensor& result,
                       const ir::NumericContract& contract, ThreadPool& pool,
                       std::uint64_t atomic_seed = 0, Against against = Against::kExact);

// What one node did. Sigmas are roots of variances; all figures are the largest over the elements.
struct NodeErrors {
  ErrorTensors inherited, local;
  double inherited_max = 0, local_max = 0;
  double inherited_sigma = 0, local_sigma = 0;
  // inherited / the largest error of an operand; 0 where all operands are exact.
  double amplification = 0, amplification_sigma = 0;
};

class ErrorPropagation {
 public:
  // The graph must outlive the object. Every value starts exact.
  ErrorPropagation(const ir::Graph& graph, ThreadPool& pool);

  void set(ir::ValueId value, ErrorTensors error) { carried_[value.index] = std::move(error); }
  const ErrorTensors& at(ir::ValueId value) const { return carried_[value.index]; }
  void forget(ir::ValueId value) { carried_[value.index] = {}; }

  // Carries the operands' errors through the node, adds `local` and remembers the sum for its
  // result. `operands` and `result` are the arm's f32 values.
  NodeErrors step(ir::NodeId node, std::span<const ir::Tensor> operands, const ir::Tensor& result,
                  const LocalError& local);

 private:
  const ir::Graph& graph_;
  ThreadPool& pool_;
  std::vector<ErrorTensors> carried_;
};

}  // namespace driftc::runtime::study
