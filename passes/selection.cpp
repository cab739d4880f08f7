#include "passes/selection.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "passes/form_kernels.h"

namespace driftc::passes {
namespace {

constexpr std::array<std::string_view, 5> kModes = {"eager", "strict", "default", "reduce-overhead",
                                                    "max-autotune"};

// What a mode sets beside switching passes on. Strict keeps eager's rounding between 16-bit ops.
struct ModeOption {
  Mode mode;
  std::string_view key, value;
};
constexpr std::array kModeOptions = {
    ModeOption{Mode::kStrict, "fuse-epilogue.f32-only", "on"},
    ModeOption{Mode::kStrict, "fuse-pointwise.emulate-casts", "on"},
    ModeOption{Mode::kMaxAutotune, "choose-algorithm.algorithm", "tuned"},
    ModeOption{Mode::kMaxAutotune, "split-k.slices", "tuned"},
    ModeOption{Mode::kMaxAutotune, "bias-first.when", "tuned"},
    ModeOption{Mode::kMaxAutotune, "choose-tiling.block", "tuned"}};

class Switches {
 public:
  explicit Switches(std::span<const PassInfo> table) : table_(table), on_(table.size()) {}

  void set_where(const std::function<bool(const PassInfo&)>& condition) {
    for (std::size_t i = 0; i < table_.size(); ++i) on_[i] = condition(table_[i]);
  }
  Result<void> set(std::string_view name, bool on) {
    if (name == kFormKernels)
      return input_error("'form-kernels' is no switch: it always runs", "leave it out of --passes");
    const PassInfo* pass = find_pass(table_, name);
    if (pass == nullptr)
      return input_error(fmt::format("unknown pass '{}'", name),
                         name_hint(name, pass_names(table_)));
    on_[static_cast<std::size_t>(pass - table_.data())] = on;
    return {};
  }
  std::vector<std::string> enabled() const {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < table_.size(); ++i)
      if (on_[i]) names.emplace_back(table_[i].name);
    return names;
  }

 private:
  std::span<const PassInfo> table_;
  std::vector<bool> on_;
};

std::vector<std::string_view> words_of(std::string_view list) {
  std::vector<std::string_view> words;
  while (true) {
    const std::size_t comma = list.find(',');
    words.push_back(list.substr(0, comma));
    if (comma == std::string_view::npos) return words;
    list.remove_prefix(comma + 1);
  }
}

Result<void> apply_list(std::string_view list, Switches& switches) {
  const std::vector<std::string_view> words = words_of(list);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (word == "none" || word == "all") {
      if (i > 0)
        return input_error(fmt::format("--passes: '{}' must come first", word),
                           "for example --passes none,+fuse-epilogue");
      switches.set_where([&](const PassInfo& pass) { return word == "all" && pass.on_in.all; });
    } else if (word.starts_with('+') || word.starts_with('-')) {
      DRIFTC_CHECK(switches.set(word.substr(1), word[0] == '+'));
    } else if (word.empty()) {
      return input_error("--passes: an empty name in the list",
                         "write none, all, or +NAME and -NAME separated by commas");
    } else {
      return input_error(
          fmt::format("--passes: '{}' needs a sign", word),
          fmt::format("+{0} switches it on, -{0} off; none,+{0} runs it alone", word));
    }
  }
  return {};
}

}  // namespace

std::string_view name_of(Mode mode) { return kModes[static_cast<std::size_t>(mode)]; }
std::vector<std::string> mode_names() { return {kModes.begin(), kModes.end()}; }

bool enabled_in(const PassInfo& pass, Mode mode) {
  switch (mode) {
    case Mode::kEager:
      return false;
    case Mode::kStrict:
      return pass.on_in.strict;
    case Mode::kDefault:
    case Mode::kReduceOverhead:
      return pass.on_in.standard;
    case Mode::kMaxAutotune:
      return pass.on_in.tuned;
  }
  return false;
}

bool is_tuned(const PassInfo& pass) {
  return std::ranges::any_of(kModeOptions, [&](const ModeOption& option) {
    return option.mode == Mode::kMaxAutotune &&
           option.key.substr(0, option.key.find('.')) == pass.name;
  });
}

bool PassSelection::has(std::string_view name) const {
  return std::ranges::find(enabled, name) != enabled.end();
}

Result<PassSelection> select_passes(const SelectionRequest& request,
                                    std::span<const PassInfo> table) {
  PassSelection selection;
  if (!request.mode.empty()) {
    const auto found = std::ranges::find(kModes, request.mode);
    if (found == kModes.end())
      return input_error(fmt::format("unknown mode '{}'", request.mode),
                         fmt::format("modes: {}", fmt::join(kModes, ", ")));
    selection.mode = static_cast<Mode>(found - kModes.begin());
  }
  for (const ModeOption& option : kModeOptions)
    if (option.mode == selection.mode)
      selection.options.set(std::string(option.key), std::string(option.value));
  for (const std::string& text : request.sets) {
    DRIFTC_CHECK(set_option(selection.options, text));
    if (text.ends_with("=tuned") && selection.mode != Mode::kMaxAutotune)
      return input_error(fmt::format("--set {}: only mode max-autotune has a tuner", text),
                         "--mode max-autotune");
  }

  Switches switches(table);
  switches.set_where([&](const PassInfo& pass) { return enabled_in(pass, selection.mode); });
  if (request.fallback_named) DRIFTC_CHECK(switches.set("fallback", true));
  if (request.precision_named) DRIFTC_CHECK(switches.set("precision", true));
  if (!request.passes.empty()) DRIFTC_CHECK(apply_list(request.passes, switches));
  selection.enabled = switches.enabled();
  if (request.fallback_named && !selection.has("fallback")) {
    // none and all leave it alone; only an explicit -fallback switches it off.
    const auto words = words_of(request.passes);
    if (std::ranges::find(words, "-fallback") == words.end()) {
      DRIFTC_CHECK(switches.set("fallback", true));
      selection.enabled = switches.enabled();
    }
  }
  if (request.precision_named && !selection.has("precision")) {
    const auto words = words_of(request.passes);
    if (std::ranges::find(words, "-precision") == words.end()) {
      DRIFTC_CHECK(switches.set("precision", true));
      selection.enabled = switches.enabled();
    }
  }
  if (selection.has("precision") && !request.precision_named)
    selection.notes.push_back("precision has no effect without --precision P");
  for (const std::string& text : request.sets) {
    const std::string pass = text.substr(0, text.find('.'));
    if (!selection.has(pass))
      selection.notes.push_back(fmt::format("--set {} has no effect: {} is off", text, pass));
  }
  if (selection.has("fallback") && !request.fallback_named)
    return input_error("--passes: 'fallback' needs to know for which nodes",
                       "name them: --fallback NODE,...");
  return selection;
}

Result<PassSelection> select_listed(const std::vector<std::string>& names,
                                    std::span<const PassInfo> table) {
  PassSelection selection;
  Switches switches(table);
  for (const std::string& name : names)
    if (name != kFormKernels) DRIFTC_CHECK(switches.set(name, true));
  selection.enabled = switches.enabled();
  return selection;
}

}  // namespace driftc::passes
