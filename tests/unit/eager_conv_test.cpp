// conv2d in the interpreter against plain scalar loops, over shapes, orders, threads and special
// values.
#include <hwy/targets.h>

#include <array>
#include <limits>

#include "eager_support.h"
#include "runtime/sums/sum_kernel.h"

namespace driftc::test {
namespace {

struct ConvCase {
  std::int64_t n = 1, c = 3, h = 7, w = 7, k = 4, r = 3, s = 3, groups = 1;
  std::array<std::int64_t, 2> stride{1, 1}, dilation{1, 1};
  std::array<std::int64_t, 4> pad{1, 1, 1, 1};
  bool bias = false;

  std::string text() const {
    std::string out;
    for (std::int64_t v : {n, c, h, w, k, r, s, groups, stride[0], stride[1], dilation[0],
                           dilation[1], pad[0], pad[1], pad[2], pad[3]})
      out += std::to_string(v) + " ";
    return out + (bias ? "bias" : "");
  }
};

ir::AttributeList attributes(const ConvCase& t) {
  return {{"stride", std::vector<std::int64_t>(t.stride.begin(), t.stride.end())},
          {"pad", std::vector<std::int64_t>(t.pad.begin(), t.pad.end())},
          {"dilation", std::vector<std::int64_t>(t.dilation.begin(), t.dilation.end())},
          {"groups", t.groups}};
}

// Seven loops and the slow sum.
ir::Tensor slow_conv(const ConvCase& t, const ir::Tensor& x, const ir::Tensor& w,
                     const ir::Tensor* bias, const ir::ReductionOrder& order,
                     const ir::Shape& shape) {
  ir::Tensor out(ir::DType::kF32, shape);
  const auto xs = x.data<float>(), ws = w.data<float>();
  auto ys = out.data_mut<float>();
  const std::int64_t group_in = t.c / t.groups, group_out = t.k / t.groups;
  std::size_t at = 0;
  for (std::int64_t n = 0; n < t.n; ++n)
    for (std::int64_t k = 0; k < t.k; ++k)
      for (std::int64_t oy = 0; oy < shape[2]; ++oy)
        for (std::int64_t ox = 0; ox < shape[3]; ++ox)
          ys[at++] = slow_sum(
              order, true, bias != nullptr,
              bias != nullptr ? bias->data<float>()[static_cast<std::size_t>(k)] : 0.0f, group_in,
              t.r, t.s, [&](std::int64_t c, std::int64_t r, std::int64_t s) {
                const std::int64_t iy = oy * t.stride[0] - t.pad[0] + r * t.dilation[0];
                const std::int64_t ix = ox * t.stride[1] - t.pad[1] + s * t.dilation[1];
                const bool inside = iy >= 0 && iy < t.h && ix >= 0 && ix < t.w;
                const std::int64_t channel = k / group_out * group_in + c;
                return Leaf<float>{
                    inside
                        ? xs[static_cast<std::size_t>(((n * t.c + channel) * t.h + iy) * t.w + ix)]
                        : 0.0f,
                    ws[static_cast<std::size_t>(((k * group_in + c) * t.r + r) * t.s + s)],
                    !inside};
              });
  return out;
}

void check_case(const ConvCase& t, const std::vector<std::string>& orders) {
  const ir::Tensor x = random_tensor({t.n, t.c, t.h, t.w}, "x");
  const ir::Tensor w = random_tensor({t.k, t.c / t.groups, t.r, t.s}, "w");
  const ir::Tensor b = random_tensor({t.k}, "b");
  std::vector<ir::Tensor> operands = {x, w};
  if (t.bias) operands.push_back(b);
  OneOp op(ir::Op::kConv2d, operands, attributes(t));
  for (const std::string& text : orders) {
    INFO(t.text(), " ", text);
    const ir::Tensor expected =
        slow_conv(t, x, w, t.bias ? &b : nullptr, order_of(text), op.result_shape());
    CHECK(ir::same_bits(op.run(text), expected));
  }
}

const std::vector<std::string> kOrders = {
    "crs.fma+bias.stored",
    "crs.muladd+bias.last",
    "rsc.fma+bias.first",
    "c2rs.fma",
    "crs.f64+bias.last",
    "rsc.kahan+bias.first",
    "crs.skip.fma",
    "rsc.skip.muladd+bias.first",
    "rsc.kpad4.fma",
    "c2rs.kpad4.muladd",
    "crs.split3.fma+bias.first",
    "crs.split4p.f64",
    "rsc.split5a.fma",
    "crs.lanes8.fma",
    "crs.acc3.fma",
    "crs.tile4.fma+bias.first",
    "crs.kpad8.skip.split3p.lanes4.acc2.tile2.kahan+bias.first",
    "crs.skip.split2.lanes2.tile3.f64+bias.last",
    "c3rs.kpad2.split2.acc5.muladd"};

TEST_CASE("eager conv: chosen shapes, every kind of order, against scalar loops") {
  check_case({.bias = true}, kOrders);
  check_case({.n = 2, .c = 4, .h = 9, .w = 5, .k = 13, .groups = 1, .stride = {2, 2}, .bias = true},
             kOrders);
  check_case({.c = 6, .k = 6, .groups = 6, .pad = {0, 1, 2, 0}}, kOrders);
  check_case({.c = 6, .k = 9, .groups = 3, .dilation = {2, 1}, .pad = {2, 1, 2, 1}, .bias = true},
             kOrders);
  check_case({.n = 3, .c = 5, .h = 4, .w = 4, .k = 8, .r = 1, .s = 1, .pad = {0, 0, 0, 0}},
             kOrders);
  check_case({.c = 3, .h = 4, .w = 4, .k = 5, .r = 4, .s = 4, .pad = {0, 0, 0, 0}, .bias = true},
             kOrders);
}

TEST_CASE("eager conv: random shapes against scalar loops") {
  const CounterRng rng(7, "shapes");
  for (std::uint64_t i = 0; i < 120; ++i) {
    std::uint64_t counter = i * 32;
    const auto pick = [&](std::int64_t lo, std::int64_t hi) {
      return lo + static_cast<std::int64_t>(rng.bits(counter++) %
                                            static_cast<std::uint64_t>(hi - lo + 1));
    };
    ConvCase t;
    t.groups = pick(0, 3) == 0 ? pick(2, 3) : 1;
    t.c = t.groups * pick(1, 5);
    t.k = t.groups * pick(1, 10);
    t.n = pick(1, 3);
    t.r = pick(1, 4);
    t.s = pick(1, 4);
    t.stride = {pick(1, 3), pick(1, 3)};
    t.dilation = {pick(1, 2), pick(1, 3)};
    t.pad = {pick(0, 3), pick(0, 3), pick(0, 3), pick(0, 3)};
    t.h = pick(1, 10) + t.dilation[0] * (t.r - 1);
    t.w = pick(1, 20) + t.dilation[1] * (t.s - 1);
    t.bias = pick(0, 1) == 1;
    const auto order =
        static_cast<std::size_t>(pick(0, static_cast<std::int64_t>(kOrders.size()) - 1));
    check_case(t, {kOrders[order]});
  }
}

TEST_CASE("eager conv: integer data give the exact integers under every order") {
  const ConvCase t{.n = 2, .c = 6, .h = 8, .w = 8, .k = 5, .bias = true};
  const ir::Tensor x = random_tensor({t.n, t.c, t.h, t.w}, "x", Distribution::kIntegers);
  const ir::Tensor w = random_tensor({t.k, t.c, 3, 3}, "w", Distribution::kIntegers);
  const ir::Tensor b = random_tensor({t.k}, "b", Distribution::kIntegers);
  OneOp op(ir::Op::kConv2d, {x, w, b}, attributes(t));
  const ir::Tensor expected = slow_conv(t, x, w, &b, order_of("crs.f64"), op.result_shape());
  for (const std::string& order : kOrders) {
    INFO(order);
    const ir::Tensor got = op.run(order);
    for (std::size_t i = 0; i < got.data<float>().size(); ++i)
      REQUIRE(got.data<float>()[i] == expected.data<float>()[i]);
  }
}

TEST_CASE("eager conv: the thread count changes no bit") {
  const ConvCase t{.n = 2, .c = 16, .h = 19, .w = 23, .k = 24};
  OneOp op(ir::Op::kConv2d,
           {random_tensor({t.n, t.c, t.h, t.w}, "x"), random_tensor({t.k, t.c, 3, 3}, "w")},
           attributes(t));
  for (const char* order : {"crs.fma", "rsc.skip.fma", "crs.lanes32.kahan"}) {
    op.contract.order = order_of(order);
    const ir::Tensor one = op.run(1);
    CHECK(ir::same_bits(one, op.run(2)));
    CHECK(ir::same_bits(one, op.run(5)));
  }
}

TEST_CASE("eager conv: AVX-512, AVX2 and plain targets agree in every bit") {
  const ConvCase t{.n = 1, .c = 7, .h = 11, .w = 13, .k = 15, .bias = true};
  OneOp op(ir::Op::kConv2d,
           {random_tensor({t.n, t.c, t.h, t.w}, "x"), random_tensor({t.k, t.c, 3, 3}, "w"),
            random_tensor({t.k}, "b")},
           attributes(t));
  const auto restrict_to = [](std::int64_t targets) {
    hwy::SetSupportedTargetsForTest(targets);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  };
  const std::int64_t available = hwy::SupportedTargets();
  for (const std::string& order : kOrders) {
    INFO(order);
    const ir::Tensor best = op.run(order);
    for (const int lanes : {8, 1}) {
      const std::int64_t targets = lanes == 8 ? available & HWY_AVX2 : 0;
      if (lanes == 8 && targets == 0) continue;
      restrict_to(targets | HWY_SCALAR);
      CHECK(runtime::sum_kernels<float>().lanes == lanes);
      CHECK(ir::same_bits(best, op.run(order)));
      restrict_to(0);  // 0: as detected
    }
  }
}

TEST_CASE("eager conv: zero channels, zero batch") {
  OneOp channels(ir::Op::kConv2d,
                 {ir::Tensor(ir::DType::kF32, {1, 0, 3, 3}),
                  ir::Tensor(ir::DType::kF32, {2, 0, 1, 1}), tensor({2}, {3.0f, -1.0f})});
  const ir::Tensor y = channels.run();
  CHECK(y.data<float>()[0] == 3.0f);
  CHECK(y.data<float>()[17] == -1.0f);
  OneOp batch(ir::Op::kConv2d,
              {ir::Tensor(ir::DType::kF32, {0, 2, 3, 3}), random_tensor({2, 2, 1, 1}, "w")});
  CHECK(batch.run().elements() == 0);
}

TEST_CASE("eager conv: signs of zero, NaN and Inf follow the grammar") {
  const float inf = std::numeric_limits<float>::infinity();
  const auto one = [](float x, float w, const std::string& order,
                      std::vector<std::int64_t> pad = {0, 0, 0, 0}, std::int64_t kernel = 1) {
    std::vector<float> ws(static_cast<std::size_t>(kernel * kernel), w);
    OneOp op(ir::Op::kConv2d, {tensor({1, 1, 1, 1}, {x}), tensor({1, 1, kernel, kernel}, ws)},
             {{"pad", pad}});
    return bits_of(op.run(order).data<float>()[0]);
  };
  // Chains start at +0, so a lone -0 product is lost: (-0) * 1 + (+0) = +0.
  CHECK(one(-0.0f, 1.0f, "crs.fma") == 0u);
  // A tiny negative product rounds to -0 after the multiplication; the +0 start makes it +0.
  CHECK(one(-0x1p-100f, 0x1p-100f, "crs.muladd") == 0u);
  // With fma the product is not rounded: the sum is a tiny negative number and rounds to -0.
  CHECK(one(-0x1p-100f, 0x1p-100f, "crs.fma") == 0x80000000u);
  // A zero leaf of kpad adds (+0)*(+0) and turns that -0 into +0.
  CHECK(one(-0x1p-100f, 0x1p-100f, "crs.kpad4.fma") == 0u);
  // Padding is multiplied: 0 * Inf = NaN, canonical. Skipped padding is not.
  CHECK(one(1.0f, inf, "crs.fma", {1, 1, 1, 1}, 3) == kCanonicalNanBits);
  CHECK(one(1.0f, inf, "crs.skip.fma", {1, 1, 1, 1}, 3) == bits_of(inf));
  CHECK(one(float_of(0xFFC12345u), 1.0f, "crs.fma") == kCanonicalNanBits);
}

TEST_CASE("eager conv: operand precisions and wide accumulators") {
  const ir::Tensor x = random_tensor({1, 8, 5, 5}, "x"), w = random_tensor({4, 8, 3, 3}, "w");
  OneOp op(ir::Op::kConv2d, {x, w});
  op.contract.order = order_of("crs.fma");
  op.contract.acc = ir::Precision::kF64;
  const ir::Tensor wide = op.run();
  op.contract.acc = ir::Precision::kF32;
  CHECK(ir::same_bits(wide, op.run("crs.f64")));
  op.contract.in = ir::Precision::kF64;
  op.contract.order = order_of("crs.fma");
  CHECK(ir::same_bits(wide, op.run()));
  // bf16 operands: products of 8-bit significands over 72 positions are exact in f64 and nearly so
  // in f32.
  op.contract.in = ir::Precision::kBF16;
  CHECK(!ir::same_bits(wide, op.run()));
  const ir::Tensor integers_x = random_tensor({1, 8, 5, 5}, "x", Distribution::kIntegers);
  const ir::Tensor integers_w = random_tensor({4, 8, 3, 3}, "w", Distribution::kIntegers);
  OneOp exact(ir::Op::kConv2d, {integers_x, integers_w});
  const ir::Tensor expected = exact.run();
  for (auto in : {ir::Precision::kTf32Rna, ir::Precision::kTf32Trunc, ir::Precision::kF16,
                  ir::Precision::kBF16, ir::Precision::kF64}) {
    exact.contract.in = in;
    CHECK(ir::same_bits(expected, exact.run()));
  }
}

TEST_CASE("eager conv: flush-to-zero") {
  OneOp op(ir::Op::kConv2d,
           {tensor({1, 2, 1, 1}, {0x1p-130f, 0x1p-70f}), tensor({1, 2, 1, 1}, {1.0f, 0x1p-70f})});
  CHECK(op.run().data<float>()[0] == 0x1p-130f + 0x1p-140f);
  op.contract.ftz = true;
  CHECK(op.run().data<float>()[0] == 0.0f);
}

TEST_CASE("eager conv: the f64 arm is the same evaluation in double") {
  const ir::Tensor x = random_tensor({1, 4, 6, 6}, "x"), w = random_tensor({3, 4, 3, 3}, "w");
  OneOp f32(ir::Op::kConv2d, {x, w}, {{"pad", std::vector<std::int64_t>{1, 1, 1, 1}}});
  OneOp f64(ir::Op::kConv2d, {x.converted(ir::DType::kF64), w.converted(ir::DType::kF64)},
            {{"pad", std::vector<std::int64_t>{1, 1, 1, 1}}});
  const ir::Tensor wide = f64.run("rsc.fma");
  CHECK(wide.dtype() == ir::DType::kF64);
  CHECK(ir::same_bits(f32.run("rsc.f64"), wide.converted(ir::DType::kF32)));
}

}  // namespace
}  // namespace driftc::test
