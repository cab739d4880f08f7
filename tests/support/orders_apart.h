// What tests put in the place of a tolerance: the distance of two f32 orders, derived.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"
#include "runtime/numeric/hypothesis.h"
#include "runtime/study/pair_run.h"

namespace driftc::tests {

// How far apart two results of one sum node can be at most where both are f32 sums of its products
// in any order, fused or not: each lies within n u sum|x w| of the exact value
// (compare::any_order_bound: Jeannerod and Rump 2013, and underflow), so the two within the sum of
// their bounds. `rounded`: one of them rounds the operands so, which moves its exact value by
// compare::input_rounding at most. Finite operands; those of the node are inputs or constants of
// the graph.
struct Apart {
  std::vector<double> each;  // per element
  double most = 0, l2 = 0;   // the largest; their L2 norm
};
Apart orders_apart(const ir::Graph& graph, const std::string& node,
                   const std::vector<runtime::study::NamedTensor>& inputs,
                   runtime::Hypothesis rounded = runtime::Hypothesis::kF32);

}  // namespace driftc::tests
