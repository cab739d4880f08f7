// JSON as text: keys in the order they were added, small objects and arrays on one line, numbers as
// shortest round-trip decimals whatever the locale, non-finite numbers as the strings "nan", "inf",
// "-inf".
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace driftc::frontend {

using Json = nlohmann::ordered_json;

// A number as JSON takes it. An f32 becomes the double that its own shortest decimal denotes, so
// that 0.1f is written 0.1 and not 0.10000000149011612.
Json number(double value);
Json number(float value);

Json text_or_null(const std::string& text);  // null for ""

// Ends with a line break. Text that is not UTF-8 is written with U+FFFD.
std::string json_text(const Json& json);

}  // namespace driftc::frontend
