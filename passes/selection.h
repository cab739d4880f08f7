// Which passes run, with which options: modes, `--passes` and `--set`.
//   --passes LIST   LIST := [none|all] {","  (+NAME|-NAME)}; without none or all it starts from the
//   mode's passes all             every pass but match-order and fallback, which act only when
//   asked for
// Later words win. Unknown names are errors with a hint.
#pragma once

#include "passes/registry.h"

namespace driftc::passes {

// kEager: no passes, and the compiled arm runs in the interpreter (the caller's doing).
// kReduceOverhead: the passes of kDefault, launched as one plan.
// kMaxAutotune: algorithms, tiles, splits and bias points as a tuner chose them
// (PassContext::tuned).
enum class Mode : std::uint8_t { kEager, kStrict, kDefault, kReduceOverhead, kMaxAutotune };
std::string_view name_of(Mode mode);
std::vector<std::string> mode_names();
bool enabled_in(const PassInfo& pass, Mode mode);
// Whether the tuner of max-autotune decides what the pass does to each kernel.
bool is_tuned(const PassInfo& pass);

struct SelectionRequest {
  std::string mode = {};               // "": default
  std::string passes = {};             // "": the mode's
  std::vector<std::string> sets = {};  // PASS.OPTION=VALUE
  bool fallback_named = false;         // --fallback was given: the pass `fallback` is on
  bool precision_named = false;        // --precision was given: the pass `precision` is on
};

struct PassSelection {
  Mode mode = Mode::kDefault;
  std::vector<std::string> enabled;  // in table order
  Options options;
  std::vector<std::string> notes;  // settings without effect, for stderr
  bool has(std::string_view name) const;
};

Result<PassSelection> select_passes(const SelectionRequest& request,
                                    std::span<const PassInfo> table = all_passes());
// Exactly the named passes of the table; `form-kernels` may be named, it always runs before kernel
// passes.
Result<PassSelection> select_listed(const std::vector<std::string>& names,
                                    std::span<const PassInfo> table = all_passes());

}  // namespace driftc::passes
