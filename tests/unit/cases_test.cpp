// Field reports as tests (kinds of the cases collected for driftc): each has a right value that can
// be worked out by hand, and both arms must have it under no passes, default, strict and all
// passes.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "ir/support/rng.h"
#include "tests/support/services.h"

using namespace driftc;
using runtime::compare::Verdict;
namespace study = runtime::study;

namespace {

struct Setting {
  const char* mode;
  const char* passes;
};
constexpr Setting kSettings[] = {{"", "none"}, {"default", ""}, {"strict", ""}, {"", "all"}};

ir::Tensor tensor(ir::Shape shape, const std::function<float(std::int64_t)>& at) {
  ir::Tensor t(ir::DType::kF32, std::move(shape));
  auto data = t.data_mut<float>();
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = at(static_cast<std::int64_t>(i));
  return t;
}
ir::Tensor filled(ir::Shape shape, float value) {
  return tensor(std::move(shape), [=](std::int64_t) { return value; });
}

// Runs the graph under every setting; the first output of both arms must equal `want` in every bit.
void expect_value(const std::string& text, const std::vector<study::NamedTensor>& inputs,
                  const std::function<float(std::int64_t)>& want) {
  const ir::Graph graph = tests::parse(text);
  const std::string output = graph.value(graph.outputs()[0]).name;
  for (const Setting& setting : kSettings) {
    study::PairSettings s = tests::settings(setting.mode, setting.passes);
    bool seen = false;
    s.on_value = [&](const std::string& name, const ir::Tensor& eager, const ir::Tensor& compiled,
                     const ir::Tensor*) {
      if (name != output) return;
      seen = true;
      for (const ir::Tensor* arm : {&eager, &compiled})
        for (std::int64_t i = 0; i < arm->elements(); ++i) {
          const float got = arm->data<float>()[static_cast<std::size_t>(i)];
          const float right = want(i);
          if (got == right || (std::isnan(got) && std::isnan(right))) continue;
          CHECK_MESSAGE(false, fmt::format("{} arm under '{}{}': element {} is {}, not {}",
                                           arm == &eager ? "eager" : "compiled", setting.mode,
                                           setting.passes, i, got, right));
          return;
        }
    };
    const auto report = tests::compare(graph, inputs, s);
    CHECK(seen);
    CHECK_MESSAGE(report.verdict <= Verdict::kOrder, tests::findings(report));
  }
}

}  // namespace

TEST_CASE("case: a 1x1 convolution with padding keeps its ring, which is the bias (PT-158544)") {
  if (!tests::kernels_available("case")) return;
  expect_value(R"(gir 1
graph @g(%x: f32[1,3,32,32]) {
  %w = constant f32[8,3,1,1] splat(2)
  %b = constant f32[8] splat(0x1.8p0)
  %y = conv2d %x, %w, %b {pad=[1,1,1,1]} : f32[1,8,34,34]
  return %y
})",
               {{"x", filled({1, 3, 32, 32}, 1)}}, [](std::int64_t i) {
                 const std::int64_t q = i % 34, p = i / 34 % 34;
                 const bool ring = q == 0 || p == 0 || q == 33 || p == 33;
                 return ring ? 1.5f : 7.5f;
               });
}

TEST_CASE("case: integers above 2048 stay exact in f32 (PT-153698)") {
  if (!tests::kernels_available("case")) return;
  expect_value(R"(gir 1
graph @g(%x: f32[1,1,4,4]) {
  %w = constant f32[1,1,1,1] {1}
  %b = constant f32[1] {0}
  %y = conv2d %x, %w, %b
  return %y
})",
               {{"x", filled({1, 1, 4, 4}, 2077)}}, [](std::int64_t) { return 2077.0f; });
}

TEST_CASE("case: batch norm folds once per use of shared weights (PT-124808)") {
  if (!tests::kernels_available("case")) return;
  const char* text = R"(gir 1
graph @g(%x: f32[1,1,4,4]) {
  %w = constant f32[1,1,1,1] {1}
  %scale = constant f32[1] {2}
  %shift = constant f32[1] {0}
  %mean = constant f32[1] {0}
  %var = constant f32[1] {1}
  %c1 = conv2d %x, %w
  %n1 = batch_norm %c1, %scale, %shift, %mean, %var {epsilon=0}
  %c2 = conv2d %x, %w
  %n2 = batch_norm %c2, %scale, %shift, %mean, %var {epsilon=0}
  %y = concat %n1, %n2 {axis=1}
  return %y
})";
  expect_value(text, {{"x", filled({1, 1, 4, 4}, 1)}}, [](std::int64_t) { return 2.0f; });
}

TEST_CASE("case: sums of ones count the window (IREE-11630)") {
  if (!tests::kernels_available("case")) return;
  expect_value(
      R"(gir 1
graph @g(%x: f32[2,4,10,11]) {
  %w = constant f32[7,4,3,3] splat(1)
  %y = conv2d %x, %w {pad=[1,1,1,1]}
  return %y
})",
      {{"x", filled({2, 4, 10, 11}, 1)}}, [](std::int64_t i) {
        const std::int64_t q = i % 11, p = i / 11 % 10;
        return 4.0f * static_cast<float>((p == 0 || p == 9 ? 2 : 3) * (q == 0 || q == 10 ? 2 : 3));
      });
  for (int k : {1, 1001})
    expect_value(fmt::format(R"(gir 1
graph @g(%x: f32[1,{0},3,5]) {{
  %w = constant f32[5,{0},1,1] splat(1)
  %y = conv2d %x, %w
  return %y
}})",
                             k),
                 {{"x", filled({1, k, 3, 5}, 1)}},
                 [=](std::int64_t) { return static_cast<float>(k); });
}

TEST_CASE("case: a hand-checkable 2x2 window with bias (IREE-20473)") {
  if (!tests::kernels_available("case")) return;
  expect_value(R"(gir 1
graph @g(%x: f32[1,1,4,4]) {
  %w = constant f32[1,1,2,2] splat(1)
  %b = constant f32[1] {0x1p-1}
  %y = conv2d %x, %w, %b
  return %y
})",
               {{"x", tensor({1, 1, 4, 4}, [](std::int64_t i) { return static_cast<float>(i); })}},
               [](std::int64_t i) { return 10.5f + 4.0f * static_cast<float>(i / 3 * 4 + i % 3); });
}

TEST_CASE("case: groups read their own channels (PT-19912)") {
  if (!tests::kernels_available("case")) return;
  const auto x = tensor({1, 4, 5, 5}, [](std::int64_t i) { return i / 25 == 3 ? 1.0f : 0.0f; });
  expect_value(R"(gir 1
graph @g(%x: f32[1,4,5,5]) {
  %w = constant f32[16,2,1,1] splat(1)
  %y = conv2d %x, %w {groups=2}
  return %y
})",
               {{"x", x}}, [](std::int64_t i) { return i / 25 >= 8 ? 1.0f : 0.0f; });
  expect_value(R"(gir 1
graph @g(%x: f32[1,4,5,5]) {
  %w = constant f32[8,1,3,3] splat(1)
  %y = conv2d %x, %w {groups=4}
  return %y
})",
               {{"x", x}}, [](std::int64_t i) { return i / 9 >= 6 ? 9.0f : 0.0f; });
}

TEST_CASE("case: the addend is the convolution's own input (PT-62926)") {
  if (!tests::kernels_available("case")) return;
  expect_value(
      R"(gir 1
graph @g(%x: f32[1,1,8,8]) {
  %w = constant f32[1,1,1,1] {-1}
  %c = conv2d %x, %w
  %s = add %c, %x
  %y = relu %s
  return %y
})",
      {{"x", tensor({1, 1, 8, 8}, [](std::int64_t i) { return static_cast<float>(i) - 20; })}},
      [](std::int64_t) { return 0.0f; });
}

TEST_CASE("case: the addend is a slice of a concatenation (TRT-4854)") {
  if (!tests::kernels_available("case")) return;
  expect_value(R"(gir 1
graph @g(%x: f32[1,4,6,6], %a: f32[1,4,6,6], %b: f32[1,4,6,6], %c: f32[1,4,6,6]) {
  %w = constant f32[4,4,3,3] splat(0)
  %all = concat %a, %b, %c {axis=1}
  %mid = slice %all {starts=[0,4,0,0], steps=[1,1,1,1], sizes=[1,4,6,6]}
  %y0 = conv2d %x, %w {pad=[1,1,1,1]}
  %y1 = relu %y0
  %y = add %y1, %mid
  return %y
})",
               {{"x", filled({1, 4, 6, 6}, 3)},
                {"a", filled({1, 4, 6, 6}, 1)},
                {"b", filled({1, 4, 6, 6}, 2)},
                {"c", filled({1, 4, 6, 6}, 3)}},
               [](std::int64_t) { return 2.0f; });
}

TEST_CASE("case: a residual is added once (JAX-22855)") {
  if (!tests::kernels_available("case")) return;
  // An identity convolution: centre tap of channel k reads channel k.
  std::string weights;
  for (int i = 0; i < 8 * 8 * 9; ++i)
    weights += (i % 9 == 4 && i / 9 / 8 == i / 9 % 8) ? "1, " : "0, ";
  weights.resize(weights.size() - 2);
  expect_value("gir 1\ngraph @g(%x: f32[2,8,9,9]) {\n  %w = constant f32[8,8,3,3] {" + weights +
                   "}\n  %c = conv2d %x, %w {pad=[1,1,1,1]}\n  %y = add %c, %x\n  return %y\n}\n",
               {{"x", filled({2, 8, 9, 9}, 1)}}, [](std::int64_t) { return 2.0f; });
}

TEST_CASE("case: padding reads zero, not the only element (PT-144462)") {
  if (!tests::kernels_available("case")) return;
  expect_value(R"(gir 1
graph @g(%x: f32[1,1,1,1]) {
  %w = constant f32[1,1,3,3] splat(1)
  %y = conv2d %x, %w {pad=[1,1,1,1]}
  return %y
})",
               {{"x", filled({1, 1, 1, 1}, 5)}}, [](std::int64_t) { return 5.0f; });
}

TEST_CASE("case: no input channels leave the bias; no batch leaves nothing (PT-101356)") {
  if (!tests::kernels_available("case")) return;
  expect_value(R"(gir 1
graph @g(%x: f32[3,0,16,16]) {
  %w = constant f32[8,0,3,3] splat(1)
  %b = constant f32[8] splat(0x1.4p1)
  %y = conv2d %x, %w, %b {stride=[2,1]}
  return %y
})",
               {{"x", ir::Tensor(ir::DType::kF32, {3, 0, 16, 16})}},
               [](std::int64_t) { return 2.5f; });
  expect_value(R"(gir 1
graph @g(%x: f32[0,3,16,16]) {
  %w = constant f32[8,3,3,3] splat(1)
  %y = conv2d %x, %w {stride=[2,1]}
  return %y
})",
               {{"x", ir::Tensor(ir::DType::kF32, {0, 3, 16, 16})}},
               [](std::int64_t) { return 0.0f; });
}

TEST_CASE(
    "case: asymmetric pads, strides and dilations of images that are not square (PT-37844, "
    "TVM-7090)") {
  if (!tests::kernels_available("case")) return;
  struct Geometry {
    int h, w, r, s, sh, sw, dh, dw, top, left, bottom, right;
  };
  for (const Geometry& g : {Geometry{20, 10, 3, 3, 1, 1, 1, 1, 0, 0, 0, 1},
                            Geometry{23, 40, 5, 5, 2, 1, 1, 1, 2, 0, 1, 3},
                            Geometry{9, 17, 3, 3, 1, 2, 2, 1, 1, 3, 2, 0},
                            Geometry{7, 6, 1, 3, 3, 1, 1, 2, 0, 2, 1, 2}}) {
    const int oh = (g.h + g.top + g.bottom - g.dh * (g.r - 1) - 1) / g.sh + 1;
    const int ow = (g.w + g.left + g.right - g.dw * (g.s - 1) - 1) / g.sw + 1;
    auto x_at = [&](int c, int p, int q) {
      return p < 0 || q < 0 || p >= g.h || q >= g.w ? 0 : (c * 31 + p * 7 + q * 3) % 11 - 5;
    };
    auto w_at = [&](int k, int c, int r, int s) { return (k * 5 + c * 3 + r * 2 + s) % 7 - 3; };
    std::string weights;
    for (int i = 0; i < 6 * 3 * g.r * g.s; ++i)
      weights +=
          std::to_string(w_at(i / (3 * g.r * g.s), i / (g.r * g.s) % 3, i / g.s % g.r, i % g.s)) +
          ", ";
    weights.resize(weights.size() - 2);
    expect_value(
        fmt::format(
            "gir 1\ngraph @g(%x: f32[1,3,{},{}]) {{\n  %w = constant f32[6,3,{},{}] {{{}}}\n  %y = "
            "conv2d "
            "%x, %w {{stride=[{},{}], dilation=[{},{}], pad=[{},{},{},{}]}}\n  return %y\n}}\n",
            g.h, g.w, g.r, g.s, weights, g.sh, g.sw, g.dh, g.dw, g.top, g.left, g.bottom, g.right),
        {{"x", tensor({1, 3, g.h, g.w},
                      [&](std::int64_t i) {
                        const int n = static_cast<int>(i);
                        return static_cast<float>(x_at(n / (g.h * g.w), n / g.w % g.h, n % g.w));
                      })}},
        [&](std::int64_t i) {
          const int n = static_cast<int>(i), k = n / (oh * ow), p = n / ow % oh, q = n % ow;
          int sum = 0;
          for (int c = 0; c < 3; ++c)
            for (int r = 0; r < g.r; ++r)
              for (int s = 0; s < g.s; ++s)
                sum += w_at(k, c, r, s) *
                       x_at(c, p * g.sh + r * g.dh - g.top, q * g.sw + s * g.dw - g.left);
          return static_cast<float>(sum);
        });
  }
}

TEST_CASE("case: a product minus its own rounding (PT-154150)") {
  if (!tests::kernels_available("case")) return;
  const float product = 0.1f * 0.1f;
  const ir::Graph graph = tests::parse(fmt::format(R"(gir 1
graph @g(%x: f32[1,1,2,2]) {{
  %w = constant f32[1,1,1,1] {{0.1}}
  %b = constant f32[1] {{{}}}
  %y = conv2d %x, %w, %b
  return %y
}})",
                                                   -product));
  const std::vector<study::NamedTensor> inputs = {{"x", filled({1, 1, 2, 2}, 0.1f)}};
  auto last = [&](const char* passes) {
    float value = 0;
    study::PairSettings s = tests::settings("", passes);
    s.on_value = [&](const std::string&, const ir::Tensor& eager, const ir::Tensor& compiled,
                     const ir::Tensor*) {
      CHECK(eager.data<float>()[0] == 0.0f);
      value = compiled.data<float>()[0];
    };
    const auto report = tests::compare(graph, inputs, s);
    if (value != 0) {
      CHECK(report.verdict == Verdict::kOrder);
      REQUIRE(report.causes.size() == 1);
      CHECK(report.causes[0].kind == runtime::compare::CauseKind::kReductionOrder);
    }
    return value;
  };
  CHECK(last("none") == 0.0f);
  // The bias starts the accumulator: one fma, and what is left is the rounding error of the
  // product.
  CHECK(last("none,+bias-first") == std::fma(0.1f, 0.1f, -product));
  CHECK(last("none,+bias-first") != 0.0f);
}

TEST_CASE("case: subnormal products are kept (PT-125557)") {
  if (!tests::kernels_available("case")) return;
  expect_value(R"(gir 1
graph @g(%x: f32[1,1,3,3]) {
  %w = constant f32[1,1,1,1] {0x1p-40}
  %c = conv2d %x, %w
  %y = relu %c
  return %y
})",
               {{"x", filled({1, 1, 3, 3}, 0x1p-100f)}}, [](std::int64_t) { return 0x1p-140f; });
}

TEST_CASE("case: padding multiplies, so an infinite weight makes NaN on the ring only") {
  if (!tests::kernels_available("case")) return;
  const float inf = std::numeric_limits<float>::infinity();
  expect_value(R"(gir 1
graph @g(%x: f32[1,1,5,5]) {
  %w = constant f32[1,1,3,3] splat(inf)
  %y = conv2d %x, %w {pad=[1,1,1,1]}
  return %y
})",
               {{"x", filled({1, 1, 5, 5}, 1)}}, [=](std::int64_t i) {
                 const std::int64_t q = i % 5, p = i / 5;
                 const bool ring = q == 0 || p == 0 || q == 4 || p == 4;
                 return ring ? std::numeric_limits<float>::quiet_NaN() : inf;
               });
}

TEST_CASE("case: every tile gives the same integers (PT-173068)") {
  if (!tests::kernels_available("case")) return;
  const ir::Graph graph = tests::parse(R"(gir 1
graph @g(%x: f32[1,6,13,9]) {
  %w = constant f32[20,6,3,3] splat(3)
  %y = conv2d %x, %w {pad=[1,1,1,1]}
  return %y
})");
  const std::vector<study::NamedTensor> inputs = {{"x", tensor({1, 6, 13, 9}, [](std::int64_t i) {
                                                     return static_cast<float>(i * 7 % 13 - 6);
                                                   })}};
  for (const char* block : {"32x32x18", "64x32x9", "64x64x18", "128x32x27"}) {
    const auto report = tests::compare(
        graph, inputs,
        tests::settings("", "none,+choose-tiling", {std::string("choose-tiling.block=") + block}));
    CHECK_MESSAGE(report.verdict == Verdict::kIdentical, block << ": " << tests::findings(report));
  }
}

TEST_CASE("case: a sample has the same bits in every batch when asked to (PT-106749)") {
  if (!tests::kernels_available("case")) return;
  ir::Tensor sample(ir::DType::kF32, {1, 16, 7, 7});
  fill(Distribution::kRandom, 4, "sample", sample.data_mut<float>());
  const auto size = static_cast<std::size_t>(sample.elements());
  std::vector<float> alone;
  for (std::int64_t batch : {1, 2, 3, 8}) {
    const ir::Graph graph = tests::parse(fmt::format(R"(gir 1
graph @g(%x: f32[{0},16,7,7]) {{
  %w = constant f32[24,16,1,1] random(seed=1, he)
  %v = constant f32[24,24,3,3] random(seed=2, he)
  %c = conv2d %x, %w
  %y = conv2d %c, %v {{pad=[1,1,1,1]}}
  return %y
}})",
                                                     batch));
    // The sample stands first and last.
    ir::Tensor x(ir::DType::kF32, {batch, 16, 7, 7});
    fill(Distribution::kRandom, 9, "others", x.data_mut<float>());
    auto data = x.data_mut<float>();
    std::copy_n(sample.data<float>().begin(), size, data.begin());
    std::copy_n(sample.data<float>().begin(), size, data.end() - static_cast<std::ptrdiff_t>(size));
    study::PairSettings s = tests::settings("", "all", {"choose-tiling.batch-invariant=on"});
    s.selection.enabled.erase(
        std::remove(s.selection.enabled.begin(), s.selection.enabled.end(), "split-k"),
        s.selection.enabled.end());
    s.on_value = [&](const std::string& name, const ir::Tensor&, const ir::Tensor& compiled,
                     const ir::Tensor*) {
      if (name != "y") return;
      const auto y = compiled.data<float>();
      const std::size_t n = y.size() / static_cast<std::size_t>(batch);
      if (batch == 1) alone.assign(y.begin(), y.end());
      CHECK(std::equal(alone.begin(), alone.end(), y.begin()));
      CHECK(std::equal(alone.begin(), alone.end(), y.end() - static_cast<std::ptrdiff_t>(n)));
    };
    tests::compare(graph, {{"x", x}}, s);
  }
}

TEST_CASE("case: scalars and vectors have kernels too") {
  if (!tests::kernels_available("case")) return;
  expect_value(R"(gir 1
graph @g(%x: f32[], %v: f32[4]) {
  %s = softmax %v {axis=0}
  %r = relu %x
  %c = reshape %r {shape=[1]}
  %d = reshape %c {shape=[]}
  %y = add %d, %s
  return %y
})",
               {{"x", filled(ir::Shape{}, 2)}, {"v", filled({4}, 7)}},
               [](std::int64_t) { return 2.25f; });
}
