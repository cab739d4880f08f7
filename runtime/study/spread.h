// One node of an expectation (expect.h): the f64 value and the variance of its roundings, from
// those of its operands.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "ir/graph.h"
#include "runtime/study/precision_hypothesis.h"
#include "runtime/thread_pool.h"

namespace driftc::runtime::study {

struct Uncertain {
  ir::Tensor value;     // f64, or i64 (indices: exact)
  ir::Tensor variance;  // f64; undefined: zero
};

class Spread {
 public:
  // The graph and the hypothesis must outlive it.
  Spread(const ir::Graph& graph, const PrecisionHypothesis& hypothesis, ThreadPool& pool)
      : graph_(graph),
        hypothesis_(hypothesis),
        stored_(stored_types(hypothesis, graph)),
        pool_(pool) {}

  Uncertain given(const ir::Tensor& tensor) const;
  Uncertain node(ir::NodeId id, std::span<const Uncertain> operands) const;
  ir::Tensor variance_or_zero(const Uncertain& value) const;

 private:
  Uncertain sum_node(ir::NodeId id, std::span<const Uncertain> operands) const;
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
  Uncertain stored(ir::NodeId id, Uncertain value) const;  // rounded to the type it is stored in
  Uncertain rounded_operand(const Uncertain& x, Hypothesis rounding) const;
  ir::Tensor eval(ir::NodeId id, std::vector<ir::Tensor> operands) const;

  const ir::Graph& graph_;
  const PrecisionHypothesis& hypothesis_;
  std::vector<Hypothesis> stored_;  // by node
  ThreadPool& pool_;
};

}  // namespace driftc::runtime::study
