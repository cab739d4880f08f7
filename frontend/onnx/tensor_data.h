// TensorProto -> values. float16 and bfloat16 become f32, exactly; float64 stays f64 (shape
// arithmetic uses it; a weight is rounded to f32, to nearest, once, where it enters the graph);
// integer types and bool become i64. Data may lie in raw_data, in a typed field, or in an external
// file inside the model's folder. The bytes present must match the shape before a tensor is
// allocated.
#pragma once

#include <string>
#include <string_view>

#include "frontend/onnx/file_buffer.h"
#include "frontend/onnx/proto.h"
#include "ir/literal.h"

namespace driftc::frontend::onnx {

// Where a model's bytes came from.
struct ModelSource {
  std::string path;        // as the user wrote it: place of errors, path of file literals
  std::string_view bytes;  // of the whole file
  FileBuffer* buffer =
      nullptr;  // null: in memory only; then literals are dense, external data refused
};

struct Constant {
  ElemType declared = ElemType::kUndefined;
  ir::Literal literal;
};

// Errors describe the tensor without naming it; the caller says which one it is.
Result<Constant> decode_constant(const TensorProto& tensor, const ModelSource& source);

}  // namespace driftc::frontend::onnx
