// Weights that lie in another file beside the model. Internal to this folder.
#pragma once

#include <span>
#include <string>

#include "frontend/onnx/proto.h"

namespace driftc::frontend::onnx {

struct ExternalData {
  std::string path;  // usable by this process
  std::uint64_t offset = 0;
};

// Finds and checks the file: the location is relative, has no "..", and resolves (symbolic links
// followed) to a regular file inside the model's folder that holds `wanted` bytes at the offset.
Result<ExternalData> locate_external(const TensorProto& tensor, const std::string& model_path,
                                     std::uint64_t wanted);
Result<void> read_external(const ExternalData& data, std::span<std::byte> to);

}  // namespace driftc::frontend::onnx
