// What a system whose order nobody knows may have done with a graph: the precision of its products,
// the units that sum them, an algorithm that is not a sum, the type of what it stores (`judge`).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "runtime/numeric/hypothesis.h"

namespace driftc::runtime::study {

struct PrecisionHypothesis {
  Hypothesis operands = Hypothesis::kF32;
  bool conv = true, matmul = true;  // where operands are rounded
  bool storage = false;             // every stored value is of that type, weights and inputs too
  std::string arch = {};  // the tensor cores that sum the products ("sm_90"); "": chains in f32
  bool autocast = false;  // f16 or bf16: results are stored as ir/precision.h says, inputs are not
  int winograd = 0;       // 2 or 4: 3x3 convolutions by F(m,3), operands rounded between the
                          // transforms
  friend bool operator==(const PrecisionHypothesis&, const PrecisionHypothesis&) = default;
};
// "tf32:rna on convolutions", "f16 storage", "f16 autocast", "tf32:rna on tensor cores (sm_80)",
// "winograd4", "winograd4, tf32:rna inside".
std::string name_of(const PrecisionHypothesis& hypothesis);

// For whole graphs: f32; tf32 rounded and truncated, on convolutions and (where there are matrix
// products too) on both; f16 and bf16 storage and autocast; then Winograd, and tf32 on tensor
// cores. f32 first.
std::vector<PrecisionHypothesis> graph_hypotheses(const ir::Graph& graph);
// Operands of one node's products in every way of hypothesis.h, summed in f32.
std::vector<PrecisionHypothesis> node_hypotheses();
// These, and what autocast, Winograd or tensor cores can make of `node`.
std::vector<PrecisionHypothesis> node_hypotheses(const ir::Graph& graph, ir::NodeId node);

// How `node` is computed under the hypothesis, `order` (none: eager's) where it fits. Under
// tensor cores a chain, or slices of it, becomes one of blocks; a transform leaves sums over
// channels. kFtz flushes, every other type rounds operands.
ir::NumericContract contract_of(const PrecisionHypothesis& hypothesis, const ir::Graph& graph,
                                ir::NodeId node,
                                const std::optional<ir::ReductionOrder>& order = std::nullopt);
// What each node's result is rounded to under the hypothesis; kF32: nothing.
std::vector<Hypothesis> stored_types(const PrecisionHypothesis& hypothesis, const ir::Graph& graph);
// What the hypothesis rounds the operands of the node's products to: kF32 where it does not.
Hypothesis operand_rounding(const PrecisionHypothesis& hypothesis, const ir::Graph& graph,
                            ir::NodeId node);
// F(m,3) where the hypothesis computes the node so, else 0.
int winograd_of(const PrecisionHypothesis& hypothesis, const ir::Graph& graph, ir::NodeId node);
// Whether tensor cores sum the node's products.
bool on_tensor_cores(const PrecisionHypothesis& hypothesis, const ir::Graph& graph,
                     ir::NodeId node);

}  // namespace driftc::runtime::study
