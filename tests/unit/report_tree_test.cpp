// The steps of `show --stage tree` end in the interpreter's bits, for random shapes, orders and
// elements.
#include <doctest/doctest.h>

#include <array>

#include "ir/builder.h"
#include "ir/kernel.h"
#include "ir/support/rng.h"
#include "ir/support/round.h"
#include "runtime/eager/interpreter.h"
#include "runtime/study/tree.h"

using namespace driftc;
using runtime::study::SumTrace;
using runtime::study::TreeStep;

namespace {

class Random {
 public:
  explicit Random(std::uint64_t seed) : rng_(seed, "tree") {}
  std::int64_t up_to(std::int64_t n) {
    return static_cast<std::int64_t>(rng_.bits(next_++) % static_cast<std::uint64_t>(n + 1));
  }
  std::int64_t between(std::int64_t low, std::int64_t high) { return low + up_to(high - low); }

 private:
  CounterRng rng_;
  std::uint64_t next_ = 0;
};

ir::Tensor filled(const ir::Shape& shape, std::string_view name) {
  ir::Tensor t(ir::DType::kF32, shape);
  fill(Distribution::kRandom, 1, name, t.data_mut<float>());
  return t;
}

struct Case {
  ir::Graph graph;
  ir::NodeId node;
  std::vector<ir::Tensor> operands;
};

Case make_case(ir::Op op, const std::vector<ir::Shape>& shapes,
               const ir::AttributeList& attributes) {
  Case c;
  std::vector<ir::ValueId> values;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const std::string name = "operand" + std::to_string(i);
    values.push_back(c.graph.add_input(name, {ir::DType::kF32, shapes[i]}));
    c.operands.push_back(filled(shapes[i], name));
  }
  const auto result = ir::Builder(c.graph).add(op, values, attributes, "y");
  REQUIRE_MESSAGE(result.ok(), (result.ok() ? "" : result.error().render()));
  c.node = *c.graph.value(*result).producer;
  return c;
}

Case random_conv(Random& r) {
  const std::int64_t groups = r.between(1, 2), per_group = r.between(1, 5),
                     k = groups * r.between(1, 3);
  const std::int64_t kernel_h = r.between(1, 3), kernel_w = r.between(1, 3);
  std::vector<ir::Shape> shapes = {
      {r.between(1, 2), groups * per_group, r.between(5, 8), r.between(5, 8)},
      {k, per_group, kernel_h, kernel_w}};
  if (r.up_to(1) == 1) shapes.push_back({k});
  using Ints = std::vector<std::int64_t>;
  return make_case(ir::Op::kConv2d, shapes,
                   {{"stride", Ints{r.between(1, 2), r.between(1, 2)}},
                    {"pad", Ints{r.up_to(2), r.up_to(2), r.up_to(2), r.up_to(2)}},
                    {"dilation", Ints{r.between(1, 2), r.between(1, 2)}},
                    {"groups", groups}});
}

Case random_gemm(Random& r) {
  const std::int64_t m = r.between(1, 4), n = r.between(1, 4), k = r.between(1, 40),
                     ta = r.up_to(1), tb = r.up_to(1);
  std::vector<ir::Shape> shapes = {ta ? ir::Shape{k, m} : ir::Shape{m, k},
                                   tb ? ir::Shape{n, k} : ir::Shape{k, n}};
  if (r.up_to(2) > 0) shapes.push_back(r.up_to(1) ? ir::Shape{n} : ir::Shape{m, n});
  return make_case(ir::Op::kGemm, shapes,
                   {{"alpha", r.up_to(1) ? 1.0 : 0.75},
                    {"beta", r.up_to(1) ? 1.0 : 1.25},
                    {"trans_a", ta},
                    {"trans_b", tb}});
}

Case random_matmul(Random& r) {
  const std::int64_t b = r.between(1, 2), m = r.between(1, 4), n = r.between(1, 4),
                     k = r.between(1, 40);
  return r.up_to(1) ? make_case(ir::Op::kMatmul, {{b, m, k}, {k, n}}, {})
                    : make_case(ir::Op::kMatmul, {{3, b, m, k}, {1, k, n}}, {});
}

Case random_pool(Random& r) {
  const ir::Shape x{r.between(1, 2), r.between(1, 3), r.between(4, 7), r.between(4, 7)};
  if (r.up_to(1)) return make_case(ir::Op::kGlobalAvgPool, {x}, {});
  using Ints = std::vector<std::int64_t>;
  return make_case(ir::Op::kAvgPool, {x},
                   {{"kernel", Ints{r.between(2, 3), r.between(2, 3)}},
                    {"stride", Ints{r.between(1, 2), r.between(1, 2)}},
                    {"pad", Ints{r.up_to(1), r.up_to(1), r.up_to(1), r.up_to(1)}},
                    {"ceil_mode", r.up_to(1)},
                    {"count_include_pad", r.up_to(1)}});
}

ir::ReductionOrder random_order(Random& r, const ir::Node& node) {
  ir::ReductionOrder order;
  const bool conv = node.op == ir::Op::kConv2d,
             matrix = node.op == ir::Op::kMatmul || node.op == ir::Op::kGemm;
  constexpr std::array kConvWalks = {ir::Walk::kCrs, ir::Walk::kRsc, ir::Walk::kTiledCrs};
  order.walk = conv     ? kConvWalks[static_cast<std::size_t>(r.up_to(2))]
               : matrix ? ir::Walk::kK
                        : ir::Walk::kHw;
  if (order.walk == ir::Walk::kTiledCrs) order.channel_tile = static_cast<int>(r.between(1, 4));
  if ((conv || matrix) && r.up_to(3) == 0) order.kpad = static_cast<int>(r.between(2, 8));
  if (!matrix && r.up_to(3) == 0) order.skip = true;
  if (r.up_to(2) == 0) {
    order.split = static_cast<int>(r.between(2, 4));
    constexpr std::array kCombine = {ir::SplitCombine::kSerial, ir::SplitCombine::kPairwise,
                                     ir::SplitCombine::kAtomic};
    order.combine = kCombine[static_cast<std::size_t>(r.up_to(2))];
  }
  if (r.up_to(2) == 0) order.lanes = 1 << r.between(1, 3);
  if (r.up_to(2) == 0) order.acc = static_cast<int>(r.between(2, 3));
  if (r.up_to(2) == 0) order.tile = static_cast<int>(r.between(2, 5));
  constexpr std::array kProducts = {ir::Arith::kFma, ir::Arith::kMulAdd, ir::Arith::kKahan,
                                    ir::Arith::kF64};
  constexpr std::array kSums = {ir::Arith::kAdd, ir::Arith::kKahan, ir::Arith::kF64};
  order.arith = conv || matrix ? kProducts[static_cast<std::size_t>(r.up_to(3))]
                               : kSums[static_cast<std::size_t>(r.up_to(2))];
  constexpr std::array kBias = {ir::BiasPoint::kFirst, ir::BiasPoint::kLast,
                                ir::BiasPoint::kStored};
  const bool biased = node.operands.size() == 3;
  if (biased) order.bias = kBias[static_cast<std::size_t>(r.up_to(2))];
  return order;
}

}  // namespace

TEST_CASE("tree steps end in the interpreter's bits") {
  runtime::ThreadPool pool(1);
  const runtime::EvalContext context{pool, 7};
  constexpr std::array kMakers = {random_conv, random_gemm, random_matmul, random_pool};
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Random r(seed);
    const Case c = kMakers[seed % kMakers.size()](r);
    const ir::Node& node = c.graph.node(c.node);
    ir::NumericContract contract;
    contract.order = random_order(r, node);
    if (contract.order->arith == ir::Arith::kF64) contract.acc = ir::Precision::kF64;
    const ir::Tensor y = runtime::evaluate(c.graph, c.node, c.operands, contract, context);
    const ir::Shape& shape = y.shape();
    for (int element = 0; element < 4; ++element) {
      std::vector<std::int64_t> index;
      std::int64_t at = 0;
      for (std::size_t axis = 0; axis < shape.rank(); ++axis) {
        index.push_back(r.up_to(shape[axis] - 1));
        at = at * shape[axis] + index.back();
      }
      const auto operands = runtime::study::sum_operands(c.graph, c.node, index, c.operands);
      REQUIRE(operands.ok());
      const auto trace = runtime::study::trace_sum(*contract.order, *operands, context.atomic_seed);
      REQUIRE(trace.ok());
      CAPTURE(seed);
      CAPTURE(ir::to_string(*contract.order));
      CHECK(bits_of(trace->result) == bits_of(y.data<float>()[static_cast<std::size_t>(at)]));
      CHECK(trace->steps.back().partial == static_cast<double>(trace->result));
      std::size_t leaves = 0;
      for (const TreeStep& step : trace->steps)
        leaves += step.kind == TreeStep::Kind::kLeaf && step.position >= 0;
      if (!contract.order->skip) CHECK(leaves == operands->a.size());
    }
  }
}

TEST_CASE("tree: what has no sum says so") {
  const Case c = make_case(ir::Op::kRelu, {{2, 3}}, {});
  const auto relu =
      runtime::study::sum_operands(c.graph, c.node, std::vector<std::int64_t>{0, 0}, c.operands);
  REQUIRE(!relu.ok());
  CHECK(relu.error().message == "'y' is a relu: it has no sum");
  const Case g = make_case(ir::Op::kMatmul, {{2, 3}, {3, 2}}, {});
  const auto outside =
      runtime::study::sum_operands(g.graph, g.node, std::vector<std::int64_t>{0, 2}, g.operands);
  REQUIRE(!outside.ok());
  CHECK(outside.error().message == "the index does not fit 'y', which has shape [2,2]");
  const auto inside =
      runtime::study::sum_operands(g.graph, g.node, std::vector<std::int64_t>{1, 1}, g.operands);
  REQUIRE(inside.ok());
  ir::ReductionOrder mma;
  mma.arith = ir::Arith::kMma;
  CHECK(!runtime::study::trace_sum(mma, *inside).ok());
}

TEST_CASE("tree: blocks of a tensor core, equal to the interpreter's element") {
  const Case g = make_case(ir::Op::kMatmul, {{2, 37}, {37, 3}}, {});
  runtime::ThreadPool pool(1);
  for (const char* text : {"k.mma(sm_90,tf32,m16n8k8,rna)", "k.split2.mma(sm_80,f16,m16n8k16)",
                           "k.mma(sm_70,f16,m8n8k4)", "k.kpad8.mma(sm_80,tf32,m16n8k8,trunc)"}) {
    const ir::NumericContract contract =
        runtime::eager_contract(g.graph.node(g.node), *ir::parse_order(text));
    const ir::Tensor y = runtime::evaluate(g.graph, g.node, g.operands, contract, {pool, 0});
    const auto operands =
        runtime::study::sum_operands(g.graph, g.node, std::vector<std::int64_t>{1, 2}, g.operands);
    REQUIRE(operands.ok());
    const auto trace = runtime::study::trace_sum(*contract.order, *operands);
    REQUIRE(trace.ok());
    INFO(text);
    CHECK(trace->result == y.data<float>()[5]);
    std::int64_t leaves = 0, in_blocks = 0;
    for (const auto& step : trace->steps) {
      leaves += step.kind == runtime::study::TreeStep::Kind::kLeaf;
      if (step.kind == runtime::study::TreeStep::Kind::kBlock) in_blocks += step.position;
    }
    CHECK(leaves == in_blocks);
    CHECK(leaves >= 37);
  }
}

TEST_CASE("tree: traces differ where their partial sums do") {
  const Case g = make_case(ir::Op::kMatmul, {{1, 8}, {8, 1}}, {});
  const auto operands =
      runtime::study::sum_operands(g.graph, g.node, std::vector<std::int64_t>{0, 0}, g.operands);
  REQUIRE(operands.ok());
  const SumTrace one = *runtime::study::trace_sum(*ir::parse_order("k.fma"), *operands);
  const SumTrace two = *runtime::study::trace_sum(*ir::parse_order("k.split2.fma"), *operands);
  CHECK(!runtime::study::first_difference(one, one));
  CHECK(runtime::study::first_difference(one, two) ==
        5);  // a start where the other has its fifth leaf
}
