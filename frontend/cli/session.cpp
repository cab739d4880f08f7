#include "frontend/cli/session.h"

#include <fmt/format.h>

#include <filesystem>

namespace driftc::frontend {

namespace fs = std::filesystem;
using runtime::study::NamedTensor;
using runtime::study::Services;

std::vector<std::string> recorded_folders() {
  std::error_code error;
  fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (int depth = 0; !error && depth < 8 && folder.has_relative_path(); ++depth) {
    const fs::path recorded = folder / "tests/models/recorded-ptx";
    std::error_code missing;
    if (fs::is_directory(recorded, missing)) return {recorded.string()};
    folder = folder.parent_path();
  }
  return {};
}

std::unique_ptr<codegen::KernelCache> open_kernel_cache(const Settings& settings,
                                                        LibraryReport* report) {
  Result<codegen::Nvrtc> nvrtc = codegen::Nvrtc::load(settings, report);
  std::optional<codegen::Nvrtc> compiler;
  if (nvrtc) compiler = *nvrtc;
  remove_unfinished_in(settings.cache_dir);
  return std::make_unique<codegen::KernelCache>(
      codegen::CacheOptions{settings.cache_dir, recorded_folders()}, std::move(compiler));
}

Session::Session(Model model, const Context& context, int threads)
    : model_(std::move(model)),
      progress_(context.terminal.stderr_is_terminal),
      cache_(open_kernel_cache(context.settings)),
      pool_(threads) {
  services_ = std::make_unique<Services>(
      Services{*cache_, pool_, [this](const std::string& line) { progress_.show(line); }});
}

Result<std::unique_ptr<Session>> Session::open(const Arguments& arguments, const Context& context) {
  DRIFTC_TRY(threads, arguments.integer("--threads", 1, 1024));
  DRIFTC_TRY(model, load_model(arguments));
  auto session = std::unique_ptr<Session>(
      new Session(std::move(model), context, static_cast<int>(threads.value_or(0))));
  session->any_input_given_ = arguments.has("--input");
  return session;
}

namespace {

// Both arms compute floats in f32 (importers widen and round to it); text IR can declare other
// types.
Result<void> check_types(const ir::Graph& graph) {
  for (const ir::Value& value : graph.values()) {
    const ir::DType dtype = value.type.dtype;
    if (dtype != ir::DType::kF32 && dtype != ir::DType::kI64)
      return input_error(
          fmt::format("value '{}' is {}: the floats of a graph that runs here are f32",
                      printable(value.name), ir::name_of(dtype)),
          "declare it f32; `--arm reference` computes in f64 whatever the graph declares");
  }
  return {};
}

}  // namespace

Result<const std::vector<NamedTensor>*> Session::inputs() {
  DRIFTC_CHECK(check_types(model_.graph));
  if (!inputs_.empty() || model_.inputs.empty()) return &inputs_;
  if (!any_input_given_) {
    std::string names;
    for (const ResolvedInput& input : model_.inputs)
      names += (names.empty() ? "" : ", ") + printable(input.declaration.name);
    note(fmt::format("no --input: {} = random:0", names));
  }
  for (const ResolvedInput& input : model_.inputs) {
    DRIFTC_TRY(tensor, make_input(input));
    inputs_.push_back({input.declaration.name, tensor});
  }
  return &inputs_;
}

}  // namespace driftc::frontend
