// Every order denotes a sum over each position exactly once, and plans perform exactly the
// program's operations.
#include <set>

#include "../unit/eager_support.h"
#include "ir/support/hash.h"
#include "runtime/sums/sum_plan.h"

namespace driftc::test {
namespace {

struct Pick {
  CounterRng rng;
  std::uint64_t counter = 0;
  std::int64_t operator()(std::int64_t lo, std::int64_t hi) {
    return lo +
           static_cast<std::int64_t>(rng.bits(counter++) % static_cast<std::uint64_t>(hi - lo + 1));
  }
};

ir::ReductionOrder random_order(Pick& pick) {
  ir::ReductionOrder order;
  constexpr ir::Walk kWalks[] = {ir::Walk::kCrs, ir::Walk::kRsc, ir::Walk::kTiledCrs};
  constexpr ir::Arith kAriths[] = {ir::Arith::kFma, ir::Arith::kMulAdd, ir::Arith::kKahan,
                                   ir::Arith::kF64};
  constexpr ir::BiasPoint kPoints[] = {ir::BiasPoint::kNone, ir::BiasPoint::kFirst,
                                       ir::BiasPoint::kLast, ir::BiasPoint::kStored};
  constexpr ir::SplitCombine kCombines[] = {ir::SplitCombine::kSerial, ir::SplitCombine::kPairwise,
                                            ir::SplitCombine::kAtomic};
  order.walk = kWalks[pick(0, 2)];
  if (order.walk == ir::Walk::kTiledCrs) order.channel_tile = static_cast<int>(pick(1, 5));
  if (pick(0, 2) == 0) order.kpad = static_cast<int>(pick(1, 9));
  order.skip = pick(0, 2) == 0;
  if (pick(0, 1) == 0)
    order.split = static_cast<int>(pick(2, 9)), order.combine = kCombines[pick(0, 2)];
  if (pick(0, 1) == 0) order.lanes = 1 << pick(0, 5);
  if (pick(0, 1) == 0) order.acc = static_cast<int>(pick(1, 6));
  if (pick(0, 1) == 0) order.tile = static_cast<int>(pick(1, 9));
  order.arith = kAriths[pick(0, 3)];
  order.bias = kPoints[pick(0, 3)];
  return order;
}

TEST_CASE("orders: text round trip; leaves are the positions, each exactly once; one root") {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    Pick pick{CounterRng(seed, "order")};
    const ir::ReductionOrder order = random_order(pick);
    const std::string text = ir::to_string(order);
    INFO("seed ", seed, " ", text);
    REQUIRE(order_of(text) == order);
    const ir::ReductionExtent extent{pick(0, 9), pick(1, 3), pick(1, 3)};
    const std::int64_t positions = extent.positions();
    const auto padded = std::make_unique<bool[]>(static_cast<std::size_t>(positions));
    std::set<std::int32_t> expected;
    for (std::int64_t p = 0; p < positions; ++p) {
      padded[static_cast<std::size_t>(p)] = pick(0, 3) == 0;
      if (!order.skip || !padded[static_cast<std::size_t>(p)])
        expected.insert(static_cast<std::int32_t>(p));
    }
    const ir::SumProgram program =
        ir::denote(order, extent, {padded.get(), static_cast<std::size_t>(positions)}, seed % 3);
    std::set<std::int32_t> leaves;
    std::size_t zeros = 0, biased = 0;
    for (const auto& chain : program.chains) {
      biased += chain.starts_with_bias ? 1 : 0;
      for (std::int32_t leaf : chain.leaves) {
        if (leaf == ir::SumProgram::kZeroLeaf) {
          ++zeros;
        } else {
          REQUIRE(leaves.insert(leaf).second);
        }
      }
    }
    REQUIRE(leaves == expected);
    REQUIRE(biased == 1);
    if (order.kpad == 0) REQUIRE(zeros == 0);
    // Every chain but the root is added into another exactly once, and never changes afterwards.
    std::vector<int> consumed(program.chains.size());
    for (const auto& addition : program.additions) {
      REQUIRE(consumed[static_cast<std::size_t>(addition.to)] == 0);
      ++consumed[static_cast<std::size_t>(addition.from)];
    }
    REQUIRE(consumed[0] == 0);
    for (std::size_t i = 1; i < consumed.size(); ++i) REQUIRE(consumed[i] == 1);
  }
}

TEST_CASE("orders: random orders of a dot product against the slow evaluator") {
  const ir::Tensor a = random_tensor({3, 41}, "a"), b = random_tensor({41, 5}, "b");
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Pick pick{CounterRng(seed, "dot")};
    ir::ReductionOrder order = random_order(pick);
    order.walk = ir::Walk::kK;
    order.channel_tile = 0;
    order.skip = false;
    const ir::Tensor c = random_tensor({5}, "c");
    OneOp op(ir::Op::kGemm, {a, b, c});
    op.contract.order = order;
    const ir::Tensor got = op.run();
    INFO("seed ", seed, " ", ir::to_string(order));
    for (std::size_t m = 0; m < 3; ++m)
      for (std::size_t n = 0; n < 5; ++n) {
        const float expected = slow_sum(
            order, true, true, c.data<float>()[n], 41, 1, 1,
            [&](std::int64_t k, std::int64_t, std::int64_t) {
              const auto i = static_cast<std::size_t>(k);
              return Leaf<float>{a.data<float>()[m * 41 + i], b.data<float>()[i * 5 + n], false};
            });
        REQUIRE(bits_of(got.data<float>()[m * 5 + n]) == bits_of(expected));
      }
  }
}

TEST_CASE("orders: an atomic split follows the seeded permutation") {
  const ir::Tensor a = random_tensor({1, 64}, "a"), b = random_tensor({64, 1}, "b");
  OneOp op(ir::Op::kMatmul, {a, b});
  op.contract.order = order_of("k.split8a.fma");
  std::vector<float> slices;
  for (std::size_t s = 0; s < 8; ++s) {
    float sum = 0;
    for (std::size_t i = s * 8; i < s * 8 + 8; ++i)
      sum = fma_rn(a.data<float>()[i], b.data<float>()[i], sum);
    slices.push_back(sum);
  }
  std::set<std::uint32_t> seen;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    float expected = 0;
    for (std::uint32_t s : seeded_permutation(seed, 8)) expected = add_rn(expected, slices[s]);
    op.atomic_seed = seed;
    const float got = op.run().data<float>()[0];
    CHECK(bits_of(got) == bits_of(expected));
    seen.insert(bits_of(got));
  }
  CHECK(seen.size() > 1);
  // f32 atomics on global memory flush subnormals, ordinary additions and f64 do not.
  OneOp tiny(ir::Op::kMatmul,
             {tensor({1, 2}, {0x1p-140f, -0x1p-141f}), tensor({2, 1}, {1.0f, 1.0f})});
  CHECK(tiny.run("k.split2.fma").data<float>()[0] == 0x1p-141f);
  CHECK(bits_of(tiny.run("k.split2a.fma").data<float>()[0]) == 0u);
  CHECK(tiny.run("k.split2a.f64").data<float>()[0] == 0x1p-141f);
}

}  // namespace
}  // namespace driftc::test
