// Networks of the operators beyond convolution and relu, through the passes, NVRTC and the PTX
// executor: no passes and strict change no bit, and under the declared order every mode is
// identical (source replay).
#include <doctest/doctest.h>

#include <string>

#include "tests/support/services.h"

using namespace driftc;
using runtime::compare::Verdict;
namespace study = runtime::study;

namespace {

struct Network {
  const char* name;
  const char* text;
  std::size_t fallbacks = 0;  // nodes without an emitter
};

const Network kNetworks[] = {
    {"activations behind convolutions", R"(gir 1
graph @activations(%x: f32[1,8,9,9]) {
  %w = constant f32[8,8,3,3] random(seed=1, he)
  %v = constant f32[8,8,1,1] random(seed=2, he)
  %b = constant f32[8] random(seed=3, he)
  %slope = constant f32[8,1,1] random(seed=4, he)
  %c1 = conv2d %x, %w, %b {pad=[1,1,1,1]}
  %s1 = sigmoid %c1
  %silu = mul %c1, %s1
  %c2 = conv2d %silu, %v, %b
  %h2 = hard_swish %c2
  %c3 = conv2d %h2, %w {pad=[1,1,1,1]}
  %p3 = prelu %c3, %slope
  %r3 = add %p3, %silu
  %c4 = conv2d %r3, %v
  %g4 = gelu %c4
  %t4 = tanh %g4
  %c5 = conv2d %t4, %w {pad=[1,1,1,1]}
  %e5 = elu %c5 {alpha=0.5}
  %l5 = leaky_relu %e5
  %f5 = softplus %l5
  %q5 = cast %f5 {to=f16}
  %c6 = conv2d %q5, %v
  %m6 = max %c6, %q5
  %y = hard_sigmoid %m6
  return %y
})"},
    {"squeeze and excite, normalisation by reductions", R"(gir 1
graph @reductions(%x: f32[2,6,7,5]) {
  %w = constant f32[6,6,1,1] random(seed=1, he)
  %eps = constant f32[] splat(0x1p-10)
  %one = constant f32[] splat(1)
  %beta = constant f32[] splat(0.75)
  %c = conv2d %x, %w
  %m = reduce_mean %c {axes=[2,3]}
  %s = conv2d %m, %w
  %g = sigmoid %s
  %e = mul %c, %g
  %mean = reduce_mean %e {axes=[1,2,3]}
  %d = sub %e, %mean
  %q = mul %d, %d
  %v = reduce_mean %q {axes=[1,2,3]}
  %r = add %v, %eps
  %root = sqrt %r
  %n = div %d, %root
  %top = reduce_max %n {axes=[1]}
  %low = reduce_min %n {axes=[1]}
  %a = abs %low
  %span = add %a, %top
  %p = add %span, %one
  %k = pow %p, %beta
  %z = div %n, %k
  %x2 = exp %z
  %t = reduce_sum %x2 {axes=[2,3], keepdims=0}
  %y = log %t
  return %y
})"},
    {"decoder", R"(gir 1
graph @decoder(%x: f32[1,8,5,4]) {
  %w = constant f32[8,4,3,3] random(seed=1, he)
  %b = constant f32[4] random(seed=2, he)
  %v = constant f32[4,4,3,3] random(seed=3, he)
  %up = conv_transpose %x, %w, %b {stride=[2,2], pad=[1,1,1,1], output_pad=[1,1]}
  %r = relu %up
  %near = resize %r {mode=nearest, coordinates=asymmetric, rounding=floor, sizes=[20,16], scale_h=2, scale_w=2}
  %c = conv2d %near, %v {pad=[1,1,1,1]}
  %lin = resize %c {mode=linear, coordinates=half_pixel, sizes=[15,12], scale_h=0.75, scale_w=0.75}
  %e = neg %lin
  %f = erf %e
  %i = argmax %f {axis=1}
  return %f, %i
})",
     1},
};

void expect_identical(const study::PairReport& report, const std::string& what) {
  CHECK_MESSAGE(report.verdict == Verdict::kIdentical, what << ": " << tests::findings(report));
  CHECK_MESSAGE(report.values_differ == 0, what);
}

}  // namespace

TEST_CASE("operators: with every pass, the declared order is identical") {
  if (!tests::kernels_available("operators")) return;
  for (const Network& network : kNetworks) {
    const ir::Graph graph = tests::parse(network.text);
    study::PairSettings settings = tests::settings("", "all,-layout-channels-last");
    settings.declared = true;
    const auto all = tests::compare(graph, tests::random_inputs(graph, 1), settings);
    expect_identical(all, network.name);
    CHECK(all.fallbacks.size() == network.fallbacks);
    for (const auto& fallback : all.fallbacks) CHECK(fallback.reason == "no emitter for argmax");
  }
}

TEST_SUITE("soak") {
  TEST_CASE("operators: no passes and strict are identical; declared orders are in every mode" *
            doctest::skip()) {
    if (!tests::kernels_available("operators")) return;
    for (const Network& network : kNetworks) {
      const ir::Graph graph = tests::parse(network.text);
      const auto inputs = tests::random_inputs(graph, 1);
      const std::string name = network.name;
      for (auto& s : {tests::settings("", "none"), tests::settings("strict")})
        expect_identical(tests::compare(graph, inputs, s), name);
      for (auto& s : {tests::settings("default"), tests::settings("", "all")}) {
        study::PairSettings settings = s;
        const auto plain = tests::compare(graph, inputs, settings);
        CHECK_MESSAGE((plain.verdict == Verdict::kIdentical || plain.verdict == Verdict::kOrder),
                      name << ": " << tests::findings(plain));
        settings.declared = true;
        expect_identical(tests::compare(graph, inputs, settings), name + ", declared");
      }
    }
  }
}

TEST_CASE("operators: activations join the kernel of their convolution") {
  if (!tests::kernels_available("fused activations")) return;
  const ir::Graph graph = tests::parse(kNetworks[0].text);
  const auto report = tests::compare(graph, tests::random_inputs(graph, 2),
                                     tests::settings("", "all,-layout-channels-last"));
  std::size_t convolutions = 0;
  for (const auto& kernel : report.kernels)
    convolutions += kernel.algorithm == "implicit_gemm" || kernel.algorithm == "matmul";
  CHECK(report.kernels.size() == convolutions);
}
