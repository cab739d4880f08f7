#include "tests/unit/emit_families.h"

namespace driftc::test {
namespace {

using ir::Algorithm;
using ir::Layout;
using ir::Op;
using Ints = std::vector<std::int64_t>;

constexpr Layout kNchw = Layout::kNchw, kNhwc = Layout::kNhwc;

ir::Shape image(Draw& d) { return {d(1, 3), d(2, 9), d(2, 11), d(2, 11)}; }

KernelCase pointwise(bool contract, const std::function<void(KernelCase&)>& build,
                     Layout layout = kNchw) {
  KernelCase test(Algorithm::kElementwise, "");
  build(test);
  test.finish(layout);
  test.kernel.contract.contract = contract;
  return test;
}

// (x - y) * s / v with every kind of broadcast, then relu and clip.
void chain(KernelCase& t, Draw& d, Layout x_layout, Layout y_layout) {
  const ir::Shape s = image(d);
  const ir::ValueId x = t.input(s, x_layout), y = t.input(s, y_layout);
  const ir::ValueId per_channel = t.input({s[1], 1, 1}), per_column = t.input({s[3]}),
                    scalar = t.input(ir::Shape{});
  ir::ValueId v = t.add(Op::kSub, {x, y});
  v = t.add(Op::kMul, {v, per_channel});
  v = t.add(Op::kDiv, {v, per_column});
  v = t.add(Op::kAdd, {scalar, v});
  v = t.add(Op::kRelu, {v});
  t.add(Op::kClip, {v}, {{"max", 1.5}});
}
void products(KernelCase& t, Draw& d) {  // a*b + c, c - a*b, a*a - a*a
  const ir::Shape s{d(1, 70), d(1, 70)};
  const ir::ValueId a = t.input(s), b = t.input({s[1]}), c = t.input({s[0], 1});
  const ir::ValueId one = t.add(Op::kAdd, {t.add(Op::kMul, {a, b}), c});
  const ir::ValueId two = t.add(Op::kSub, {one, t.add(Op::kIdentity, {t.add(Op::kMul, {a, c})})});
  const ir::ValueId three = t.add(Op::kSub, {t.add(Op::kMul, {a, a}), t.add(Op::kMul, {a, a})});
  t.add(Op::kAdd, {t.add(Op::kMul, {two, t.constant(0.7f)}), three});
}
void norm(KernelCase& t, Draw& d) {
  const ir::Shape s = image(d);
  std::vector<ir::ValueId> operands{t.input(s, kNhwc)};
  for (int i = 0; i < 4; ++i) operands.push_back(t.input({s[1]}));
  t.add(Op::kRelu, {t.add(Op::kBatchNorm, operands)});
}

KernelCase copy(const std::function<void(KernelCase&)>& build, Layout layout = kNchw) {
  KernelCase test(Algorithm::kCopy, "");
  build(test);
  test.finish(layout);
  return test;
}
KernelCase pool(Draw& d, Op op, const char* order, std::int64_t kernel, Layout in, Layout out,
                bool include, bool relu, bool tall = false) {
  KernelCase test(Algorithm::kPool, order);
  // Tall ones have several lines a thread.
  const std::int64_t h = tall ? d(100, 120) : d(kernel, 13), w = d(kernel, 13);
  ir::AttributeList attributes{
      {"kernel", Ints{kernel, kernel}},
      {"stride", Ints{d(1, 3), d(1, 3)}},
      {"pad", Ints{d(0, kernel - 1), d(0, kernel - 1), d(0, kernel - 1), d(0, kernel - 1)}},
      {"ceil_mode", d(0, 1)}};
  if (op == Op::kAvgPool) attributes.push_back({"count_include_pad", std::int64_t{include}});
  ir::ValueId y = test.add(op, {test.input({d(1, 2), d(1, 7), h, w}, in)}, attributes);
  if (relu) y = test.add(Op::kRelu, {y});
  test.finish(out);
  return test;
}
KernelCase mean(Draw& d, const char* order, Layout layout) {
  KernelCase test(Algorithm::kReduce, order);
  test.add(Op::kGlobalAvgPool, {test.input({d(1, 3), d(1, 20), d(1, 9), d(1, 9)}, layout)});
  test.finish(layout);
  return test;
}
KernelCase softmax(Draw& d, const char* order, std::int64_t axis) {
  KernelCase test(Algorithm::kSoftmax, order);
  test.add(Op::kSoftmax, {test.input({d(2, 5), d(2, 40), d(2, 5)})}, {{"axis", axis}});
  test.finish();
  return test;
}

// One function of a vector, and of a second operand that broadcasts where there are two.
Family function(const char* name, KernelCase (*make)(Draw&)) { return {name, make}; }
KernelCase apply(Draw& d, Op op, const ir::AttributeList& attributes = {}) {
  return pointwise(false, [&](KernelCase& t) {
    const std::int64_t rows = d(1, 40), columns = d(1, 70);
    std::vector<ir::ValueId> operands{t.input({rows, columns})};
    if (ir::info(op).min_operands == 2) operands.push_back(t.input({columns}));
    t.add(op, operands, attributes);
  });
}
KernelCase rectifiers(Draw& d) {
  return pointwise(
      false,
      [&](KernelCase& t) {
        const ir::Shape s = image(d);
        ir::ValueId v = t.add(Op::kLeakyRelu, {t.input(s)}, {{"alpha", 0.25}});
        v = t.add(Op::kHardSwish, {v});
        v = t.add(Op::kPrelu, {v, t.input({s[1], 1, 1})});
        t.add(Op::kHardSigmoid, {v}, {{"alpha", 0.3}});
      },
      kNhwc);
}
KernelCase exact_functions(Draw& d) {
  return pointwise(false, [&](KernelCase& t) {
    const std::int64_t n = d(1, 300);
    const ir::ValueId x = t.input({n}), y = t.input({n}), z = t.input({1});
    const ir::ValueId root = t.add(Op::kSqrt, {t.add(Op::kAbs, {x})});
    t.add(Op::kMin, {t.add(Op::kMax, {t.add(Op::kNeg, {root}), y}), z});
  });
}
KernelCase reduced(Draw& d, Op op, const char* order, Ints axes, std::int64_t keep, Layout in,
                   Layout out) {
  KernelCase test(Algorithm::kReduce, order);
  test.add(op, {test.input({d(2, 4), d(2, 9), d(2, 11), d(2, 11)}, in)},
           {{"axes", axes}, {"keepdims", keep}});
  test.finish(out);
  return test;
}
KernelCase resized(Draw& d, const char* mode, const char* coordinates, const char* rounding,
                   Ints numerator, Ints denominator, Layout in, Layout out) {
  KernelCase test(Algorithm::kCopy, "");
  // Extents are multiples of the denominator, so that scales (part of the source) stay the same.
  const std::int64_t h = d(1, 5) * denominator[0], w = d(1, 5) * denominator[1];
  test.add(Op::kResize, {test.input({d(1, 2), d(1, 7), h, w}, in)},
           {{"mode", std::string(mode)},
            {"coordinates", std::string(coordinates)},
            {"rounding", std::string(rounding)},
            {"sizes", Ints{h / denominator[0] * numerator[0], w / denominator[1] * numerator[1]}},
            {"scale_h", static_cast<double>(numerator[0]) / static_cast<double>(denominator[0])},
            {"scale_w", static_cast<double>(numerator[1]) / static_cast<double>(denominator[1])}});
  test.finish(out);
  return test;
}

const Family kFamilies[] = {
    function("exp", [](Draw& d) { return apply(d, Op::kExp); }),
    function("log", [](Draw& d) { return apply(d, Op::kLog); }),
    function("erf", [](Draw& d) { return apply(d, Op::kErf); }),
    function("sigmoid", [](Draw& d) { return apply(d, Op::kSigmoid); }),
    function("tanh", [](Draw& d) { return apply(d, Op::kTanh); }),
    function("softplus", [](Draw& d) { return apply(d, Op::kSoftplus); }),
    function("gelu", [](Draw& d) { return apply(d, Op::kGelu); }),
    function("gelu tanh",
             [](Draw& d) {
               return apply(d, Op::kGelu, {{"form", std::string("tanh")}});
             }),
    function("elu",
             [](Draw& d) {
               return apply(d, Op::kElu, {{"alpha", 1.5}});
             }),
    function("pow", [](Draw& d) { return apply(d, Op::kPow); }),
    function("cast f16",
             [](Draw& d) {
               return apply(d, Op::kCast, {{"to", std::string("f16")}});
             }),
    function("cast bf16",
             [](Draw& d) {
               return apply(d, Op::kCast, {{"to", std::string("bf16")}});
             }),
    function("leaky_relu, hard_swish, prelu, hard_sigmoid nhwc", rectifiers),
    function("sqrt, abs, neg, max, min", exact_functions),
    {"reduce_mean channels nhwc",
     [](Draw& d) { return reduced(d, Op::kReduceMean, "k.add", {1}, 1, kNhwc, kNhwc); }},
    {"reduce_sum rows and images, kahan",
     [](Draw& d) {
       return reduced(d, Op::kReduceSum, "k.kahan", {0, 2}, 0, kNchw, kNchw);
     }},
    {"reduce_mean all f64",
     [](Draw& d) {
       return reduced(d, Op::kReduceMean, "k.f64", {0, 1, 2, 3}, 0, kNhwc, kNchw);
     }},
    {"reduce_max positions",
     [](Draw& d) {
       return reduced(d, Op::kReduceMax, "", {2, 3}, 1, kNhwc, kNchw);
     }},
    {"reduce_min columns",
     [](Draw& d) { return reduced(d, Op::kReduceMin, "", {3}, 0, kNchw, kNchw); }},
    {"resize nearest down nhwc",
     [](Draw& d) {
       return resized(d, "nearest", "half_pixel", "round_prefer_floor", {3, 2}, {5, 3}, kNhwc,
                      kNhwc);
     }},
    {"resize nearest up",
     [](Draw& d) {
       return resized(d, "nearest", "asymmetric", "floor", {2, 3}, {1, 2}, kNchw, kNchw);
     }},
    {"resize linear up",
     [](Draw& d) {
       return resized(d, "linear", "align_corners", "floor", {7, 2}, {3, 1}, kNchw, kNhwc);
     }},
    {"resize linear down",
     [](Draw& d) {
       return resized(d, "linear", "pytorch_half_pixel", "floor", {1, 3}, {2, 7}, kNhwc, kNchw);
     }},
    {"pointwise broadcast nchw",
     [](Draw& d) { return pointwise(false, [&](KernelCase& t) { chain(t, d, kNchw, kNchw); }); }},
    {"pointwise broadcast mixed layouts",
     [](Draw& d) {
       return pointwise(
           false, [&](KernelCase& t) { chain(t, d, kNhwc, kNchw); }, kNhwc);
     }},
    {"pointwise products",
     [](Draw& d) { return pointwise(false, [&](KernelCase& t) { products(t, d); }); }},
    {"pointwise products contracted",
     [](Draw& d) { return pointwise(true, [&](KernelCase& t) { products(t, d); }); }},
    {"batch_norm relu nhwc",
     [](Draw& d) {
       return pointwise(
           false, [&](KernelCase& t) { norm(t, d); }, kNhwc);
     },
     Distribution::kUniform},
    {"batch_norm contracted",
     [](Draw& d) {
       return pointwise(
           true, [&](KernelCase& t) { norm(t, d); }, kNhwc);
     },
     Distribution::kUniform},
    {"identity, nchw to nhwc",
     [](Draw& d) {
       return copy(
           [&](KernelCase& t) {
             t.add(Op::kIdentity, {t.input({2, d(2, 9), d(2, 9), d(2, 9)})});
           },
           kNhwc);
     }},
    {"concat channels, mixed layouts",
     [](Draw& d) {
       return copy(
           [&](KernelCase& t) {
             const std::int64_t h = d(2, 9), w = d(2, 9);
             t.add(Op::kConcat,
                   {t.input({2, d(2, 9), h, w}, kNhwc), t.input({2, d(2, 9), h, w}),
                    t.input({2, d(2, 9), h, w}, kNhwc)},
                   {{"axis", std::int64_t{1}}});
           },
           kNhwc);
     }},
    {"concat rows",
     [](Draw& d) {
       return copy([&](KernelCase& t) {
         const std::int64_t w = d(2, 9);
         t.add(Op::kConcat, {t.input({d(2, 9), w}), t.input({d(2, 9), w})},
               {{"axis", std::int64_t{0}}});
       });
     }},
    {"transpose",
     [](Draw& d) {
       return copy([&](KernelCase& t) {
         t.add(Op::kTranspose, {t.input({d(2, 9), d(2, 9), d(2, 9)})}, {{"perm", Ints{2, 0, 1}}});
       });
     }},
    {"slice",
     [](Draw& d) {
       return copy([&](KernelCase& t) {
         const std::int64_t a = d(5, 9), b = d(7, 12);
         t.add(Op::kSlice, {t.input({2, 2, a, b}, kNhwc)},
               {{"starts", Ints{0, 1, a - 1, 1}},
                {"steps", Ints{1, -1, -2, 3}},
                {"sizes", Ints{2, 2, (a + 1) / 2, (b + 1) / 3}}});
       });
     }},
    {"pad",
     [](Draw& d) {
       return copy([&](KernelCase& t) {
         t.add(Op::kPad, {t.input({2, 3, d(4, 9), d(4, 9)})},
               {{"before", Ints{0, 0, d(1, 2), -d(1, 2)}},
                {"after", Ints{0, 0, -1, d(1, 3)}},
                {"value", 0.5}});
       });
     }},
    {"flatten nhwc",
     [](Draw& d) {
       return copy([&](KernelCase& t) {
         t.add(Op::kFlatten, {t.input({d(2, 4), d(2, 9), d(2, 9), d(2, 9)}, kNhwc)});
       });
     }},
    {"reshape to nhwc",
     [](Draw& d) {
       return copy(
           [&](KernelCase& t) {
             const std::int64_t a = d(2, 5), b = d(2, 5);
             t.add(Op::kReshape, {t.input({6 * a, b})}, {{"shape", Ints{2, a, 3, b}}});
           },
           kNhwc);
     }},
    {"max_pool 3x3 nchw, tall",
     [](Draw& d) { return pool(d, Op::kMaxPool, "", 3, kNchw, kNchw, false, false, true); }},
    {"max_pool 2x2 nhwc, relu",
     [](Draw& d) { return pool(d, Op::kMaxPool, "", 2, kNhwc, kNhwc, false, true); }},
    {"avg_pool 3x3, tall",
     [](Draw& d) { return pool(d, Op::kAvgPool, "hw.add", 3, kNchw, kNchw, false, false, true); }},
    {"avg_pool 2x2 with padding, kahan",
     [](Draw& d) { return pool(d, Op::kAvgPool, "hw.kahan", 2, kNhwc, kNchw, true, false); }},
    {"avg_pool 9x9 f64",
     [](Draw& d) { return pool(d, Op::kAvgPool, "hw.f64", 9, kNchw, kNhwc, true, false); }},
    {"mean", [](Draw& d) { return mean(d, "hw.add", kNchw); }},
    {"mean lanes32 nhwc", [](Draw& d) { return mean(d, "hw.lanes32.add", kNhwc); }},
    {"mean lanes4 kahan", [](Draw& d) { return mean(d, "hw.lanes4.kahan", kNchw); }},
    {"mean lanes8 f64", [](Draw& d) { return mean(d, "hw.lanes8.f64", kNchw); }},
    {"softmax last axis", [](Draw& d) { return softmax(d, "k.add", -1); }},
    {"softmax middle axis, f64", [](Draw& d) { return softmax(d, "k.f64", 1); }},
    {"relu of many",
     [](Draw& d) {
       return pointwise(false, [&](KernelCase& t) {  // several elements a thread
         t.add(Op::kRelu, {t.add(Op::kAdd, {t.input({d(65, 70), d(64, 66), 64}), t.input({64})})});
       });
     }},
};

}  // namespace

std::span<const Family> other_families() { return kFamilies; }

}  // namespace driftc::test
