// One node of an expectation (expect.h): the f64 value and the variance of its roundings, from
// those of its operands.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "ir/graph.h"
#include "runtime/numeric/hypothesis.h"
#include "runtime/thread_pool.h"

namespace driftc::runtime::study {

struct Uncertain {
  ir::Tensor value;     // f64, or i64 (indices: exact)
  ir::Tensor variance;  // f64; undefined: zero
};

class Spread {
 public:
  // `storage`: the type every stored value is rounded to; kF32: none.
  Spread(const ir::Graph& graph, Hypothesis storage, ThreadPool& pool)
      : graph_(graph), storage_(storage), pool_(pool) {}

  Uncertain given(const ir::Tensor& tensor) const;
  // `operand_rounding` applies to the operands of products.
  Uncertain node(ir::NodeId id, std::span<const Uncertain> operands,
                 Hypothesis operand_rounding) const;
  ir::Tensor variance_or_zero(const Uncertain& value) const;

 private:
  Uncertain sum_node(ir::NodeId id, std::span<const Uncertain> operands, Hypothesis rounding) const;
  Uncertain mean_node(ir::NodeId id, const Uncertain& x) const;
  Uncertain batch_norm(ir::NodeId id, std::span<const Uncertain> operands) const;
  Uncertain softmax(ir::NodeId id, const Uncertain& x) const;
  Uncertain pointwise(ir::NodeId id, std::span<const Uncertain> operands) const;
  // By what the function does when an operand moves: exp, tanh, pow, max, cast ...
  Uncertain function(ir::NodeId id, std::span<const Uncertain> operands,
                     const ir::Tensor& value) const;
  Uncertain reduction(ir::NodeId id, const Uncertain& x) const;
  Uncertain largest_of(ir::NodeId id, const Uncertain& x) const;
  Uncertain moved(ir::NodeId id, std::span<const Uncertain> operands) const;
  Uncertain stored(Uncertain value) const;
  Uncertain rounded_operand(const Uncertain& x, Hypothesis rounding) const;
  ir::Tensor eval(ir::NodeId id, std::vector<ir::Tensor> operands) const;

  const ir::Graph& graph_;
  Hypothesis storage_;
  ThreadPool& pool_;
};

}  // namespace driftc::runtime::study
