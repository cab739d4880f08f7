// What --precision asks for, and what it makes of a node's contract: operands, arithmetic and
// storage. Both arms ask here, so that a plan means the same in each.
//
// f16 and bf16 are autocast as PyTorch does it on CUDA: convolutions and matrix products round
// their operands and store their result in that type; softmax, exp, log, pow, softplus and sums
// stay in f32; every other op computes in f32 and stores in the type of its operands, f32 where one
// of them is (scalars apart). Values are kept in f32 memory, rounded to the stored type, which has
// the same bits.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace driftc::ir {

struct PrecisionPlan {
  Precision conv = Precision::kF32, matmul = Precision::kF32;
  std::map<std::string, Precision> nodes;  // by name of the source node; they come first
  std::string mma_arch;                    // tensor cores of the device: "sm_90"

  bool plain() const {
    return conv == Precision::kF32 && matmul == Precision::kF32 && nodes.empty();
  }
};

// P | pytorch | conv=P,matmul=P,NODE=P; P is f32, tf32[:rna|:trunc], f16, bf16 or f64, pytorch is
// conv=tf32,matmul=f32. `flag` names the option in errors. mma_arch is left to the caller.
Result<PrecisionPlan> parse_precision_plan(std::string_view text, std::string_view flag);
std::string to_string(const PrecisionPlan& plan);  // "conv=tf32:rna,matmul=f32"

// Groups too thin for the tiles of a matrix product: the kernel is a direct one.
bool thin_groups(const Graph& graph, const Node& node);

// The plan's precision for `node`, whose source nodes are `names`: f32 for what is no convolution
// or matrix product.
Precision planned(const PrecisionPlan& plan, const Node& node, std::span<const std::string> names);
// Operands, accumulator and arithmetic of `node` in `precision`. A sequential fma chain becomes
// tensor-core blocks where the device has them for this op; tf32 without them stays f32, as on such
// devices.
void set_precision(NumericContract& contract, const Graph& graph, const Node& node,
                   Precision precision, const std::string& mma_arch);

// The type in which autocast stores the result of `node`: f32, f16 or bf16. `stored(operand)` gives
// that of an operand; `own` is planned(...).
Precision stored_precision(const Graph& graph, const Node& node, Precision own,
                           const std::function<Precision(ValueId)>& stored);
// Of every node of a graph of plain ops, run as it stands.
std::vector<Precision> stored_precisions(const Graph& graph, const PrecisionPlan& plan);

}  // namespace driftc::ir
