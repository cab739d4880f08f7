#include "passes/inductor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace driftc::passes {
namespace {

constexpr std::array kKnobs = {
#define KNOB(name, values, fallback, environment, effect, what, on, off, reason) \
  InductorKnob{name, #values, fallback, environment, effect, what, on, off, reason},
#include "passes/inductor.def"
#undef KNOB
};

constexpr std::string_view kPrefix = "torch._inductor.config.", kModeWord = "mode=";
constexpr std::string_view kDeterministic = "--deterministic";

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::size_t blank = std::min(text.find(' '), text.size());
    words.emplace_back(text.substr(0, blank));
    text.remove_prefix(std::min(blank + 1, text.size()));
  }
  return words;
}

bool is_switch(std::string_view word) {
  return word[0] == '+' || (word[0] == '-' && word[1] != '-');
}
bool is_mode(std::string_view word) { return word.starts_with(kModeWord); }
bool is_option(std::string_view word) {
  return !is_switch(word) && !is_mode(word) && word != kDeterministic;
}

// The pass a word is about; "" for a mode or a flag.
std::string_view pass_of(std::string_view word) {
  if (is_switch(word)) return word.substr(1);
  return is_option(word) ? word.substr(0, word.find('.')) : std::string_view();
}

const InductorKnob* find_knob(std::string_view key) {
  if (key.starts_with(kPrefix)) key.remove_prefix(kPrefix.size());
  const auto found = std::ranges::find_if(kKnobs, [&](const InductorKnob& knob) {
    return knob.name == key || (!knob.environment.empty() && knob.environment == key);
  });
  return found == kKnobs.end() ? nullptr : &*found;
}

// The value as Inductor writes it; empty when it is not accepted.
std::optional<std::string> canonical(const InductorKnob& knob, std::string_view value) {
  if (knob.accepts == "TEXT") return std::string(value);
  if (knob.accepts == "COUNT") {
    const bool digits = !value.empty() && value.size() <= 9 &&
                        std::ranges::all_of(value, [](char c) { return c >= '0' && c <= '9'; });
    return digits ? std::optional(std::string(value)) : std::nullopt;
  }
  for (const std::string_view yes : {"True", "true", "1"})
    if (value == yes) return "True";
  for (const std::string_view no : {"False", "false", "0"})
    if (value == no) return "False";
  return std::nullopt;
}

std::string_view accepted_values(const InductorKnob& knob) {
  return knob.accepts == "COUNT" ? "accepted: an integer from 0" : "accepted: True, False, 1, 0";
}

}  // namespace

std::span<const InductorKnob> inductor_knobs() { return kKnobs; }

InductorAnswer answer_of(const InductorKnob& knob) {
  if (!knob.on.empty() || !knob.off.empty()) return InductorAnswer::kMapped;
  return knob.effect == "N" ? InductorAnswer::kNoEffect : InductorAnswer::kNotHere;
}

std::string_view name_of(InductorAnswer answer) {
  static constexpr std::array<std::string_view, 3> kNames = {"mapped", "no-effect", "not-here"};
  return kNames[static_cast<std::size_t>(answer)];
}

std::vector<std::string> inductor_names_of(std::string_view pass) {
  std::vector<std::string> names;
  for (const InductorKnob& knob : kKnobs) {
    std::vector<std::string> words = words_of(knob.on);
    for (std::string& word : words_of(knob.off)) words.push_back(std::move(word));
    if (std::ranges::any_of(words,
                            [&](const std::string& w) { return w == pass || pass_of(w) == pass; }))
      names.emplace_back(knob.name);
  }
  return names;
}

std::string explain(const InductorSetting& setting) {
  const InductorKnob& knob = *setting.knob;
  const std::string given = fmt::format("--inductor {}={}", knob.name, setting.value);
  if (setting.actions.empty()) {
    if (answer_of(knob) == InductorAnswer::kMapped)
      return fmt::format("{} changes nothing: {}", given, knob.reason);
    if (answer_of(knob) == InductorAnswer::kNoEffect)
      return fmt::format("{} has no effect on a convolution: {}", given, knob.reason);
    return fmt::format("{} sets nothing here: {}", given, knob.reason);
  }
  std::string switches, rest;
  for (const std::string& word : setting.actions) {
    if (is_switch(word))
      switches += (switches.empty() ? " --passes=" : ",") + word;
    else if (is_mode(word))
      rest += " --mode " + word.substr(kModeWord.size());
    else
      rest += is_option(word) ? " --set " + word : " " + word;
  }
  return fmt::format("{} is{}{}", given, switches, rest);
}

Result<std::vector<InductorSetting>> parse_inductor(const std::vector<std::string>& texts) {
  std::vector<InductorSetting> settings;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      return input_error(fmt::format("--inductor {}: not of the form KEY=VALUE", text),
                         "for example --inductor conv_1x1_as_mm=True");
    const std::string key = text.substr(0, equals), value = text.substr(equals + 1);
    const InductorKnob* knob = find_knob(key);
    if (knob == nullptr) {
      std::vector<std::string> names;
      for (const InductorKnob& known : kKnobs) names.emplace_back(known.name);
      return input_error(fmt::format("--inductor: unknown setting '{}'", key),
                         name_hint(key, names));
    }
    const std::optional<std::string> read = canonical(*knob, value);
    if (!read)
      return input_error(fmt::format("--inductor {}: '{}' is not accepted", key, value),
                         std::string(accepted_values(*knob)));
    if (std::ranges::any_of(settings, [&](const InductorSetting& s) { return s.knob == knob; }))
      return input_error(fmt::format("--inductor {} is given twice", knob->name));
    settings.push_back({knob, *read, {}});
    if (knob->accepts == "BOOL")
      settings.back().actions = words_of(*read == "True" ? knob->on : knob->off);
  }
  return settings;
}

Result<void> add_inductor(std::span<const InductorSetting> settings, SelectionRequest& request) {
  std::string switches;
  for (const InductorSetting& setting : settings)
    for (const std::string& word : setting.actions) {
      if (is_switch(word)) switches += (switches.empty() ? "" : ",") + word;
      if (!is_mode(word)) continue;
      const std::string mode = word.substr(kModeWord.size());
      if (!request.mode.empty() && request.mode != mode)
        return input_error(fmt::format("--inductor {}={} is --mode {}, and {} is asked for too",
                                       setting.knob->name, setting.value, mode, request.mode),
                           "leave one of them out");
      request.mode = mode;
    }
  if (switches.empty()) return {};
  // none and all start anew, so they stay in front.
  const std::string& list = request.passes;
  const std::size_t comma = std::min(list.find(','), list.size());
  const bool starts_anew = list.substr(0, comma) == "none" || list.substr(0, comma) == "all";
  if (list.empty())
    request.passes = switches;
  else if (starts_anew)
    request.passes = list.substr(0, comma) + "," + switches + list.substr(comma);
  else
    request.passes = switches + "," + list;
  return {};
}

Result<void> finish_inductor(std::span<const InductorSetting> settings,
                             const SelectionRequest& request, PassSelection& selection) {
  for (const InductorSetting& setting : settings)
    for (const std::string& word : setting.actions) {
      const std::string name(pass_of(word));
      const auto overruled = [&](std::string_view flag) {
        selection.notes.push_back(fmt::format("--inductor {}={}: {} overrules {}",
                                              setting.knob->name, setting.value, flag, word));
      };
      if (is_switch(word) && selection.has(name) != (word[0] == '+')) overruled("a later word");
      if (!is_option(word)) continue;
      const std::string key = word.substr(0, word.find('='));
      const bool set_by_user = std::ranges::any_of(
          request.sets, [&](const std::string& text) { return text.starts_with(key + "="); });
      if (set_by_user) {
        if (selection.options.get(key) != word.substr(key.size() + 1)) overruled("--set");
        continue;
      }
      DRIFTC_CHECK(set_option(selection.options, word));
      if (!selection.has(name))
        selection.notes.push_back(fmt::format("--inductor {}={}: {} waits for {}, which is off",
                                              setting.knob->name, setting.value, word, name));
    }
  return {};
}

bool asks_for_deterministic(std::span<const InductorSetting> settings) {
  return std::ranges::any_of(settings, [](const InductorSetting& s) {
    return std::ranges::find(s.actions, kDeterministic) != s.actions.end();
  });
}

}  // namespace driftc::passes
