// Regions: contraction across nodes, batch-norm folding, values between known ones, liveness of a
// whole run.
#include "eager_support.h"
#include "runtime/eager/fold.h"
#include "runtime/eager/region.h"

namespace driftc::test {
namespace {

using runtime::Evaluator;
using runtime::Recipe;

struct Net {
  ir::Graph graph;
  ir::Builder builder{graph};

  ir::ValueId input(const std::string& name, const ir::Shape& shape) {
    return graph.add_input(name, {ir::DType::kF32, shape, ir::Layout::kNchw});
  }
  ir::ValueId constant(const std::string& name, const ir::Tensor& tensor) {
    return graph.add_constant(name, ir::Literal::dense(tensor));
  }
  ir::ValueId add(ir::Op op, std::vector<ir::ValueId> operands, const std::string& name,
                  const ir::AttributeList& attributes = {}) {
    auto result = builder.add(op, std::move(operands), attributes, name);
    REQUIRE(result.ok());
    return result.value();
  }
};

TEST_CASE("region: contraction is one fma, only inside the region and for a single use") {
  const ir::Tensor xt = random_tensor({40}, "x"), yt = random_tensor({40}, "y"),
                   zt = random_tensor({1}, "z");
  struct Form {
    ir::Op op;
    bool mul_first, use_twice, same_region;
  };
  for (const Form form :
       {Form{ir::Op::kAdd, true, false, true}, Form{ir::Op::kAdd, false, false, true},
        Form{ir::Op::kSub, true, false, true}, Form{ir::Op::kSub, false, false, true},
        Form{ir::Op::kAdd, true, true, true}, Form{ir::Op::kAdd, true, false, false}}) {
    Net net;
    const auto x = net.input("x", {40}), y = net.input("y", {40}), z = net.input("z", {1});
    const auto m = net.add(ir::Op::kMul, {x, y}, "m");
    const auto s = form.mul_first ? net.add(form.op, {m, z}, "s") : net.add(form.op, {z, m}, "s");
    std::vector<ir::ValueId> outputs = {s};
    if (form.use_twice) outputs.push_back(net.add(ir::Op::kRelu, {m}, "r"));
    net.graph.set_outputs(outputs);
    ir::NumericContract contract;
    contract.contract = true;
    std::vector<Recipe> recipes(net.graph.node_count(), {contract, 0});
    if (!form.same_region) recipes[0].region = 1;
    runtime::ThreadPool pool(1);
    Evaluator evaluator(net.graph, recipes, {pool});
    evaluator.know(x, xt);
    evaluator.know(y, yt);
    evaluator.know(z, zt);
    const ir::Tensor got = evaluator.value(s);
    const bool fused = form.same_region && !form.use_twice;
    const float c = zt.data<float>()[0];
    for (std::size_t i = 0; i < 40; ++i) {
      const float a = xt.data<float>()[i], b = yt.data<float>()[i];
      float expected;
      if (form.op == ir::Op::kAdd) {
        expected = fused ? fma_rn(a, b, c) : add_rn(mul_rn(a, b), c);
      } else {
        expected = form.mul_first ? fma_rn(a, b, -c) : fma_rn(-a, b, c);
      }
      REQUIRE(got.data<float>()[i] == expected);
    }
  }
}

TEST_CASE("region: batch_norm folded into the convolution before it") {
  const ir::Tensor xt = random_tensor({1, 3, 6, 6}, "x"), w = random_tensor({4, 3, 3, 3}, "w"),
                   b = random_tensor({4}, "b"), scale = random_tensor({4}, "s"),
                   shift = random_tensor({4}, "h"), mean = random_tensor({4}, "m"),
                   var = tensor({4}, {0.5f, 1.0f, 2.0f, 0.25f});
  for (const bool biased : {false, true})
    for (const ir::Fold fold : {ir::Fold::kF64, ir::Fold::kF32}) {
      Net net;
      const auto x = net.input("x", {1, 3, 6, 6});
      std::vector<ir::ValueId> operands = {x, net.constant("w", w)};
      if (biased) operands.push_back(net.constant("b", b));
      const auto c = net.add(ir::Op::kConv2d, operands, "c");
      const auto y = net.add(ir::Op::kBatchNorm,
                             {c, net.constant("s", scale), net.constant("h", shift),
                              net.constant("m", mean), net.constant("v", var)},
                             "y");
      net.graph.set_outputs({y});
      ir::NumericContract contract;
      contract.order = order_of("crs.fma+bias.first");
      contract.fold = fold;
      runtime::ThreadPool pool(1);
      Evaluator evaluator(net.graph, std::vector<Recipe>(net.graph.node_count(), {contract, 0}),
                          {pool});
      evaluator.know(x, xt);
      // The same folding, written out for every weight.
      ir::Tensor wf(ir::DType::kF32, w.shape()), bf(ir::DType::kF32, {4});
      for (std::size_t k = 0; k < 4; ++k) {
        const float b0 = biased ? b.data<float>()[k] : 0.0f, m = mean.data<float>()[k];
        if (fold == ir::Fold::kF64) {
          const double s = double{scale.data<float>()[k]} *
                           (1.0 / std::sqrt(double{var.data<float>()[k]} + 0x1.4f8b58p-17));
          for (std::size_t i = 0; i < 27; ++i)
            wf.data_mut<float>()[k * 27 + i] = static_cast<float>(w.data<float>()[k * 27 + i] * s);
          bf.data_mut<float>()[k] =
              static_cast<float>((double{b0} - m) * s + shift.data<float>()[k]);
        } else {
          const float s =
              scale.data<float>()[k] * (1.0f / std::sqrt(var.data<float>()[k] + 0x1.4f8b58p-17f));
          for (std::size_t i = 0; i < 27; ++i)
            wf.data_mut<float>()[k * 27 + i] = w.data<float>()[k * 27 + i] * s;
          bf.data_mut<float>()[k] = (b0 - m) * s + shift.data<float>()[k];
        }
      }
      OneOp conv(ir::Op::kConv2d, {xt, wf, bf});
      CHECK(ir::same_bits(evaluator.value(y), conv.run("crs.fma+bias.first")));
      // In regions of their own the two stay apart.
      evaluator.set_recipe(*net.graph.value(c).producer, {contract, 1});
      CHECK(!ir::same_bits(evaluator.value(y), conv.run("crs.fma+bias.first")));
    }
}

TEST_CASE("region: values between known ones, and a whole run that forgets") {
  Net net;
  const auto x = net.input("x", {8});
  const auto two = net.constant("two", tensor({1}, {2}));
  const auto a = net.add(ir::Op::kMul, {x, two}, "a");
  const auto b = net.add(ir::Op::kAdd, {a, x}, "b");
  const auto c = net.add(ir::Op::kAdd, {b, a}, "c");
  net.graph.set_outputs({c});
  runtime::ThreadPool pool(1);
  Evaluator evaluator(net.graph, runtime::eager_recipes(net.graph), {pool});
  const ir::Tensor ones = tensor({8}, std::vector<float>(8, 1.0f));
  evaluator.know(x, ones);
  CHECK(evaluator.value(c).data<float>()[0] == 5.0f);
  evaluator.know(b, tensor({8}, std::vector<float>(8, 100.0f)));
  CHECK(evaluator.value(c).data<float>()[0] == 102.0f);
  CHECK(evaluator.value(b).data<float>()[0] == 3.0f);  // computed although it is known
  evaluator.know(a, ones);
  evaluator.forget(x);  // hidden behind a and b
  CHECK(evaluator.value(c).data<float>()[0] == 101.0f);

  std::vector<std::string> order;
  Evaluator fresh(net.graph, runtime::eager_recipes(net.graph), {pool}, ir::DType::kF64);
  const auto wanted = runtime::all_results(net.graph);
  runtime::run_values(fresh, std::vector<ir::Tensor>{ones}, wanted,
                      [&](ir::ValueId v, const ir::Tensor& t) {
                        order.push_back(net.graph.value(v).name);
                        CHECK(t.dtype() == ir::DType::kF64);
                        if (v == c) CHECK(!fresh.knows(x));
                      });
  CHECK(order == std::vector<std::string>{"a", "b", "c"});
  for (ir::ValueId v : {x, a, b, c}) CHECK(!fresh.knows(v));
}

TEST_CASE("region: a user's eager order applies where it fits") {
  Net net;
  const auto x = net.input("x", {1, 2, 4, 4}), w = net.input("w", {4, 2, 1, 1}),
             b = net.input("b", {4});
  net.add(ir::Op::kConv2d, {x, w}, "plain");
  net.add(ir::Op::kConv2d, {x, w, b}, "biased");
  net.add(ir::Op::kMatmul, {x, x}, "product");
  net.add(ir::Op::kRelu, {x}, "r");
  std::vector<std::string> orders;
  for (const Recipe& recipe : runtime::eager_recipes(net.graph, order_of("rsc.fma")))
    orders.push_back(recipe.contract.order ? ir::to_string(*recipe.contract.order) : "none");
  CHECK(orders == std::vector<std::string>{"rsc.fma", "rsc.fma+bias.stored", "k.fma", "none"});
}

}  // namespace
}  // namespace driftc::test
