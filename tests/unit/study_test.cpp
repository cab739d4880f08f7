// The main job: eager against compiled, every value proved.
#include <doctest/doctest.h>

#include <map>

#include "tests/support/services.h"
#include "tests/unit/broken_passes.h"

using namespace driftc;
using runtime::compare::Verdict;
namespace study = runtime::study;

static const std::vector<std::string> kModels = {"residual-block", "depthwise-block", "mlp"};
static const std::vector<std::string> kMoreModels = {"bottleneck-block", "lenet", "vgg-block"};

static void expect_at_most_order(const study::PairReport& report, const std::string& what) {
  const bool fine = report.verdict == Verdict::kIdentical || report.verdict == Verdict::kOrder;
  CHECK_MESSAGE(fine, what << ": " << name_of(report.verdict) << "\n" << tests::findings(report));
}

static void expect_modes(const std::vector<std::string>& models) {
  for (const std::string& model : models) {
    const ir::Graph graph = tests::zoo(model);
    const auto inputs = tests::random_inputs(graph, 1);
    for (const auto& s : {tests::settings("default", "none"), tests::settings("strict")}) {
      const auto report = tests::compare(graph, inputs, s);
      CHECK_MESSAGE(report.verdict == Verdict::kIdentical,
                    model << ": " << tests::findings(report));
      CHECK(report.values_differ == 0);
      // At eager's default order there is a kernel for nearly everything.
      CHECK(report.coverage.multiply_adds >= 0.95);
    }
    expect_at_most_order(tests::compare(graph, inputs, tests::settings("default")), model);
  }
}

static void expect_declared(const std::vector<std::string>& models) {
  for (const std::string& model : models) {
    const ir::Graph graph = tests::zoo(model);
    const auto inputs = tests::random_inputs(graph, 2);
    for (auto& s : {tests::settings("default"), tests::settings("strict"),
                    tests::settings("", "all"), tests::settings("", "none")}) {
      study::PairSettings declared = s;
      declared.declared = true;
      const auto report = tests::compare(graph, inputs, declared);
      CHECK_MESSAGE(report.verdict == Verdict::kIdentical,
                    model << ": " << tests::findings(report));
      CHECK(report.values_differ == 0);
    }
  }
}

TEST_CASE("study: no passes and strict are identical, default is order at most") {
  if (tests::kernels_available("study")) expect_modes(kModels);
}
TEST_CASE("study: the declared order is identical in every mode and with every pass") {
  if (tests::kernels_available("declared order")) expect_declared(kModels);
}
TEST_SUITE("soak") {
  TEST_CASE("soak: modes and declared orders of more models" * doctest::skip()) {
    if (!tests::kernels_available("modes")) return;
    expect_modes(kMoreModels);
    expect_declared(kMoreModels);
  }
}

TEST_CASE("study: gemm with alpha and beta contracts as the interpreter does") {
  if (!tests::kernels_available("gemm contraction")) return;
  const ir::Graph graph = tests::parse(R"(gir 1
graph @g(%a: f32[5,7], %b: f32[7,6], %c: f32[1,6]) {
  %y = gemm %a, %b, %c {alpha=0x1p-2, beta=0x1.666666p-2} : f32[5,6]
  return %y
}
)");
  const auto report =
      tests::compare(graph, tests::random_inputs(graph, 1), tests::settings("default"));
  CHECK_MESSAGE(report.verdict == Verdict::kOrder, tests::findings(report));
  CHECK(report.nodes[0].compiled_contract.find("contract=on") != std::string::npos);
}

TEST_CASE("study: the report does not depend on the number of threads") {
  if (!tests::kernels_available("thread independence")) return;
  const ir::Graph graph = tests::zoo("residual-block");
  const auto inputs = tests::random_inputs(graph, 3);
  const auto s = tests::settings("default");
  runtime::ThreadPool one(1), three(3);
  auto a = study::pair_run(graph, inputs, s, {tests::kernel_cache(), one, {}});
  auto b = study::pair_run(graph, inputs, s, {tests::kernel_cache(), three, {}});
  REQUIRE(a.ok());
  REQUIRE(b.ok());
  REQUIRE(a->nodes.size() == b->nodes.size());
  for (std::size_t i = 0; i < a->nodes.size(); ++i) {
    CHECK(a->nodes[i].metrics.mismatched == b->nodes[i].metrics.mismatched);
    CHECK(a->nodes[i].metrics.rel_l2 == b->nodes[i].metrics.rel_l2);
    CHECK(a->nodes[i].verdict == b->nodes[i].verdict);
  }
}

TEST_CASE("study: a wrong input is an error that names it") {
  const ir::Graph graph = tests::zoo("residual-block");
  auto inputs = tests::random_inputs(graph, 3);
  inputs[0].name += "x";
  auto report = study::pair_run(graph, inputs, tests::settings("default"), tests::services());
  REQUIRE(!report.ok());
  CHECK(report.error().message.find("has no input") != std::string::npos);
}

TEST_CASE("study: passes broken on purpose come out unexplained, and are named") {
  if (!tests::kernels_available("broken passes")) return;
  // Each graph gives the broken pass something to break.
  const std::map<std::string_view, const char*> graphs = {{"conv1x1-as-matmul", R"(gir 1
graph @g(%x: f32[1,8,8,8]) {
  %w = constant f32[16,8,1,1] random(seed=1, he)
  %v = constant f32[16,16,3,3] random(seed=2, he)
  %c = conv2d %x, %w {stride=[2,2]}
  %y = conv2d %c, %v {pad=[1,1,1,1]}
  return %y
})"},
                                                          {"fuse-epilogue", R"(gir 1
graph @g(%x: f32[1,8,8,8]) {
  %w = constant f32[8,8,3,3] random(seed=1, he)
  %c = conv2d %x, %w {pad=[1,1,1,1]}
  %r = relu %c
  %s = add %r, %x
  %y = relu %s
  return %y
})"},
                                                          {"fold-batchnorm", R"(gir 1
graph @g(%x: f32[1,4,8,8]) {
  %w = constant f32[8,4,3,3] random(seed=1, he)
  %scale = constant f32[8] splat(2)
  %shift = constant f32[8] splat(0.25)
  %mean = constant f32[8] splat(0.125)
  %var = constant f32[8] splat(1.5)
  %c = conv2d %x, %w {pad=[1,1,1,1]}
  %y = batch_norm %c, %scale, %shift, %mean, %var
  return %y
})"}};
  for (const tests::BrokenPass& broken : tests::broken_passes()) {
    const std::string what(broken.fault);
    REQUIRE_MESSAGE(graphs.contains(broken.replaces), what);
    const ir::Graph graph = tests::parse(graphs.at(broken.replaces));
    const auto table = tests::table_with(broken);
    study::PairSettings s = tests::settings("", "none,+" + std::string(broken.replaces));
    s.pass_table = table;
    const auto report = tests::compare(graph, tests::random_inputs(graph, 5), s);
    CHECK_MESSAGE(report.verdict == Verdict::kUnexplained, what << ": " << name_of(report.verdict));
    CHECK_MESSAGE(report.fault_pass == broken.replaces,
                  what << ": blames '" << report.fault_pass << "'");
    // The healthy twin is not accused.
    s.pass_table = {};
    expect_at_most_order(tests::compare(graph, tests::random_inputs(graph, 5), s), what);
  }
}
