// Every mitigation: the divergence that is there without it, gone with it, and what it costs.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "frontend/report/text.h"
#include "ir/support/rng.h"
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

ir::Graph one_convolution() {
  return tests::parse(R"(gir 1
graph @g(%x: f32[1,32,28,28]) {
  %w = constant f32[32,32,3,3] random(seed=1, he)
  %y = conv2d %x, %w {pad=[1,1,1,1]}
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

constexpr const char *kCrs = "none,+choose-tiling",
                     *kRsc = "none,+layout-channels-last,+choose-tiling";
study::PairSettings with(const char* passes, const char* accumulate) {
  return tests::settings("", passes, {std::string("choose-tiling.accumulate=") + accumulate});
}
// Channels outermost against channels innermost.
runtime::compare::Metrics between_orders(const ir::Graph& graph, const char* accumulate,
                                         const std::vector<study::NamedTensor>& inputs) {
  return runtime::compare::measure(compiled_output(graph, with(kCrs, accumulate), inputs),
                                   compiled_output(graph, with(kRsc, accumulate), inputs));
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

TEST_CASE("mitigation: sums in f64 hide their order, in every kernel or in one node") {
  const ir::Graph graph = one_convolution();
  const auto inputs = tests::random_inputs(graph, 4);
  const auto plain = between_orders(graph, "f32", inputs);
  CHECK(plain.mismatched * 10 > plain.elements * 8);
  CHECK(between_orders(graph, "f64", inputs).mismatched == 0);
  CHECK(only_cost(graph, with(kCrs, "f64")).f64 == 1);
  if (!tests::kernels_available("accumulate")) return;
  // Channels-last sums in another order than eager; with the node in f64 in both arms no bit shows
  // it.
  study::PairSettings s = tests::settings("", "none,+layout-channels-last,+precision");
  s.precision.nodes["y"] = s.eager_precision.nodes["y"] = ir::Precision::kF64;
  const auto node = tests::compare(graph, inputs, s);
  CHECK(at(node, "y").eager_contract.find("order=crs.f64") != std::string::npos);
  CHECK(at(node, "y").compiled_contract.find("order=rsc.f64") != std::string::npos);
  CHECK(node.verdict == Verdict::kIdentical);
  CHECK(cost_line(node) ==
        "mitigation precision y=f64: 1 x operations, 1 x time (estimated), 100 % of them in f64");
  const auto f64 = tests::compare(graph, inputs, with(kRsc, "f64"));
  CHECK(f64.verdict == Verdict::kPrecision);
  CHECK(std::ranges::any_of(f64.causes, [](const runtime::compare::Cause& cause) {
    return cause.kind == runtime::compare::CauseKind::kAccumulator;
  }));
  CHECK(at(f64, "y").compiled_to_reference->rel_l2 < at(f64, "y").eager_to_reference->rel_l2 / 5);
  CHECK(cost_line(f64) ==
        "mitigation accumulate=f64: 1 x operations, 1 x time (estimated), 100 % of them in f64");
}

// Kahan's sum in one chain, whatever the order and for at most 2^20 terms, is within 3 u sum |p| of
// the exact sum of the rounded products p, u = 2^-24 (numerics.md, "Compensated sums"); the
// products do not depend on the order.
TEST_CASE("mitigation: a compensated sum is within 3 u of its products in any order and length") {
  CHECK(only_cost(one_convolution(), with(kCrs, "kahan")).operations == 5);
  const ir::Graph graph = tests::parse(R"(gir 1
graph @g(%x: f32[1,512,6,6]) {
  %w = constant f32[4,512,3,3] random(seed=1, he)
  %a = abs %w
  %y = conv2d %x, %a
  return %y
})");
  ir::Tensor x(ir::DType::kF32, {1, 512, 6, 6});
  fill(Distribution::kUniform, 3, "x", x.data_mut<float>());
  // Terms of one sign: sum |p| is the sum itself.
  const auto farthest = [&](const char* how) {
    const ir::Tensor a = compiled_output(graph, with(kCrs, how), {{"x", x}});
    const ir::Tensor b = compiled_output(graph, with(kRsc, how), {{"x", x}});
    double most = 0;
    for (std::int64_t i = 0; i < a.elements(); ++i) {
      const double p = a.data<float>()[i], q = b.data<float>()[i];
      most = std::max(most, std::abs(p - q) / std::min(p, q));
    }
    return most * 0x1p24;  // in u
  };
  CHECK(farthest("f32") > 6);
  CHECK(farthest("kahan") <= 6 * (1 + 0x1p-20));
  // With both signs the terms are larger than the sum, and the last bits remain.
  const auto inputs = tests::random_inputs(one_convolution(), 4);
  const auto plain = between_orders(one_convolution(), "f32", inputs);
  const auto kahan = between_orders(one_convolution(), "kahan", inputs);
  CHECK(kahan.mismatched > 0);
  CHECK(kahan.rel_l2 < plain.rel_l2 / 4);
}

TEST_CASE("mitigation: on a grid a compensated sum is correctly rounded, in any order") {
  // Integers: products below 2^23, sums beyond 2^24. Every step but the last keeps what it drops.
  std::string weights;
  std::vector<float> integers(16 * 32 * 9);
  fill(Distribution::kSymmetric, 1, "w", integers);
  for (float& w : integers) {
    w = std::trunc(w * 2047);
    weights += (weights.empty() ? "" : ", ") + fmt::format("{}", static_cast<int>(w));
  }
  const ir::Graph graph = tests::parse(fmt::format(R"(gir 1
graph @g(%x: f32[1,32,12,12]) {{
  %w = constant f32[16,32,3,3] {{{}}}
  %y = conv2d %x, %w
  return %y
}})",
                                                   weights));
  ir::Tensor x(ir::DType::kF32, {1, 32, 12, 12});
  fill(Distribution::kSymmetric, 2, "x", x.data_mut<float>());
  for (float& v : x.data_mut<float>()) v = std::trunc(v * 4095);
  const std::vector<study::NamedTensor> inputs = {{"x", x}};
  const auto plain = between_orders(graph, "f32", inputs);
  CHECK(plain.mismatched * 10 > plain.elements);
  CHECK(between_orders(graph, "kahan", inputs).mismatched == 0);
  // Below 2^53 sums in f64 are exact, and rounded once.
  const ir::Tensor exact = compiled_output(graph, with(kCrs, "f64"), inputs);
  CHECK(ir::same_bits(compiled_output(graph, with(kCrs, "kahan"), inputs), exact));
  for (const char* order : {"crs.kahan", "rsc.kahan", "c8rs.kahan"}) {
    study::PairSettings s = tests::settings("eager", "none");
    s.eager_order = ir::parse_order(order).value();
    const auto eager = study::run_arm(graph, inputs, study::Arm::kEager, s, tests::services());
    CHECK(ir::same_bits(eager->front().tensor, exact));
  }
  // More than one chain is more than one rounding.
  study::PairSettings split = tests::settings("eager", "none");
  split.eager_order = ir::parse_order("crs.split4.kahan").value();
  const auto sliced = study::run_arm(graph, inputs, study::Arm::kEager, split, tests::services());
  CHECK(!ir::same_bits(sliced->front().tensor, exact));
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
  // 8 blocks on 132 SMs instead of 128 with a sixteenth of the sum each; the launch costs the same.
  const double lost = time;
  CHECK(lost > 4);
  CHECK(lost < 16);
  CHECK(alone == sample(8, true));
  CHECK(time < lost / 2);  // the larger batch fills more of the device
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
