// Every mitigation: the divergence that is there without it, gone with it, and what it costs.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "frontend/report/text.h"
#include "ir/support/rng.h"
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
graph @g(%x: f32[1,64,8,8]) {
  %w = constant f32[64,64,3,3] random(seed=1, he)
  %v = constant f32[64,64,3,3] random(seed=2, he)
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
// Values of the compiled arm by name.
std::map<std::string, ir::Tensor> compiled_values(const ir::Graph& graph, const char* passes,
                                                  const std::vector<std::string>& sets,
                                                  const std::vector<study::NamedTensor>& inputs) {
  std::map<std::string, ir::Tensor> values;
  study::PairSettings s = tests::settings("", passes, sets);
  s.on_value = [&](const std::string& name, const ir::Tensor&, const ir::Tensor& compiled,
                   const ir::Tensor*) { values[name] = compiled; };
  tests::compare(graph, inputs, s);
  return values;
}
}  // namespace

TEST_CASE("mitigation: match-order takes every difference away, Winograd's included") {
  if (!tests::kernels_available("match-order")) return;
  const ir::Graph graph = two_convolutions();
  const auto inputs = tests::random_inputs(graph, 3);
  const std::string winograd = "none,+layout-channels-last,+choose-algorithm";
  const auto without = tests::compare(graph, inputs, tests::settings("", winograd));
  CHECK(without.verdict == Verdict::kAlgorithm);
  CHECK(without.mitigations.empty());
  const auto with = tests::compare(graph, inputs, tests::settings("", winograd + ",+match-order"));
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
  if (!tests::kernels_available("accumulate")) return;
  const ir::Graph graph = tests::parse(R"(gir 1
graph @g(%x: f32[1,64,8,8]) {
  %w = constant f32[64,64,3,3] random(seed=1, he)
  %y = conv2d %x, %w {pad=[1,1,1,1]}
  return %y
})");
  const auto inputs = tests::random_inputs(graph, 4);
  const char *crs = "none,+choose-tiling", *rsc = "none,+layout-channels-last,+choose-tiling";
  auto difference = [&](const std::vector<std::string>& sets) {
    return runtime::compare::measure(compiled_values(graph, crs, sets, inputs).at("y"),
                                     compiled_values(graph, rsc, sets, inputs).at("y"));
  };
  const auto plain = difference({}), kahan = difference({"choose-tiling.accumulate=kahan"});
  CHECK(plain.mismatched * 10 > plain.elements * 8);
  CHECK(difference({"choose-tiling.accumulate=f64"}).mismatched == 0);
  // What Kahan's last step loses is dropped: a rounding of the result is left of hundreds.
  CHECK(kahan.rel_l2 > 0);
  CHECK(kahan.rel_l2 < plain.rel_l2 / 4);
  const auto f64 =
      tests::compare(graph, inputs, tests::settings("", crs, {"choose-tiling.accumulate=f64"}));
  CHECK(f64.verdict == Verdict::kPrecision);
  CHECK(f64.causes[0].kind == runtime::compare::CauseKind::kAccumulator);
  CHECK(at(f64, "y").compiled_to_reference->rel_l2 < at(f64, "y").eager_to_reference->rel_l2 / 5);
  CHECK(cost_of(f64, "accumulate=f64").f64 == 1);
  const auto compensated =
      tests::compare(graph, inputs, tests::settings("", crs, {"choose-tiling.accumulate=kahan"}));
  CHECK(cost_of(compensated, "accumulate=kahan").operations == 5);
  // An eager arm that compensates too, in the same order, has the same bits.
  study::PairSettings same = tests::settings("", crs, {"choose-tiling.accumulate=kahan"});
  same.eager_order = ir::parse_order("crs.kahan").value();
  CHECK(tests::compare(graph, inputs, same).verdict == Verdict::kIdentical);
}

TEST_CASE("mitigation: batch-invariant gives a sample the same bits alone and among 8") {
  if (!tests::kernels_available("batch-invariant")) return;
  auto sample = [&](std::int64_t batch, const std::vector<std::string>& sets, double* time) {
    const ir::Graph graph = tests::parse(fmt::format(R"(gir 1
graph @g(%x: f32[{0},512,7,7]) {{
  %w = constant f32[512,512,1,1] random(seed=1, he)
  %y = conv2d %x, %w
  return %y
}})",
                                                     batch));
    const auto inputs = tests::random_inputs(graph, 5);  // the first sample is that of batch 1
    const char* passes = "none,+conv1x1-as-matmul,+choose-tiling";
    ir::Tensor y;
    study::PairSettings s = tests::settings("", passes, sets);
    s.on_value = [&](const std::string&, const ir::Tensor&, const ir::Tensor& compiled,
                     const ir::Tensor*) { y = compiled; };
    const auto report = tests::compare(graph, inputs, s);
    if (time != nullptr) *time = cost_of(report, "batch-invariant").time;
    const auto all = y.data<float>();
    return std::vector<float>(all.begin(), all.begin() + 512 * 49);
  };
  CHECK(sample(1, {}, nullptr) != sample(8, {}, nullptr));
  double alone = 0, among = 0;
  const std::vector<std::string> invariant = {"choose-tiling.batch-invariant=on"};
  CHECK(sample(1, invariant, &alone) == sample(8, invariant, &among));
  // 8 blocks of 132 SMs instead of 128; the larger batch loses less.
  CHECK(alone == 16);
  CHECK(among < alone);
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
  const study::PairSettings serial = tests::settings("", "none,+split-k", {"split-k.slices=4"});
  CHECK(study::run_schedules(graph, inputs, 5, serial, tests::services())->changed.empty());
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
  winograd.transform = {4, ir::Precision::kF32};
  s.eager_contracts["c"] = winograd;
  const auto report = tests::compare(graph, inputs, s);
  CHECK(report.verdict == Verdict::kAlgorithm);
  CHECK(at(report, "c").causes[0].detail == "winograd4:f32 -> sum of products");
  CHECK(at(report, "c").eager_contract.find("transform=winograd4:f32") != std::string::npos);
  CHECK(at(report, "y").verdict == Verdict::kAlgorithm);
  CHECK(at(report, "y").local == 0);  // only its input differs
  // A compiled arm that makes the same choice has the same bits.
  study::PairSettings same =
      tests::settings("", "none,+choose-algorithm",
                      {"choose-algorithm.algorithm=winograd4", "choose-algorithm.nodes=c"});
  same.eager_contracts = s.eager_contracts;
  CHECK(tests::compare(graph, inputs, same).verdict == Verdict::kIdentical);
  const auto eager = study::run_arm(graph, inputs, study::Arm::kEager, same, tests::services());
  const auto compiled =
      study::run_arm(graph, inputs, study::Arm::kCompiled, same, tests::services());
  CHECK(ir::same_bits(eager->front().tensor, compiled->front().tensor));
}
