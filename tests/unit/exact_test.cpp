// The exact reference against MPFR, tier by tier.
#include <hwy/targets.h>

#include <limits>

#include "runtime/compare/bounds.h"
#include "runtime/numeric/interval.h"
#include "tests/unit/exact_support.h"

namespace driftc::test {
namespace {

using runtime::ExactTier;
using runtime::Hypothesis;

runtime::ExactResult exact(const NodeCase& c, const runtime::ExactSettings& settings = {},
                           int threads = 1) {
  runtime::ThreadPool pool(threads);
  return runtime::exact_value(c.graph, c.node, c.operands, settings, pool);
}

// a . b as a 1 x n matmul, in all tiers; they must agree.
float dot(const std::vector<float>& a, const std::vector<float>& b) {
  const auto n = static_cast<std::int64_t>(a.size());
  const NodeCase c = make_node(
      ir::Op::kMatmul, {ir::Tensor::of<float>({1, n}, a), ir::Tensor::of<float>({n, 1}, b)});
  const float first = exact(c).value.data<float>()[0];
  for (ExactTier tier : {ExactTier::kCompensated, ExactTier::kKulisch})
    CHECK(bits_of(exact(c, {.first_tier = tier}).value.data<float>()[0]) == bits_of(first));
  return first;
}

constexpr float kMax = std::numeric_limits<float>::max();
const float kInf = std::numeric_limits<float>::infinity();

TEST_CASE("exact: ties, cancellation, subnormals and the overflow boundary") {
  struct Row {
    const char* what;
    std::vector<float> a, b;
    float expected;
  };
  const std::vector<Row> rows = {
      {"tie to even, down", {0x1p24f, 1}, {1, 1}, 0x1p24f},
      {"tie to even, up", {0x1p24f, 3}, {1, 1}, 0x1.000004p24f},
      {"tie broken from above by 2^-200",
       {0x1p24f, 1, 0x1p-100f},
       {1, 1, 0x1p-100f},
       0x1.000002p24f},
      {"tie broken from below by 2^-200",
       {0x1p24f, 3, -0x1p-100f},
       {1, 1, 0x1p-100f},
       0x1.000002p24f},
      {"tie of a negative sum broken by 2^-298",
       {-0x1p24f, -1, -0x1p-149f},
       {1, 1, 0x1p-149f},
       -0x1.000002p24f},
      {"tie only in f64: the low part decides",
       {0x1p24f, 1, 0x1p-40f, -0x1p-40f, 0x1p-80f},
       {1, 1, 1, 1, 1},
       0x1.000002p24f},
      {"everything cancels but 2^-298",
       {0x1p127f, 0x1p-149f, -0x1p127f},
       {0x1p127f, 0x1p-149f, 0x1p127f},
       0.0f},
      {"everything cancels but 2^-149",
       {0x1p127f, 0x1p-149f, -0x1p127f},
       {0x1p127f, 1, 0x1p127f},
       0x1p-149f},
      {"cancels to zero", {1e30f, 3.0f, -1e30f, -3.0f}, {7e-8f, 11.0f, 7e-8f, 11.0f}, 0.0f},
      {"all products -0", {-0.0f, 0.0f}, {1, -1}, 0.0f},
      {"a negative sum that rounds to zero", {-0x1p-100f}, {0x1p-100f}, -0.0f},
      {"half the smallest subnormal, to even", {0x1p-149f}, {0.5f}, 0.0f},
      {"a little more than half of it", {0x1p-149f, 0x1p-149f}, {0.5f, 0x1p-149f}, 0x1p-149f},
      {"three halves of it, to even", {0x1p-149f}, {1.5f}, 0x1p-148f},
      {"subnormal tie", {0x1p-126f, 0x1p-149f}, {0.5f, 0.5f}, 0x1p-127f},
      {"largest subnormal plus half rounds to the smallest normal",
       {0x1.fffffcp-127f, 0x1p-149f},
       {1, 0.5f},
       0x1p-126f},
      {"below the overflow tie", {kMax, 0x1p103f, -0x1p-149f}, {1, 1, 0x1p-149f}, kMax},
      {"the overflow tie", {kMax, 0x1p103f}, {1, 1}, kInf},
      {"overflow of a product alone", {0x1p127f}, {2}, kInf},
      {"partial sums beyond f32", {kMax, kMax, -kMax}, {kMax, 1, kMax}, kMax},
      {"NaN operand", {1, std::nanf("")}, {1, 0}, canonical_nan()},
      {"Inf times 0", {kInf, 1}, {0, 1}, canonical_nan()},
      {"Inf of both signs", {kInf, 1}, {1, -kInf}, canonical_nan()},
      {"Inf beats any finite sum", {-kInf, kMax, kMax}, {1, kMax, kMax}, -kInf},
  };
  for (const Row& row : rows) {
    INFO(row.what);
    CHECK(bits_of(dot(row.a, row.b)) == bits_of(row.expected));
  }
}

TEST_CASE("exact: chains long enough to be cut, with ties beside huge exponents") {
  for (std::size_t n : {63u, 64u, 127u, 128u, 129u, 1000u}) {
    std::vector<float> a(n, 0.0f), b(n, 1.0f);
    a[n / 2] = 0x1p24f;
    a[n - 1] = 1;
    CHECK(dot(a, b) == 0x1p24f);
    a[0] = 0x1p-149f;  // far below what f64 holds
    CHECK(dot(a, b) == 0x1.000002p24f);
    a[0] = -0x1p-149f;
    CHECK(dot(a, b) == 0x1p24f);
  }
}

TEST_CASE("exact: random nodes of every kind and data law against MPFR") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Chooser pick(seed, "exact");
    const int law = static_cast<int>(pick.pick(0, 7));
    const NodeCase c = random_sum_node(pick, law);
    const auto all = runtime::all_hypotheses();
    const Hypothesis h = pick.chance(2) ? Hypothesis::kF32
                                        : all[static_cast<std::size_t>(pick.pick(
                                              0, static_cast<std::int64_t>(all.size()) - 1))];
    INFO("seed ", seed, " ", c.text, " law ", law, " ", runtime::name_of(h));
    const auto result = exact(c, {.operands = h, .intervals = true});
    const auto threaded = exact(c, {.operands = h}, 2);
    REQUIRE(ir::same_bits(result.value, threaded.value));
    for (ExactTier tier : {ExactTier::kCompensated, ExactTier::kKulisch})
      REQUIRE(ir::same_bits(result.value, exact(c, {.operands = h, .first_tier = tier}).value));
    const auto value = result.value.data<float>();
    const std::int64_t step = std::max<std::int64_t>(1, result.value.elements() / 60);
    for (std::int64_t at = static_cast<std::int64_t>(seed) % step; at < result.value.elements();
         at += step) {
      const auto i = static_cast<std::size_t>(at);
      INFO("element ", at);
      float special = 0;
      const auto expected = oracle(c, at, &special, h);
      if (!expected) {
        REQUIRE(bits_of(value[i]) == bits_of(special));
        continue;
      }
      float rounded = expected->to_f32();
      if (h == Hypothesis::kFtz) rounded = runtime::rounded(rounded, h);
      REQUIRE(bits_of(value[i]) == bits_of(rounded));
      Real distance(*expected);
      distance.subtract(Real(result.value64.data<double>()[i]));
      REQUIRE(distance.magnitude() <= Real(result.radius.data<double>()[i]));
    }
  }
}

TEST_CASE("exact: special operands among ordinary ones follow IEEE limits, padding multiplies") {
  const float specials[] = {kInf, -kInf, std::nanf(""), 0.0f, -0.0f, kMax};
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Chooser pick(seed, "specials");
    NodeCase c = random_sum_node(pick, 0);
    for (ir::Tensor& t : c.operands) {
      ir::Tensor copy = ir::Tensor::of<float>(t.shape(), t.data<float>());
      for (int i = 0; i < 3; ++i)
        copy.data_mut<float>()[static_cast<std::size_t>(pick.pick(0, t.elements() - 1))] =
            specials[pick.pick(0, 5)];
      t = copy;
    }
    INFO("seed ", seed, " ", c.text);
    const auto result = exact(c);
    for (std::int64_t at = 0; at < result.value.elements(); ++at) {
      float special = 0;
      const auto expected = oracle(c, at, &special);
      const float want = expected ? expected->to_f32() : special;
      REQUIRE(bits_of(result.value.data<float>()[static_cast<std::size_t>(at)]) == bits_of(want));
    }
  }
}

TEST_CASE(
    "exact: few outputs of ordinary data leave the first tier; heavy cancellation stays out of "
    "Kulisch") {
  Chooser pick(1, "tiers");
  const auto x = pick.tensor({1, 16, 28, 28}, 0);
  auto w = pick.tensor({16, 16, 3, 3}, 0);
  const NodeCase ordinary =
      make_node(ir::Op::kConv2d, {x, w}, {{"pad", std::vector<std::int64_t>{1, 1, 1, 1}}});
  const auto result = exact(ordinary);
  CHECK(result.compensated < result.value.elements() / 1000);
  CHECK(result.kulisch == 0);

  // Channels in pairs that cancel all but 2^-20 of each other.
  ir::Tensor cancelling(ir::DType::kF32, {1, 16, 28, 28});
  ir::Tensor paired(ir::DType::kF32, {16, 16, 3, 3});
  for (std::size_t i = 0; i < 784 * 16; ++i) {
    const std::size_t pair = i / 784 / 2 * 2 * 784 + i % 784;
    const float v = x.data<float>()[pair];
    cancelling.data_mut<float>()[i] = i / 784 % 2 == 0 ? v : -v + std::ldexp(v, -22);
  }
  for (std::size_t i = 0; i < 16 * 16 * 9; ++i)
    paired.data_mut<float>()[i] = w.data<float>()[i / 9 % 2 == 0 ? i : i - 9];
  const NodeCase hard = make_node(ir::Op::kConv2d, {cancelling, paired});
  const auto hard_result = exact(hard);
  CHECK(hard_result.compensated > 0);
  CHECK(hard_result.kulisch == 0);
  CHECK(ir::same_bits(hard_result.value, exact(hard, {.first_tier = ExactTier::kKulisch}).value));
}

TEST_CASE("exact: precision-matched operands are rounded, the bias is not") {
  const float x = 0x1.ff2p0f, bias = 0x1.000002p0f;
  const NodeCase c =
      make_node(ir::Op::kConv2d, {ir::Tensor::of<float>({1, 1, 1, 1}, std::array{x}),
                                  ir::Tensor::of<float>({1, 1, 1, 1}, std::array{1.0f}),
                                  ir::Tensor::of<float>({1}, std::array{bias})});
  const auto value = [&](Hypothesis h) { return exact(c, {.operands = h}).value.data<float>()[0]; };
  CHECK(value(Hypothesis::kF32) == to_f32_rn(double{x} + double{bias}));
  CHECK(value(Hypothesis::kTf32Rna) == to_f32_rn(0x1.ff4p0 + double{bias}));
  CHECK(value(Hypothesis::kTf32Trunc) == to_f32_rn(0x1.ff0p0 + double{bias}));
  CHECK(value(Hypothesis::kBf16) == to_f32_rn(2.0 + double{bias}));
  CHECK(value(Hypothesis::kF16) == to_f32_rn(0x1.ff0p0 + double{bias}));
  for (Hypothesis h : runtime::all_hypotheses())
    CHECK(runtime::parse_hypothesis(runtime::name_of(h)) == h);
  CHECK_FALSE(runtime::parse_hypothesis("fp8"));
}

TEST_CASE("exact: flush-to-zero flushes operands, addend and results") {
  const auto one = [](float x, float w, float bias) {
    const NodeCase c =
        make_node(ir::Op::kConv2d, {ir::Tensor::of<float>({1, 1, 1, 1}, std::array{x}),
                                    ir::Tensor::of<float>({1, 1, 1, 1}, std::array{w}),
                                    ir::Tensor::of<float>({1}, std::array{bias})});
    return exact(c, {.operands = Hypothesis::kFtz}).value.data<float>()[0];
  };
  CHECK(one(0x1p-130f, 0x1p10f, 0) == 0.0f);
  CHECK(one(1, 1, 0x1p-130f) == 1.0f);
  CHECK(bits_of(one(-0x1p-70f, 0x1p-70f, 0)) == 0x80000000u);
  CHECK(one(0x1p-63f, 0x1p-63f, 0) == 0x1p-126f);
}

TEST_CASE("exact: a mean is one rounding of the exact quotient") {
  const auto mean = [](const std::vector<float>& v) {
    const NodeCase c =
        make_node(ir::Op::kGlobalAvgPool,
                  {ir::Tensor::of<float>({1, 1, 1, static_cast<std::int64_t>(v.size())}, v)});
    return exact(c).value.data<float>()[0];
  };
  CHECK(mean({0x1p24f, 1, 1}) == to_f32_rn((0x1p24 + 2) / 3));
  CHECK(mean({0x1p24f, 0x1p24f, 1, 1}) == 0x1p23f);  // 2^23 + 1/2 exactly: a tie, to even
  CHECK(mean({0x1p24f, 0x1p24f, 1, 0x1.000002p0f}) == 0x1.000002p23f);
  CHECK(mean({kMax, kMax, kMax}) == kMax);
  CHECK(mean({0x1p-149f, 0, 0}) == 0.0f);
  CHECK(mean({0x1p-149f, 0x1p-149f, 0}) == 0x1p-149f);
}

TEST_CASE("exact: AVX-512, AVX2 and plain targets agree in every bit, replay bounds too") {
  const auto restrict_to = [](std::int64_t targets) {
    hwy::SetSupportedTargetsForTest(targets);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  };
  const std::int64_t available = hwy::SupportedTargets();
  runtime::ThreadPool pool(1);
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Chooser pick(seed, "targets");
    const NodeCase c = random_sum_node(pick, static_cast<int>(pick.pick(0, 7)));
    INFO("seed ", seed, " ", c.text);
    const auto problem = runtime::sum_problem(c.graph, c.node, c.operands);
    for (ExactTier tier : {ExactTier::kDouble, ExactTier::kCompensated}) {
      const auto best = exact(c, {.intervals = true, .first_tier = tier});
      const auto replay = runtime::compare::replay_bound(problem, {}, pool);
      for (const std::int64_t targets :
           std::array{std::int64_t{available & HWY_AVX2}, std::int64_t{0}}) {
        restrict_to(targets | HWY_SCALAR);
        const auto other = exact(c, {.intervals = true, .first_tier = tier});
        const auto other_replay = runtime::compare::replay_bound(problem, {}, pool);
        restrict_to(0);  // 0: as detected
        REQUIRE(ir::same_bits(best.value, other.value));
        REQUIRE(ir::same_bits(replay->value, other_replay->value));
        REQUIRE(ir::same_bits(replay->bound.value, other_replay->bound.value));
        REQUIRE(best.kulisch == other.kulisch);
      }
    }
  }
}

TEST_CASE("exact: no channels, no images, no k") {
  const NodeCase channels =
      make_node(ir::Op::kConv2d, {ir::Tensor(ir::DType::kF32, {1, 0, 3, 3}),
                                  ir::Tensor(ir::DType::kF32, {2, 0, 1, 1}),
                                  ir::Tensor::of<float>({2}, std::array{3.0f, -0.0f})});
  const auto value = exact(channels).value;
  CHECK(value.data<float>()[0] == 3.0f);
  CHECK(bits_of(value.data<float>()[17]) == 0u);
  const NodeCase images = make_node(ir::Op::kConv2d, {ir::Tensor(ir::DType::kF32, {0, 2, 3, 3}),
                                                      ir::Tensor(ir::DType::kF32, {2, 2, 1, 1})});
  CHECK(exact(images).value.elements() == 0);
  const NodeCase k = make_node(
      ir::Op::kMatmul, {ir::Tensor(ir::DType::kF32, {2, 0}), ir::Tensor(ir::DType::kF32, {0, 3})});
  CHECK(exact(k).value.data<float>()[5] == 0.0f);
}

TEST_CASE("exact: the wide sum alone, against MPFR, at the ends of its range") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Chooser pick(seed, "wide");
    runtime::WideSum sum;
    Real real;
    const std::int64_t n = pick.pick(0, 60);
    for (std::int64_t i = 0; i < n; ++i) {
      const float a = pick.value(2),
                  b = pick.chance(3) ? kMax : pick.value(static_cast<int>(pick.pick(0, 7)));
      if (!std::isfinite(a) || !std::isfinite(b)) continue;
      sum.add_product(a, b);
      real.add_product(a, b);
    }
    runtime::SumScale scale;
    if (pick.chance(2)) scale = {pick.value(2), pick.value(2), pick.value(2), pick.pick(1, 1000)};
    if (!std::isfinite(scale.alpha) || !std::isfinite(scale.addend_a) ||
        !std::isfinite(scale.addend_b))
      continue;
    real.multiply(Real(scale.alpha));
    real.add_product(scale.addend_a, scale.addend_b);
    real.divide(Real(static_cast<double>(scale.count)));
    INFO("seed ", seed);
    CHECK(bits_of(runtime::round_to_f32(sum, scale)) == bits_of(real.to_f32()));
    if (std::abs(real.to_f64()) > 0x1p-300)
      CHECK(runtime::round_to_f64(sum, scale) == real.to_f64());
  }
}

}  // namespace
}  // namespace driftc::test
