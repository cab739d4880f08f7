// MODEL: an ONNX file, text IR (.gir) or zoo:NAME, loaded with the shapes that the inputs ask for.
#pragma once

#include <map>
#include <optional>

#include "frontend/cli/arguments.h"
#include "frontend/cli/inputs.h"
#include "ir/graph.h"

namespace driftc::frontend {

struct Model {
  std::string source;  // as given
  ir::Graph graph;
  std::vector<ResolvedInput> inputs;
  // The types in which results are written, by output name, where the model declares another than
  // f32.
  std::map<std::string, ir::DType> declared_outputs;
  std::optional<std::int64_t> weight_seed = {};  // of --reseed-weights
};

// The graph is f32 whatever the model says; PyTorch would run the type that its inputs declare.
ir::DType declared_type(const Model& model);

// Uses MODEL, --input, --batch and --reseed-weights. Files of inputs are looked at (their shapes
// bind open extents), not read.
Result<Model> load_model(const Arguments& arguments);

}  // namespace driftc::frontend
