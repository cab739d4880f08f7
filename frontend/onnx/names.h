// Strings of a file in messages and in the graph.
#pragma once

#include <string>
#include <string_view>

namespace driftc::frontend::onnx {

bool is_utf8(std::string_view text);
// In single quotes, shortened, bytes that are not printable text escaped: safe on a terminal and in
// JSON.
std::string quoted(std::string_view name);

}  // namespace driftc::frontend::onnx
