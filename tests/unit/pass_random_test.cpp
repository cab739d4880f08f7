// Properties of passes on random graphs. DRIFTC_SEEDS=N runs more of them (`./dev soak`).
#include <doctest/doctest.h>

#include <cstdlib>

#include "ir/printer.h"
#include "ir/verifier.h"
#include "passes/rewrite.h"
#include "tests/unit/pass_study.h"
#include "tests/unit/random_graph.h"

using namespace driftc;
using tests::joined;
using tests::Setting;
using tests::Study;
using tests::Values;

namespace {

std::uint64_t seeds() {
  const char* wanted = std::getenv("DRIFTC_SEEDS");
  return wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 200;
}

// A subset of passes, drawn from the bits of `seed`.
std::string subset(std::uint64_t seed, const std::string& always) {
  CounterRng rng(seed, "subset");
  std::string list = "none" + always;
  std::uint64_t counter = 0;
  for (const passes::PassInfo& pass : passes::all_passes())
    if (pass.on_in.all && rng.bits(counter++) % 2 == 0) list += ",+" + std::string(pass.name);
  return list;
}

std::string differing(const Values& a, const Values& b) {
  std::string names;
  for (const auto& [name, tensor] : b)
    if (a.contains(name) && !ir::same_bits(a.at(name), tensor)) names += name + " ";
  return names;
}

}  // namespace

TEST_CASE("random graphs: source replay explains every kernel under any subset of passes") {
  for (std::uint64_t seed = 0; seed < seeds(); ++seed) {
    Study study(tests::random_graph(seed), seed);
    REQUIRE_MESSAGE(ir::verify(study.source()).empty(), seed);
    const Setting list[] = {{.passes = "all"},
                            {.passes = subset(seed, "")},
                            {.passes = subset(seed + 1000000, ""),
                             .sets = {"split-k.slices=2"},
                             .order = "crs.muladd+bias.first"}};
    for (const Setting& setting : list) {
      CAPTURE(seed);
      CAPTURE(setting.passes);
      const ir::Graph graph = study.compile(setting);
      const std::string unexplained = joined(study.unexplained(graph, study.run(graph), setting));
      CHECK(tests::refused_by_codegen(graph) == "");
      CHECK_MESSAGE(unexplained == "", ir::print(study.source()) << ir::print(graph));
    }
  }
}

TEST_CASE("random graphs: no bit changes under BitExact passes nor under match-order") {
  constexpr const char* kOrders[] = {"", "crs.fma+bias.first", "rsc.split2.muladd",
                                     "crs.skip.muladd+bias.last", "c2rs.acc2.fma"};
  for (std::uint64_t seed = 0; seed < seeds(); ++seed) {
    Study study(tests::random_graph(seed), seed);
    Setting setting{.passes = subset(seed, ",+match-order"), .order = kOrders[seed % 5]};
    const Values eager = study.eager(setting);
    CAPTURE(seed);
    CAPTURE(setting.order);
    CAPTURE(setting.passes);
    const ir::Graph matched = study.compile(setting);
    CHECK_MESSAGE(differing(eager, study.run(matched)) == "", ir::print(study.source())
                                                                  << ir::print(matched));
    if (!setting.order.empty()) continue;
    setting.passes = "none,+canonicalize,+dce,+fold-constants,+fuse-pointwise,+fuse-epilogue";
    const ir::Graph exact = study.compile(setting);
    CHECK_MESSAGE(differing(eager, study.run(exact)) == "", ir::print(study.source())
                                                                << ir::print(exact));
  }
}

TEST_CASE("random graphs: each pass is idempotent and every stage verifies") {
  for (std::uint64_t seed = 0; seed < seeds(); ++seed) {
    const ir::Graph model = tests::random_graph(seed);
    passes::PassContext context;
    context.source = &model;
    for (const passes::PassInfo& pass : passes::all_passes()) {
      if (pass.name == "fallback") continue;
      CAPTURE(seed);
      CAPTURE(std::string(pass.name));
      auto once = passes::run_listed(model, {std::string(pass.name)}, context);
      REQUIRE_MESSAGE(once.ok(), (once.ok() ? "" : once.error().render()));
      auto twice = passes::run_listed(once->graph, {std::string(pass.name)}, context);
      REQUIRE(twice.ok());
      CHECK_MESSAGE(passes::same_graph(once->graph, twice->graph), ir::print(once->graph)
                                                                       << ir::print(twice->graph));
    }
  }
}
