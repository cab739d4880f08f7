// The program: finds the command, parses its arguments, runs it, and turns an error into its
// message and exit code. The only place that catches exceptions of libraries.
#include <fmt/format.h>
#include <langinfo.h>

#include <clocale>
#include <cstring>
#include <new>

#include "frontend/cli/command.h"
#include "frontend/report/version.h"

namespace driftc::frontend {
namespace {

std::string overview() {
  std::string out =
      "driftc: runs a convolutional network eagerly and compiled, and says of every value why the "
      "bits differ\n\n"
      "usage: driftc COMMAND ...\n";
  for (const Command& command : commands())
    out += fmt::format("  {:<10} {}\n", command.spec.name, command.spec.summary);
  return out +
         "  --version prints the version; -h after a command shows its options and two examples\n\n"
         "MODEL is an ONNX file, driftc's text IR (.gir), or zoo:NAME\n"
         "exit: 0 fine; 1 verdict not allowed; 2 bad usage or input; 3 something needed is "
         "missing; 4 internal "
         "error\n\n"
         "examples\n"
         "  driftc compare zoo:residual-block\n"
         "  driftc compare model.onnx --input image=images.npy --mode strict\n";
}

int fail(const Diagnostic& diagnostic) {
  const std::string text = diagnostic.render();
  std::fflush(stdout);
  std::fwrite(text.data(), 1, text.size(), stderr);
  return static_cast<int>(diagnostic.kind);
}

Diagnostic unknown_command(const std::string& name) {
  std::vector<std::string> names;
  for (const Command& command : commands()) names.emplace_back(command.spec.name);
  return input_error(fmt::format("unknown command '{}'", name), name_hint(name, names));
}

Result<int> dispatch(std::span<const std::string> arguments, const Context& context) {
  if (arguments.empty()) {
    DRIFTC_CHECK(print(overview(), /*to_stderr=*/true));
    return static_cast<int>(ErrorKind::kInput);
  }
  const std::string& first = arguments[0];
  if (first == "-h" || first == "--help" || first == "help") {
    DRIFTC_CHECK(print(overview()));
    return 0;
  }
  if (first == "--version") {
    DRIFTC_CHECK(print(fmt::format("driftc {}\n", kVersion)));
    return 0;
  }
  for (const Command& command : commands()) {
    if (command.spec.name != first) continue;
    DRIFTC_TRY(parsed, parse_arguments(command.spec, arguments.subspan(1)));
    if (parsed.has("--help")) {
      DRIFTC_CHECK(print(help_text(command.spec)));
      return 0;
    }
    return command.run(parsed, context);
  }
  return unknown_command(first);
}

// A terminal in another encoding would show UTF-8 as noise. Files and pipes always get the same
// bytes.
bool terminal_speaks_utf8() {
  std::setlocale(LC_CTYPE, "");
  const bool utf8 = std::strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
  std::setlocale(LC_CTYPE, "C");
  return utf8;
}

}  // namespace

TextStyle Context::style(bool to_stderr) const {
  const bool is_terminal = to_stderr ? terminal.stderr_is_terminal : terminal.stdout_is_terminal;
  return {.colour = is_terminal, .ascii = is_terminal && !terminal_speaks_utf8()};
}

Result<void> emit(const Arguments& arguments, const Context& context,
                  const std::function<std::string(const TextStyle&)>& table,
                  const std::function<Json()>& json) {
  const std::optional<std::string> file = arguments.value("--json");
  const bool to_stdout = file == "-";
  if (file && !to_stdout) DRIFTC_CHECK(write_file(*file, json_text(json())));
  if (to_stdout) DRIFTC_CHECK(print(json_text(json())));
  return print(table(context.style(to_stdout)), to_stdout);
}

int run_cli(std::span<const std::string> arguments, const Context& context) {
  try {
    const Result<int> result = dispatch(arguments, context);
    return result ? *result : fail(result.error());
  } catch (const std::bad_alloc&) {
    return fail(
        unavailable("not enough memory for this model and batch", "a smaller --batch needs less"));
  } catch (const std::exception& error) {
    return fail(internal_error(fmt::format("unexpected: {}", error.what()),
                               "this is a bug of driftc; please report the command line"));
  }
}

}  // namespace driftc::frontend
