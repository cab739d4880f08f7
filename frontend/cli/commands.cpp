#include <array>

#include "frontend/cli/command.h"

namespace driftc::frontend {

std::span<const Command> commands() {
  static const std::array kCommands = {compare_command(),    judge_command(),     certify_command(),
                                       run_command(),        show_command(),      bench_command(),
                                       eager_plan_command(), gpu_check_command(), passes_command(),
                                       devices_command(),    zoo_command(),       doctor_command()};
  return kCommands;
}

}  // namespace driftc::frontend
