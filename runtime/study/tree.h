// The sum behind one output element, step by step, under any ReductionOrder: what `driftc show
// --stage tree` prints. The steps are those of ir::denote, so they are what the interpreter replays
// and the kernels declare; tests hold the result equal to the interpreter's element in every bit.
// Ops: conv2d, conv1x1_matmul, matmul, gemm, avg_pool, global_avg_pool. In an mma order leaves
// join a block of the tensor core, in no order of their own, and the block joins the chain.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/tensor.h"

namespace driftc::runtime::study {

// The leaves of one output element by canonical position, and what happens to the sum afterwards.
struct SumOperands {
  ir::ReductionExtent extent;
  bool products = true;     // false: leaves are `a` alone (pooling)
  std::vector<float> a, b;  // a: activation (+0 where padded), b: weight
  std::vector<bool> padded;
  std::optional<float> bias;
  float alpha = 1, beta = 1;   // gemm
  std::optional<float> count;  // pooling: the divisor
};
// `operands` are the node's, f32. Errors (kInput): an op without a reduction, an index that does
// not fit.
Result<SumOperands> sum_operands(const ir::Graph& graph, ir::NodeId id,
                                 std::span<const std::int64_t> index,
                                 std::span<const ir::Tensor> operands);

struct TreeStep {
  enum class Kind : std::uint8_t {
    kStart,   // a chain begins: partial is +0 or the bias
    kLeaf,    // one leaf joins the chain, or the open block (the partial sum is then the last
              // block's)
    kBlock,   // a block of `position` leaves is added to the chain at once
    kAdd,     // slot[chain] += slot[from]
    kFinish,  // after the sum: rounding to f32, bias, scale, divisor (`what` says which)
  };
  Kind kind = Kind::kLeaf;
  std::int32_t chain = 0, from = 0;
  std::int32_t position = 0;  // canonical; ir::SumProgram::kZeroLeaf for a (+0)*(+0) leaf
  float a = 0, b = 0;         // kLeaf; of an mma order: as the tensor core takes them
  double partial = 0;         // of the chain after this step
  std::string what;           // kFinish
};

struct SumTrace {
  ir::ReductionOrder order;
  bool wide = false;  // partial sums are f64
  std::vector<TreeStep> steps;
  std::vector<std::size_t> chain_lengths;  // leaves per chain
  float result = 0;
};
// An error (kInput) for an mma order of a sum without products, or of no tensor core.
Result<SumTrace> trace_sum(const ir::ReductionOrder& order, const SumOperands& operands,
                           std::uint64_t atomic_seed = 0);

// The first index at which partial sums or kinds of step differ; empty when one trace equals the
// other.
std::optional<std::size_t> first_difference(const SumTrace& a, const SumTrace& b);

// The same sum in f64 in canonical order, finished in f64: a yardstick for both.
double sum_f64(const SumOperands& operands);

}  // namespace driftc::runtime::study
