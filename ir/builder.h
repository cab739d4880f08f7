// Shape inference, and building a graph op by op with inferred types (importers, zoo, passes,
// tests).
#pragma once

#include "ir/graph.h"

namespace driftc::ir {

// The result type of an op. Errors say which operand or attribute does not fit and what would.
// Checked: operand count, ranks, channel counts, that windows fit, that sizes stay below 2^40
// elements.
Result<TensorType> infer_type(Op op, const std::vector<AttributeValue>& attributes,
                              std::span<const TensorType> operands);

// Extents of a window op's result: (in + pads - dilation * (kernel - 1) - 1) / stride + 1; with
// `ceil_mode` rounded up, but a window that would start in the padding after the input is dropped
// (PyTorch's and ONNX's rule). Less than 1 when the window does not fit.
std::int64_t window_extent(std::int64_t in, std::int64_t kernel, std::int64_t stride,
                           std::int64_t pad_before, std::int64_t pad_after, std::int64_t dilation,
                           bool ceil_mode = false);

class Builder {
 public:
  explicit Builder(Graph& graph) : graph_(graph) {}
  // Appends a node; its result is called `name` (made unique when taken) and has the inferred type.
  // `from` defaults to {result name}.
  Result<ValueId> add(Op op, std::vector<ValueId> operands, const AttributeList& attributes,
                      std::string_view name, Location location = {});

 private:
  Graph& graph_;
};

}  // namespace driftc::ir
