// Every mitigation: the divergence that is there without it, gone with it, and what it costs.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "frontend/report/text.h"
#include "runtime/eager/interpreter.h"
#include "runtime/study/compile.h"
#include "runtime/study/cost.h"
#include "runtime/study/schedules.h"
#include "tests/support/services.h"

using namespace driftc;
using runtime::compare::Verdict;
namespace study = runtime::study;

namespace {

// Channels-last default passes change both convolutions; the first one's input is positive.
ir::Graph two_convolutions() {
  return tests::parse(R"(gir 1
graph @g(%x: f32[1,32,28,28]) {
  %w = constant f32[32,32,3,3] random(seed=1, he)
  %v = constant f32[32,32,3,3] random(seed=2, he)
  %c = conv2d %x, %w {pad=[1,1,1,1]}
  %r = relu %c
  %y = conv2d %r, %v {pad=[1,1,1,1]}
  return %y
})");
}

const study::NodeReport& at(const study::PairReport& report, const std::string& name) {
  for (const study::NodeReport& node : report.nodes)
    if (node.name == name) return node;
  FAIL("no value " << name);
  return report.nodes.front();
}
const study::MitigationCost& cost_of(const study::PairReport& report, const std::string& name) {
  for (const study::MitigationCost& cost : report.mitigations)
    if (cost.name == name) return cost;
  FAIL("no cost of " << name);
  return report.mitigations.front();
}
std::string cost_line(const study::PairReport& report) {
  const std::string text = frontend::compare_text(report, {}, {});
  const std::size_t at = text.find("\nmitigation ");
  return at == std::string::npos ? "" : text.substr(at + 1, text.find('\n', at + 1) - at - 1);
}
// The output of the compiled graph, each kernel's body evaluated under its contract: what the
// kernel computes, as other tests prove.
ir::Tensor compiled_output(const ir::Graph& graph, const study::PairSettings& settings,
                           const std::vector<study::NamedTensor>& inputs) {
  const ir::Graph compiled = study::compile(graph, settings, tests::services())->graph;
  std::vector<ir::Tensor> values(compiled.value_count());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    values[compiled.inputs()[i].index] = inputs[i].tensor;
  for (std::uint32_t i = 0; i < compiled.node_count(); ++i) {
    std::vector<ir::Tensor> operands;
    for (ir::ValueId v : compiled.node({i}).operands) operands.push_back(values[v.index]);
    values[compiled.node({i}).result.index] =
        runtime::evaluate(compiled, {i}, operands, {}, {tests::thread_pool()});
  }
  return values[compiled.outputs()[0].index];
}
study::MitigationCost only_cost(const ir::Graph& graph, const study::PairSettings& settings) {
  const auto compiled = study::compile(graph, settings, tests::services()).value();
  const auto costs =
      study::mitigation_costs(graph, compiled.graph, settings, tests::services()).value();
  REQUIRE(costs.size() == 1);
  return costs[0];
}

}  // namespace

TEST_CASE("mitigation: match-order takes every difference away, Winograd's included") {
  if (!tests::kernels_available("match-order")) return;
  const ir::Graph graph = two_convolutions();
  const auto inputs = tests::random_inputs(graph, 3);
  const std::string winograd = "none,+choose-algorithm";
  const std::vector<std::string> sets = {"choose-algorithm.algorithm=winograd2",
                                         "choose-algorithm.form=fused"};
  const auto without = tests::compare(graph, inputs, tests::settings("", winograd, sets));
  CHECK(without.verdict == Verdict::kAlgorithm);
  CHECK(without.mitigations.empty());
  const auto with =
      tests::compare(graph, inputs, tests::settings("", winograd + ",+match-order", sets));
  CHECK(with.verdict == Verdict::kIdentical);
  CHECK(with.values_differ == 0);
  // F(2,3) has 16 products where the sum has 36; its transforms are most of the rest.
  CHECK(cost_of(with, "match-order").operations > 1.2);
  CHECK(cost_of(with, "match-order").operations < 2.25);
  CHECK(cost_line(with).starts_with("mitigation match-order: 1."));
}

TEST_CASE("mitigation: a node named by --fallback has eager's bits, the others keep theirs") {
  if (!tests::kernels_available("fallback")) return;
  const ir::Graph graph = two_convolutions();
  const auto inputs = tests::random_inputs(graph, 3);
  const auto without = tests::compare(graph, inputs, tests::settings("default"));
  CHECK(at(without, "c").metrics.mismatched > 0);
  study::PairSettings s = tests::settings("default");
  s.fallback = {"c"};
  s.selection.enabled.push_back("fallback");
  const auto with = tests::compare(graph, inputs, s);
  CHECK(at(with, "c").metrics.mismatched == 0);
  CHECK(at(with, "c").verdict == Verdict::kNotCompiled);
  CHECK(at(with, "r").metrics.mismatched == 0);
  CHECK(at(with, "y").metrics.mismatched > 0);
  CHECK(cost_of(with, "fallback").interpreted == 0.5);
  CHECK(cost_line(with).find("50 % of multiply-adds interpreted") != std::string::npos);
}

TEST_CASE("mitigation: sums in f64 hide their order, compensated ones nearly") {
  const ir::Graph graph = tests::parse(R"(gir 1
graph @g(%x: f32[1,32,28,28]) {
  %w = constant f32[32,32,3,3] random(seed=1, he)
  %y = conv2d %x, %w {pad=[1,1,1,1]}
  return %y
})");
  const auto inputs = tests::random_inputs(graph, 4);
  const char *crs = "none,+choose-tiling", *rsc = "none,+layout-channels-last,+choose-tiling";
  const auto with = [](const char* passes, const char* how) {
    return tests::settings("", passes, {std::string("choose-tiling.accumulate=") + how});
  };
  auto difference = [&](const char* how) {
    return runtime::compare::measure(compiled_output(graph, with(crs, how), inputs),
                                     compiled_output(graph, with(rsc, how), inputs));
  };
  const auto plain = difference("f32"), kahan = difference("kahan");
  CHECK(plain.mismatched * 10 > plain.elements * 8);
  CHECK(difference("f64").mismatched == 0);
  // What Kahan's last step loses is dropped: a rounding of the result is left of hundreds.
  CHECK(kahan.rel_l2 > 0);
  CHECK(kahan.rel_l2 < plain.rel_l2 / 4);
  CHECK(only_cost(graph, with(crs, "f64")).f64 == 1);
  CHECK(only_cost(graph, with(crs, "kahan")).operations == 5);
  if (!tests::kernels_available("accumulate")) return;
  const auto f64 = tests::compare(graph, inputs, with(crs, "f64"));
  CHECK(f64.verdict == Verdict::kPrecision);
  CHECK(f64.causes[0].kind == runtime::compare::CauseKind::kAccumulator);
  CHECK(at(f64, "y").compiled_to_reference->rel_l2 < at(f64, "y").eager_to_reference->rel_l2 / 5);
  CHECK(cost_line(f64) ==
        "mitigation accumulate=f64: 1 x operations, 1 x time (estimated), 100 % of them in f64");
}

TEST_CASE("mitigation: batch-invariant gives a sample the same bits alone and among 8") {
  double time = 0;
  auto sample = [&](std::int64_t batch, bool invariant) {
    const ir::Graph graph = tests::parse(fmt::format(R"(gir 1
graph @g(%x: f32[{0},512,7,7]) {{
  %w = constant f32[512,512,1,1] random(seed=1, he)
  %y = conv2d %x, %w
  return %y
}})",
                                                     batch));
    std::vector<std::string> sets;
    if (invariant) sets = {"choose-tiling.batch-invariant=on"};
    const auto settings = tests::settings("", "none,+conv1x1-as-matmul,+choose-tiling", sets);
    if (invariant) time = only_cost(graph, settings).time;
    // The first sample of the batch is that of batch 1.
    const ir::Tensor y = compiled_output(graph, settings, tests::random_inputs(graph, 5));
    return std::vector<float>(y.data<float>().begin(), y.data<float>().begin() + 512 * 49);
  };
  CHECK(sample(1, false) != sample(8, false));
  const std::vector<float> alone = sample(1, true);
  CHECK(time == 16);  // 8 blocks on 132 SMs instead of 128
  CHECK(alone == sample(8, true));
  CHECK(time < 16);  // the larger batch loses less
}

TEST_CASE("schedules: atomics change, ordered slices do not; --deterministic refuses the former") {
  if (!tests::kernels_available("schedules")) return;
  const ir::Graph graph = two_convolutions();
  const auto inputs = tests::random_inputs(graph, 6);
  study::PairSettings atomic =
      tests::settings("", "none,+split-k", {"split-k.slices=4", "split-k.combine=atomic"});
  const auto changes = study::run_schedules(graph, inputs, 5, atomic, tests::services()).value();
  CHECK(changes.schedules == 5);
  REQUIRE(changes.changed.size() == 3);
  CHECK(changes.outputs_changed == 1);
  CHECK(changes.changed[0].value == "c");
  CHECK(changes.changed[0].begins_here);
  CHECK(changes.changed[0].schedules == 4);
  CHECK(changes.changed[0].distinct == 4);  // two of the five seeds order four slices alike
  CHECK(changes.changed[0].order == "crs.split4a.fma");
  CHECK(!changes.changed[1].begins_here);
  CHECK(!changes.changed[1].atomics);
  CHECK(changes.changed[2].atomics);
  // Each of the runs is proved by replaying the source in that run's order of slices.
  for (std::uint64_t seed : {1, 4}) {
    atomic.schedule_seed = seed;
    const auto report = tests::compare(graph, inputs, atomic);
    CHECK_MESSAGE(report.verdict == Verdict::kOrder, tests::findings(report));
  }
  const study::PairSettings whole = tests::settings("", "none");
  CHECK(study::run_schedules(graph, inputs, 5, whole, tests::services())->changed.empty());
  atomic.deterministic = true;
  const auto refused = study::compile(graph, atomic, tests::services());
  REQUIRE(!refused.ok());
  CHECK(refused.error().kind == ErrorKind::kInput);
  CHECK(refused.error().message.find("'c' has order crs.split4a.fma") != std::string::npos);
}

TEST_CASE("study: an eager arm with algorithms of its own, per node") {
  if (!tests::kernels_available("eager contracts")) return;
  const ir::Graph graph = two_convolutions();
  const auto inputs = tests::random_inputs(graph, 7);
  study::PairSettings s = tests::settings("", "none");
  ir::NumericContract winograd;
  winograd.order = ir::parse_order("crs.fma").value();
  winograd.transform = {2, ir::Precision::kF32};
  s.eager_contracts["c"] = winograd;
  const auto report = tests::compare(graph, inputs, s);
  CHECK(report.verdict == Verdict::kAlgorithm);
  CHECK(at(report, "c").causes[0].detail == "winograd2:f32 -> sum of products");
  CHECK(at(report, "c").eager_contract.find("transform=winograd2:f32") != std::string::npos);
  CHECK(at(report, "y").verdict == Verdict::kAlgorithm);
  CHECK(at(report, "y").local == 0);  // only its input differs
  // A compiled arm that makes the same choice has the same bits.
  study::PairSettings same =
      tests::settings("", "none,+choose-algorithm",
                      {"choose-algorithm.algorithm=winograd2", "choose-algorithm.form=fused",
                       "choose-algorithm.nodes=c"});
  same.eager_contracts = s.eager_contracts;
  CHECK(tests::compare(graph, inputs, same).verdict == Verdict::kIdentical);
  const auto eager = study::run_arm(graph, inputs, study::Arm::kEager, same, tests::services());
  const auto compiled =
      study::run_arm(graph, inputs, study::Arm::kCompiled, same, tests::services());
  CHECK(ir::same_bits(eager->front().tensor, compiled->front().tensor));
}
