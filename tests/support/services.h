// What tests need to run kernels: one thread pool and one kernel cache for the whole program.
#pragma once

#include <string>

#include "ir/graph.h"
#include "runtime/study/pair_run.h"

namespace driftc::tests {

// NVRTC, or recorded PTX, behind the user's cache folder. Shared by all cases of the program, so
// that a kernel is compiled once.
codegen::KernelCache& kernel_cache();
runtime::ThreadPool& thread_pool();
runtime::study::Services services();
// False without NVRTC: the case prints "[skip] ..." and returns.
bool kernels_available(const std::string& what);

runtime::DeviceProfile device(const std::string& name = "h200");
// Settings with the given mode and pass list; asserts that they are valid.
runtime::study::PairSettings settings(const std::string& mode, const std::string& passes = "",
                                      const std::vector<std::string>& sets = {});
ir::Graph parse(const std::string& text);
ir::Graph zoo(const std::string& name);
std::vector<runtime::study::NamedTensor> random_inputs(const ir::Graph& graph, std::uint64_t seed);
// Runs and requires success.
runtime::study::PairReport compare(const ir::Graph& graph,
                                   const std::vector<runtime::study::NamedTensor>& inputs,
                                   const runtime::study::PairSettings& settings);
// "name: verdict (fault or causes)" of every value that is not identical, for messages.
std::string findings(const runtime::study::PairReport& report);

}  // namespace driftc::tests
