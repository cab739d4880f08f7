// What a reader expects to see of precisions and algorithms, as inequalities between errors.
// Kernels stay in the interpreter here (mode eager); docs/lessons runs the generated ones.
#include <doctest/doctest.h>

#include <cmath>

#include "ir/support/rng.h"
#include "tests/support/services.h"

using namespace driftc;
namespace study = runtime::study;

namespace {

ir::Graph convolution(const std::string& weights) {
  return tests::parse(R"(gir 1
graph @g(%x: f32[1,32,28,28]) {
  %w = constant f32[32,32,3,3] random(seed=1, he)
  %a = abs %w
  %y = conv2d %x, %)" +
                      weights + R"( {pad=[1,1,1,1]}
  return %y
})");
}

struct How {
  std::string algorithm;  // "": the sum itself
  ir::Precision precision = ir::Precision::kF32;
};

// The value y and its distance to the f64 run.
struct Outcome {
  ir::Tensor y;
  double rel_l2 = 0;
};
Outcome run(const ir::Graph& graph, const std::vector<study::NamedTensor>& inputs, const How& how) {
  study::PairSettings s = how.algorithm.empty()
                              ? tests::settings("eager", "none,+precision")
                              : tests::settings("eager", "none,+choose-algorithm,+precision",
                                                {"choose-algorithm.algorithm=" + how.algorithm,
                                                 "choose-algorithm.form=fused"});
  s.precision.conv = how.precision;
  s.precision.mma_arch = s.device.mma_arch;
  Outcome out;
  s.on_value = [&](const std::string&, const ir::Tensor&, const ir::Tensor& compiled,
                   const ir::Tensor*) { out.y = compiled; };
  const auto report = tests::compare(graph, inputs, s);
  // Not compiled is no excuse: where bits differ the verdict says how.
  CHECK((report.verdict == runtime::compare::Verdict::kIdentical) == (report.values_differ == 0));
  out.rel_l2 = report.nodes.back().compiled_to_reference->rel_l2;
  return out;
}

}  // namespace

TEST_CASE("demonstration: F(4,3) with TF32 inside is worse by orders of magnitude") {
  const ir::Graph graph = convolution("w");
  for (const std::uint64_t seed : {1, 2}) {
    const auto inputs = tests::random_inputs(graph, seed);
    const auto error = [&](const char* algorithm, ir::Precision precision) {
      return run(graph, inputs, {algorithm, precision}).rel_l2;
    };
    using enum ir::Precision;
    const double direct = error("", kF32), direct_tf32 = error("", kTf32Rna);
    const double f2 = error("winograd2", kF32), f2_tf32 = error("winograd2", kTf32Rna);
    const double f4 = error("winograd4", kF32), f4_tf32 = error("winograd4", kTf32Rna);
    CHECK(f4_tf32 > 1000 * f4);
    CHECK(f4_tf32 > 1000 * direct);
    CHECK(f4_tf32 > 5 * direct_tf32);
    CHECK(f4_tf32 > 3 * f2_tf32);
    CHECK(f2_tf32 < 3 * direct_tf32);
    CHECK(f2 < direct);
  }
}

TEST_CASE("demonstration: TF32 cut errs one way and farther, TF32 rounded either way") {
  const ir::Graph graph = convolution("a");
  ir::Tensor x(ir::DType::kF32, {1, 32, 28, 28});
  fill(Distribution::kUniform, 1, "x", x.data_mut<float>());
  const std::vector<study::NamedTensor> inputs = {{"x", x}};
  const ir::Tensor f32 = run(graph, inputs, {}).y;
  // Mean of (y - f32) / f32; every term is positive, so no element is near zero.
  const auto mean = [&](const ir::Tensor& y) {
    double sum = 0;
    for (std::int64_t i = 0; i < y.elements(); ++i)
      sum +=
          (static_cast<double>(y.data<float>()[i]) - f32.data<float>()[i]) / f32.data<float>()[i];
    return sum / static_cast<double>(y.elements());
  };
  const Outcome rounded = run(graph, inputs, {"", ir::Precision::kTf32Rna});
  const Outcome cut = run(graph, inputs, {"", ir::Precision::kTf32Trunc});
  // Two operands, each less by 2^-11 of its binade on average, hence by 2^-11 to 2^-12 of itself.
  CHECK(mean(cut.y) < -0x1p-11);
  CHECK(mean(cut.y) > -0x1p-10);
  CHECK(std::abs(mean(rounded.y)) < 0x1p-15);
  CHECK(cut.rel_l2 > 5 * rounded.rel_l2);
  for (std::int64_t i = 0; i < f32.elements(); ++i)
    REQUIRE(cut.y.data<float>()[i] < f32.data<float>()[i]);
}
