#include "passes/docs.h"

#include <fmt/format.h>

#include "passes/selection.h"

namespace driftc::passes {
namespace {

std::string_view mark(bool on) { return on ? "on" : "-"; }

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
      "| pass | eager | strict | default = reduce-overhead | `--passes=all` "
      "|\n|---|---|---|---|---|\n";
  for (const PassInfo& pass : all_passes())
    out += fmt::format("| {} | {} | {} | {} | {} |\n", code(pass.name),
                       mark(enabled_in(pass, Mode::kEager)), mark(enabled_in(pass, Mode::kStrict)),
                       mark(enabled_in(pass, Mode::kDefault)), mark(pass.on_in.all));
  out +=
      "\nstrict also sets `fuse-epilogue.f32-only=on` and `fuse-pointwise.emulate-casts=on`. "
      "`fallback` runs when\n"
      "`--fallback NODE,...` is given, `precision` when `--precision P` is.\n"
      "\n## Options\n\n`--set PASS.OPTION=VALUE`\n\n| option | default | accepts | meaning "
      "|\n|---|---|---|---|\n";
  for (const PassInfo& pass : all_passes())
    for (const OptionSpec& option : pass.options)
      out += fmt::format("| `{}.{}` | {} | {} | {} |\n", pass.name, option.name, option.fallback,
                         cell(option.accepts), cell(option.doc));
  return out;
}

}  // namespace driftc::passes
