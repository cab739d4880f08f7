#include <string>
#include <vector>

#include "frontend/cli/command.h"
#include "frontend/cli/interrupt.h"

int main(int argc, char** argv) {
  using namespace driftc;
  frontend::watch_for_interrupts();
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  frontend::Context context{Settings::from_env(), frontend::Terminal::detect(), "driftc"};
  for (const std::string& argument : arguments)
    context.command_line += ' ' + frontend::shell_quoted(argument);
  frontend::report_crashes(context.command_line);
  return frontend::run_cli(arguments, context);
}
