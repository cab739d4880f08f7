// Merging kernels: what fuse-pointwise and fuse-epilogue share.
#pragma once

#include "passes/pass.h"

namespace driftc::passes {

// root[i]: the node at whose place node i is computed; i itself for a node that stays alone. A
// member's result must have no reader outside its group, so that moving it to the root's place is
// always possible.
using Groups = std::vector<std::uint32_t>;
Groups single_groups(const ir::Graph& graph);

// Every group becomes one kernel: members in graph order, operands in order of first use (each
// once, also where two members read it), `from` united, the root's result. Algorithm, schedule and
// order come from the member with a reduction, if any. `emulate_casts`: values between the ops are
// rounded to their own type, as eager does, instead of staying in f32.
ir::Graph merge_groups(const ir::Graph& graph, const Groups& root, bool emulate_casts,
                       const PassContext& context);

// A kernel that computes only elementwise ops, may change and is not the interpreter's.
bool is_pointwise_kernel(const ir::Node& node, const PassContext& context);
// The element type of the kernel's result and of all floating operands, when they agree.
std::optional<ir::DType> uniform_dtype(const ir::Graph& graph, const ir::Node& node);

// Kernels with more operands than this are not made (launch arguments).
inline constexpr std::size_t kMaxOperands = 24;
std::size_t merged_operand_count(const ir::Graph& graph, const Groups& root, std::uint32_t group);

}  // namespace driftc::passes
