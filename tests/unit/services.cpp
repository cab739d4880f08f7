#include "tests/support/services.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "frontend/zoo/zoo.h"
#include "ir/parser.h"
#include "ir/support/env.h"
#include "ir/support/rng.h"
#include "runtime/first_runs.h"
#include "runtime/ptx/jit.h"

namespace driftc::tests {

namespace {

// After the last case: how many kernels NVRTC compiled for this run, by this program and by the
// driftc processes it started. A cold run must stay below the limit, or the tests grow slow without
// anyone noticing.
struct KernelCount : doctest::IReporter {
  static constexpr std::size_t kLimit = 300;
  std::size_t before = 0, before_case = 0;
  std::string running;
  std::vector<std::pair<std::size_t, std::string>> by_case;

  const doctest::ContextOptions& options;

  explicit KernelCount(const doctest::ContextOptions& given) : options(given) {}
  // As it was at the start: some cases change the environment.
  const std::string folder = Settings::from_env().cache_dir;

  std::size_t entries() const {
    std::size_t count = 0;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error))
      count += entry.path().extension() == ".ptx";
    return count;
  }
  void test_run_start() override {
    runtime::ptx::Path path;
    if (runtime::ptx::path_of(Settings::from_env().executor, path)) runtime::ptx::limit_path(path);
    // The GPUs of this program's tests are fakes, and are there whatever the user hides.
    ::unsetenv("CUDA_VISIBLE_DEVICES");
    before = before_case = entries();
    runtime::check_first_runs();
  }
  void test_run_end(const doctest::TestRunStats&) override {
    const std::size_t now = entries(), made = now > before ? now - before : 0;
    std::printf("[kernels] NVRTC compiled %zu kernels for this run (limit %zu)\n", made, kLimit);
    std::printf("[kernels] the first run of %zu kernels was in checked mode\n",
                runtime::first_runs_checked());
    if (const auto refused = runtime::ptx::refused_units(); !refused.empty()) {
      std::printf("[kernels] no machine code for %zu units, which are slow now (jit_emit.h):\n",
                  refused.size());
      for (const std::string& unit : refused) std::printf("[kernels] %s\n", unit.c_str());
      std::exit(1);
    }
    if (made > kLimit && !options.no_skip) {  // soak runs may compile what they like
      std::printf("[kernels] too many: reuse shapes and schedules in the tests. Most were for\n");
      std::ranges::sort(by_case, std::greater<>());
      for (std::size_t i = 0; i < std::min<std::size_t>(by_case.size(), 30); ++i)
        std::printf("[kernels] %5zu %s\n", by_case[i].first, by_case[i].second.c_str());
      std::exit(1);
    }
  }
  void report_query(const doctest::QueryData&) override {}
  void test_case_start(const doctest::TestCaseData& data) override { running = data.m_name; }
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {
    const std::size_t now = entries();
    if (now > before_case) by_case.emplace_back(now - before_case, running);
    before_case = now;
  }
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};
REGISTER_LISTENER("kernel-count", 1, KernelCount);

}  // namespace

namespace study = runtime::study;

codegen::KernelCache& kernel_cache() {
  static codegen::KernelCache cache = [] {
    const Settings settings = Settings::from_env();
    auto nvrtc = codegen::Nvrtc::load(settings);
    codegen::CacheOptions options;
    options.folder = settings.cache_dir;
    options.recorded_folders = {std::string(DRIFTC_SOURCE_DIR) + "/tests/models/recorded-ptx"};
    return codegen::KernelCache(options, nvrtc.ok() ? std::optional(*nvrtc) : std::nullopt);
  }();
  return cache;
}
runtime::ThreadPool& thread_pool() {
  static runtime::ThreadPool pool(2);
  return pool;
}
study::Services services() { return {kernel_cache(), thread_pool(), {}}; }

bool kernels_available(const std::string& what) {
  if (kernel_cache().has_compiler()) return true;
  std::printf("[skip] %s: NVRTC is missing\n", what.c_str());
  return false;
}

runtime::DeviceProfile device(const std::string& name) {
  auto profile = runtime::device_profile(name);
  REQUIRE(profile.ok());
  return *profile;
}

study::PairSettings settings(const std::string& mode, const std::string& passes,
                             const std::vector<std::string>& sets) {
  passes::SelectionRequest request;
  request.mode = mode;
  request.passes = passes;
  request.sets = sets;
  auto selection = passes::select_passes(request);
  REQUIRE_MESSAGE(selection.ok(), (selection.ok() ? "" : selection.error().render()));
  study::PairSettings s;
  s.selection = *selection;
  s.device = device();
  return s;
}

ir::Graph parse(const std::string& text) {
  auto graph = ir::parse_graph(text, "test.gir");
  REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : graph.error().render()));
  return std::move(*graph);
}

ir::Graph zoo(const std::string& name) {
  auto graph = frontend::zoo::zoo_graph(name, 1);
  REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : graph.error().render()));
  return std::move(*graph);
}

std::vector<study::NamedTensor> random_inputs(const ir::Graph& graph, std::uint64_t seed) {
  std::vector<study::NamedTensor> inputs;
  for (ir::ValueId id : graph.inputs()) {
    const ir::Value& value = graph.value(id);
    ir::Tensor tensor(value.type.dtype, value.type.shape);
    fill(Distribution::kRandom, seed, value.name, tensor.data_mut<float>());
    inputs.push_back({value.name, std::move(tensor)});
  }
  return inputs;
}

study::PairReport compare(const ir::Graph& graph, const std::vector<study::NamedTensor>& inputs,
                          const study::PairSettings& s) {
  auto report = study::pair_run(graph, inputs, s, services());
  REQUIRE_MESSAGE(report.ok(), (report.ok() ? "" : report.error().render()));
  return std::move(*report);
}

std::string findings(const study::PairReport& report) {
  std::string out;
  for (const study::NodeReport& node : report.nodes) {
    if (node.verdict == runtime::compare::Verdict::kIdentical || !node.materialised) continue;
    out += fmt::format("{}: {} [{} ulp] {} {}", node.name, name_of(node.verdict),
                       node.metrics.max_ulp, node.compiled_contract, node.fault);
    for (const auto& cause : node.causes)
      out += fmt::format(" {} ({})", name_of(cause.kind), cause.detail);
    out += "\n";
  }
  return out;
}

}  // namespace driftc::tests
