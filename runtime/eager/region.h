// Evaluates values of a graph of plain ops when each node may be computed as part of a region (a
// compiled kernel) under that region's contract. Two things cross node borders inside a region:
//
// - contraction (contract=on): an add or sub of a `mul` that only it uses is one fma
// (ir::contraction_site);
// - batch-norm folding (fold=f64 or f32): a batch_norm of a convolution is that convolution with
// weights
//   w' = round(w * s) and bias b' = round((b - mean) * s + shift), s = scale * (1 / sqrt(var +
//   epsilon)). f64: every step is one f64 operation and w', b' are rounded to f32 once; f32: every
//   step is one f32 operation.
//
// Source replay, `--eager-order=declared` and plain eager runs are all this evaluator with other
// recipes.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "ir/graph.h"
#include "runtime/eager/interpreter.h"

namespace driftc::runtime {

// Computes nodes in place of the interpreter: a library that is part of the eager arm. What it
// returns has the node's type; a failure it keeps for its owner and returns zeros.
class NodeRunner {
 public:
  virtual ~NodeRunner() = default;
  virtual ir::Tensor run(ir::NodeId node, std::span<const ir::Tensor> operands) = 0;
};

// How a node is computed. Nodes with equal region are computed by the same kernel.
struct Recipe {
  ir::NumericContract contract;
  int region = 0;
  NodeRunner* runner = nullptr;  // borrowed; then `contract` says what is known of its way
};

// Every node alone under eager's contract, with `wanted` where that order fits.
std::vector<Recipe> eager_recipes(const ir::Graph& graph,
                                  const std::optional<ir::ReductionOrder>& wanted = std::nullopt);

class Evaluator {
 public:
  // One recipe per node. `arm` is f32 or f64: constants of floating type are converted to it; so
  // are f32 values given to `know`. The graph must outlive the evaluator.
  Evaluator(const ir::Graph& graph, std::vector<Recipe> recipes, const EvalContext& context,
            ir::DType arm = ir::DType::kF32);

  // Values that are given instead of computed: graph inputs, or what another arm materialised.
  void know(ir::ValueId value, ir::Tensor tensor);
  void forget(ir::ValueId value) { known_[value.index] = {}; }
  bool knows(ir::ValueId value) const { return known_[value.index].defined(); }
  const ir::Tensor& known(ir::ValueId value) const { return known_[value.index]; }

  // The value computed from known ones: the nodes between are evaluated under their recipes and
  // freed when last used. `value` itself is computed even where it is known, and is not remembered.
  // Asserts that every graph input it depends on is known or hidden behind a known value.
  ir::Tensor value(ir::ValueId value) const;

  // The known values (as `is_known` says) that value() would read.
  std::vector<ir::ValueId> reads(ir::ValueId value,
                                 const std::function<bool(ir::ValueId)>& is_known) const;

  const ir::Graph& graph() const { return graph_; }
  // Changes how one node is computed (counterfactuals).
  void set_recipe(ir::NodeId node, Recipe recipe) { recipes_[node.index] = std::move(recipe); }
  const Recipe& recipe(ir::NodeId node) const { return recipes_[node.index]; }

 private:
  // How one value is made, and from which values.
  struct Plan;
  Plan plan(ir::NodeId node) const;
  ir::Tensor run(ir::NodeId node, const Plan& plan, std::span<const ir::Tensor> operands) const;
  ir::Tensor computed(ir::NodeId node, const Plan& plan,
                      std::span<const ir::Tensor> operands) const;
  std::vector<ir::NodeId> cone(ir::ValueId value, const std::function<bool(ir::ValueId)>& is_known,
                               std::vector<ir::ValueId>* reads) const;
  ir::Tensor in_arm(const ir::Tensor& tensor) const;

  const ir::Graph& graph_;
  std::vector<Recipe> recipes_;
  EvalContext context_;
  ir::DType arm_;
  std::vector<int> uses_;  // by nodes that some output needs
  std::vector<ir::Tensor> known_;
};

// Values of `wanted` (in topological order) one after another, each known to the later ones; each
// is given to `visit` and freed after its last use. `inputs` follow graph.inputs().
using ValueVisitor = std::function<void(ir::ValueId, const ir::Tensor&)>;
void run_values(Evaluator& evaluator, std::span<const ir::Tensor> inputs,
                std::span<const ir::ValueId> wanted, const ValueVisitor& visit);

// Results of all nodes but constants: what a plain eager run makes.
std::vector<ir::ValueId> all_results(const ir::Graph& graph);

// The value of a kernel node: its body, one region under its contract.
ir::Tensor evaluate_kernel(const ir::Node& node, std::span<const ir::Tensor> operands,
                           const EvalContext& context);

}  // namespace driftc::runtime
