#include "ir/text.h"

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "ir/support/round.h"

namespace driftc::ir {
namespace {

template <class T>
std::string hex(T value) {
  if (value != value) {
    std::array<char, 24> digits;
    auto [end, error] =
        std::to_chars(digits.data(), digits.data() + digits.size(), bits_of(value), 16);
    return "nan(0x" + std::string(digits.data(), end) + ")";
  }
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  if (value == 0) return std::signbit(value) ? "-0x0p0" : "0x0p0";
  std::array<char, 64> digits;
  auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), std::fabs(value),
                                    std::chars_format::hex);
  std::string text = (value < 0 ? "-0x" : "0x") + std::string(digits.data(), end);
  const std::size_t plus = text.find("p+");
  if (plus != std::string::npos) text.erase(plus + 1, 1);
  return text;
}

template <class T, class Bits>
std::optional<T> number(std::string_view text) {
  bool negative = false;
  std::string_view rest = text;
  if (rest.starts_with('-')) {
    negative = true;
    rest.remove_prefix(1);
  }
  if (rest == "inf") {
    const T inf = std::numeric_limits<T>::infinity();
    return negative ? -inf : inf;
  }
  if (rest == "nan") return std::numeric_limits<T>::quiet_NaN();
  if (rest.starts_with("nan(0x") && rest.ends_with(")") && !negative) {
    Bits bits = 0;
    const char* last = rest.data() + rest.size() - 1;
    auto [end, error] = std::from_chars(rest.data() + 6, last, bits, 16);
    if (error != std::errc() || end != last) return std::nullopt;
    const T value = std::bit_cast<T>(bits);
    return value != value ? std::optional<T>(value) : std::nullopt;
  }
  std::chars_format format = std::chars_format::general;
  if (rest.starts_with("0x") || rest.starts_with("0X")) {
    rest.remove_prefix(2);
    format = std::chars_format::hex;
  }
  if (rest.empty() || rest[0] == '-' || rest[0] == '+') return std::nullopt;
  T value = 0;
  auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value, format);
  if (end != rest.data() + rest.size()) return std::nullopt;
  if (error == std::errc::result_out_of_range) return std::nullopt;
  if (error != std::errc()) return std::nullopt;
  return negative ? -value : value;
}

bool plain(std::string_view name) {
  if (name.empty()) return false;
  for (char ch : name) {
    const bool ok = (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') ||
                    (ch >= '0' && ch <= '9') || ch == '_' || ch == '.';
    if (!ok) return false;
  }
  return true;
}

}  // namespace

std::string hex_float(double value) { return hex(value); }
std::string hex_float(float value) { return hex(value); }
std::optional<double> parse_number(std::string_view text) {
  return number<double, std::uint64_t>(text);
}
std::optional<float> parse_float(std::string_view text) {
  return number<float, std::uint32_t>(text);
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char ch : text) {
    const auto byte = static_cast<unsigned char>(ch);
    if (ch == '"' || ch == '\\') {
      out += '\\';
      out += ch;
    } else if (ch == '\n') {
      out += "\\n";
    } else if (byte < 0x20 || byte == 0x7F) {
      constexpr std::string_view kDigits = "0123456789abcdef";
      out += "\\x";
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    } else {
      out += ch;
    }
  }
  return out + '"';
}

std::string identifier(std::string_view sigil, std::string_view name) {
  return std::string(sigil) + (plain(name) ? std::string(name) : quoted(name));
}

}  // namespace driftc::ir
