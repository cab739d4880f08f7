#include "frontend/onnx/names.h"

#include <fmt/format.h>

namespace driftc::frontend::onnx {
namespace {

// Length of the well-formed UTF-8 sequence at `i` (RFC 3629: no overlong forms, no surrogates), or
// 0.
std::size_t sequence_length(std::string_view text, std::size_t i) {
  const auto byte = [&](std::size_t k) -> unsigned {
    return i + k < text.size() ? static_cast<unsigned char>(text[i + k]) : 0u;
  };
  const auto continues = [&](std::size_t k) { return (byte(k) & 0xC0u) == 0x80u; };
  const unsigned b = byte(0);
  if (b < 0x80) return 1;
  if (b >= 0xC2 && b <= 0xDF) return continues(1) ? 2 : 0;
  if ((b & 0xF0u) == 0xE0) {
    if (!continues(1) || !continues(2)) return 0;
    if ((b == 0xE0 && byte(1) < 0xA0) || (b == 0xED && byte(1) > 0x9F)) return 0;
    return 3;
  }
  if (b >= 0xF0 && b <= 0xF4) {
    if (!continues(1) || !continues(2) || !continues(3)) return 0;
    if ((b == 0xF0 && byte(1) < 0x90) || (b == 0xF4 && byte(1) > 0x8F)) return 0;
    return 4;
  }
  return 0;
}

}  // namespace

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t n = sequence_length(text, i);
    if (n == 0) return false;
    i += n;
  }
  return true;
}

std::string quoted(std::string_view name) {
  constexpr std::size_t kShown = 100;
  std::string out = "'";
  for (std::size_t i = 0; i < name.size();) {
    if (i >= kShown) return out + "...'";
    const std::size_t n = sequence_length(name, i);
    const auto byte = static_cast<unsigned char>(name[i]);
    if (n == 0 || byte < 0x20 || byte == 0x7F) {
      out += fmt::format("\\x{:02x}", byte);
      ++i;
      continue;
    }
    out += name.substr(i, n);
    i += n;
  }
  return out + "'";
}

}  // namespace driftc::frontend::onnx
