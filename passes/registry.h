// The one table of passes, in the order in which they run, and look-ups in it.
#pragma once

#include "passes/pass.h"

namespace driftc::passes {

std::span<const PassInfo> all_passes();
std::vector<std::string> pass_names(std::span<const PassInfo> table);
const PassInfo* find_pass(std::span<const PassInfo> table, std::string_view name);

// Sets an option from "PASS.OPTION=VALUE". Errors name what is unknown and what would be accepted.
Result<void> set_option(Options& options, std::string_view text);

}  // namespace driftc::passes
