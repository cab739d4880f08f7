// ir::Graph -> ONNX file (IR version 7, operator set 13): what `driftc zoo export` writes.
// Names of values are kept, every constant becomes an initializer with its bits, shapes are fixed.
// The file imports again to the same graph. Errors: an op without an ONNX form (kernels, layouts
// and other results of passes), a value that is not f32, a file beyond protobuf's 2 GiB.
#pragma once

#include <string>

#include "ir/graph.h"

namespace driftc::frontend::onnx {

Result<std::string> export_onnx(const ir::Graph& graph);

}  // namespace driftc::frontend::onnx
