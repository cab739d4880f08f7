// ONNX files -> ir::Graph.
//
// Accepted: IR version 3 and later, operator sets 6 to 21 of the default domain, float32 and
// float16 models. Everything float is f32 in the graph: float16 and bfloat16 are widened exactly,
// float64 weights are rounded to nearest once. Integer and bool tensors exist only during import:
// shape arithmetic is folded, so every attribute of the graph is a number. Only nodes that an
// output needs are imported. Names of values are the file's tensor names; Location is {file name,
// node name}. Errors: one Diagnostic with the file as place; it names node, operator and attribute.
// Nothing in a file (sizes, counts, nesting, paths) makes import take memory that the file's own
// bytes do not justify.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace driftc::frontend::onnx {

// One extent of a declared shape: a number, a symbol ("N"), or neither when the file leaves it
// open.
struct Dimension {
  std::optional<std::int64_t> extent;
  std::string symbol;
};

struct TensorInfo {
  std::string name;
  std::string type_name;           // as ONNX calls it: "float32", "float16", "int64", ...
  std::optional<ir::DType> dtype;  // the same as one of ours; empty: a type driftc does not have
  bool has_shape = false;          // false: even the rank is open
  std::vector<Dimension> dims;
};

struct ModelInfo {
  std::int64_t ir_version = 0, opset = 0;
  std::string producer, graph_name;
  std::size_t node_count = 0;
  std::vector<TensorInfo> inputs;   // without those that an initializer fills
  std::vector<TensorInfo> outputs;  // with the declared types, in which results are written
};

struct ImportOptions {
  // Shapes of the user's input files; they bind open and symbolic extents and must fit the fixed
  // ones.
  std::map<std::string, ir::Shape> input_shapes;
  // Extent of the first axis of inputs that are not in input_shapes (default 1 where it is open).
  std::optional<std::int64_t> batch;
};

Result<ir::Graph> import_onnx(const std::string& path, const ImportOptions& options = {});
// The same for a file in memory; `name` stands for its path in messages. External data is refused.
Result<ir::Graph> import_onnx_bytes(std::string_view bytes, const std::string& name,
                                    const ImportOptions& options = {});

// Inputs and outputs only; no weight is decoded.
Result<ModelInfo> inspect_onnx(const std::string& path);
Result<ModelInfo> inspect_onnx_bytes(std::string_view bytes, const std::string& name);

// Operators that import knows, sorted (for hints and documentation).
std::vector<std::string> supported_operators();

}  // namespace driftc::frontend::onnx
