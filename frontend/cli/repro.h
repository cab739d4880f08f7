// What is left behind when driftc itself is at fault (exit 4): a folder with everything needed to
// see it again.
#pragma once

#include "frontend/cli/session.h"

namespace driftc::frontend {

// For kInternal errors of a run: writes source.gir, compiled.gir, inputs/NAME.npy, every CUDA
// source (kernels/NAME.cu), error.txt and command.txt into a new folder below DRIFTC_DUMP_DIR or
// the system's temporary folder, and adds notes that name the folder and the command. Other errors
// pass through unchanged.
Diagnostic with_repro(Diagnostic error, Session& session,
                      const runtime::study::PairSettings& settings, const Context& context);

// Every kernel of the compiled graph as CUDA C++, distinct sources once, in order.
struct KernelSource {
  std::string entry, value, order, algorithm, source;
  std::vector<std::string> from;
};
Result<std::vector<KernelSource>> kernel_sources(const ir::Graph& compiled);

}  // namespace driftc::frontend
