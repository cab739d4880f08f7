#include "frontend/cli/arguments.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <charconv>
#include <deque>

namespace driftc::frontend {

std::optional<std::string> Arguments::value(std::string_view flag) const {
  const std::vector<std::string>& given = all(flag);
  if (given.empty()) return std::nullopt;
  return given.back();
}

std::string Arguments::value_or(std::string_view flag, std::string_view fallback) const {
  return value(flag).value_or(std::string(fallback));
}

const std::vector<std::string>& Arguments::all(std::string_view flag) const {
  static const std::vector<std::string> kNone;
  auto found = values_.find(std::string(flag));
  return found == values_.end() ? kNone : found->second;
}

void Arguments::add(std::string_view flag, std::string value) {
  values_[std::string(flag)].push_back(std::move(value));
}

Result<std::optional<std::int64_t>> Arguments::integer(std::string_view flag, std::int64_t lowest,
                                                       std::int64_t highest) const {
  const std::optional<std::string> text = value(flag);
  if (!text) return std::optional<std::int64_t>();
  std::int64_t number = 0;
  auto [end, status] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (status != std::errc() || end != text->data() + text->size() || number < lowest ||
      number > highest)
    return input_error(fmt::format("{} takes an integer, not '{}'", flag, *text),
                       fmt::format("{} to {}", lowest, highest));
  return std::optional<std::int64_t>(number);
}

Result<std::string> Arguments::word(std::string_view flag, const std::vector<std::string>& words,
                                    std::string_view fallback) const {
  const std::string text = value_or(flag, fallback);
  if (std::find(words.begin(), words.end(), text) == words.end())
    return input_error(fmt::format("unknown value '{}' of {}", text, flag), name_hint(text, words));
  return text;
}

namespace {

std::vector<std::string> known_flags(const CommandSpec& spec) {
  std::vector<std::string> flags;
  for (const OptionGroup& group : spec.groups)
    for (const OptionRow& row : group.rows) flags.emplace_back(row.flag);
  flags.emplace_back("--help");
  return flags;
}

std::string usage_hint(const CommandSpec& spec) {
  return fmt::format("driftc {} -h shows the options and two examples", spec.name);
}

Diagnostic unknown_argument(const CommandSpec& spec, const std::string& argument) {
  if (argument.starts_with("-")) {
    const std::string flag = argument.substr(0, argument.find('='));
    const std::string near = nearest_name(flag, known_flags(spec));
    return input_error(fmt::format("unknown option '{}' of driftc {}", flag, spec.name),
                       near.empty() ? usage_hint(spec) : fmt::format("did you mean '{}'?", near));
  }
  return input_error(fmt::format("unexpected argument '{}'", argument), usage_hint(spec));
}

}  // namespace

Result<Arguments> parse_arguments(const CommandSpec& spec, std::span<const std::string> arguments) {
  Arguments out;
  for (const std::string& argument : arguments)
    if (argument == "-h" || argument == "--help") {
      out.add("--help", "");
      return out;
    }

  // CLI11 would read --flag=no as a switch that is off.
  for (const OptionGroup& group : spec.groups)
    for (const OptionRow& row : group.rows)
      for (const std::string& argument : arguments)
        if (row.value.empty() && argument.starts_with(std::string(row.flag) + "="))
          return input_error(fmt::format("{} takes no value", row.flag), usage_hint(spec));

  CLI::App app{std::string(spec.summary), std::string(spec.name)};
  app.set_help_flag();
  app.allow_extras();
  std::deque<std::vector<std::string>> storage;  // CLI11 keeps references
  std::vector<std::pair<const OptionRow*, CLI::Option*>> options;
  for (const OptionGroup& group : spec.groups)
    for (const OptionRow& row : group.rows) {
      CLI::Option* option = nullptr;
      if (row.value.empty()) {
        option = app.add_flag(std::string(row.flag));
        option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
      } else {
        option = app.add_option(std::string(row.flag), storage.emplace_back());
        option->allow_extra_args(false);
      }
      options.emplace_back(&row, option);
    }
  std::deque<std::string> words;
  std::vector<CLI::Option*> positionals;
  for (const Positional& positional : spec.positionals)
    positionals.push_back(app.add_option(std::string(positional.name), words.emplace_back()));
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    app.parse(reversed);
  } catch (const CLI::ArgumentMismatch&) {
    // The last flag without its value: "--batch" at the end, or before another flag.
    for (std::size_t i = 0; i < arguments.size(); ++i)
      for (const auto& [row, option] : options)
        if (arguments[i] == row->flag && !row->value.empty() &&
            (i + 1 == arguments.size() || arguments[i + 1].starts_with("--")))
          return input_error(
              fmt::format("{} needs a value: {} {}", row->flag, row->flag, row->value),
              usage_hint(spec));
    return input_error("an option lacks its value", usage_hint(spec));
  } catch (const CLI::Error& error) {
    return input_error(error.what(), usage_hint(spec));
  }

  const std::vector<std::string> extras = app.remaining();
  for (const std::string& extra : extras)
    if (extra != "--") return unknown_argument(spec, extra);
  for (const auto& [row, option] : options) {
    if (option->count() == 0) continue;
    if (row->value.empty()) {
      out.add(row->flag, "");
      continue;
    }
    if (option->count() > 1 && !row->repeatable)
      return input_error(fmt::format("{} is given {} times", row->flag, option->count()),
                         "give it once");
    for (const std::string& value : option->results()) out.add(row->flag, value);
  }
  for (std::size_t i = 0; i < positionals.size(); ++i) {
    const std::string_view name = spec.positionals[i].name;
    if (positionals[i]->count() == 0) {
      if (!spec.positionals[i].required) break;
      return input_error(
          fmt::format("driftc {} needs {}: {}", spec.name, name, spec.positionals[i].doc),
          usage_hint(spec));
    }
    out.add(name, positionals[i]->results().front());
  }
  return out;
}

namespace {

constexpr std::size_t kWidth = 100;
constexpr std::size_t kDocColumn = 34;

// `doc` in lines of at most kWidth, starting after `head`, which is moved to its own line when it
// is long.
std::string wrapped(const std::string& head, std::string_view doc) {
  std::string out = head;
  std::size_t column = head.size();
  if (column + 2 > kDocColumn) {
    out += '\n';
    column = 0;
  }
  out += std::string(kDocColumn - column, ' ');
  column = kDocColumn;
  bool first = true;
  while (!doc.empty()) {
    const std::size_t space = std::min(doc.find(' '), doc.size());
    if (!first && column + 1 + space > kWidth) {
      out += '\n' + std::string(kDocColumn, ' ');
      column = kDocColumn;
      first = true;
    }
    if (!first) {
      out += ' ';
      ++column;
    }
    out += doc.substr(0, space);
    column += space;
    first = false;
    doc.remove_prefix(std::min(doc.size(), space + 1));
  }
  return out + '\n';
}

}  // namespace

std::string help_text(const CommandSpec& spec) {
  std::string out =
      fmt::format("driftc {}: {}\n\nusage: driftc {}", spec.name, spec.summary, spec.name);
  for (const Positional& p : spec.positionals)
    out += p.required ? fmt::format(" {}", p.name) : fmt::format(" [{}]", p.name);
  if (!spec.groups.empty()) out += " [options]";
  out += "\n";
  for (const Positional& p : spec.positionals) out += wrapped(fmt::format("  {}", p.name), p.doc);
  for (const OptionGroup& group : spec.groups) {
    out += fmt::format("\n{}\n", group.title);
    for (const OptionRow& row : group.rows)
      out += wrapped(fmt::format("  {}{}{}", row.flag, row.value.empty() ? "" : " ", row.value),
                     row.doc);
  }
  if (!spec.notes.empty()) {
    out += "\n";
    for (std::string_view note : spec.notes) out += fmt::format("{}\n", note);
  }
  out += "\nexamples\n";
  for (std::string_view example : spec.examples) out += fmt::format("  {}\n", example);
  return out;
}

}  // namespace driftc::frontend
