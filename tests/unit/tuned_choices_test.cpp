// What a tuner chose is a kernel like any other: the stopwatch may change an order and with it
// bits, the file pins them, replay proves each, and faults planted in it are found. The default
// suite takes recorded kernels; `certify` and the bounds have the tuned kinds of kernels too.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "codegen/lower.h"
#include "frontend/tuning/tuning_file.h"
#include "ir/support/rng.h"
#include "runtime/study/certify_families.h"
#include "runtime/study/crop.h"
#include "runtime/study/faults.h"
#include "tests/unit/tune_support.h"

using namespace driftc;
using passes::KernelChoice;
using runtime::compare::Verdict;
namespace study = runtime::study;

namespace {

// The PTX executor with a stopwatch that says anything from 1 to 2 ms, whatever runs.
class Noisy final : public runtime::Executor {
 public:
  Noisy(runtime::ThreadPool& pool, std::uint64_t seed) : ptx_(pool), random_(seed, "stopwatch") {}
  std::string_view name() const override { return ptx_.name(); }
  std::string device() const override { return ptx_.device(); }
  bool checks() const override { return true; }
  bool orders_atomics() const override { return true; }
  Result<void> run(const runtime::CompiledKernel& kernel,
                   std::span<const runtime::DeviceTensor> operands,
                   std::span<const runtime::DeviceTensor> prepared, runtime::DeviceTensor& result,
                   const runtime::RunOptions& options) override {
    return ptx_.run(kernel, operands, prepared, result, options);
  }
  Result<std::unique_ptr<runtime::LaunchPlan>> plan(const ir::Graph&,
                                                    std::span<const runtime::CompiledKernel* const>,
                                                    bool) override {
    return std::unique_ptr<runtime::LaunchPlan>(std::make_unique<Plan>(*this));
  }

 private:
  struct Plan final : runtime::LaunchPlan {
    explicit Plan(Noisy& o) : owner(o) {}
    Result<std::vector<ir::Tensor>> run(std::span<const ir::Tensor>) override {
      return std::vector<ir::Tensor>();
    }
    Result<std::vector<double>> time(int runs) override {
      std::vector<double> out;
      for (int i = 0; i < runs; ++i) out.push_back(owner.milliseconds());
      return out;
    }
    Result<std::vector<double>> time_kernels(int runs) override { return time(runs); }
    std::size_t launches() const override { return 1; }
    Noisy& owner;
  };
  double milliseconds() { return 1 + random_.bits24(readings_++) * 0x1p-24; }

  runtime::PtxExecutor ptx_;
  CounterRng random_;
  std::uint64_t readings_ = 0;
};

struct Ran {
  Verdict verdict = Verdict::kIdentical;
  ir::Tensor output;
};
Result<Ran> run(const tests::Digits& d, const study::PairSettings& settings,
                tests::Recorded& recorded) {
  study::PairSettings s = settings;
  s.reference = false;
  Ran ran;
  const std::string output = d.graph.value(d.graph.outputs()[0]).name;
  s.on_value = [&](const std::string& name, const ir::Tensor&, const ir::Tensor& compiled,
                   const ir::Tensor*) {
    if (name == output) ran.output = compiled;
  };
  DRIFTC_TRY(report, study::pair_run(d.graph, d.inputs, s, recorded.services()));
  ran.verdict = report.verdict;
  return ran;
}

// As a command has it that was given the file `text`.
study::PairSettings from_file(const std::string& text, const std::string& combine = "serial") {
  study::PairSettings settings =
      tests::settings("max-autotune", "none,+split-k", {"split-k.combine=" + combine});
  settings.tuning = std::make_shared<study::Tuning>();
  settings.tuning->problems = frontend::parse_tuning(text, "t.json").value().problems;
  return settings;
}

}  // namespace

TEST_CASE("case: a stopwatch chooses the order, a file pins it (XLA-37902, PT-6351)") {
  const tests::Digits d = tests::digits();
  tests::Recorded recorded;
  // Tuned with noise until two runs of the tuner disagree.
  const auto noisy = [&](std::uint64_t seed) {
    study::PairSettings settings = tests::only_slices();
    settings.executor = std::make_shared<Noisy>(recorded.pool, seed);
    return tests::tune(d, settings, recorded);
  };
  const study::TunedProblems first = noisy(1);
  CHECK(tests::gemm_of(first).measured);
  study::TunedProblems second = noisy(1);
  CHECK(first == second);  // the noise is all there is
  for (std::uint64_t seed = 2; seed < 10; ++seed) {
    second = noisy(seed);
    if (tests::gemm_of(first).choice().choice != tests::gemm_of(second).choice().choice) break;
  }
  const std::string files[] = {frontend::tuning_text({"h200", first}),
                               frontend::tuning_text({"h200", second})};
  std::vector<ir::Tensor> outputs;
  Verdict worst = Verdict::kIdentical;  // one of them may choose what eager does
  for (const std::string& file : files) {
    for (int again = 0; again < 2; ++again) {
      const study::PairSettings settings = from_file(file);
      const auto ran = run(d, settings, recorded);
      REQUIRE_MESSAGE(ran.ok(), (ran.ok() ? "" : ran.error().render()));
      CHECK(ran->verdict <= Verdict::kOrder);
      worst = std::max(worst, ran->verdict);
      CHECK(settings.tuning->tuned == 0);
      outputs.push_back(ran->output);
    }
    study::PairSettings declared = from_file(file);
    declared.declared = true;
    CHECK(run(d, declared, recorded)->verdict == Verdict::kIdentical);
  }
  CHECK(worst == Verdict::kOrder);
  CHECK(ir::same_bits(outputs[0], outputs[1]));
  CHECK(ir::same_bits(outputs[2], outputs[3]));
  CHECK(!ir::same_bits(outputs[0], outputs[2]));
  CHECK(recorded.cache.counters().compiled == 0);

  // "Deterministic" means something only where the choice itself is: slices that a file has added
  // by atomics are refused, the same slices in a fixed order are not.
  for (const std::string combine : {"atomic", "pairwise"}) {
    study::PairSettings settings = from_file(files[0], combine);
    const ir::Graph base = tests::base_of(d.graph, settings);
    const study::TuningRequest request{d.graph, base, settings};
    settings.tuning->problems.clear();
    for (const study::TuningTask& task : study::tuning_tasks(request)) {
      const auto all = study::candidates_of(request, task.node);
      const auto sliced = std::ranges::find_if(all, [](const auto& c) { return c.split > 1; });
      settings.tuning->problems[task.problem].candidates = {
          {sliced == all.end() ? all[0] : *sliced, 1, 0, 0, ""}};
    }
    CHECK(study::compile(d.graph, settings, recorded.services()).ok());
    settings.deterministic = true;
    const auto compiled = study::compile(d.graph, settings, recorded.services());
    CHECK(compiled.ok() == (combine == "pairwise"));
    if (combine == "pairwise") continue;
    CHECK(compiled.error().kind == ErrorKind::kInput);
    CHECK(compiled.error().message.starts_with("--deterministic: the kernel of '"));
  }
}

TEST_CASE("certify: faults planted in what the tuner chose are found, the choice is not accused") {
  const tests::Digits d = tests::digits();
  tests::Recorded recorded;
  study::PairSettings settings = tests::only_slices();
  study::TunedProblems problems = tests::tune(d, settings, recorded);
  // The runners-up, which the other passes did not make.
  for (auto& [text, problem] : problems)
    if (problem.candidates.size() > 1 && problem.candidates[1].dropped.empty())
      std::swap(problem.candidates[0], problem.candidates[1]);
  settings.tuning->problems = problems;
  const auto healthy = run(d, settings, recorded);
  REQUIRE_MESSAGE(healthy.ok(), (healthy.ok() ? "" : healthy.error().render()));
  CHECK(healthy->verdict == Verdict::kOrder);
  int planted = 0;
  for (const study::FaultKind& kind : study::fault_kinds()) {
    // Those that leave the CUDA text as it is recorded.
    if (kind.level == "CUDA text" || kind.level == "rewritten graph" || kind.nan_input) continue;
    CAPTURE(kind.name);
    const auto applied = std::make_shared<bool>(false);
    const study::Faults faults = kind.plant(applied);
    study::PairSettings with = settings;
    with.faults = &faults;
    with.check = kind.sanitizer;
    const auto ran = run(d, with, recorded);
    if (!*applied) continue;
    if (ran.ok() && !kind.declaration && ir::same_bits(ran->output, healthy->output)) continue;
    ++planted;
    CHECK((ran.ok() ? ran->verdict == Verdict::kUnexplained
                    : ran.error().kind == ErrorKind::kInternal));
  }
  CHECK(planted >= 5);
  CHECK(recorded.cache.counters().compiled == 0);
}

TEST_SUITE("soak") {
  // The grid (replay_grid_test.cpp) draws shapes for forms; here are the kernels that the tuner may
  // choose, drawn of all candidates, not only those that it finds fast.
  TEST_CASE("replay grid: what the tuner may choose, every precision, 8 draws of each problem" *
            doctest::skip()) {
    if (!tests::kernels_available("replay of tuned choices")) return;
    std::size_t runs = 0;
    std::set<ir::Algorithm> algorithms;
    for (const char* precision : {"f32", "tf32:rna", "tf32:trunc", "f16", "bf16"})
      for (const char* device : {"t4", "h200"})
        for (int m = 0; m < study::kCertifyShapes; ++m) {
          const study::CertifyModel model = study::certify_model(m, 0);
          study::PairSettings settings = tests::settings("max-autotune");
          settings.selection = *passes::select_passes({.mode = "max-autotune",
                                                       .passes = {},
                                                       .sets = {},
                                                       .fallback_named = false,
                                                       .precision_named = true});
          settings.device = tests::device(device);
          auto plan = ir::parse_precision_plan(precision, "test");
          REQUIRE(plan.ok());
          settings.precision = *plan;
          settings.precision.mma_arch = settings.device.mma_arch;
          const ir::Graph base = tests::base_of(model.graph, settings);
          const study::TuningRequest request{model.graph, base, settings};
          for (const study::TuningTask& task : study::tuning_tasks(request)) {
            const auto all = study::candidates_of(request, task.node);
            const ir::Node& node = base.node(task.node);
            const auto cropped = study::crop(base, node, {}, tests::thread_pool());
            // Every algorithm in turn: most candidates are tiles of one or two of them.
            std::map<ir::Algorithm, std::vector<KernelChoice>> by_algorithm;
            for (const KernelChoice& choice : all) by_algorithm[choice.algorithm].push_back(choice);
            std::vector<const std::vector<KernelChoice>*> groups;
            for (const auto& [algorithm, choices] : by_algorithm) groups.push_back(&choices);
            const CounterRng random(static_cast<std::uint64_t>(m), "choices");
            for (std::uint64_t draw = 0; draw < 8; ++draw) {
              const auto& group = *groups[draw % groups.size()];
              const KernelChoice& choice = group[random.bits(draw) % group.size()];
              const std::string what =
                  fmt::format("{} {} {} {}", precision, device, model.name, to_string(choice));
              const ir::Graph graph =
                  study::with_kernel(cropped, passes::with_choice(*node.kernel, choice));
              auto lowered = codegen::lower(graph, cropped.node());
              if (!lowered.ok()) continue;  // the tuner drops it for the same reason
              auto kernel = runtime::compile(std::move(*lowered), tests::kernel_cache(),
                                             settings.device.ptx_target);
              REQUIRE_MESSAGE(kernel.ok(), what);
              const ir::Node& candidate = graph.node(cropped.node());
              std::vector<runtime::DeviceTensor> operands;
              for (std::size_t i = 0; i < candidate.operands.size(); ++i)
                operands.push_back(runtime::upload(cropped.inputs[i],
                                                   graph.value(candidate.operands[i]).type.layout));
              runtime::DeviceTensor result(graph.value(candidate.result).type);
              const auto ran =
                  runtime::run(*kernel, operands, {}, result, tests::thread_pool(), {});
              REQUIRE_MESSAGE(ran.ok(), what);
              const ir::Tensor promised = study::replay(cropped, graph, tests::thread_pool());
              CHECK_MESSAGE(ir::same_bits(runtime::download(result), promised), what);
              algorithms.insert(choice.algorithm);
              ++runs;
            }
          }
        }
    CHECK(runs >= 400);
    CHECK(algorithms.size() >= 7);  // all that convolutions have
    MESSAGE(runs << " choices replayed");
  }
}
