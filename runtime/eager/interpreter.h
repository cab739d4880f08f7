// The eager interpreter: one IR node on given operands, every rounding defined (ops.def,
// "evaluation").
//
// The operands' type picks the arm: f32 is the arm that is compared; f64 is the reference arm, the
// same evaluation in double (orders apply with double arithmetic; operand precisions and
// flush-to-zero do not). i64 tensors pass through data movement only.
//
// NaN: a result of arithmetic that is NaN is the canonical 0x7FFFFFFF. relu, clip, max_pool and
// data movement select or copy, so they keep the bits of a NaN they pass on. Comparisons treat all
// NaNs as one class.
//
// Nothing here fails: a graph that passed the verifier has a value. Thread-safe; results do not
// depend on the number of threads.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "ir/graph.h"
#include "ir/numeric.h"
#include "ir/tensor.h"
#include "runtime/thread_pool.h"

namespace driftc::runtime {

struct EvalContext {
  ThreadPool& pool;
  std::uint64_t atomic_seed = 0;  // order of the slices of `splitSa` orders
};

// `operands` are the node's, in order, all f32 or all f64 (or i64 for data movement). A constant
// gives its stored bits; a kernel node its body's value under the kernel's contract.
// `contract.order` empty: the op's default order.
ir::Tensor evaluate(const ir::Graph& graph, ir::NodeId node, std::span<const ir::Tensor> operands,
                    const ir::NumericContract& contract, const EvalContext& context);

// How eager computes a node: its op's default order, or `wanted` where that order fits, with the
// bias point of passes::eager_order; all else f32 and off.
ir::NumericContract eager_contract(const ir::Node& node,
                                   const std::optional<ir::ReductionOrder>& wanted = std::nullopt);

}  // namespace driftc::runtime
