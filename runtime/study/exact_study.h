// What `compare --reference exact` adds to a value (numerics.md 4): how far each arm is from the
// exact value on that arm's own inputs, and how far rounding can have driven the two arms apart.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "runtime/compare/bounds.h"
#include "runtime/compare/metrics.h"
#include "runtime/eager/region.h"

namespace driftc::runtime::study {

// A bound on |eager - compiled|, element by element.
struct DifferenceBound {
  double value = 0;  // at the element where most of it is used
  double used = 0;   // largest |eager - compiled| / bound there; at most 1 where both arms compute
                     // what they declare, infinite where they differ and nothing rounds
  compare::BoundKind kind = compare::BoundKind::kRunning;  // kPropagated: the inputs differ, too
  double z_max = 0;  // largest |eager - compiled| in standard deviations of rounding
  // Largest over the elements, in the worst case and as standard deviations: what the differences
  // of the inputs become (they are known, no bounds), what both arms' roundings add, and the first
  // divided by the largest difference of an input (0: the inputs are equal).
  double inherited = 0, local = 0, amplification = 0;
  double inherited_sigma = 0, local_sigma = 0, amplification_sigma = 0;
};

struct ExactFigures {
  compare::Distance eager, compiled;    // to the exact value on the arm's own inputs
  std::optional<double> condition_max;  // of the value's sum, on eager's inputs
  // Empty where the arms agree in every bit and where a function has no stated error.
  std::optional<DifferenceBound> bound;
};

// One value and the nodes that make it from others that both arms know.
struct ExactSubject {
  const ir::Graph& source;
  ir::ValueId value;
  std::span<const ir::ValueId> boundary;
  const Evaluator &eager,
      &compiled;  // know the boundary and the value; their recipes are the arms'
  EvalContext context;
};

// Sums are exact (numeric/exact.h), what follows them is evaluated in f64. Empty where the value or
// one on the way is not f32.
std::optional<ExactFigures> exact_figures(const ExactSubject& subject);

}  // namespace driftc::runtime::study
