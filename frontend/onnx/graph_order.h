// Which nodes of a file are needed, and in which order they can be imported.
// Files should be sorted; those that are not are sorted here (stable: the smallest file position
// first). Refused: duplicate names, reads of names nothing provides, cycles, names that are not
// UTF-8. Iterative throughout, linear in the size of the graph.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "frontend/onnx/proto.h"

namespace driftc::frontend::onnx {

// "node 'Conv_3' (Conv)", or by its first output when it has no name.
std::string describe(const NodeProto& node);

struct GraphOrder {
  std::vector<std::uint32_t> nodes;  // indices into GraphProto::nodes
  // Every name the file defines: the node that makes it, or kGiven for inputs and initializers.
  std::unordered_map<std::string_view, std::int64_t> providers;
  static constexpr std::int64_t kGiven = -1;
};

Result<GraphOrder> order_graph(const GraphProto& graph);

}  // namespace driftc::frontend::onnx
