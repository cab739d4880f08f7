// How the errors of a node's operands reach its result, op by op: the rules that ErrorPropagation
// (propagate.h) applies. Private to runtime/study.
#pragma once

#include <limits>
#include <span>
#include <vector>

#include "runtime/study/propagate.h"
#include "runtime/thread_pool.h"

namespace driftc::runtime::study {

// Covers the roundings of the rules' own arithmetic in f64.
inline constexpr double kSlack = 1 + 0x1p-40;
// An error that nothing bounds.
inline constexpr double kUnbounded = std::numeric_limits<double>::infinity();

// The operands of a node with their errors.
struct Incoming {
  const ir::Graph& graph;
  ir::NodeId id;
  const ir::Node& node;
  std::span<const ir::Tensor> values;
  std::vector<ErrorTensors> errors;
  const ir::Tensor& result;
  ThreadPool& pool;

  bool exact(std::size_t i) const {
    return !errors[i].bound.defined() && !errors[i].variance.defined();
  }
  double value(std::size_t i, std::int64_t element) const {
    return static_cast<double>(values[i].data<float>()[static_cast<std::size_t>(element)]);
  }
};

// Bound and variance of what the errors of the operands can change in the result, in f64; NaN where
// nothing can be said. Plain ops only.
ErrorTensors inherited_errors(const Incoming& in);

}  // namespace driftc::runtime::study
