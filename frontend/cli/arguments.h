// The command line as data: what an option is called, and what a user gave. An option is one row of
// a table (options.cpp); parsing, help and "did you mean" all follow from the rows. Values stay
// text here: the code that uses a value checks it and says what it would accept.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/support/result.h"

namespace driftc::frontend {

struct OptionRow {
  std::string_view flag;   // "--batch"
  std::string_view value;  // placeholder of its value, "N"; "" for a switch
  std::string_view doc;
  bool repeatable = false;
};
struct OptionGroup {
  std::string_view title;
  std::span<const OptionRow> rows;
};

struct Positional {
  std::string_view name;  // "MODEL"
  std::string_view doc;
  bool required = true;  // those that are not come last
};

// What the user gave, by flag; positionals by their name.
class Arguments {
 public:
  bool has(std::string_view flag) const { return values_.count(std::string(flag)) != 0; }
  // The value of a flag that takes one; empty when it was not given.
  std::optional<std::string> value(std::string_view flag) const;
  std::string value_or(std::string_view flag, std::string_view fallback) const;
  const std::vector<std::string>& all(std::string_view flag) const;
  void add(std::string_view flag, std::string value);
  // An integer in [lowest, highest]; the error names the flag and the range.
  Result<std::optional<std::int64_t>> integer(std::string_view flag, std::int64_t lowest,
                                              std::int64_t highest) const;
  // One of `words`; the error suggests the nearest. `fallback` when not given.
  Result<std::string> word(std::string_view flag, const std::vector<std::string>& words,
                           std::string_view fallback) const;

 private:
  std::map<std::string, std::vector<std::string>> values_;
};

// What a command accepts and what its help says.
struct CommandSpec {
  std::string_view name, summary;
  std::vector<Positional> positionals;
  std::vector<OptionGroup> groups;
  std::vector<std::string_view> examples;  // complete command lines
  std::vector<std::string_view> notes;     // lines after the options
};

// Arguments after the command's name. `-h` and `--help` set "--help" and check nothing else.
Result<Arguments> parse_arguments(const CommandSpec& spec, std::span<const std::string> arguments);
std::string help_text(const CommandSpec& spec);

}  // namespace driftc::frontend
