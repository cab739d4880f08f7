#include "passes/docs.h"

#include <fmt/format.h>

#include "passes/selection.h"

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

}  // namespace

std::string render_pass_docs() {
  std::string out =
      "# Passes\n\n"
      "Generated from the table in `passes/registry.cpp` (`DRIFTC_BLESS=1 ./dev test "
      "-tc='*docs/passes.md*'` rewrites it).\n"
      "The order is fixed. Effect compares a pass's output with its input. Between the graph "
      "passes and the kernel\n"
      "passes `form-kernels` wraps every node in a kernel of its own; it always runs.\n\n"
      "| pass | works on | does | effect | mirrors in Inductor |\n|---|---|---|---|---|\n";
  for (const PassInfo& pass : all_passes())
    out += fmt::format("| {} | {} | {} | {} | {} |\n", code(pass.name),
                       pass.phase == Phase::kGraph ? "graph" : "kernels", cell(pass.doc),
                       cell(effect(pass)), cell(pass.mirrors));
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
  return out;
}

}  // namespace driftc::passes
