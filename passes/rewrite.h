// Small queries and rewrites that several passes share.
#pragma once

#include "passes/pass.h"

namespace driftc::passes {

// Consumers of every value, each listed once, in graph order. Graph outputs are not consumers.
std::vector<std::vector<ir::NodeId>> consumers_of(const ir::Graph& graph);
// The one node that reads `value`; empty when there are none or several, or when it is a graph
// output.
std::optional<ir::NodeId> only_consumer(const ir::Graph& graph, ir::ValueId value,
                                        const std::vector<std::vector<ir::NodeId>>& consumers);

// Union of lists of source nodes, in source order.
std::vector<std::string> merge_from(const ir::Graph& source,
                                    std::initializer_list<const std::vector<std::string>*> lists);
// Whether --fallback names one of the source nodes: no pass may merge or change such a node.
bool stays_eager(const PassContext& context, const std::vector<std::string>& from);

// Whether a kernel on the context's device can compute the order: ir::supports_order, and for an
// mma order the device's own tensor cores.
bool kernel_has_order(const PassContext& context, ir::Algorithm algorithm,
                      const ir::ReductionOrder& order);

// The f32 (or f64) bits of a constant operand; empty when it is not a constant.
std::optional<ir::Tensor> constant_tensor(const ir::Graph& graph, ir::ValueId value);
// `wanted`, or a variant of it that neither graph uses: the name of a new value while `made` is
// rebuilt from `old`.
std::string fresh_in_both(const std::string& wanted, const ir::Graph& old, const ir::Graph& made);
// `graph` without constants that nothing reads (the outputs stay).
ir::Graph without_unused_constants(const ir::Graph& graph);

// A copy of `graph` in which `change` has edited kernels; it returns whether it did.
ir::Graph edit_kernels(const ir::Graph& graph,
                       const std::function<bool(const ir::Node&, ir::Kernel&)>& change);

// Same nodes, names, types, attributes, literals and kernels (locations aside), without making the
// text.
bool same_graph(const ir::Graph& a, const ir::Graph& b);

}  // namespace driftc::passes
