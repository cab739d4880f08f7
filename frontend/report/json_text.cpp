#include "frontend/report/json_text.h"

#include <array>
#include <charconv>
#include <cmath>

namespace driftc::frontend {
namespace {

constexpr std::size_t kLineWidth = 120;

template <class T>
std::string shortest(T value) {
  std::array<char, 64> buffer;
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return std::string(buffer.data(), result.ptr);
}

std::string quoted(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

void write_inline(const Json& json, std::string& out) {
  if (json.is_object()) {
    out += '{';
    bool first = true;
    for (const auto& [key, value] : json.items()) {
      if (!first) out += ", ";
      first = false;
      out += quoted(key) + ": ";
      write_inline(value, out);
    }
    out += '}';
  } else if (json.is_array()) {
    out += '[';
    for (std::size_t i = 0; i < json.size(); ++i) {
      if (i > 0) out += ", ";
      write_inline(json[i], out);
    }
    out += ']';
  } else if (json.is_number_float()) {
    out += shortest(json.get<double>());
  } else if (json.is_string()) {
    out += quoted(json.get_ref<const std::string&>());
  } else {
    out += json.dump();
  }
}

void write(const Json& json, std::size_t depth, std::size_t used, std::string& out) {
  std::string line;
  write_inline(json, line);
  if (!json.is_structured() || json.empty() || depth * 2 + used + line.size() <= kLineWidth) {
    out += line;
    return;
  }
  const std::string indent(depth * 2 + 2, ' ');
  out += json.is_object() ? '{' : '[';
  bool first = true;
  for (const auto& [key, value] : json.items()) {
    out += first ? "\n" : ",\n";
    first = false;
    out += indent;
    std::size_t before = 0;
    if (json.is_object()) {
      const std::string name = quoted(key) + ": ";
      before = name.size();
      out += name;
    }
    write(value, depth + 1, before, out);
  }
  out += '\n' + std::string(depth * 2, ' ') + (json.is_object() ? '}' : ']');
}

}  // namespace

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

Json number(float value) {
  if (!std::isfinite(value)) return number(static_cast<double>(value));
  const std::string text = shortest(value);
  double wide = 0;
  std::from_chars(text.data(), text.data() + text.size(), wide);
  return wide;
}

std::string json_text(const Json& json) {
  std::string out;
  write(json, 0, 0, out);
  return out + '\n';
}

}  // namespace driftc::frontend
