// driftc bench MODEL: how long each arm and each kernel takes, on this CPU or on a GPU.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "frontend/cli/options.h"
#include "frontend/cli/pair_options.h"
#include "frontend/cli/repro.h"
#include "frontend/cli/session.h"
#include "frontend/report/tuning_report.h"
#include "frontend/report/version.h"
#include "runtime/study/compile.h"
#include "runtime/study/compiled_arm.h"

namespace driftc::frontend {
namespace {

using runtime::study::Arm;
using runtime::study::CompiledArm;
using runtime::study::NamedTensor;
using runtime::study::PairSettings;

constexpr std::array kBenchRows = {
    OptionRow{"--runs", "N", "timed runs of each arm; the median counts; default 5"}};
const OptionGroup kBenchOptions{"measurement", kBenchRows};

constexpr std::string_view kLabel =
    "measured on this CPU by the PTX executor; says nothing about a GPU's time";

double now_ms() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double median(std::vector<double> values) {
  const std::size_t middle = values.size() / 2;
  std::sort(values.begin(), values.end());
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

struct KernelTime {
  std::string value, kernel, algorithm;
  double ms = 0;
};
struct Timings {
  std::string label{kLabel};
  double eager_ms = 0, compiled_ms = 0, reference_ms = 0;
  std::vector<KernelTime> kernels;  // in graph order
  std::vector<runtime::study::TunedKernelReport> tuned;
};

Result<double> time_arm(Arm arm, Session& session, const std::vector<NamedTensor>& inputs,
                        const PairSettings& settings, std::int64_t runs) {
  std::vector<double> times;
  for (std::int64_t i = 0; i < runs; ++i) {
    const double start = now_ms();
    DRIFTC_CHECK(run_arm(session.graph(), inputs, arm, settings, session.services()));
    times.push_back(now_ms() - start);
  }
  return median(times);
}

// Kernels one by one; the sum is the compiled arm's time (compilation is not in it).
Result<void> time_kernels(Session& session, const std::vector<NamedTensor>& inputs,
                          const PairSettings& settings, std::int64_t runs, Timings& out) {
  DRIFTC_TRY(bound, runtime::study::bind_inputs(session.graph(), inputs));
  DRIFTC_TRY(compiled, runtime::study::compile(session.graph(), settings, session.services()));
  out.tuned = compiled.tuned;
  const ir::Graph& graph = compiled.graph;
  std::vector<std::vector<double>> times(graph.node_count());
  std::vector<double> totals;
  for (std::int64_t run = 0; run < runs; ++run) {
    DRIFTC_TRY(arm, CompiledArm::prepare(graph, settings, session.services()));
    for (std::size_t i = 0; i < bound.size(); ++i)
      arm->set_input(graph.inputs()[i], bound[i].tensor);
    double total = 0;
    for (std::size_t i = 0; i < graph.node_count(); ++i) {
      const ir::NodeId id{static_cast<std::uint32_t>(i)};
      if (graph.node(id).op == ir::Op::kConstant) continue;
      const double start = now_ms();
      DRIFTC_CHECK(arm->run(id));
      times[i].push_back(now_ms() - start);
      total += times[i].back();
      if (run == 0)
        out.kernels.push_back({graph.name_of(id), arm->kernel_name(id),
                               std::string(ir::name_of(graph.node(id).kernel->algorithm)), 0});
    }
    totals.push_back(total);
  }
  out.compiled_ms = median(totals);
  std::size_t next = 0;
  for (const std::vector<double>& of_node : times)
    if (!of_node.empty()) out.kernels[next++].ms = median(of_node);
  return {};
}

// On a GPU: the whole network as one launch plan, by the events of its driver. False where the
// executor has no plan.
Result<bool> time_plan(Session& session, const std::vector<NamedTensor>& inputs,
                       const PairSettings& settings, std::int64_t runs, Timings& out) {
  if (settings.executor == nullptr) return false;
  DRIFTC_TRY(bound, runtime::study::bind_inputs(session.graph(), inputs));
  DRIFTC_TRY(compiled, runtime::study::compile(session.graph(), settings, session.services()));
  out.tuned = compiled.tuned;
  const ir::Graph& graph = compiled.graph;
  DRIFTC_TRY(arm, CompiledArm::prepare(graph, settings, session.services()));
  DRIFTC_TRY(plan, arm->plan(settings.selection.mode == passes::Mode::kReduceOverhead));
  if (plan == nullptr) return false;
  std::vector<ir::Tensor> tensors;
  for (const NamedTensor& input : bound) tensors.push_back(input.tensor);
  DRIFTC_CHECK(plan->run(tensors));
  DRIFTC_TRY(totals, plan->time(static_cast<int>(runs)));
  DRIFTC_TRY(kernels, plan->time_kernels(static_cast<int>(runs)));
  out.compiled_ms = median(totals);
  std::size_t next = 0;
  for (std::size_t i = 0; i < graph.node_count(); ++i) {
    const ir::NodeId id{static_cast<std::uint32_t>(i)};
    if (graph.node(id).op == ir::Op::kConstant) continue;
    out.kernels.push_back({graph.name_of(id), arm->kernel_name(id),
                           std::string(ir::name_of(graph.node(id).kernel->algorithm)),
                           kernels[next++]});
  }
  out.label = fmt::format(
      "compiled: device time on {}, by events of its driver{}; the other arms on "
      "this CPU",
      settings.executor->device(),
      settings.selection.mode == passes::Mode::kReduceOverhead ? ", as one CUDA graph" : "");
  return true;
}

std::string text(const Timings& t, const std::string& model, std::int64_t runs, int threads,
                 const std::string& device, const TextStyle& style) {
  using Align = Table::Align;
  std::string out =
      fmt::format("model  {}{}median of {}, {}\n       {}\n\n", printable(model), separator(style),
                  plural(runs, "run"), plural(threads, "thread"), t.label);
  Table arms({{"arm"}, {"ms", Align::kRight}});
  arms.add({"eager (interpreter)", fmt::format("{:.2f}", t.eager_ms)});
  arms.add({"compiled (kernels)", fmt::format("{:.2f}", t.compiled_ms)});
  arms.add({"reference (f64)", fmt::format("{:.2f}", t.reference_ms)});
  out += arms.render(style) + "\n";
  Table table(
      {{"value"}, {"algorithm"}, {"kernel"}, {"ms", Align::kRight}, {"share", Align::kRight}});
  double total = 0;
  for (const KernelTime& k : t.kernels) total += k.ms;
  for (const KernelTime& k : t.kernels)
    table.add({shortened(k.value, 28), k.algorithm, shortened(k.kernel, 40),
               fmt::format("{:.2f}", k.ms),
               total > 0 ? fmt::format("{:.0f} %", 100 * k.ms / total) : ""});
  out += table.render(style);
  return out + tuning_table(t.tuned, device, t.tuned.size(), kAllRunnersUp, style);
}

Json json(const Timings& t, const std::string& model, std::int64_t runs, int threads,
          const std::string& device) {
  Json kernels = Json::array();
  for (const KernelTime& k : t.kernels)
    kernels.push_back({{"value", k.value},
                       {"kernel", k.kernel},
                       {"algorithm", k.algorithm},
                       {"ms", number(k.ms)}});
  return {{"schema", "driftc.bench/1"},
          {"driftc", std::string(kVersion)},
          {"model", model},
          {"measured", t.label},
          {"runs", runs},
          {"threads", threads},
          {"arms_ms",
           {{"eager", number(t.eager_ms)},
            {"compiled", number(t.compiled_ms)},
            {"reference", number(t.reference_ms)}}},
          {"kernels", kernels},
          {"tuning", tuning_json(t.tuned, device)}};
}

Result<void> measure(Session& session, const PairSettings& settings, std::int64_t runs,
                     Timings& timings) {
  DRIFTC_TRY(inputs, session.inputs());
  // Compiles everything and warms the caches, so that no run pays for it.
  DRIFTC_CHECK(run_arm(session.graph(), *inputs, Arm::kCompiled, settings, session.services()));
  DRIFTC_TRY(eager, time_arm(Arm::kEager, session, *inputs, settings, runs));
  DRIFTC_TRY(reference, time_arm(Arm::kReference, session, *inputs, settings, runs));
  timings.eager_ms = eager;
  timings.reference_ms = reference;
  DRIFTC_TRY(on_device, time_plan(session, *inputs, settings, runs, timings));
  if (on_device) return {};
  return time_kernels(session, *inputs, settings, runs, timings);
}

Result<int> run(const Arguments& arguments, const Context& context) {
  DRIFTC_TRY(given, arguments.integer("--runs", 1, 1000));
  const std::int64_t runs = given.value_or(5);
  DRIFTC_CHECK(check_can_write(arguments.value_or("--json", "")));
  DRIFTC_TRY(settings, pair_settings(arguments, context.settings));
  DRIFTC_TRY(session, Session::open(arguments, context));
  DRIFTC_CHECK(check_against(session->graph(), settings));
  Timings timings;
  Result<void> measured = measure(*session, settings, runs, timings);
  session->progress().clear();
  if (!measured) return with_repro(measured.error(), *session, settings, context);
  const std::string model = arguments.value_or("MODEL", "");
  const int threads = session->services().pool.threads();
  DRIFTC_CHECK(emit(
      arguments, context,
      [&](const TextStyle& style) {
        return text(timings, model, runs, threads, settings.device.name, style);
      },
      [&] { return json(timings, model, runs, threads, settings.device.name); }));
  return 0;
}

}  // namespace

Command bench_command() {
  return {{"bench",
           "times both arms and every kernel of MODEL, on this CPU or a GPU",
           {{"MODEL", "an ONNX file, a .gir file, or zoo:NAME"}},
           {kBenchOptions, kInputOptions, kCompileOptions, kJsonOption, kThreadOptions},
           {"driftc bench zoo:residual-block",
            "driftc bench zoo:resnet18 --runs 3 --threads 1 --json -"},
           {}},
          run};
}

}  // namespace driftc::frontend
