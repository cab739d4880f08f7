// `compare --reference exact`: each arm against the exact value on its own inputs, and the bound on
// the difference of the arms.
#include "runtime/study/exact_study.h"

#include <doctest/doctest.h>

#include <limits>

#include "ir/support/rng.h"
#include "runtime/study/faults.h"
#include "tests/support/services.h"

using namespace driftc;
namespace study = runtime::study;

static study::PairReport exactly(const ir::Graph& graph,
                                 const std::vector<study::NamedTensor>& inputs,
                                 study::PairSettings s) {
  s.exact = true;
  return tests::compare(graph, inputs, s);
}

TEST_CASE("exact study: every difference lies within its bound, the parts make it up") {
  if (!tests::kernels_available("exact study")) return;
  for (const char* name : {"residual-block", "depthwise-block"}) {
    const ir::Graph graph = tests::zoo(name);
    const auto report = exactly(graph, tests::random_inputs(graph, 3), tests::settings("default"));
    std::size_t bounds = 0;
    for (const study::NodeReport& node : report.nodes) {
      if (!node.materialised) continue;
      REQUIRE(node.exact);
      // Rounding to f32 alone is about 2^-26 of the norm; sums of these lengths stay below 2^-19.
      CHECK(node.exact->eager.rel_l2 < 0x1p-19);
      CHECK(node.exact->compiled.rel_l2 < 0x1p-19);
      CHECK(node.exact->bound.has_value() == (node.metrics.mismatched > 0));
      if (!node.exact->bound) continue;
      ++bounds;
      const study::DifferenceBound& b = *node.exact->bound;
      CHECK_MESSAGE(b.used <= 1, node.name);
      CHECK(b.used > 0);
      CHECK(b.value >= 0);
      CHECK(b.z_max > 0);
      CHECK(b.local > 0);
      CHECK((b.inherited > 0) == (b.kind == runtime::compare::BoundKind::kPropagated));
      CHECK((b.amplification > 0) == (b.inherited > 0));
    }
    CHECK_MESSAGE(bounds > 0, name);
  }
}

TEST_CASE("exact study: integers below 2^24 are exact, and a lost bit is seen") {
  if (!tests::kernels_available("exact study")) return;
  const ir::Graph graph = tests::parse(R"(gir 1
graph @g(%x: f32[1,5,7,7]) {
  %w = constant f32[4,5,3,3] splat(3)
  %y = conv2d %x, %w {pad=[1,1,1,1]}
  return %y
})");
  ir::Tensor x(ir::DType::kF32, {1, 5, 7, 7});
  fill(Distribution::kIntegers, 1, "x", x.data_mut<float>());
  const auto report = exactly(graph, {{"x", x}}, tests::settings("", "none"));
  REQUIRE(report.nodes.size() == 1);
  REQUIRE(report.nodes[0].exact);
  CHECK(report.nodes[0].exact->eager.max_abs == 0);
  CHECK(report.nodes[0].exact->compiled.max_abs == 0);
  CHECK(!report.nodes[0].exact->bound);
}

TEST_CASE("exact study: a value that nothing explains is measured without being asked") {
  if (!tests::kernels_available("exact study")) return;
  const study::CertifyModel model = study::certify_model(0, 0);
  for (const study::FaultKind& kind : study::fault_kinds()) {
    if (kind.name != "bias missing") continue;
    const study::Faults faults = kind.plant(std::make_shared<bool>(false));
    study::PairSettings s = tests::settings("", "none,+choose-tiling,+fuse-epilogue");
    s.faults = &faults;
    const auto report = tests::compare(model.graph, model.inputs, s);
    bool seen = false;
    for (const study::NodeReport& node : report.nodes) {
      if (node.fault.empty()) continue;  // its users are unexplained, too, by what came in
      seen = true;
      REQUIRE(node.exact);
      CHECK(node.exact->compiled.rel_l2 > 1000 * node.exact->eager.rel_l2);
      REQUIRE(node.exact->bound);
      CHECK(node.exact->bound->used > 1000);
    }
    CHECK(seen);
  }
}

TEST_CASE("compare counts NaN, Inf and flushed subnormals apart, and says what makes them") {
  if (!tests::kernels_available("specials")) return;
  const study::CertifyModel model = study::certify_model(0, 0);
  std::vector<study::NamedTensor> inputs = model.inputs;
  inputs[0].tensor =
      ir::Tensor::of<float>(inputs[0].tensor.shape(), inputs[0].tensor.data<float>());
  inputs[0].tensor.data_mut<float>()[7] = std::numeric_limits<float>::quiet_NaN();
  for (const study::FaultKind& kind : study::fault_kinds()) {
    if (kind.name != "NaN swallowed") continue;
    const study::Faults faults = kind.plant(std::make_shared<bool>(false));
    study::PairSettings s = tests::settings("", "none,+choose-tiling,+fuse-epilogue");
    s.faults = &faults;
    const auto report = tests::compare(model.graph, inputs, s);
    const study::NodeReport& y = report.outputs[0];
    CHECK(y.verdict == runtime::compare::Verdict::kUnexplained);
    CHECK(y.specials.nan_missing > 0);
    CHECK(y.specials.nan_missing == y.specials.nan_became_zero);
    CHECK(y.metrics.nan_mismatch == y.specials.nan_missing);
    REQUIRE(!y.causes.empty());
    CHECK(y.causes.back().kind == runtime::compare::CauseKind::kSpecials);
    CHECK(y.causes.back().detail.find("a relu or a maximum that swallows NaN") !=
          std::string::npos);
  }
}

TEST_CASE("compare: inputs scaled by 2^40 or 2^-40 change no verdict and no count") {
  if (!tests::kernels_available("scaling")) return;
  // Without biases every value scales with the input, and powers of two round nothing.
  const ir::Graph graph = tests::parse(R"(gir 1
graph @g(%x: f32[1,32,28,28]) {
  %w1 = constant f32[32,32,3,3] random(seed=1, he)
  %w2 = constant f32[32,32,3,3] random(seed=2, he)
  %c1 = conv2d %x, %w1 {pad=[1,1,1,1]}
  %r1 = relu %c1
  %c2 = conv2d %r1, %w2 {pad=[1,1,1,1]}
  %a = add %c2, %x
  %y = relu %a
  return %y
})");
  const auto inputs = tests::random_inputs(graph, 4);
  const auto plain = tests::compare(graph, inputs, tests::settings("default"));
  CHECK(plain.verdict == runtime::compare::Verdict::kOrder);
  for (const float scale : {0x1p40f, 0x1p-40f}) {
    CAPTURE(scale);
    auto scaled = inputs;
    scaled[0].tensor =
        ir::Tensor::of<float>(inputs[0].tensor.shape(), inputs[0].tensor.data<float>());
    for (float& v : scaled[0].tensor.data_mut<float>()) v *= scale;
    const auto report = tests::compare(graph, scaled, tests::settings("default"));
    REQUIRE(report.nodes.size() == plain.nodes.size());
    CHECK(report.verdict == plain.verdict);
    for (std::size_t i = 0; i < plain.nodes.size(); ++i) {
      CHECK(report.nodes[i].verdict == plain.nodes[i].verdict);
      CHECK(report.nodes[i].metrics.mismatched == plain.nodes[i].metrics.mismatched);
      CHECK(report.nodes[i].metrics.max_abs ==
            static_cast<double>(scale) * plain.nodes[i].metrics.max_abs);
      CHECK(report.nodes[i].causes.size() == plain.nodes[i].causes.size());
    }
  }
}
