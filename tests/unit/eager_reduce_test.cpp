// Reductions over axes, resize, transposed convolution, argmax: cases derived by hand, and every
// order of sums.
#include <cmath>
#include <limits>

#include "tests/unit/eager_support.h"

namespace driftc::test {
namespace {

using Ints = std::vector<std::int64_t>;
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr std::int64_t kOff = 0, kOn = 1;

std::vector<float> values(const ir::Tensor& t) {
  return {t.data<float>().begin(), t.data<float>().end()};
}
std::vector<std::int64_t> indices(const ir::Tensor& t) {
  return {t.data<std::int64_t>().begin(), t.data<std::int64_t>().end()};
}

TEST_CASE("eager reductions: axes, kept and dropped, NaN, infinities") {
  const ir::Tensor x = tensor({2, 3, 2}, {1, 2, 3, 4, 5, 6, -1, -2, kNan, -4, kInf, -6});
  OneOp sum(ir::Op::kReduceSum, {x}, {{"axes", Ints{1}}});
  CHECK(sum.result_shape() == ir::Shape{2, 1, 2});
  CHECK(values(sum.run())[0] == 9);
  CHECK(values(sum.run())[1] == 12);
  CHECK(std::isnan(values(sum.run())[2]));
  CHECK(values(sum.run())[3] == -12);
  OneOp mean(ir::Op::kReduceMean, {x}, {{"axes", Ints{0, 2}}, {"keepdims", kOff}});
  CHECK(mean.result_shape() == ir::Shape{3});
  CHECK(values(mean.run())[0] == 0);
  CHECK(std::isnan(values(mean.run())[1]));
  CHECK(values(mean.run())[2] == kInf);
  const auto most = values(OneOp(ir::Op::kReduceMax, {x}, {{"axes", Ints{1}}}).run());
  CHECK((most[0] == 5 && most[1] == 6 && std::isnan(most[2]) && most[3] == -2));
  const auto least = values(OneOp(ir::Op::kReduceMin, {x}, {{"axes", Ints{1, 2}}}).run());
  CHECK((least[0] == 1 && std::isnan(least[1])));
  CHECK(
      values(OneOp(ir::Op::kReduceMax, {tensor({2}, {-kInf, -kInf})}, {{"axes", Ints{0}}}).run()) ==
      std::vector<float>{-kInf});
}

TEST_CASE("eager reductions: sums follow the order, over row-major positions of the reduced axes") {
  const ir::Tensor x = random_tensor({3, 5, 4, 7}, "x");
  OneOp sum(ir::Op::kReduceSum, {x}, {{"axes", Ints{0, 2, 3}}});
  for (const char* text : {"k.add", "k.kahan", "k.f64", "k.split3.add", "k.split4p.add",
                           "k.lanes8.add", "k.acc3.tile5.add", "k.split2.lanes4.kahan"}) {
    const ir::Tensor got = sum.run(text);
    for (std::int64_t c = 0; c < 5; ++c) {
      const float want =
          slow_sum(order_of(text), false, false, 0, 84, 1, 1,
                   [&](std::int64_t p, std::int64_t, std::int64_t) {
                     const std::int64_t at = p / 28 * 140 + c * 28 + p % 28;
                     return Leaf<float>{x.data<float>()[static_cast<std::size_t>(at)], 0, false};
                   });
      CHECK_MESSAGE(bits_of(got.data<float>()[static_cast<std::size_t>(c)]) == bits_of(want),
                    std::string(text));
    }
  }
}

TEST_CASE("eager argmax: ties, NaN, kept axes") {
  const ir::Tensor x = tensor({2, 4}, {1, 3, 3, 2, 5, kNan, 7, kNan});
  CHECK(indices(OneOp(ir::Op::kArgmax, {x}, {{"axis", std::int64_t{1}}}).run()) == Ints{1, 1});
  CHECK(indices(OneOp(ir::Op::kArgmax, {x}, {{"axis", std::int64_t{1}}, {"last", kOn}}).run()) ==
        Ints{2, 1});
  OneOp columns(ir::Op::kArgmax, {x}, {{"axis", std::int64_t{0}}, {"keepdims", kOff}});
  CHECK(columns.result_shape() == ir::Shape{4});
  CHECK(indices(columns.run()) == Ints{1, 1, 1, 1});
  CHECK(indices(OneOp(ir::Op::kArgmax, {tensor({3}, {-kInf, -kInf, -kInf})},
                      {{"axis", std::int64_t{0}}})
                    .run()) == Ints{0});
}

ir::Tensor resized(const std::vector<float>& row, std::int64_t to, double scale,
                   const std::string& mode, const std::string& coordinates,
                   const std::string& rounding = "round_prefer_floor") {
  const auto in = static_cast<std::int64_t>(row.size());
  return OneOp(ir::Op::kResize, {tensor({1, 1, 1, in}, row)},
               {{"mode", mode},
                {"coordinates", coordinates},
                {"rounding", rounding},
                {"sizes", Ints{1, to}},
                {"scale_h", 1.0},
                {"scale_w", scale}})
      .run();
}

TEST_CASE("eager resize: coordinates and roundings") {
  const std::vector<float> x = {10, 20, 30};
  using V = std::vector<float>;
  // c = o / 2: 0 .5 1 1.5 2 2.5
  CHECK(values(resized(x, 6, 2, "nearest", "asymmetric", "floor")) == V{10, 10, 20, 20, 30, 30});
  CHECK(values(resized(x, 6, 2, "nearest", "asymmetric", "ceil")) == V{10, 20, 20, 30, 30, 30});
  CHECK(values(resized(x, 6, 2, "nearest", "asymmetric", "round_prefer_floor")) ==
        V{10, 10, 20, 20, 30, 30});
  CHECK(values(resized(x, 6, 2, "nearest", "asymmetric", "round_prefer_ceil")) ==
        V{10, 20, 20, 30, 30, 30});
  // c = (o + .5) / 2 - .5: -.25 .25 .75 1.25 1.75 2.25
  CHECK(values(resized(x, 6, 2, "nearest", "half_pixel")) == V{10, 10, 20, 20, 30, 30});
  CHECK(values(resized(x, 6, 2, "linear", "half_pixel")) == V{10, 12.5, 17.5, 22.5, 27.5, 30});
  CHECK(values(resized(x, 6, 2, "linear", "asymmetric")) == V{10, 15, 20, 25, 30, 30});
  CHECK(values(resized(x, 5, 5.0 / 3, "linear", "align_corners")) == V{10, 15, 20, 25, 30});
  // One column: half_pixel takes the middle, pytorch_half_pixel and align_corners the first.
  CHECK(values(resized(x, 1, 1.0 / 3, "linear", "half_pixel")) == V{20});
  CHECK(values(resized(x, 1, 1.0 / 3, "linear", "pytorch_half_pixel")) == V{10});
  CHECK(values(resized(x, 1, 1.0 / 3, "linear", "align_corners")) == V{10});
  CHECK(values(resized(x, 2, 2.0 / 3, "nearest", "tf_half_pixel_for_nn", "floor")) == V{10, 30});
  // A scale in f32 whose product with the extent is not quite the result's.
  CHECK(values(resized(x, 4, static_cast<double>(4.0f / 3), "nearest", "align_corners", "floor")) ==
        V{10, 10, 20, 30});
  const auto nan = values(resized({kNan, 1}, 4, 2, "nearest", "asymmetric", "floor"));
  CHECK((std::isnan(nan[0]) && std::isnan(nan[1]) && nan[2] == 1));
}

TEST_CASE("eager resize: rows and columns, each step rounded") {
  const ir::Tensor x = random_tensor({1, 2, 3, 4}, "x");
  const ir::Tensor got = OneOp(ir::Op::kResize, {x},
                               {{"mode", std::string("linear")},
                                {"coordinates", std::string("align_corners")},
                                {"sizes", Ints{5, 11}},
                                {"scale_h", 5.0 / 3},
                                {"scale_w", 11.0 / 4}})
                             .run();
  for (std::int64_t c = 0; c < 2; ++c)
    for (std::int64_t i = 0; i < 5; ++i)
      for (std::int64_t j = 0; j < 11; ++j) {
        const double cy = static_cast<double>(2 * i) / 4, cx = static_cast<double>(3 * j) / 10;
        const auto fy = static_cast<std::int64_t>(cy), fx = static_cast<std::int64_t>(cx);
        const auto wy = static_cast<float>(cy - static_cast<double>(fy)),
                   wx = static_cast<float>(cx - static_cast<double>(fx));
        const auto vy = static_cast<float>(1 - (cy - static_cast<double>(fy))),
                   vx = static_cast<float>(1 - (cx - static_cast<double>(fx)));
        const auto at = [&](std::int64_t y, std::int64_t z) {
          return x.data<float>()[static_cast<std::size_t>(
              (c * 3 + std::min<std::int64_t>(y, 2)) * 4 + std::min<std::int64_t>(z, 3))];
        };
        const auto row = [&](std::int64_t y) {
          return add_rn(mul_rn(vx, at(y, fx)), mul_rn(wx, at(y, fx + 1)));
        };
        const float want = add_rn(mul_rn(vy, row(fy)), mul_rn(wy, row(fy + 1)));
        REQUIRE(bits_of(got.data<float>()[static_cast<std::size_t>((c * 5 + i) * 11 + j)]) ==
                bits_of(want));
      }
}

TEST_CASE("eager conv_transpose: by hand, padding is skipped and not multiplied") {
  // Stride 2 spreads x; a 1x3 kernel of 1, 10, 100.
  const ir::Tensor x = tensor({1, 1, 1, 2}, {1, 2}), w = tensor({1, 1, 1, 3}, {1, 10, 100});
  OneOp op(ir::Op::kConvTranspose, {x, w}, {{"stride", Ints{1, 2}}});
  CHECK(values(op.run()) == std::vector<float>{1, 10, 102, 20, 200});
  OneOp padded(ir::Op::kConvTranspose, {x, w},
               {{"stride", Ints{1, 2}}, {"pad", Ints{0, 1, 0, 1}}, {"output_pad", Ints{0, 1}}});
  CHECK(values(padded.run()) == std::vector<float>{10, 102, 20, 200});
  OneOp dilated(ir::Op::kConvTranspose, {x, w, tensor({1}, {0.5f})}, {{"dilation", Ints{1, 2}}});
  CHECK(values(dilated.run()) == std::vector<float>{1.5f, 2.5f, 10.5f, 20.5f, 100.5f, 200.5f});
  // An infinite weight meets padding: nothing under eager's order, NaN where the zero is
  // multiplied.
  OneOp infinite(ir::Op::kConvTranspose, {x, tensor({1, 1, 1, 3}, {1, kInf, 100})},
                 {{"stride", Ints{1, 2}}});
  CHECK(values(infinite.run()) == std::vector<float>{1, kInf, 102, kInf, 200});
  CHECK(std::isnan(values(infinite.run("crs.fma"))[0]));
}

TEST_CASE("eager conv_transpose: groups, strides, pads, dilations under every kind of order") {
  const ir::Tensor x = random_tensor({2, 6, 4, 5}, "x"), w = random_tensor({6, 2, 3, 2}, "w"),
                   bias = random_tensor({4}, "b");
  const Ints stride{2, 3}, pad{1, 0, 2, 1}, dilation{1, 2};
  OneOp op(ir::Op::kConvTranspose, {x, w, bias},
           {{"stride", stride},
            {"pad", pad},
            {"dilation", dilation},
            {"output_pad", Ints{1, 2}},
            {"groups", std::int64_t{2}}});
  const ir::Shape y = op.result_shape();
  CHECK(y == ir::Shape{2, 4, 7, 16});
  for (const char* text : {"crs.skip.fma+bias.stored", "crs.fma+bias.first", "rsc.muladd+bias.last",
                           "c2rs.skip.split2.fma+bias.stored", "crs.skip.kahan+bias.first",
                           "rsc.skip.lanes4.f64+bias.last", "crs.acc2.muladd+bias.stored"}) {
    const ir::ReductionOrder order = order_of(text);
    const ir::Tensor got = op.run(text);
    std::size_t at = 0;
    for (std::int64_t n = 0; n < y[0]; ++n)
      for (std::int64_t k = 0; k < y[1]; ++k)
        for (std::int64_t i = 0; i < y[2]; ++i)
          for (std::int64_t j = 0; j < y[3]; ++j, ++at) {
            const std::int64_t group = k / 2;
            const float want =
                slow_sum(order, true, true, bias.data<float>()[static_cast<std::size_t>(k)], 3, 3,
                         2, [&](std::int64_t c, std::int64_t r, std::int64_t s) {
                           const std::int64_t channel = group * 3 + c;
                           const std::int64_t iy = i + pad[0] - r * dilation[0],
                                              ix = j + pad[1] - s * dilation[1];
                           const bool inside = iy >= 0 && ix >= 0 && iy % stride[0] == 0 &&
                                               ix % stride[1] == 0 && iy / stride[0] < 4 &&
                                               ix / stride[1] < 5;
                           const float weight = w.data<float>()[static_cast<std::size_t>(
                               ((channel * 2 + k % 2) * 3 + r) * 2 + s)];
                           if (!inside) return Leaf<float>{0, weight, true};
                           const std::int64_t from =
                               ((n * 6 + channel) * 4 + iy / stride[0]) * 5 + ix / stride[1];
                           return Leaf<float>{x.data<float>()[static_cast<std::size_t>(from)],
                                              weight, false};
                         });
            REQUIRE_MESSAGE(bits_of(got.data<float>()[at]) == bits_of(want), std::string(text),
                            " at ", at);
          }
  }
}

}  // namespace
}  // namespace driftc::test
