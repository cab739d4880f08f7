// The checker is held against planted faults and harmless variants; `driftc certify --seeds 20` is
// the long form.
#include <doctest/doctest.h>

#include <fstream>
#include <map>

#include "frontend/report/certify_report.h"
#include "runtime/study/faults.h"
#include "tests/support/services.h"
#include "tests/unit/report_schema.h"

using namespace driftc;
namespace study = runtime::study;

namespace {

study::CertifyReport certified(int seeds, int shapes, std::vector<std::string> families,
                               std::vector<std::string> faults = {}) {
  study::CertifySettings settings;
  settings.seeds = seeds;
  settings.shapes = shapes;
  settings.families = std::move(families);
  settings.faults = std::move(faults);
  settings.device = tests::device();
  auto report = study::certify(settings, tests::services());
  REQUIRE_MESSAGE(report.ok(), (report.ok() ? "" : report.error().render()));
  return std::move(*report);
}

void expect_the_checker_to_hold(const study::CertifyReport& report) {
  CHECK_MESSAGE(report.holds(), frontend::certify_text(report, 1, {}));
  REQUIRE(report.comparers.size() > 2);
  const study::ComparerScore& own = report.comparers[0];
  const study::ComparerScore& judge = report.comparers[1];
  CHECK(own.all.found == own.all.faults);
  CHECK(own.all.false_alarms == 0);
  CHECK(judge.all.false_alarms == 0);
  for (std::size_t i = 0; i < report.families.size(); ++i)
    if (report.families[i]->every_fault)
      CHECK(judge.by_family[i].found == judge.by_family[i].faults);
}

// No fixed tolerance does as well: each misses a fault or accuses somebody.
void expect_no_other_to_hold(const study::CertifyReport& report) {
  for (std::size_t i = 2; i < report.comparers.size(); ++i) {
    const study::ComparerScore& tool = report.comparers[i];
    CHECK_MESSAGE((tool.all.found < tool.all.faults || tool.all.false_alarms > 0), tool.name);
  }
}

}  // namespace

TEST_CASE("certify: every planted fault is found, nobody healthy is accused") {
  if (!tests::kernels_available("certify")) return;
  // Some of the faults planted in CUDA text, and f32 alone: each is a text of its own for NVRTC.
  // All of them, and TF32, are in soak.
  const study::CertifyReport report =
      certified(1, 1, {"f32"},
                {"graph", "declar", "constant", "lowering", "launch", "memory", "bias", "dropped",
                 "swallowed", "barrier"});
  expect_the_checker_to_hold(report);
  // A run that plants nothing would hold as well.
  CHECK(report.faults >= 12);
  CHECK(report.healthy == 12);
  std::ifstream file(DRIFTC_SOURCE_DIR "/docs/schema/certify-1.json");
  REQUIRE(file.good());
  CHECK(tests::schema_faults(frontend::Json::parse(file), frontend::certify_json(report, 0)) == "");
}

TEST_CASE("certify: where wrong elements lie is said in words") {
  if (!tests::kernels_available("patterns")) return;
  const std::map<std::string, std::string> expected = {
      {"bias doubled on one channel", "all differences lie in channel 1"},
      {"one element off by 5e-4", "one element alone is off, at [0,0,7,0]"},
      {"padding ignored", ""}};
  for (const study::FaultKind& kind : study::fault_kinds()) {
    const auto want = expected.find(kind.name);
    if (want == expected.end()) continue;
    const study::CertifyModel model = study::certify_model(0, 0);
    const study::Faults faults = kind.plant(std::make_shared<bool>(false));
    study::PairSettings s = tests::settings("", "none,+choose-tiling,+fuse-epilogue");
    s.faults = &faults;
    const auto report = tests::compare(model.graph, model.inputs, s);
    for (const study::NodeReport& node : report.nodes)
      if (!node.fault.empty()) CHECK_MESSAGE(node.pattern == want->second, kind.name);
  }
}

TEST_SUITE("soak") {
  TEST_CASE("certify: every kind of kernels, 20 seeds, 6 models" * doctest::skip()) {
    if (!tests::kernels_available("certify")) return;
    const study::CertifyReport report = certified(20, 6, {});
    expect_the_checker_to_hold(report);
    expect_no_other_to_hold(report);
    CHECK(report.faults > 8000);
    CHECK(report.never_effective.empty());
  }
}
