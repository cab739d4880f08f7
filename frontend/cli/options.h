// The option rows of all commands, grouped as the help shows them. A command lists the groups it
// takes. Only options that work are here; a later option is one more row and the code that reads
// its value.
#pragma once

#include "frontend/cli/arguments.h"

namespace driftc::frontend {

extern const OptionGroup kInputOptions;     // --input, --batch, ...
extern const OptionGroup kCompileOptions;   // --mode, --passes, --set, --fallback, --device, ...
extern const OptionGroup kCheckOptions;     // --check
extern const OptionGroup kScheduleOptions;  // --schedules, --deterministic
extern const OptionGroup kEagerOptions;     // --eager, --eager-precision, --eager-order
extern const OptionGroup kCompareOptions;   // --reference, --sweep, --allow, ...
extern const OptionGroup kReportOptions;    // --json, --save-dir, --timings, --print-after
extern const OptionGroup kJsonOption;       // --json alone
extern const OptionGroup kThreadOptions;    // --threads

}  // namespace driftc::frontend
