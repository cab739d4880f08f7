#include "passes/docs.h"

#include <fmt/format.h>

#include "passes/inductor.h"

namespace driftc::passes {
namespace {

std::string_view mark(bool on) { return on ? "on" : "-"; }

std::string_view tuned_mark(const PassInfo& pass) {
  return is_tuned(pass) ? "tuned" : mark(enabled_in(pass, Mode::kMaxAutotune));
}

std::string code(std::string_view text) { return fmt::format("`{}`", text); }

// In a table cell a bar needs a backslash.
std::string cell(std::string_view text) {
  std::string out;
  for (char ch : text) {
    if (ch == '|') out += '\\';
    out += ch;
  }
  return out;
}

std::string effect(const PassInfo& pass) {
  std::string out(name_of(pass.effect));
  if (!pass.effect_note.empty()) out += fmt::format(" ({})", pass.effect_note);
  return out;
}

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + code(name);
  return out;
}

std::string mirrors(const PassInfo& pass) {
  const std::string names = joined(inductor_names_of(pass.name));
  return cell(pass.mirrors) + (names.empty() || pass.mirrors.empty() ? "" : ", ") + names;
}

// What a value of a knob asks for, or that it asks for nothing.
std::string words(std::string_view actions, std::string_view reason) {
  return actions.empty() ? std::string(reason) : code(actions);
}

std::string inductor_docs() {
  std::string out =
      "\n## Inductor's settings\n\n`--inductor NAME=VALUE` says what a setting of "
      "`torch._inductor.config` is here, sets that, and\n"
      "is overruled by `--passes` and `--set`. NAME may be the environment variable. The table is "
      "`passes/inductor.def`.\n\n"
      "| setting | default | effect | True | False |\n|---|---|---|---|---|\n";
  for (const InductorKnob& knob : inductor_knobs())
    if (answer_of(knob) == InductorAnswer::kMapped)
      out += fmt::format("| {} | {} | {} | {} | {} |\n", code(knob.name), knob.fallback,
                         knob.effect, words(knob.on, knob.reason), words(knob.off, knob.reason));
  for (const std::string& mode : mode_names())
    if (const auto names = inductor_names_of("mode=" + mode); !names.empty())
      out += fmt::format("\n`--mode {}`: {}\n", mode, joined(names));
  out +=
      "\nNo effect on a convolution:\n\n| setting | what it does | why it has none "
      "|\n|---|---|---|\n";
  for (const InductorKnob& knob : inductor_knobs())
    if (answer_of(knob) == InductorAnswer::kNoEffect)
      out += fmt::format("| {} | {} | {} |\n", code(knob.name), knob.what, knob.reason);
  out +=
      "\nAn effect in Inductor, nothing to set here (P precision, O order, A algorithm, R rounding "
      "points):\n\n"
      "| setting | effect | what it does | here |\n|---|---|---|---|\n";
  for (const InductorKnob& knob : inductor_knobs())
    if (answer_of(knob) == InductorAnswer::kNotHere)
      out += fmt::format("| {} | {} | {} | {} |\n", code(knob.name), knob.effect, knob.what,
                         knob.reason);
  return out;
}

}  // namespace

std::string render_pass_docs() {
  std::string out =
      "# Passes\n\n"
      "Generated from the table in `passes/registry.cpp` (`DRIFTC_BLESS=1 ./dev test "
      "-tc='*docs/passes.md*'` rewrites it).\n"
      "The order is fixed. Effect compares a pass's output with its input. Between the graph "
      "passes and the kernel\n"
      "passes `form-kernels` wraps every node in a kernel of its own; it always runs.\n\n"
      "| pass | works on | does | effect | in PyTorch |\n|---|---|---|---|---|\n";
  for (const PassInfo& pass : all_passes())
    out += fmt::format("| {} | {} | {} | {} | {} |\n", code(pass.name),
                       pass.phase == Phase::kGraph ? "graph" : "kernels", cell(pass.doc),
                       cell(effect(pass)), mirrors(pass));
  out +=
      "\n## Modes\n\n`--mode` starts from these; `--passes +NAME,-NAME` changes them; `--passes "
      "none|all` starts anew.\n"
      "In mode eager the compiled arm runs in the interpreter. reduce-overhead launches as one "
      "plan: same bits as default.\n\n"
      "| pass | eager | strict | default = reduce-overhead | max-autotune | `--passes=all` "
      "|\n|---|---|---|---|---|---|\n";
  for (const PassInfo& pass : all_passes())
    out +=
        fmt::format("| {} | {} | {} | {} | {} | {} |\n", code(pass.name),
                    mark(enabled_in(pass, Mode::kEager)), mark(enabled_in(pass, Mode::kStrict)),
                    mark(enabled_in(pass, Mode::kDefault)), tuned_mark(pass), mark(pass.on_in.all));
  out +=
      "\nstrict also sets `fuse-epilogue.f32-only=on` and `fuse-pointwise.emulate-casts=on`. "
      "`fallback` runs when\n"
      "`--fallback NODE,...` is given, `precision` when `--precision P` is.\n"
      "In max-autotune a tuner chooses what the passes marked *tuned* do to each convolution and "
      "matmul: it sets\ntheir option to `tuned`, and any other value takes the decision from it, "
      "as "
      "switching the pass off does.\nIts choices can be kept: `--tuning FILE` ([cli.md](cli.md), "
      "[adr/0007](adr/0007-tuning.md)).\n"
      "\n## Options\n\n`--set PASS.OPTION=VALUE`\n\n| option | default | accepts | meaning "
      "|\n|---|---|---|---|\n";
  for (const PassInfo& pass : all_passes())
    for (const OptionSpec& option : pass.options)
      out += fmt::format("| `{}.{}` | {} | {} | {} |\n", pass.name, option.name, option.fallback,
                         cell(option.accepts), cell(option.doc));
  return out + inductor_docs();
}

}  // namespace driftc::passes
