// Inductor's names for what driftc's passes do: `--inductor KEY=VALUE` as switches, options or a
// mode, or the reason why it changes no convolution. The table is inductor.def. What is said
// explicitly
// (--mode, --passes, --set) has the last word.
#pragma once

#include "passes/selection.h"

namespace driftc::passes {

struct InductorKnob {
  std::string_view name;         // below torch._inductor.config
  std::string_view accepts;      // "BOOL", "COUNT" or "TEXT"
  std::string_view fallback;     // Inductor's default
  std::string_view environment;  // "" where no variable sets it
  std::string_view effect;       // on a forward convolution, as the table's head explains
  std::string_view what;
  std::string_view on, off;  // what True and False ask for, words with blanks between
  std::string_view reason;   // of a value that asks for nothing
};
std::span<const InductorKnob> inductor_knobs();

// kMapped: at least one value asks for something. kNoEffect: Inductor itself changes no convolution
// by it. kNotHere: it does, by something that driftc does not have or sets elsewhere.
enum class InductorAnswer : std::uint8_t { kMapped, kNoEffect, kNotHere };
InductorAnswer answer_of(const InductorKnob& knob);
std::string_view name_of(InductorAnswer answer);  // "mapped", "no-effect", "not-here"

// Names of the knobs whose words switch the pass or set one of its options; or, for "mode=MODE" and
// "--deterministic", of those that have this word.
std::vector<std::string> inductor_names_of(std::string_view pass);

// One KEY=VALUE of a user.
struct InductorSetting {
  const InductorKnob* knob;
  std::string value;                 // booleans as True or False, else as given
  std::vector<std::string> actions;  // the words it asks for; empty: see knob->reason
};
// "--inductor conv_1x1_as_mm=True is --passes +conv1x1-as-matmul", "... has no effect on a
// convolution: ...".
std::string explain(const InductorSetting& setting);

// KEY is a knob's name, also with torch._inductor.config. before it, or its environment variable;
// booleans are True, False, true, false, 1 or 0. Errors: an unknown KEY (with the nearest name), a
// VALUE that is not accepted, a KEY given twice.
Result<std::vector<InductorSetting>> parse_inductor(const std::vector<std::string>& texts);

// Adds what the settings ask for to a request; words of the user come after them. An error where
// they and --mode name two modes.
Result<void> add_inductor(std::span<const InductorSetting> settings, SelectionRequest& request);
// Sets the options they ask for, unless --set did, and adds a note for every word that the user's
// own words overruled or that a pass which is off ignores.
Result<void> finish_inductor(std::span<const InductorSetting> settings,
                             const SelectionRequest& request, PassSelection& selection);
bool asks_for_deterministic(std::span<const InductorSetting> settings);

}  // namespace driftc::passes
