// The tuner: what it may choose, what it chooses, what it drops. Kernels come from the PTX that is
// recorded with the repository (no compiler is asked), so that the default suite compiles nothing;
// the long forms are in `./dev soak`.
#include "runtime/study/tune.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <chrono>
#include <fstream>
#include <set>

#include "codegen/lower.h"
#include "frontend/cli/tuning_option.h"
#include "frontend/report/json.h"
#include "frontend/report/text.h"
#include "frontend/tuning/tuning_file.h"
#include "runtime/cuda/cuda_executor.h"
#include "runtime/study/compile.h"
#include "runtime/study/crop.h"
#include "tests/support/command_line.h"
#include "tests/support/services.h"
#include "tests/unit/report_schema.h"
#include "tests/unit/tune_support.h"

using namespace driftc;
using frontend::Arguments;
using passes::KernelChoice;
using runtime::compare::Verdict;
using tests::base_of;
using tests::Digits;
using tests::digits;
using tests::gemm_of;
using tests::only_slices;
using tests::Recorded;
using tests::tune;
namespace study = runtime::study;

namespace {

// The second and third convolution are the same problem; the first reads another layout, the fourth
// has no bias. And a gemm.
ir::Graph network() {
  return tests::parse(R"(gir 1
graph @g(%x: f32[1,64,12,12]) {
  %w = constant f32[64,64,3,3] random(seed=1, he)
  %v = constant f32[64,64,3,3] random(seed=2, he)
  %t = constant f32[64,64,3,3] random(seed=7, he)
  %u = constant f32[64,64,3,3] random(seed=3, he)
  %b = constant f32[64] random(seed=4, he)
  %m = constant f32[9216,10] random(seed=5, he)
  %n = constant f32[10] random(seed=6, he)
  %c1 = conv2d %x, %w, %b {pad=[1,1,1,1]}
  %r1 = relu %c1
  %c2 = conv2d %r1, %v, %b {pad=[1,1,1,1]}
  %r2 = relu %c2
  %c3 = conv2d %r2, %t, %b {pad=[1,1,1,1]}
  %r3 = relu %c3
  %c4 = conv2d %r3, %u {pad=[1,1,1,1]}
  %f = flatten %c4
  %y = gemm %f, %m, %n
  return %y
})");
}

// One candidate of every task, the `pick`-th, as if a tuner had chosen it.
std::shared_ptr<study::Tuning> chosen(const study::TuningRequest& request, std::size_t pick) {
  auto tuning = std::make_shared<study::Tuning>();
  for (const study::TuningTask& task : study::tuning_tasks(request)) {
    const auto all = study::candidates_of(request, task.node);
    study::TunedProblem problem;
    problem.candidates.push_back({all[pick % all.size()], 1, 0, 0, ""});
    tuning->problems.emplace(task.problem, problem);
  }
  return tuning;
}

std::string sample_file(const std::string& device = "h200") {
  study::TunedProblem problem;
  problem.candidates.push_back({{ir::Algorithm::kWinograd2,
                                 {16, 32, 32, 2, 4, 4},
                                 1,
                                 ir::SplitCombine::kSerial,
                                 false,
                                 ir::Precision::kF64},
                                5.25,
                                1.5e-7,
                                63,
                                ""});
  problem.candidates.push_back({{ir::Algorithm::kImplicitGemm,
                                 {64, 64, 16, 4, 8, 4},
                                 4,
                                 ir::SplitCombine::kPairwise,
                                 true,
                                 ir::Precision::kF32},
                                0,
                                std::numeric_limits<double>::infinity(),
                                0,
                                "source replay differs from the kernel"});
  return frontend::tuning_text({device, {{"a problem", problem}}});
}

}  // namespace

TEST_CASE("tuner: what is open follows from the passes and their options") {
  const ir::Graph graph = network();
  const auto open = [&](const std::string& passes, const std::vector<std::string>& sets) {
    const study::PairSettings settings = tests::settings("max-autotune", passes, sets);
    const ir::Graph base = base_of(graph, settings);
    const auto tasks = study::tuning_tasks({graph, base, settings});
    if (tasks.empty()) return std::string("nothing");
    return tasks[0].problem.substr(tasks[0].problem.find("open: ") + 6);
  };
  CHECK(open("", {}) == "algorithm,tiles,split,bias");
  CHECK(open("-choose-algorithm,-bias-first", {}) == "tiles,split");
  CHECK(open("", {"choose-algorithm.algorithm=direct", "choose-tiling.block=64x64x8"}) ==
        "split,bias");
  CHECK(open("", {"split-k.combine=pairwise", "choose-algorithm.filters=f64"}) ==
        "algorithm:f64,tiles,split:p,bias");
  // One order for all batch sizes leaves what changes no bits.
  CHECK(open("", {"choose-tiling.batch-invariant=on"}) == "tiles");
  CHECK(open("+match-order", {}) == "nothing");
  CHECK(open("none", {}) == "nothing");
}

TEST_CASE("tuner: a problem is its operands, ops, contract and nothing of names") {
  const ir::Graph graph = network();
  const study::PairSettings settings = tests::settings("max-autotune");
  const ir::Graph base = base_of(graph, settings);
  const auto tasks = study::tuning_tasks({graph, base, settings});
  REQUIRE(tasks.size() == 5);
  CHECK(tasks[1].value == "c2");
  CHECK(tasks[1].problem == tasks[2].problem);
  CHECK(tasks[1].problem != tasks[0].problem);
  CHECK(tasks[1].problem != tasks[3].problem);
  CHECK(
      tasks[0].problem ==
      "%a: f32[1,64,12,12], %b: f32[64,64,3,3], %c: f32[64]; %0 = conv2d %a, %b, %c "
      "{pad=[1,1,1,1]} : f32[1,64,12,12]@nhwc; %1 = relu %0 : f32[1,64,12,12]@nhwc; implicit_gemm "
      "{order=rsc.fma+bias.stored, in=f32, acc=f32, inner=f32, contract=off, ftz=off, fold=none}; "
      "open: algorithm,tiles,split,bias");
  study::PairSettings half = settings;
  half.precision = *ir::parse_precision_plan("f16", "test");
  half.precision.mma_arch = "sm_90";
  half.selection = *passes::select_passes({.mode = "max-autotune",
                                           .passes = {},
                                           .sets = {},
                                           .fallback_named = false,
                                           .precision_named = true});
  const ir::Graph other = base_of(graph, half);
  CHECK(study::tuning_tasks({graph, other, half})[0].problem != tasks[0].problem);
}

TEST_CASE("tuner: every candidate is a kernel that the passes make and code generation takes") {
  const ir::Graph graph = network();
  for (const char* precision : {"f32", "tf32", "f16"}) {
    CAPTURE(precision);
    study::PairSettings settings = tests::settings("max-autotune");
    settings.selection = *passes::select_passes({.mode = "max-autotune",
                                                 .passes = {},
                                                 .sets = {},
                                                 .fallback_named = false,
                                                 .precision_named = true});
    settings.precision = *ir::parse_precision_plan(precision, "test");
    settings.precision.mma_arch = "sm_90";
    const ir::Graph base = base_of(graph, settings);
    const study::TuningRequest request{graph, base, settings};
    std::set<ir::Algorithm> seen;
    for (const study::TuningTask& task : study::tuning_tasks(request)) {
      const auto all = study::candidates_of(request, task.node);
      CHECK(all[0] == passes::choice_of(*base.node(task.node).kernel));
      for (const KernelChoice& choice : all) {
        seen.insert(choice.algorithm);
        CHECK_MESSAGE(study::why_not_chosen(request, task.node, choice) == "", to_string(choice));
      }
    }
    CHECK(seen.size() == (precision == std::string("f32") ? 8 : 2));
    // The passes, each with its part of a choice, make that kernel (compile() holds them to it).
    for (const std::size_t pick : {0, 1, 7, 101, 333, 1001, 2003}) {
      CAPTURE(pick);
      settings.tuning = chosen(request, pick);
      const auto compiled = study::compile(graph, settings, tests::services());
      REQUIRE_MESSAGE(compiled.ok(), (compiled.ok() ? "" : compiled.error().render()));
      CHECK(settings.tuning->tuned == 0);
      for (std::uint32_t i = 0; i < compiled->graph.node_count(); ++i)
        if (compiled->graph.node({i}).op == ir::Op::kKernel)
          CHECK(codegen::lower(compiled->graph, {i}).ok());
    }
  }
}

TEST_CASE("tuner: a cropped problem keeps ops, attributes, layouts, and its source code") {
  const ir::Graph graph = tests::zoo("resnet50");
  const study::PairSettings settings = tests::settings("max-autotune");
  const ir::Graph base = base_of(graph, settings);
  std::set<std::string> seen;
  for (const study::TuningTask& task : study::tuning_tasks({graph, base, settings})) {
    if (!seen.insert(task.problem).second) continue;
    CAPTURE(task.problem);
    const auto cropped = study::crop(base, base.node(task.node), {}, tests::thread_pool());
    const ir::Graph& compiled = cropped.compiled;
    CHECK(compiled.node(cropped.node()).kernel->body.node_count() ==
          base.node(task.node).kernel->body.node_count());
    CHECK(cropped.reference.elements() <= 2 * 28 * 14 * 68);
    const auto small = codegen::lower(compiled, cropped.node()),
               whole = codegen::lower(base, task.node);
    REQUIRE(small.ok());
    REQUIRE(whole.ok());
    REQUIRE(small->launches.size() == whole->launches.size());
    for (std::size_t i = 0; i < small->launches.size(); ++i)
      CHECK(small->launches[i].source == whole->launches[i].source);
  }
  CHECK(seen.size() == 29);
}

TEST_CASE("tuner: candidates are tried, the fastest that replays is chosen, for any thread count") {
  const Digits d = digits();
  const study::PairSettings settings = only_slices();
  Recorded recorded, alone(1);
  const study::TunedProblems problems = tune(d, settings, recorded);
  CHECK(problems == tune(d, settings, alone));
  CHECK(recorded.cache.counters().compiled == 0);
  const study::TunedProblem& gemm = gemm_of(problems);
  CHECK(!gemm.measured);
  REQUIRE(gemm.candidates.size() >= 2);
  int tried = 0;
  for (const auto& [text, problem] : problems) {
    CAPTURE(text);
    CHECK(problem.choice().dropped == "");
    double before = 0;
    for (const study::TunedCandidate& c : problem.candidates) {
      if (!c.dropped.empty()) {
        CHECK(c.dropped == "no NVRTC, and its PTX is not recorded");
        continue;
      }
      ++tried;
      CHECK(c.microseconds >= before);
      before = c.microseconds;
      // It sums rounded products, and of f32 operands: rounding them to f16 or TF32 alone would
      // be errors of the size of 2^-11.
      CHECK(c.error > 0);
      CHECK(c.error < 0x1p-14);
    }
  }
  CHECK(tried >= 10);
  // The sums of the gemm in one slice and in two.
  CHECK(gemm.candidates[0].dropped == "");
  CHECK(gemm.candidates[1].dropped == "");
  CHECK(gemm.candidates[0].choice.split != gemm.candidates[1].choice.split);
  CHECK(gemm.candidates[0].error != gemm.candidates[1].error);
}

TEST_CASE("tuner: a candidate whose kernel is broken is dropped, whatever its time") {
  const Digits d = digits();
  const study::PairSettings settings = only_slices();
  Recorded recorded;
  const study::TunedProblems healthy = tune(d, settings, recorded);
  const KernelChoice best = gemm_of(healthy).choice().choice;
  study::Faults faults;
  // One product less than the kernel declares.
  faults.lowered = [&](const ir::Node& node, codegen::LoweredKernel& lowered) {
    const ir::Node* sum = ir::reduction_node(node.kernel->body);
    if (sum == nullptr || sum->op != ir::Op::kGemm || passes::choice_of(*node.kernel) != best)
      return;
    for (codegen::Argument& a : lowered.launches[0].arguments)
      if (a.name == "depth") a.integer -= 1;
  };
  const study::TunedProblems problems = tune(d, settings, recorded, &faults);
  const study::TunedProblem& gemm = gemm_of(problems);
  CHECK(gemm.choice().choice != best);
  CHECK(gemm.choice().dropped == "");
  const auto broken = std::ranges::find(gemm.candidates, best, &study::TunedCandidate::choice);
  REQUIRE(broken != gemm.candidates.end());
  CHECK(broken->dropped == "source replay differs from the kernel");
}

TEST_CASE("tuner: max-autotune runs, and its declared order is identical") {
  const Digits d = digits();
  Recorded recorded;
  study::PairSettings settings = only_slices();
  const auto report = study::pair_run(d.graph, d.inputs, settings, recorded.services());
  REQUIRE_MESSAGE(report.ok(), (report.ok() ? "" : report.error().render()));
  CHECK(report->verdict <= Verdict::kOrder);
  CHECK(report->tuned.size() == settings.tuning->problems.size());
  CHECK(settings.tuning->tuned == settings.tuning->problems.size());
  REQUIRE(report->time.has_value());
  CHECK(report->time->seconds > 0);
  frontend::CompareView view;
  view.executor = "ptx";
  const std::string text = frontend::compare_text(*report, view, {});
  CHECK(text.find("us: estimated (a roofline; nothing was measured)") != std::string::npos);
  CHECK(text.find("\nestimated time: ") != std::string::npos);
  const auto json =
      frontend::Json::parse(frontend::json_text(frontend::compare_json(*report, view)));
  const auto schema_of = [](const char* name) {
    return frontend::Json::parse(
        tests::read_file(fmt::format("{}/docs/schema/{}", DRIFTC_SOURCE_DIR, name)));
  };
  CHECK(tests::schema_faults(schema_of("compare-1.json"), json) == "");
  CHECK(json["tuning"]["kernels"].size() == report->tuned.size());
  const std::string file = frontend::tuning_text({"h200", settings.tuning->problems});
  CHECK(tests::schema_faults(schema_of("tuning-1.json"), frontend::Json::parse(file)) == "");
  CHECK(frontend::parse_tuning(file, "t.json")->problems == settings.tuning->problems);
  settings.declared = true;
  const auto declared = study::pair_run(d.graph, d.inputs, settings, recorded.services());
  REQUIRE(declared.ok());
  CHECK_MESSAGE(declared->verdict == Verdict::kIdentical, tests::findings(*declared));
  // Everything was known already.
  CHECK(settings.tuning->tuned == settings.tuning->problems.size());
}

TEST_CASE("tuner: where there is a GPU the time is measured") {
  ::setenv("FAKE_CUDA", "", 1);
  Settings environment;
  environment.library_path = {DRIFTC_FAKE_CUDA "works"};
  auto gpu = runtime::cuda::Gpu::open(environment);
  REQUIRE(gpu.ok());
  study::PairSettings settings = only_slices();
  settings.executor = std::make_shared<runtime::cuda::CudaExecutor>(*gpu);
  Recorded recorded;
  for (const auto& [text, problem] : tune(digits(), settings, recorded)) {
    CAPTURE(text);
    CHECK(problem.measured);
    CHECK(problem.choice().microseconds > 0);
  }
}

TEST_CASE("tuning file: what is written reads back the same") {
  const std::string text = sample_file();
  const auto file = frontend::parse_tuning(text, "t.json");
  REQUIRE_MESSAGE(file.ok(), (file.ok() ? "" : file.error().render()));
  CHECK(file->device == "h200");
  REQUIRE(file->problems.size() == 1);
  const study::TunedProblem& problem = file->problems.at("a problem");
  CHECK(problem.choice().choice.filters == ir::Precision::kF64);
  CHECK(problem.candidates[1].choice.bias_first);
  CHECK(problem.candidates[1].dropped == "source replay differs from the kernel");
  CHECK(frontend::tuning_text(*file) == text);
}

TEST_CASE("tuning file: faults are named with their place and what would be accepted") {
  const std::string good = sample_file();
  const auto fault = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    const auto file = frontend::parse_tuning(text, "t.json");
    REQUIRE_MESSAGE(!file.ok(), text);
    CHECK(file.error().kind == ErrorKind::kInput);
    return file.error().message + " | " + file.error().hint;
  };
  CHECK(fault("driftc.tuning/1", "driftc.compare/1") ==
        "t.json: schema: 'driftc.compare/1' is another kind of file | a tuning file says "
        "\"driftc.tuning/1\"");
  CHECK(
      fault("\"key_version\": 1", "\"key_version\": 7") ==
      "t.json: key_version: it was written by another driftc, whose kernels have version 7 | this "
      "one has version 1; name another file and tune anew");
  CHECK(fault("\"split\"", "\"splits\"") ==
        "t.json: kernels[0].candidates[0].splits: unknown field | did you mean 'split'?");
  CHECK(fault("\"winograd2\"", "\"winograd3\"")
            .starts_with("t.json: kernels[0].candidates[0].algorithm: 'winograd3' is not known | "
                         "one of direct, "));
  CHECK(fault("[16, 32, 32]", "[16, 32]") ==
        "t.json: kernels[0].candidates[0].block: its extents are missing | an array of 3 integers");
  CHECK(fault("\"split\": 4", "\"split\": 0") ==
        "t.json: kernels[0].candidates[1].split: no such number is possible | an integer from 1 to "
        "65535");
  CHECK(fault("\"split\": 4", "\"split\": 1") ==
        "t.json: kernels[0].candidates[1].combine: there is nothing to combine | \"serial\" where "
        "split is 1");
  CHECK(fault("\"us\": 5.25", "\"us\": -1") ==
        "t.json: kernels[0].candidates[0].us: no such figure is possible | a number of at least 0, "
        "or \"inf\"");
  CHECK(fault("\"time\": \"estimated\"", "\"time\": true") ==
        "t.json: kernels[0].time: boolean where a word is needed | one of estimated, measured");
  CHECK(fault("\"us\": 5.25", "\"us\": 1e999") ==
        "t.json: a number in it is larger than any double | a tuning file is written by --tuning "
        "FILE");
  const auto broken = frontend::parse_tuning("{\n  \"schema\": ,\n", "t.json");
  REQUIRE(!broken.ok());
  CHECK(broken.error().place.line == 2);
  CHECK(broken.error().place.column == 13);
}

TEST_CASE("tuning file: another device, another mode, a choice that does not fit") {
  const tests::TemporaryFolder folder;
  const std::string path = (folder.path() / "t.json").string();
  Arguments arguments;
  arguments.add("--tuning", path);
  study::PairSettings other = tests::settings("default");
  const auto wrong_mode = frontend::set_tuning(arguments, other);
  REQUIRE(!wrong_mode.ok());
  CHECK(wrong_mode.error().message == "--tuning: mode default does not tune");
  CHECK(wrong_mode.error().hint == "--mode max-autotune");

  std::ofstream(path) << sample_file("a100");
  study::PairSettings settings = tests::settings("max-autotune");
  const auto wrong_device = frontend::set_tuning(arguments, settings);
  REQUIRE(!wrong_device.ok());
  CHECK(wrong_device.error().message == path + ": it was tuned for a100, not for h200");
  CHECK(wrong_device.error().hint == "--device a100, or another file for h200");

  const ir::Graph graph = network();
  const ir::Graph base = base_of(graph, settings);
  const study::TuningRequest request{graph, base, settings};
  settings.tuning = chosen(request, 0);
  settings.tuning->file = path;
  // A split of a direct convolution; more than 48 KiB of tiles.
  auto& choice = settings.tuning->problems.begin()->second.candidates[0].choice;
  choice.schedule = {256, 256, 64, 16, 16, 4};
  const auto refused = study::compile(graph, settings, tests::services());
  REQUIRE(!refused.ok());
  CHECK(refused.error().kind == ErrorKind::kInput);
  CHECK(refused.error().message.find("more than 48 KiB") != std::string::npos);
  CHECK(refused.error().hint == "take its entry out of the file: it is then tuned anew");
}

TEST_CASE("tuning file: it is created, and what others added meanwhile stays") {
  const tests::TemporaryFolder folder;
  const std::string path = (folder.path() / "t.json").string();
  Arguments arguments;
  arguments.add("--tuning", path);
  study::PairSettings settings = tests::settings("max-autotune");
  REQUIRE(frontend::set_tuning(arguments, settings).ok());
  CHECK(settings.tuning->problems.empty());
  CHECK(!std::filesystem::exists(path));
  // Another process writes first.
  std::ofstream(path) << sample_file();
  const auto sample = frontend::parse_tuning(sample_file(), "t.json");
  study::TunedProblems mine = {{"my problem", sample->problems.at("a problem")}};
  REQUIRE(settings.tuning->added(mine).ok());
  const auto merged = frontend::parse_tuning(tests::read_file(path), path);
  REQUIRE(merged.ok());
  CHECK(merged->problems.size() == 2);
  // Nothing else is left in the folder.
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
  // A second run knows all of it.
  REQUIRE(frontend::set_tuning(arguments, settings).ok());
  CHECK(settings.tuning->problems == merged->problems);
}

TEST_SUITE("soak") {
  TEST_CASE("soak: max-autotune of small models, every precision, declared order identical" *
            doctest::skip()) {
    if (!tests::kernels_available("max-autotune")) return;
    for (const char* model :
         {"residual-block", "bottleneck-block", "depthwise-block", "mlp", "lenet", "vgg-block"})
      for (const char* precision : {"f32", "pytorch", "f16", "bf16"})
        for (const char* device : {"h200", "t4"}) {
          CAPTURE(model);
          CAPTURE(precision);
          CAPTURE(device);
          const ir::Graph graph = tests::zoo(model);
          study::PairSettings settings = tests::settings("max-autotune");
          settings.device = tests::device(device);
          settings.selection = *passes::select_passes({.mode = "max-autotune",
                                                       .passes = {},
                                                       .sets = {},
                                                       .fallback_named = false,
                                                       .precision_named = true});
          settings.precision = settings.eager_precision =
              *ir::parse_precision_plan(precision, "test");
          settings.precision.mma_arch = settings.eager_precision.mma_arch =
              settings.device.mma_arch;
          settings.tuning = std::make_shared<study::Tuning>();
          const auto inputs = tests::random_inputs(graph, 1);
          const auto report = tests::compare(graph, inputs, settings);
          CHECK_MESSAGE(report.verdict != Verdict::kUnexplained, tests::findings(report));
          settings.declared = true;
          const auto declared = tests::compare(graph, inputs, settings);
          CHECK_MESSAGE(declared.verdict == Verdict::kIdentical, tests::findings(declared));
          for (const auto& [text, problem] : settings.tuning->problems)
            for (const study::TunedCandidate& c : problem.candidates)
              if (c.dropped.find("replay") != std::string::npos ||
                  c.dropped.find("run") != std::string::npos)
                FAIL_CHECK(text << "\n" << to_string(c.choice) << ": " << c.dropped);
        }
  }

  // Cold: no kernel is in the cache. The second run has the file and the kernels.
  TEST_CASE("soak: max-autotune of zoo:resnet50 in less than 5 minutes, then in seconds" *
            doctest::skip()) {
    if (!tests::kernels_available("max-autotune of resnet50")) return;
    const tests::TemporaryFolder folder;
    const std::string command =
        "export DRIFTC_CACHE_DIR=$TMP/cache; driftc compare zoo:resnet50 --mode max-autotune "
        "--tuning $TMP/t.json --threads 2 --json $TMP/r.json >/dev/null";
    std::string first;
    for (const double limit : {300.0, 60.0}) {
      const auto start = std::chrono::steady_clock::now();
      const auto outcome = tests::run_command(command, folder);
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
      CHECK_MESSAGE(outcome.code == 0, outcome.err);
      fmt::print("max-autotune of zoo:resnet50: {:.1f} s\n", spent.count());
      CHECK(spent.count() < limit);
      const std::string report = tests::read_file(folder.path() / "r.json");
      CHECK((first.empty() || report == first));
      first = report;
    }
  }
}
