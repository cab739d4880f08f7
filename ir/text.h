// Text of numbers and names in the IR: no bit is lost (hex floats) and the locale plays no part.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace driftc::ir {

std::string hex_float(
    double value);  // 0x1.8p+1 -> "0x1.8p1"; inf, -inf, nan(0xBITS) for NaN payloads
std::string hex_float(float value);  // keeps NaN payloads: nan(0x7fc00001)
// Decimal or hex float, inf, -inf, nan, nan(0x...). Empty when the whole text is not a number.
std::optional<double> parse_number(std::string_view text);
std::optional<float> parse_float(std::string_view text);  // decimal text is rounded once, to f32

// %name or %"quoted \"name\"": identifiers outside [A-Za-z0-9_.] are quoted with escapes \" \\ \n
// \xHH.
std::string quoted(std::string_view text);                              // always with quotes
std::string identifier(std::string_view sigil, std::string_view name);  // quotes only where needed

}  // namespace driftc::ir
