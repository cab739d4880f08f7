// Graph inputs: what the file declares, and the shapes the user's files give them. Internal to this
// folder.
#pragma once

#include <vector>

#include "frontend/onnx/onnx.h"
#include "frontend/onnx/op_context.h"

namespace driftc::frontend::onnx {

Result<TensorInfo> declared_tensor(const Named& value_info);
// Without those that an initializer fills (files up to IR version 3 list every initializer as an
// input).
Result<std::vector<TensorInfo>> declared_inputs(const GraphProto& graph);

// Adds the inputs to the graph. Every open extent is bound: from the input's file, from the batch,
// from the same symbol elsewhere; what stays open is an error, and so is every contradiction.
Result<void> add_inputs(Scope& scope, const GraphProto& graph, const ImportOptions& options);

}  // namespace driftc::frontend::onnx
