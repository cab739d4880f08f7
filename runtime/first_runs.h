// For test programs: the first run of every kernel in checked mode (runtime/ptx/check.h), so that
// each kernel they run was checked once.
#pragma once

#include <cstddef>

namespace driftc::runtime {

// From now on, and for the whole process, the first run of a program by runtime::run is checked,
// whatever its options say.
void check_first_runs();
// How many programs that were so far.
std::size_t first_runs_checked();

}  // namespace driftc::runtime
