// The other ops of the interpreter: values by hand or by plain loops.
#include <cmath>
#include <limits>

#include "eager_support.h"
#include "ir/exp_steps.h"

namespace driftc::test {
namespace {

using Ints = std::vector<std::int64_t>;
const float kInf = std::numeric_limits<float>::infinity();
const float kNan = float_of(0xFFC12345u);  // not the canonical one

std::vector<float> values(const ir::Tensor& t) {
  return {t.data<float>().begin(), t.data<float>().end()};
}
std::vector<std::uint32_t> bits(const ir::Tensor& t) {
  std::vector<std::uint32_t> out;
  for (float v : t.data<float>()) out.push_back(bits_of(v));
  return out;
}

TEST_CASE("eager elementwise: broadcasting in every direction") {
  const ir::Tensor a = random_tensor({2, 3, 4, 5}, "a");
  for (const ir::Shape& shape :
       {ir::Shape{2, 3, 4, 5}, ir::Shape{1, 3, 1, 1}, ir::Shape{5}, ir::Shape{}, ir::Shape{4, 1},
        ir::Shape{2, 1, 4, 1}, ir::Shape{1, 1, 4, 5}}) {
    INFO(ir::to_string(shape));
    const ir::Tensor b = random_tensor(shape, "b");
    for (const bool swapped : {false, true}) {
      OneOp op(ir::Op::kSub, swapped ? std::vector{b, a} : std::vector{a, b});
      const ir::Tensor got = op.run();
      std::size_t at = 0;
      std::array<std::int64_t, 4> i{};
      const auto strides = shape.row_major_strides();
      for (i[0] = 0; i[0] < 2; ++i[0])
        for (i[1] = 0; i[1] < 3; ++i[1])
          for (i[2] = 0; i[2] < 4; ++i[2])
            for (i[3] = 0; i[3] < 5; ++i[3], ++at) {
              std::int64_t j = 0;
              for (std::size_t axis = 0; axis < shape.rank(); ++axis)
                if (shape[axis] != 1) j += strides[axis] * i[4 - shape.rank() + axis];
              const float x = a.data<float>()[at], y = b.data<float>()[static_cast<std::size_t>(j)];
              REQUIRE(got.data<float>()[at] == (swapped ? sub_rn(y, x) : sub_rn(x, y)));
            }
    }
  }
  // Both operands broadcast.
  OneOp outer(ir::Op::kMul, {tensor({2, 1}, {2, 3}), tensor({3}, {5, 7, 11})});
  CHECK(values(outer.run()) == std::vector<float>{10, 14, 22, 15, 21, 33});
}

TEST_CASE("eager elementwise: relu and clip keep NaN bits and -0, arithmetic makes NaN canonical") {
  const ir::Tensor x = tensor({5}, {-1.0f, -0.0f, kNan, 3.0f, kInf});
  CHECK(bits(OneOp(ir::Op::kRelu, {x}).run()) ==
        std::vector<std::uint32_t>{0u, 0x80000000u, bits_of(kNan), bits_of(3.0f), bits_of(kInf)});
  CHECK(bits(OneOp(ir::Op::kClip, {x}, {{"min", 0.0}, {"max", 2.0}}).run()) ==
        std::vector<std::uint32_t>{0u, 0x80000000u, bits_of(kNan), bits_of(2.0f), bits_of(2.0f)});
  CHECK(bits(OneOp(ir::Op::kAdd, {x, x}).run())[2] == kCanonicalNanBits);
  OneOp product(ir::Op::kMul,
                {tensor({2}, {0x1p-100f, -0x1p-130f}), tensor({2}, {0x1p-40f, 1.0f})});
  CHECK(values(product.run()) == std::vector<float>{0x1p-140f, -0x1p-130f});
  product.contract.ftz = true;
  CHECK(bits(product.run()) == std::vector<std::uint32_t>{0u, 0x80000000u});
}

TEST_CASE("eager batch_norm: named roundings, with and without contraction") {
  const ir::Tensor x = random_tensor({2, 3, 4, 4}, "x"), scale = random_tensor({3}, "s"),
                   shift = random_tensor({3}, "h"), mean = random_tensor({3}, "m"),
                   var = tensor({3}, {0.5f, 1.25f, 3.0f});
  OneOp op(ir::Op::kBatchNorm, {x, scale, shift, mean, var});
  for (const bool contract : {false, true}) {
    op.contract.contract = contract;
    const ir::Tensor got = op.run();
    for (std::size_t i = 0; i < 96; ++i) {
      const std::size_t c = i / 16 % 3;
      const float inv = div_rn(1.0f, sqrt_rn(add_rn(var.data<float>()[c], 0x1.4f8b58p-17f)));
      const float d = mul_rn(sub_rn(x.data<float>()[i], mean.data<float>()[c]), inv);
      const float s = scale.data<float>()[c], h = shift.data<float>()[c];
      REQUIRE(got.data<float>()[i] == (contract ? fma_rn(d, s, h) : add_rn(mul_rn(d, s), h)));
    }
  }
}

TEST_CASE("eager max_pool: padding is skipped, NaN propagates, ceil_mode") {
  const ir::Tensor x = tensor({1, 1, 3, 3}, {1, 2, 3, 4, kNan, -6, -7, -8, -9});
  const ir::Tensor y =
      OneOp(ir::Op::kMaxPool, {x},
            {{"kernel", Ints{2, 2}}, {"stride", Ints{2, 2}}, {"ceil_mode", std::int64_t{1}}})
          .run();
  CHECK(y.shape() == ir::Shape{1, 1, 2, 2});
  CHECK(bits(y) ==
        std::vector<std::uint32_t>{bits_of(kNan), bits_of(3.0f), bits_of(-7.0f), bits_of(-9.0f)});
  const ir::Tensor padded = OneOp(ir::Op::kMaxPool, {tensor({1, 1, 1, 1}, {-5})},
                                  {{"kernel", Ints{3, 3}}, {"pad", Ints{1, 1, 1, 1}}})
                                .run();
  CHECK(values(padded) == std::vector<float>{-5});
}

TEST_CASE("eager means: counts, orders and padding leaves") {
  const ir::Tensor x = random_tensor({2, 3, 6, 5}, "x");
  const ir::AttributeList attributes = {
      {"kernel", Ints{3, 2}}, {"stride", Ints{2, 1}}, {"pad", Ints{1, 1, 1, 0}}};
  for (const char* text :
       {"hw.add", "hw.kahan", "hw.f64", "hw.lanes4.add", "hw.skip.split2.acc2.add", "hw.kpad4.add"})
    for (const std::int64_t include : {0, 1}) {
      ir::AttributeList with = attributes;
      with.emplace_back("count_include_pad", include);
      OneOp op(ir::Op::kAvgPool, {x}, with);
      const ir::Tensor got = op.run(text);
      const ir::Shape& y = got.shape();
      std::size_t at = 0;
      for (std::int64_t plane = 0; plane < 6; ++plane)
        for (std::int64_t oy = 0; oy < y[2]; ++oy)
          for (std::int64_t ox = 0; ox < y[3]; ++ox, ++at) {
            float count = 0;
            const float sum = slow_sum(
                order_of(text), false, false, 0, 1, 3, 2,
                [&](std::int64_t, std::int64_t r, std::int64_t s) {
                  const std::int64_t iy = oy * 2 - 1 + r, ix = ox - 1 + s;
                  const bool inside = iy >= 0 && iy < 6 && ix >= 0 && ix < 5;
                  if (inside || include == 1) ++count;
                  return Leaf<float>{
                      inside ? x.data<float>()[static_cast<std::size_t>((plane * 6 + iy) * 5 + ix)]
                             : 0.0f,
                      0, !inside};
                });
            INFO(text, " ", include, " ", at);
            REQUIRE(bits_of(got.data<float>()[at]) == bits_of(div_rn(sum, count)));
          }
    }
  for (const char* text : {"hw.add", "hw.lanes32.add", "hw.split3p.kahan"}) {
    OneOp op(ir::Op::kGlobalAvgPool, {x});
    const ir::Tensor got = op.run(text);
    for (std::size_t plane = 0; plane < 6; ++plane) {
      const float sum = slow_sum(
          order_of(text), false, false, 0, 1, 6, 5,
          [&](std::int64_t, std::int64_t r, std::int64_t s) {
            return Leaf<float>{x.data<float>()[plane * 30 + static_cast<std::size_t>(r * 5 + s)], 0,
                               false};
          });
      CHECK(bits_of(got.data<float>()[plane]) == bits_of(div_rn(sum, 30.0f)));
    }
  }
}

TEST_CASE("eager matmul: batches broadcast, either side may be longer") {
  const ir::Tensor a = random_tensor({2, 1, 3, 7}, "a"), b = random_tensor({4, 7, 2}, "b");
  OneOp op(ir::Op::kMatmul, {a, b});
  CHECK(op.result_shape() == ir::Shape{2, 4, 3, 2});
  const ir::Tensor got = op.run();
  std::size_t at = 0;
  for (std::size_t i = 0; i < 2; ++i)
    for (std::size_t j = 0; j < 4; ++j)
      for (std::size_t m = 0; m < 3; ++m)
        for (std::size_t n = 0; n < 2; ++n) {
          float sum = 0;
          for (std::size_t k = 0; k < 7; ++k)
            sum = fma_rn(a.data<float>()[(i * 3 + m) * 7 + k], b.data<float>()[(j * 7 + k) * 2 + n],
                         sum);
          REQUIRE(got.data<float>()[at++] == sum);
        }
  // 90 rows x 3 columns runs with the sides exchanged.
  const ir::Tensor tall = random_tensor({90, 33}, "t"), thin = random_tensor({33, 3}, "n");
  const ir::Tensor wide = OneOp(ir::Op::kMatmul, {tall, thin}).run();
  for (std::size_t m = 0; m < 90; ++m) {
    float sum = 0;
    for (std::size_t k = 0; k < 33; ++k)
      sum = fma_rn(tall.data<float>()[m * 33 + k], thin.data<float>()[k * 3 + 2], sum);
    REQUIRE(wide.data<float>()[m * 3 + 2] == sum);
  }
}

TEST_CASE("eager gemm: transposes, alpha, beta, bias points, contraction") {
  const ir::Tensor a = random_tensor({5, 3}, "a"), b = random_tensor({4, 5}, "b"),
                   c = random_tensor({3, 1}, "c");
  const auto sum = [&](std::size_t m, std::size_t n, float start) {
    for (std::size_t k = 0; k < 5; ++k)
      start = fma_rn(a.data<float>()[k * 3 + m], b.data<float>()[n * 5 + k], start);
    return start;
  };
  const ir::AttributeList plain = {{"trans_a", std::int64_t{1}}, {"trans_b", std::int64_t{1}}};
  ir::AttributeList scaled = plain;
  scaled.emplace_back("alpha", 0.3);
  scaled.emplace_back("beta", 1.7);
  OneOp op(ir::Op::kGemm, {a, b, c}, plain), with_scale(ir::Op::kGemm, {a, b, c}, scaled);
  const ir::Tensor stored = op.run(), first = op.run("k.fma+bias.first"),
                   last = op.run("k.f64+bias.last");
  const ir::Tensor mul_add = with_scale.run();
  with_scale.contract.contract = true;
  const ir::Tensor contracted = with_scale.run();
  for (std::size_t m = 0; m < 3; ++m)
    for (std::size_t n = 0; n < 4; ++n) {
      const std::size_t at = m * 4 + n;
      const float bias = c.data<float>()[m];
      CHECK(stored.data<float>()[at] == add_rn(sum(m, n, 0), bias));
      CHECK(first.data<float>()[at] == sum(m, n, bias));
      double wide = 0;
      for (std::size_t k = 0; k < 5; ++k)
        wide = fma_rn(double{a.data<float>()[k * 3 + m]}, double{b.data<float>()[n * 5 + k]}, wide);
      CHECK(last.data<float>()[at] == to_f32_rn(add_rn(wide, double{bias})));
      const float t = mul_rn(0.3f, sum(m, n, 0));
      CHECK(mul_add.data<float>()[at] == add_rn(t, mul_rn(1.7f, bias)));
      CHECK(contracted.data<float>()[at] == fma_rn(1.7f, bias, t));
    }
}

TEST_CASE("eager softmax: exp of the step table, sum in order, any axis") {
  const ir::Tensor x = random_tensor({3, 5, 2}, "x");
  for (const char* text : {"k.add", "k.lanes2.add", "k.f64", "k.kahan"}) {
    OneOp op(ir::Op::kSoftmax, {x}, {{"axis", std::int64_t{1}}});
    const ir::Tensor y = op.run(text);
    for (std::size_t o = 0; o < 3; ++o)
      for (std::size_t i = 0; i < 2; ++i) {
        const auto at = [&](std::int64_t k) {
          return (o * 5 + static_cast<std::size_t>(k)) * 2 + i;
        };
        float most = -kInf;
        for (std::int64_t k = 0; k < 5; ++k) most = std::max(most, x.data<float>()[at(k)]);
        const auto e = [&](std::int64_t k) {
          return ir::exp_by_steps(sub_rn(x.data<float>()[at(k)], most));
        };
        const float sum = slow_sum(order_of(text), false, false, 0, 5, 1, 1,
                                   [&](std::int64_t k, std::int64_t, std::int64_t) {
                                     return Leaf<float>{e(k), 0, false};
                                   });
        for (std::int64_t k = 0; k < 5; ++k) REQUIRE(y.data<float>()[at(k)] == div_rn(e(k), sum));
      }
  }
  const ir::Tensor nan = OneOp(ir::Op::kSoftmax, {tensor({1, 3}, {1, kNan, 2})}).run();
  for (std::uint32_t b : bits(nan)) CHECK(b == kCanonicalNanBits);
}

TEST_CASE("eager data movement: bits are copied") {
  const ir::Tensor x = tensor({2, 3}, {0, 1, 2, 3, kNan, 5});
  CHECK(bits(OneOp(ir::Op::kTranspose, {x}, {{"perm", Ints{1, 0}}}).run()) ==
        bits(tensor({3, 2}, {0, 3, 1, kNan, 2, 5})));
  CHECK(bits(OneOp(ir::Op::kSlice, {x},
                   {{"starts", Ints{0, 2}}, {"steps", Ints{1, -2}}, {"sizes", Ints{2, 2}}})
                 .run()) == bits(tensor({2, 2}, {2, 0, 5, 3})));
  CHECK(bits(OneOp(ir::Op::kPad, {x},
                   {{"before", Ints{1, -1}}, {"after", Ints{0, 1}}, {"value", 9.0}})
                 .run()) == bits(tensor({3, 3}, {9, 9, 9, 1, 2, 9, kNan, 5, 9})));
  CHECK(bits(OneOp(ir::Op::kConcat, {x, x, tensor({2, 1}, {7, 8})}, {{"axis", std::int64_t{1}}})
                 .run()) == bits(tensor({2, 7}, {0, 1, 2, 0, 1, 2, 7, 3, kNan, 5, 3, kNan, 5, 8})));
  CHECK(OneOp(ir::Op::kReshape, {x}, {{"shape", Ints{3, 2}}}).run().shape() == ir::Shape{3, 2});
  CHECK(OneOp(ir::Op::kFlatten, {random_tensor({2, 3, 4}, "x")}).run().shape() == ir::Shape{2, 12});
  const std::vector<std::int64_t> numbers = {1, -2, std::int64_t{1} << 60};
  const ir::Tensor i64 = ir::Tensor::of<std::int64_t>({3}, numbers);
  const ir::Tensor twice = OneOp(ir::Op::kConcat, {i64, i64}, {{"axis", std::int64_t{0}}}).run();
  CHECK(twice.data<std::int64_t>()[5] == numbers[2]);
}

TEST_CASE("eager arithmetic is not contracted by the host compiler") {
  // volatile keeps the compiler from folding; fma would give 0x1p-46 more.
  volatile float a = 0x1.000002p0f, b = 0x1.000002p0f, c = -0x1.000004p0f;
  const float x = a, y = b, z = c;
  CHECK(x * y + z == 0.0f);
  CHECK(fma_rn(x, y, z) == 0x1p-46f);
  CHECK(fma_rn(0x1.b11b1p-20f, 0x1.2ea2p-5f, 1.0f) == 0x1.000002p+0f);
}

}  // namespace
}  // namespace driftc::test
