// The audit of flags: what turning one over changes, on kernels that other cases compile too.
#include <doctest/doctest.h>

#include <cmath>

#include "frontend/report/audit_report.h"
#include "runtime/compare/metrics.h"
#include "runtime/study/knob_audit.h"
#include "runtime/study/tuning.h"
#include "tests/support/command_line.h"
#include "tests/support/orders_apart.h"
#include "tests/support/services.h"
#include "tests/unit/report_schema.h"

using namespace driftc;
using runtime::study::AuditEffect;
using runtime::study::AuditRow;
using runtime::study::KnobAudit;
namespace study = runtime::study;

namespace {

const AuditRow& row(const KnobAudit& audit, const std::string& flag) {
  for (const AuditRow& r : audit.rows)
    if (r.flag == flag) return r;
  FAIL("no row " << flag);
  return audit.rows.front();
}
KnobAudit audit(const ir::Graph& graph, const study::PairSettings& settings) {
  const auto inputs = tests::random_inputs(graph, 1);
  auto result = study::audit_knobs(graph, inputs, settings, tests::services());
  REQUIRE_MESSAGE(result.ok(), (result.ok() ? "" : result.error().render()));
  return *result;
}
// Kernels that stay in the interpreter: everything but source and PTX can change.
study::PairSettings interpreted(const std::string& passes,
                                const std::vector<std::string>& sets = {}) {
  return tests::settings("eager", passes, sets);
}

}  // namespace

TEST_CASE("audit: a flag changes IR, source, PTX and bits, or is a placebo") {
  if (!tests::kernels_available("audit")) return;
  const ir::Graph graph = tests::zoo("conv3x3");
  const KnobAudit a = audit(graph, tests::settings("", "none"));
  CHECK(a.repeatable);
  CHECK(a.first_change == "");
  CHECK(a.values == 1);
  CHECK(a.rows.size() == 14);  // every pass but precision and fallback
  const AuditRow& split = row(a, "split-k");
  CHECK(split.effect == AuditEffect::kBits);
  CHECK(split.from == "off");
  CHECK(split.to == "on");
  CHECK(split.hashes.ir != a.hashes.ir);
  CHECK(split.hashes.source != a.hashes.source);
  CHECK(split.hashes.ptx != a.hashes.ptx);
  CHECK(split.hashes.bits != a.hashes.bits);
  CHECK(split.values_changed == 1);
  // The figures are those of the two outputs, and no element moved further than two orders are
  // apart.
  const auto inputs = tests::random_inputs(graph, 1);
  const auto output = [&](const std::string& passes) {
    const auto run = study::run_arm(graph, inputs, study::Arm::kCompiled,
                                    tests::settings("", passes), tests::services());
    REQUIRE(run.ok());
    return run->at(0).tensor;
  };
  const ir::Tensor whole = output("none"), sliced = output("none,+split-k");
  const runtime::compare::Metrics metrics = runtime::compare::measure(whole, sliced);
  CHECK(split.elements == whole.elements());
  CHECK(split.mismatched == metrics.mismatched);
  CHECK(split.max_ulp == metrics.max_ulp);
  CHECK(split.max_abs == metrics.max_abs);
  CHECK(split.rel_l2 == metrics.rel_l2);
  CHECK(split.rel_l2 > 0);
  const tests::Apart apart =
      tests::orders_apart(graph, graph.value(graph.outputs()[0]).name, inputs);
  std::size_t beyond = 0;
  double squares = 0;
  for (std::size_t i = 0; i < apart.each.size(); ++i) {
    const double before = whole.data<float>()[i], after = sliced.data<float>()[i];
    beyond += std::abs(before - after) > apart.each[i] ? 1 : 0;
    squares += before * before;
  }
  CHECK(beyond == 0);
  // rel_l2 is taken relative to the arm as set; the factor is for the rounding of these norms.
  CHECK(split.rel_l2 * std::sqrt(squares) <= apart.l2 * (1 + 0x1p-30));
  const AuditRow& placebo = row(a, "fold-batchnorm");  // there is none
  CHECK(placebo.effect == AuditEffect::kPlacebo);
  CHECK(placebo.hashes.ir == a.hashes.ir);
  CHECK(placebo.hashes.bits == a.hashes.bits);
  CHECK(placebo.mismatched == 0);
  // Turning a pass on and off are the same pair of arms (here in the interpreter).
  const KnobAudit on = audit(graph, interpreted("none,+split-k"));
  CHECK(row(on, "split-k").from == "on");
  CHECK(on.hashes.bits == split.hashes.bits);
  CHECK(row(on, "split-k").hashes.bits == a.hashes.bits);
  CHECK(row(on, "split-k").max_ulp == split.max_ulp);
  CHECK(row(on, "match-order").hashes.bits == a.hashes.bits);
}

TEST_CASE("audit: IR without bits, options, refusals, and NaN bits") {
  const ir::Graph graph = tests::parse(R"(gir 1
graph @g(%x: f32[1,8,6,6]) {
  %w = constant f32[8,8,3,3] random(seed=1, he)
  %c = conv2d %x, %w {pad=[1,1,1,1]}
  %s = sqrt %c
  %t = add %s, %x
  %y = relu %t
  return %y
})");
  const KnobAudit a = audit(graph, interpreted("none", {"split-k.slices=2"}));
  CHECK(a.values == 4);
  // One kernel instead of three, in f32: the same bits; two values are gone.
  CHECK(row(a, "fuse-pointwise").effect == AuditEffect::kText);
  CHECK(row(a, "fuse-pointwise").values == 2);
  CHECK(row(a, "fuse-pointwise").hashes.source == a.hashes.source);
  CHECK(row(a, "fuse-pointwise").hashes.bits == a.hashes.bits);  // NaN where c < 0
  CHECK(row(a, "split-k").effect == AuditEffect::kBits);
  CHECK(row(a, "split-k").values_changed == 4);
  CHECK(row(a, "split-k.slices").effect == AuditEffect::kPlacebo);  // split-k is off
  CHECK(row(a, "split-k.slices").from == "2");
  CHECK(row(a, "split-k.slices").to == "auto");
  // Refused before anything is compiled.
  study::PairSettings strict =
      tests::settings("", "none", {"split-k.slices=2", "split-k.combine=atomic"});
  strict.deterministic = true;
  if (!tests::kernels_available("audit")) return;
  const KnobAudit refusing = audit(tests::zoo("conv3x3"), strict);
  CHECK(row(refusing, "split-k").effect == AuditEffect::kRefused);
  CHECK(row(refusing, "split-k").refused.find("added by atomics") != std::string::npos);
  const std::string text = frontend::audit_text(refusing, {});
  CHECK(text.find("  split-k on is refused: --deterministic: the kernel of 'conv' has order") !=
        std::string::npos);
}

TEST_CASE("audit: where two equal runs differ, no flag is blamed") {
  const ir::Graph graph = tests::parse(R"(gir 1
graph @g(%x: f32[1,8,6,6]) {
  %w = constant f32[8,8,3,3] random(seed=1, he)
  %r = relu %x
  %c = conv2d %r, %w {pad=[1,1,1,1]}
  return %c
})");
  const KnobAudit a =
      audit(graph, interpreted("none,+split-k", {"split-k.slices=4", "split-k.combine=atomic"}));
  CHECK(!a.repeatable);
  CHECK(a.first_change == "c");
  CHECK(a.rows.empty());
  CHECK(frontend::audit_text(a, {}).find("not the same bits (first c)") != std::string::npos);
  CHECK(audit(graph, interpreted("none,+split-k", {"split-k.slices=4"})).repeatable);
}

TEST_CASE("audit: the same for any number of threads, and as JSON in its schema") {
  const tests::TemporaryFolder folder;
  std::string first;
  for (const char* threads : {"1", "3"}) {
    const auto outcome = tests::run_command(
        std::string("driftc compare docs/lessons/bias.gir --input ones --mode eager --passes "
                    "none,+dce --audit --json - --threads ") +
            threads,
        folder);
    REQUIRE(outcome.code == 0);
    if (first.empty()) first = outcome.out;
    CHECK(outcome.out == first);
  }
  const auto json = frontend::Json::parse(first);
  const auto schema =
      frontend::Json::parse(tests::read_file(DRIFTC_SOURCE_DIR "/docs/schema/compare-1.json"));
  CHECK(tests::schema_faults(schema, json) == "");
  CHECK(json["audit"]["repeatable"] == true);
  CHECK(json["audit"]["rows"][1]["flag"] == "dce");
  CHECK(json["audit"]["rows"][1]["from"] == "on");
  CHECK(json["audit"]["rows"][1]["effect"] == "placebo");
  for (const auto& r : json["audit"]["rows"]) {
    if (r["flag"] != "bias-first") continue;
    CHECK(r["effect"] == "bits");
    CHECK(r["max_ulp"] == 8);
    CHECK(r["hashes"]["bits"] != json["audit"]["hashes"]["bits"]);
  }
}

TEST_SUITE("soak") {
  // Flips change the problems, so candidates are compiled: too many kernels for every run.
  TEST_CASE("audit: in max-autotune what flips make the tuner learn stays out of the user's file" *
            doctest::skip()) {
    if (!tests::kernels_available("audit")) return;
    study::PairSettings s = tests::settings("max-autotune");
    s.tuning = std::make_shared<study::Tuning>();
    s.tuning->device = s.device.name;
    int added = 0;
    s.tuning->added = [&](study::TunedProblems&) -> Result<void> {
      ++added;
      return {};
    };
    const KnobAudit a = audit(tests::zoo("conv3x3"), s);
    CHECK(a.repeatable);
    CHECK(row(a, "choose-tiling.block").from == "tuned");
    CHECK(row(a, "choose-tiling.block").to == "auto");
    CHECK(added == 0);
    CHECK(s.tuning->problems.empty());
  }
}
