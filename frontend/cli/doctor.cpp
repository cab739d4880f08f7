// driftc doctor: what this machine offers, what is missing, how to get it.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "frontend/cli/options.h"
#include "frontend/cli/session.h"
#include "frontend/report/version.h"
#include "ir/support/round.h"
#include "runtime/cuda/cudnn_api.h"
#include "runtime/cuda/driver_api.h"
#include "runtime/ptx/path.h"

namespace driftc::frontend {
namespace {

namespace fs = std::filesystem;

struct Findings {
  LibraryReport nvrtc;
  std::string nvrtc_version;  // "" when there is none
  LibraryReport cudnn, driver;
  std::string cudnn_version, cudnn_error;  // one of them is ""
  runtime::cuda::DriverFacts driver_facts;
  std::string driver_error;
  std::string recorded;  // folder, or ""
  std::size_t recorded_files = 0;
  std::string cache;
  std::size_t cache_files = 0;
  bool cache_writable = false;
  unsigned processors = 1;
  bool fused = false;  // fma_rn rounds once
  bool works() const { return fused && (!nvrtc_version.empty() || recorded_files > 0); }
};

std::size_t count_files(const std::string& folder) {
  std::size_t count = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error))
    count += it->is_regular_file(error) &&
             it->path().filename().string().find(".tmp.") == std::string::npos;
  return count;
}

// Whether the folder, or the nearest one above it that exists, can be written.
bool can_write(const std::string& folder) {
  if (folder.empty()) return false;
  std::error_code error;
  fs::path path = fs::absolute(folder, error);
  while (!fs::exists(path, error) && path.has_relative_path()) path = path.parent_path();
  return ::access(path.c_str(), W_OK | X_OK) == 0;
}

Findings examine(const Context& context) {
  Findings f;
  const auto cache = open_kernel_cache(context.settings, &f.nvrtc);
  if (cache->compiler()) f.nvrtc_version = cache->compiler()->version();
  if (const auto cudnn = runtime::cuda::load_cudnn(context.settings, &f.cudnn); cudnn.ok())
    f.cudnn_version = (*cudnn)->version_text();
  else
    f.cudnn_error = cudnn.error().message;
  if (const auto driver = runtime::cuda::driver_facts(context.settings, &f.driver); driver.ok())
    f.driver_facts = *driver;
  else
    f.driver_error = driver.error().message;
  for (const std::string& folder : recorded_folders()) {
    f.recorded = folder;
    f.recorded_files = count_files(folder);
  }
  f.cache = context.settings.cache_dir;
  f.cache_files = f.cache.empty() ? 0 : count_files(f.cache);
  f.cache_writable = can_write(f.cache);
  f.processors = std::max(1u, std::thread::hardware_concurrency());
  // Unfused arithmetic and a detour through double both give 1 here.
  const volatile float a = 0x1.b11b1p-20f, b = 0x1.2ea2p-5f, c = 1.0f;
  f.fused = fma_rn(float{a}, float{b}, float{c}) == 0x1.000002p+0f;
  return f;
}

std::string text(const Findings& f, const TextStyle& style) {
  Table table({{""}, {""}});
  table.add({"driftc", std::string(kVersion)});
  table.add({"NVRTC", f.nvrtc_version.empty()
                          ? "not found"
                          : fmt::format("{} at {}", f.nvrtc_version, f.nvrtc.path)});
  table.add({"cuDNN", f.cudnn_version.empty()
                          ? f.cudnn_error + " (only eager-plan needs it)"
                          : fmt::format("{} at {}", f.cudnn_version, f.cudnn.path)});
  table.add({"CUDA driver",
             f.driver_error.empty()
                 ? fmt::format("for CUDA {} at {}", f.driver_facts.version, f.driver_facts.path)
                 : f.driver_error});
  table.add(
      {"recorded PTX",
       f.recorded.empty()
           ? "none beside this binary"
           : fmt::format("{} in {}", plural(static_cast<std::int64_t>(f.recorded_files), "kernel"),
                         f.recorded)});
  table.add(
      {"kernel cache",
       f.cache.empty()
           ? "off (no HOME; DRIFTC_CACHE_DIR names a folder)"
           : fmt::format(
                 "{} in {}{}", plural(static_cast<std::int64_t>(f.cache_files), "file"), f.cache,
                 f.cache_writable ? ""
                                  : ", which cannot be written: kernels are compiled every time")});
  table.add({"kernels run on",
             fmt::format("{}this CPU, by the PTX executor ({}), {}",
                         f.driver_facts.gpu.empty() ? "" : "the GPU (--executor cuda), or ",
                         runtime::ptx::name_of(runtime::ptx::best_path()),
                         plural(f.processors, "processor"))});
  table.add({"fused multiply-add", f.fused ? "rounds once, as it must" : "WRONG: rounds twice"});
  table.add({"GPU", !f.driver_error.empty() ? "none, and none is needed"
                    : !f.driver_facts.no_gpu.empty()
                        ? fmt::format("none ({}), and none is needed", f.driver_facts.no_gpu)
                    : f.driver_facts.gpu.empty() ? "none, and none is needed"
                                                 : f.driver_facts.gpu + ", the first of " +
                                                       plural(f.driver_facts.gpus, "GPU")});
  std::string out = table.render(style);
  if (f.nvrtc_version.empty()) {
    out += "\nNVRTC was looked for here (first the folders of DRIFTC_LIBRARY_PATH):\n";
    for (const LibraryAttempt& attempt : f.nvrtc.attempts)
      out += fmt::format("  {}: {}\n", attempt.path, attempt.outcome);
    out +=
        "get it: ./dev setup in the repository, or `pip install nvidia-cuda-nvrtc` and "
        "DRIFTC_LIBRARY_PATH\n";
  }
  out += f.works() ? f.nvrtc_version.empty()
                         ? "\ncompare works for the models whose PTX is recorded\n"
                         : "\ncompare works for every model\n"
                   : "\ncompare does not work here\n";
  return out;
}

Json json(const Findings& f) {
  auto attempts = [](const LibraryReport& report) {
    Json out = Json::array();
    for (const LibraryAttempt& attempt : report.attempts)
      out.push_back({{"path", attempt.path}, {"outcome", attempt.outcome}});
    return out;
  };
  auto or_null = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  return {
      {"schema", "driftc.doctor/1"},
      {"driftc", std::string(kVersion)},
      {"nvrtc",
       {{"version", or_null(f.nvrtc_version)},
        {"path", or_null(f.nvrtc.path)},
        {"attempts", attempts(f.nvrtc)}}},
      {"cudnn",
       {{"version", or_null(f.cudnn_version)},
        {"path", or_null(f.cudnn.path)},
        {"error", or_null(f.cudnn_error)},
        {"attempts", attempts(f.cudnn)}}},
      {"driver",
       {{"version", or_null(f.driver_facts.version)},
        {"path", or_null(f.driver.path)},
        {"error", or_null(f.driver_error)},
        {"gpus", f.driver_facts.gpus},
        {"no_gpu", or_null(f.driver_facts.no_gpu)},
        {"attempts", attempts(f.driver)}}},
      {"recorded_ptx", {{"folder", or_null(f.recorded)}, {"files", f.recorded_files}}},
      {"kernel_cache",
       {{"folder", or_null(f.cache)}, {"files", f.cache_files}, {"writable", f.cache_writable}}},
      {"processors", f.processors},
      {"fma_rounds_once", f.fused},
      {"gpu", or_null(f.driver_facts.gpu)},
      {"works", f.works()}};
}

Result<int> run(const Arguments& arguments, const Context& context) {
  const Findings findings = examine(context);
  DRIFTC_CHECK(emit(
      arguments, context, [&](const TextStyle& style) { return text(findings, style); },
      [&] { return json(findings); }));
  return findings.works() ? 0 : static_cast<int>(ErrorKind::kUnavailable);
}

}  // namespace

Command doctor_command() {
  return {{"doctor",
           "what this machine offers: NVRTC, cuDNN, driver, recorded PTX, kernel cache",
           {},
           {kJsonOption},
           {"driftc doctor", "driftc doctor --json -"},
           {"exit: 0 comparisons work here, 3 something they need is missing"}},
          run};
}

}  // namespace driftc::frontend
