// Random networks under random passes: whatever the passes did, every value is proved, and eager
// under the declared contracts is identical.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "tests/support/random_network.h"
#include "tests/support/services.h"

using namespace driftc;
using runtime::compare::Verdict;

// False where the services have no compiler and do not know a kernel of the network yet.
static bool check_seed(std::uint64_t seed, tests::Vocabulary vocabulary,
                       const runtime::study::Services& services = tests::services()) {
  const tests::RandomNetwork g = tests::random_network(seed, vocabulary);
  const tests::RandomSettings random = tests::random_settings(seed);
  auto s = tests::settings("", random.passes);
  if (!random.eager_order.empty()) s.eager_order = *ir::parse_order(random.eager_order);
  for (bool declared : {false, true}) {
    s.declared = declared;
    s.reference = !declared;
    s.exact = !declared;
    auto report = runtime::study::pair_run(g.graph, g.inputs, s, services);
    if (!report.ok() && report.error().kind == ErrorKind::kUnavailable) return false;
    const std::string what = fmt::format("seed {} --passes {} --eager-order '{}' declared={}", seed,
                                         random.passes, random.eager_order, declared);
    REQUIRE_MESSAGE(report.ok(), what << "\n" << (report.ok() ? "" : report.error().render()));
    const bool fine = declared
                          ? report->values_differ == 0 && report->verdict == Verdict::kIdentical
                          : report->verdict <= Verdict::kPrecision;
    CHECK_MESSAGE(fine, what << ": " << name_of(report->verdict) << "\n"
                             << tests::findings(*report) << ir::print(g.graph));
    for (const auto& node : report->nodes)
      if (node.exact && node.exact->bound)
        CHECK_MESSAGE(node.exact->bound->used <= 1, what << ": bound of " << node.name);
    // Integers below 2^24 have one right sum: no order, tile or fusion may change it. (Means and
    // batch norms divide, so the exact part ends there; values that stay integers are held to it by
    // compare == bits.)
  }
  return true;
}

TEST_CASE("property: random networks round-trip through text") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const ir::Graph graph = tests::random_network(seed).graph;
    const std::string text = ir::print(graph);
    auto again = ir::parse_graph(text, "random.gir");
    REQUIRE_MESSAGE(again.ok(), (again.ok() ? "" : again.error().render()));
    CHECK(ir::print(*again) == text);
    CHECK(ir::verify(*again).empty());
  }
}

TEST_CASE("property: random networks under random passes are proved") {
  if (!tests::kernels_available("random networks")) return;
  for (std::uint64_t seed = 1; seed <= 2; ++seed) CHECK(check_seed(seed, tests::Vocabulary::kAll));
}

// A sample of the soak below. NVRTC is given few of them; the others are those whose kernels are
// known by then.
TEST_CASE("property: 200 random networks of conv, add, relu and pool are proved") {
  if (!tests::kernels_available("random networks")) return;
  codegen::CacheOptions options;
  options.folder = Settings::from_env().cache_dir;
  codegen::KernelCache known(options, std::nullopt);
  int proved = 0;
  for (std::uint64_t seed = 1000; seed < 11000 && proved < 200; ++seed)
    proved += proved < 7 ? check_seed(seed, tests::Vocabulary::kConvAddReluPool)
                          : check_seed(seed, tests::Vocabulary::kConvAddReluPool,
                                       {known, tests::thread_pool(), {}});
  CHECK(proved == 200);
}

TEST_SUITE("soak") {
  TEST_CASE("soak: 10000 random networks of conv, add, relu and pool" * doctest::skip()) {
    if (!tests::kernels_available("soak")) return;
    for (std::uint64_t seed = 1000; seed < 11000; ++seed)
      CHECK(check_seed(seed, tests::Vocabulary::kConvAddReluPool));
  }
  TEST_CASE("soak: 2000 random networks of every op" * doctest::skip()) {
    if (!tests::kernels_available("soak")) return;
    for (std::uint64_t seed = 1000; seed < 3000; ++seed)
      CHECK(check_seed(seed, tests::Vocabulary::kAll));
  }
}
