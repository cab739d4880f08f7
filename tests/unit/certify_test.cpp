// The checker is held against planted faults and harmless variants; `driftc certify --seeds 20` is
// the long form.
#include <doctest/doctest.h>

#include <fstream>

#include "frontend/report/certify_report.h"
#include "tests/support/services.h"
#include "tests/unit/report_schema.h"

using namespace driftc;
namespace study = runtime::study;

TEST_CASE("certify: every planted fault is found, nobody healthy is accused") {
  if (!tests::kernels_available("certify")) return;
  study::CertifySettings settings;
  settings.seeds = 1;
  settings.shapes = 2;
  settings.device = tests::device();
  auto report = study::certify(settings, tests::services());
  REQUIRE_MESSAGE(report.ok(), (report.ok() ? "" : report.error().render()));
  CHECK_MESSAGE(report->holds(), frontend::certify_text(*report, 1, {}));
  REQUIRE(report->comparers.size() > 2);
  const study::ComparerScore& own = report->comparers[0];
  const study::ComparerScore& judge = report->comparers[1];
  CHECK(own.found == own.faults);
  CHECK(own.false_alarms == 0);
  CHECK(judge.found_f32 == judge.faults_f32);
  CHECK(judge.false_alarms == 0);
  // A run that plants nothing would hold as well.
  CHECK(report->faults > 100);
  CHECK(report->healthy == 72);
  // No fixed tolerance does as well: each misses a fault or accuses somebody.
  for (std::size_t i = 2; i < report->comparers.size(); ++i) {
    const study::ComparerScore& tool = report->comparers[i];
    CHECK_MESSAGE((tool.found < tool.faults || tool.false_alarms > 0), tool.name);
  }
  std::ifstream file(DRIFTC_SOURCE_DIR "/docs/schema/certify-1.json");
  REQUIRE(file.good());
  CHECK(tests::schema_faults(frontend::Json::parse(file), frontend::certify_json(*report, 0)) ==
        "");
}
