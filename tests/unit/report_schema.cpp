#include "tests/unit/report_schema.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace driftc::tests {
namespace {

using frontend::Json;

constexpr std::array<std::string_view, 16> kKeywords = {
    "$schema",  "title",      "description",
    "$defs",    "$ref",       "type",
    "required", "properties", "additionalProperties",
    "items",    "minItems",   "maxItems",
    "minimum",  "enum",       "const",
    "anyOf"};

bool has_type(const Json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "number") return value.is_number();
  if (type == "integer") return value.is_number_integer();
  return false;
}

class Checker {
 public:
  explicit Checker(const Json& root) : root_(root) {}

  std::string check(const Json& schema, const Json& value, const std::string& at) const {
    if (schema.contains("$ref")) return check(resolve(schema["$ref"]), value, at);
    std::string faults;
    auto fault = [&](const std::string& text) { faults += at + ": " + text + "\n"; };
    for (const auto& [key, unused] : schema.items())
      if (std::find(kKeywords.begin(), kKeywords.end(), key) == kKeywords.end())
        fault("schema keyword '" + key + "' is not known");
    if (schema.contains("const") && value != schema["const"]) fault("not the constant");
    if (schema.contains("enum") &&
        std::find(schema["enum"].begin(), schema["enum"].end(), value) == schema["enum"].end())
      fault("not one of the listed values");
    if (schema.contains("anyOf") &&
        std::none_of(schema["anyOf"].begin(), schema["anyOf"].end(),
                     [&](const Json& s) { return check(s, value, at).empty(); }))
      fault("fits none of the alternatives");
    if (schema.contains("type") && !has_type(value, schema["type"])) {
      fault("wrong type");
      return faults;
    }
    if (schema.contains("minimum") && value < schema["minimum"]) fault("below the minimum");
    if (value.is_object()) faults += check_object(schema, value, at);
    if (value.is_array()) faults += check_array(schema, value, at);
    return faults;
  }

 private:
  const Json& resolve(const std::string& reference) const {
    return root_.at(Json::json_pointer(reference.substr(1)));
  }
  std::string check_object(const Json& schema, const Json& value, const std::string& at) const {
    std::string faults;
    for (const Json& name : schema.value("required", Json::array()))
      if (!value.contains(name.get<std::string>()))
        faults += at + ": lacks '" + name.get<std::string>() + "'\n";
    const Json properties = schema.value("properties", Json::object());
    for (const auto& [name, item] : value.items()) {
      if (properties.contains(name)) {
        faults += check(properties[name], item, at + "." + name);
      } else if (schema.contains("additionalProperties")) {
        const Json& more = schema["additionalProperties"];
        if (more == false)
          faults += at + ": '" + name + "' is not in the schema\n";
        else if (more.is_object())
          faults += check(more, item, at + "." + name);
      }
    }
    return faults;
  }
  std::string check_array(const Json& schema, const Json& value, const std::string& at) const {
    std::string faults;
    if (schema.contains("minItems") && value.size() < schema["minItems"].get<std::size_t>())
      faults += at + ": too few items\n";
    if (schema.contains("maxItems") && value.size() > schema["maxItems"].get<std::size_t>())
      faults += at + ": too many items\n";
    if (!schema.contains("items")) return faults;
    for (std::size_t i = 0; i < value.size(); ++i)
      faults += check(schema["items"], value[i], at + "[" + std::to_string(i) + "]");
    return faults;
  }

  const Json& root_;
};

}  // namespace

std::string schema_faults(const Json& schema, const Json& value) {
  return Checker(schema).check(schema, value, "$");
}

}  // namespace driftc::tests
