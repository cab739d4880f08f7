// --print-after: the graph as passes leave it, on stderr, as text that driftc reads again.
#pragma once

#include "frontend/cli/session.h"

namespace driftc::frontend {

// `pass` is a name of the table (or form-kernels) that runs under these settings, `all`, or
// `changed`.
Result<void> check_print_after(const std::string& pass,
                               const runtime::study::PairSettings& settings);
Result<void> print_after(const std::string& pass, Session& session,
                         const runtime::study::PairSettings& settings);

}  // namespace driftc::frontend
