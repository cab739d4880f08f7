#include <cstdio>
#include <string>
#include <vector>

#include "frontend/cli/command.h"
#include "frontend/cli/interrupt.h"
#include "runtime/ptx/path.h"

int main(int argc, char** argv) {
  using namespace driftc;
  frontend::watch_for_interrupts();
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  frontend::Context context{Settings::from_env(), frontend::Terminal::detect(), "driftc"};
  if (const std::string& name = context.settings.executor; !name.empty()) {
    runtime::ptx::Path path;
    if (!runtime::ptx::path_of(name, path)) {
      std::fprintf(stderr, "driftc: DRIFTC_EXECUTOR is '%s'; it can be portable, avx2 or avx512\n",
                   name.c_str());
      return 2;
    }
    runtime::ptx::limit_path(path);
  }
  for (const std::string& argument : arguments)
    context.command_line += ' ' + frontend::shell_quoted(argument);
  frontend::report_crashes(context.command_line);
  return frontend::run_cli(arguments, context);
}
