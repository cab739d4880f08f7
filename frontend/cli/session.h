// What every command that runs a model needs: the graph, its inputs, a kernel cache and threads.
#pragma once

#include <memory>

#include "frontend/cli/command.h"
#include "frontend/cli/model.h"
#include "runtime/study/pair_run.h"

namespace driftc::frontend {

// The kernel cache of this process: the disk cache of the settings, the PTX recorded in the
// repository above the binary, and NVRTC where there is one.
std::unique_ptr<codegen::KernelCache> open_kernel_cache(const Settings& settings,
                                                        LibraryReport* report = nullptr);
// Folders of recorded PTX: tests/models/recorded-ptx in a folder above the binary.
std::vector<std::string> recorded_folders();

class Session {
 public:
  // Loads MODEL. Inputs come from --input, else random:0.
  static Result<std::unique_ptr<Session>> open(const Arguments& arguments, const Context& context);

  const Model& model() const { return model_; }
  const ir::Graph& graph() const { return model_.graph; }
  // Reads or generates the inputs, once; says on stderr which are generated because nobody named
  // them.
  Result<const std::vector<runtime::study::NamedTensor>*> inputs();
  const runtime::study::Services& services() const { return *services_; }
  Progress& progress() { return progress_; }

 private:
  Session(Model model, const Context& context, int threads);
  Model model_;
  bool any_input_given_ = false;
  Progress progress_;
  std::unique_ptr<codegen::KernelCache> cache_;
  runtime::ThreadPool pool_;
  std::unique_ptr<runtime::study::Services> services_;
  std::vector<runtime::study::NamedTensor> inputs_;
};

}  // namespace driftc::frontend
