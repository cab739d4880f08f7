// A command: what it accepts and what it does. One file per command; the table is in commands.cpp.
#pragma once

#include <functional>
#include <span>

#include "frontend/cli/arguments.h"
#include "frontend/cli/output.h"
#include "frontend/report/json_text.h"
#include "frontend/report/table.h"
#include "ir/support/env.h"

namespace driftc::frontend {

// What a command knows about the process it runs in.
struct Context {
  Settings settings;
  Terminal terminal;
  std::string command_line;  // as typed, for repro folders

  TextStyle style(bool to_stderr) const;
};

struct Command {
  CommandSpec spec;
  // The exit code, or an error whose kind decides it.
  Result<int> (*run)(const Arguments& arguments, const Context& context);
};

std::span<const Command> commands();

Command bench_command();
Command certify_command();
Command compare_command();
Command devices_command();
Command doctor_command();
Command eager_plan_command();
Command gpu_check_command();
Command judge_command();
Command passes_command();
Command run_command();
Command show_command();
Command zoo_command();

// Prints the table, and the JSON where --json asks for it: with `-` the table goes to stderr.
// `table` is rendered for the stream it goes to.
Result<void> emit(const Arguments& arguments, const Context& context,
                  const std::function<std::string(const TextStyle&)>& table,
                  const std::function<Json()>& json);

// The whole program: main without the environment.
int run_cli(std::span<const std::string> arguments, const Context& context);

}  // namespace driftc::frontend
