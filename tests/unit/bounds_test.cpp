// Bounds hold: the interpreter's results against MPFR, for random nodes, orders and data; and they
// are not idle.
#include "runtime/compare/bounds.h"

#include <algorithm>

#include "runtime/eager/interpreter.h"
#include "tests/unit/exact_support.h"

namespace driftc::test {
namespace {

using namespace runtime::compare;
using runtime::Hypothesis;

ir::ReductionOrder order_from(const std::string& text) {
  auto order = ir::parse_order(text);
  REQUIRE_MESSAGE(order.ok(), text);
  return order.value();
}

std::vector<std::int32_t> roundings(const std::string& text, std::int64_t n, bool bias = false) {
  const ir::ReductionOrder order = order_from(text);
  const LeafRoundings r = leaf_roundings(ir::denote(order, {n, 1, 1}), order, n, bias);
  std::vector<std::int32_t> out = r.f32;
  if (bias) out.push_back(r.bias_f32);
  return out;
}

TEST_CASE("bounds: roundings of each leaf of small trees, by hand") {
  using Counts = std::vector<std::int32_t>;
  CHECK(roundings("k.fma", 5) == Counts{5, 4, 3, 2, 1});
  CHECK(roundings("k.muladd", 5) == Counts{5, 5, 4, 3, 2});
  CHECK(roundings("k.add", 5) == Counts{4, 4, 3, 2, 1});
  CHECK(roundings("k.split2.fma", 4) == Counts{3, 2, 3, 2});
  CHECK(roundings("k.lanes2.fma", 4) == Counts{3, 3, 2, 2});
  CHECK(roundings("k.acc4.fma", 4) == Counts{3, 3, 3, 3});
  CHECK(roundings("k.tile2.fma", 4) ==
        Counts{3, 2, 3, 2});  // the first tile is added to an exact zero
  CHECK(roundings("k.kpad4.fma", 3) == Counts{3, 2, 1});   // zero leaves round nothing
  CHECK(roundings("k.split4.fma", 3) == Counts{3, 3, 2});  // an empty slice vanishes
  CHECK(roundings("k.kahan", 3) == Counts{4, 4, 4});
  CHECK(roundings("k.fma+bias.first", 2, true) == Counts{2, 1, 2});
  CHECK(roundings("k.muladd+bias.first", 2, true) == Counts{3, 2, 2});
  CHECK(roundings("k.fma+bias.last", 2, true) == Counts{3, 2, 1});
  CHECK(roundings("k.fma+bias.stored", 2, true) == Counts{3, 2, 1});
  CHECK(roundings("k.f64", 3) == Counts{1, 1, 1});
  CHECK(roundings("k.f64+bias.stored", 3, true) == Counts{2, 2, 2, 1});
  CHECK(roundings("k.f64+bias.last", 3, true) == Counts{1, 1, 1, 1});
}

// A contract that fits the node's walks.
ir::NumericContract random_contract(Chooser& pick, const NodeCase& c) {
  const ir::OpInfo& info = ir::info(c.graph.node(c.node).op);
  const char* middles[] = {"",      ".split3", ".split2p", ".split4a",           ".lanes4",
                           ".acc3", ".tile4",  ".kpad4",   ".split2.lanes2.acc2"};
  const char* products[] = {".fma", ".fma", ".muladd", ".f64", ".kahan"};
  const char* sums[] = {".add", ".add", ".f64", ".kahan"};
  const char* biases[] = {"", "+bias.first", "+bias.last", "+bias.stored"};
  const bool conv = info.op_class == ir::OpClass::conv, pool = info.op_class == ir::OpClass::pool;
  std::string text = pool   ? "hw"
                     : conv ? (pick.chance(3)   ? "rsc"
                               : pick.chance(3) ? "c3rs"
                                                : "crs")
                            : "k";
  const std::string middle = middles[pick.pick(0, 8)];
  text += middle;
  if ((conv || pool) && pick.chance(3) && middle.find("kpad") == std::string::npos)
    text.insert(
        text.find_first_of('.') == std::string::npos ? text.size() : text.find_first_of('.'),
        ".skip");
  text += pool ? sums[pick.pick(0, 3)] : products[pick.pick(0, 4)];
  if (c.operands.size() == 3) text += biases[pick.pick(0, 3)];
  ir::NumericContract contract;
  contract.order = order_from(text);
  return contract;
}

TEST_CASE(
    "bounds: every order's error lies within its per-leaf, running and order-free bounds; replay "
    "equals the interpreter") {
  runtime::ThreadPool pool(1);
  std::int64_t replayed = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Chooser pick(seed, "bounds");
    const int laws[] = {0, 1, 3, 5, 6, 7};
    const NodeCase c = random_sum_node(pick, laws[pick.pick(0, 5)]);
    const ir::NumericContract contract = random_contract(pick, c);
    INFO("seed ", seed, " ", c.text, " ", ir::to_string(contract));
    const ir::Tensor value = runtime::evaluate(c.graph, c.node, c.operands, contract, {pool, seed});
    const runtime::SumProblem problem = runtime::sum_problem(c.graph, c.node, c.operands);
    const TensorBound leaf = a_priori_bound(problem, contract, pool, seed);
    const TensorBound any = any_order_bound(problem, pool);
    const auto replay = replay_bound(problem, contract, pool, seed);
    if (replay) {
      ++replayed;
      REQUIRE(ir::same_bits(replay->value, value));
    }
    // f32 atomics flush subnormals, which no order-free bound covers.
    const bool ordinary = contract.order->arith != ir::Arith::kKahan &&
                          contract.order->combine != ir::SplitCombine::kAtomic;
    for (std::int64_t at = 0; at < value.elements(); at += 1 + value.elements() / 80) {
      const auto i = static_cast<std::size_t>(at);
      const auto exact = oracle(c, at);
      if (!exact) continue;
      Real error(*exact);
      if (!std::isfinite(value.data<float>()[i])) continue;
      error.subtract(Real(value.data<float>()[i]));
      INFO("element ", at, " error ", error.to_f64(), " leaf ", leaf.value.data<double>()[i]);
      REQUIRE(error.magnitude() <= Real(leaf.value.data<double>()[i]));
      if (replay) REQUIRE(error.magnitude() <= Real(replay->bound.value.data<double>()[i]));
      if (ordinary) REQUIRE(error.magnitude() <= Real(any.value.data<double>()[i]));
    }
  }
  CHECK(replayed > 150);
}

TEST_CASE(
    "bounds: a running bound does not depend on threads and is tighter than the per-leaf one on "
    "long sums") {
  Chooser pick(3, "tight");
  const NodeCase c =
      make_node(ir::Op::kConv2d, {pick.tensor({1, 64, 12, 12}, 0), pick.tensor({8, 64, 3, 3}, 0)});
  const auto problem = runtime::sum_problem(c.graph, c.node, c.operands);
  runtime::ThreadPool one(1), two(2);
  ir::NumericContract contract;
  contract.order = order_from("crs.fma");
  const auto a = replay_bound(problem, contract, one), b = replay_bound(problem, contract, two);
  CHECK(ir::same_bits(a->value, b->value));
  CHECK(ir::same_bits(a->bound.value, b->bound.value));
  const TensorBound leaf = a_priori_bound(problem, contract, one),
                    any = any_order_bound(problem, one);
  CHECK(leaf.kind == BoundKind::kAPriori);
  CHECK(leaf.source == "per leaf, crs.fma+bias.stored");
  CHECK(a->bound.kind == BoundKind::kRunning);
  double ratio = 0, error_ratio = 0;
  const auto exact = runtime::exact_value(problem, {.intervals = true}, one);
  for (std::size_t i = 0; i < a->bound.value.data<double>().size(); ++i) {
    ratio += leaf.value.data<double>()[i] / a->bound.value.data<double>()[i];
    CHECK(leaf.value.data<double>()[i] <= any.value.data<double>()[i] * 1.0001);
    error_ratio = std::max(
        error_ratio, std::abs(double{a->value.data<float>()[i]} - exact.value64.data<double>()[i]) /
                         a->bound.value.data<double>()[i]);
  }
  CHECK(ratio / static_cast<double>(a->value.elements()) > 5);
  // numerics.md 4.2: the running bound exceeds the largest error 3 to 30 times at K >= 576.
  CHECK(error_ratio < 1 / 3.0);
  CHECK(error_ratio > 1 / 30.0);
}

TEST_CASE(
    "bounds: z has unit spread on dense data, against the exact value and between orders, and "
    "never leaves 6") {
  Chooser pick(4, "z");
  runtime::ThreadPool pool(1);
  const NodeCase c =
      make_node(ir::Op::kMatmul, {pick.tensor({64, 576}, 0), pick.tensor({576, 64}, 0)});
  const auto problem = runtime::sum_problem(c.graph, c.node, c.operands);
  const char* orders[] = {"k.fma", "k.split4.fma", "k.lanes8.acc2.muladd"};
  std::vector<runtime::compare::Replay> replays;
  for (const char* text : orders) {
    ir::NumericContract contract;
    contract.order = order_from(text);
    replays.push_back(*replay_bound(problem, contract, pool));
  }
  const auto exact = runtime::exact_value(problem, {.intervals = true}, pool);
  for (std::size_t a = 0; a < 3; ++a) {
    double squares = 0;
    const auto n = static_cast<std::size_t>(replays[a].value.elements());
    for (std::size_t i = 0; i < n; ++i) {
      const double z =
          z_value(double{replays[a].value.data<float>()[i]} - exact.value64.data<double>()[i],
                  replays[a].variance.data<double>()[i], 0);
      squares += z * z;
    }
    INFO(std::string(orders[a]), " against the exact value");
    CHECK(std::sqrt(squares / static_cast<double>(n)) == doctest::Approx(1).epsilon(0.06));
  }
  for (std::size_t a = 0; a < 3; ++a)
    for (std::size_t b = a + 1; b < 3; ++b) {
      double squares = 0, most = 0;
      const auto n = static_cast<std::size_t>(replays[a].value.elements());
      for (std::size_t i = 0; i < n; ++i) {
        const double z = z_value(
            double{replays[a].value.data<float>()[i]} - double{replays[b].value.data<float>()[i]},
            replays[a].variance.data<double>()[i], replays[b].variance.data<double>()[i]);
        squares += z * z;
        most = std::max(most, std::abs(z));
      }
      const double spread = std::sqrt(squares / static_cast<double>(n));
      INFO(std::string(orders[a]), " ", std::string(orders[b]), " std(z) ", spread, " max ", most);
      CHECK(spread >
            0.85);  // fma and split4 share the partial sums of the first slice, whose errors cancel
      CHECK(spread < 1.15);
      CHECK(most <= kExplainedZ);
    }
  CHECK(z_value(0, 0, 0) == 0);
  CHECK(std::isinf(z_value(1, 0, 0)));
}

TEST_CASE("bounds: what rounding operands changes lies within input_rounding") {
  runtime::ThreadPool pool(1);
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    Chooser pick(seed, "inputs");
    const NodeCase c = random_sum_node(pick, static_cast<int>(pick.pick(0, 1)) * 3);
    const auto all = runtime::all_hypotheses();
    const Hypothesis h =
        all[static_cast<std::size_t>(pick.pick(0, static_cast<std::int64_t>(all.size()) - 1))];
    const auto problem = runtime::sum_problem(c.graph, c.node, c.operands);
    const TensorBound bound = input_rounding(problem, h, pool);
    INFO("seed ", seed, " ", c.text, " ", runtime::name_of(h));
    double used = 0;
    for (std::int64_t at = 0; at < bound.value.elements(); at += 1 + bound.value.elements() / 40) {
      const auto plain = oracle(c, at), rounded = oracle(c, at, nullptr, h);
      if (!plain || !rounded) continue;
      Real change(*plain);
      change.subtract(*rounded);
      // The bound is evaluated in f64 with slack, MPFR's quotients of means round at 2400 bits.
      const double limit = bound.value.data<double>()[static_cast<std::size_t>(at)];
      REQUIRE(change.magnitude() <= Real(limit * (1 + 0x1p-50)));
      if (limit > 0) used = std::max(used, std::abs(change.to_f64()) / limit);
    }
    if (h == Hypothesis::kF32) CHECK(used == 0);
  }
}

TEST_CASE("bounds: conditioning and the smallest error that is seen") {
  runtime::ThreadPool pool(1);
  const NodeCase c =
      make_node(ir::Op::kMatmul, {ir::Tensor::of<float>({1, 2}, std::array{1.0f, -0.75f}),
                                  ir::Tensor::of<float>({2, 1}, std::array{1.0f, 1.0f})});
  const auto problem = runtime::sum_problem(c.graph, c.node, c.operands);
  const auto exact = runtime::exact_value(problem, {.intervals = true}, pool);
  const Conditioning figures = conditioning(
      problem, ir::Tensor::of<float>({1, 1}, std::array{0.25f + 0x1p-20f}), exact.value64, pool);
  CHECK(figures.condition_max == doctest::Approx(14));
  CHECK(figures.omega_max == doctest::Approx(0x1p-20 / 1.75));

  const ir::Tensor tolerance = ir::Tensor::of<double>({4}, std::array{0.5, 0.25, 1.0, 0.125});
  const ir::Tensor value = ir::Tensor::of<float>({4}, std::array{2.0f, -2.0f, 2.0f, std::nanf("")});
  const Detectable seen = detectable(tolerance, value);
  CHECK(seen.largest == 2.0);
  CHECK(seen.median == 1.0);
  CHECK(seen.rms == 2.0);
  CHECK(seen.largest_of_rms == 1.0);
}

// --- Winograd -----------------------------------------------------------------------------------

// A Winograd convolution of one tile in f32, every operation rounded: filters and inputs
// transformed, fused sequential sum over the channels, output transformed. Returns m x m.
std::vector<float> emulate_winograd(const ir::WinogradMatrices& wm,
                                    const std::vector<std::vector<float>>& tiles,
                                    const std::vector<std::vector<float>>& filters) {
  const auto sandwich = [](const ir::FractionMatrix& a, const std::vector<float>& x, int inner) {
    const auto one_side = [&](const std::vector<float>& in, bool left) {
      // left: a * in; right: in * a'. Products rounded, sums in order.
      const int other = left ? inner : a.rows;
      std::vector<float> out(static_cast<std::size_t>(a.rows * other));
      for (int i = 0; i < a.rows; ++i)
        for (int j = 0; j < other; ++j) {
          float sum = 0;
          for (int k = 0; k < inner; ++k) {
            if (a.at(i, k).over == 0) continue;
            const auto coefficient = static_cast<float>(a.at(i, k).value());
            const float v = left ? in[static_cast<std::size_t>(k * inner + j)]
                                 : in[static_cast<std::size_t>(j * inner + k)];
            sum = add_rn(sum, mul_rn(coefficient, v));
          }
          out[left ? static_cast<std::size_t>(i * other + j)
                   : static_cast<std::size_t>(j * a.rows + i)] = sum;
        }
      return out;
    };
    return one_side(one_side(x, true), false);
  };
  const int n = wm.n();
  std::vector<float> sum(static_cast<std::size_t>(n * n), 0.0f);
  for (std::size_t c = 0; c < tiles.size(); ++c) {
    const auto u = sandwich(wm.g, filters[c], 3), v = sandwich(wm.bt, tiles[c], n);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = fma_rn(u[i], v[i], sum[i]);
  }
  return sandwich(wm.at, sum, n);
}

TEST_CASE("winograd: the matrices are exact over the rationals") {
  for (int m : {2, 4, 6}) {
    const auto& wm = ir::winograd_matrices(m);
    REQUIRE(wm.bt.rows == wm.n());
    REQUIRE(wm.g.rows == wm.n());
    REQUIRE(wm.at.columns == wm.n());
    // sum_i AT[o][i] G[i][k] BT[i][d] = [d == o + k], as fractions over a common denominator.
    for (int o = 0; o < m; ++o)
      for (int k = 0; k < 3; ++k)
        for (int d = 0; d < wm.n(); ++d) {
          std::int64_t sum = 0;
          constexpr std::int64_t kCommon = 64LL * 9 * 5 * 32 * 4;
          for (int i = 0; i < wm.n(); ++i) {
            const auto &a = wm.at.at(o, i), &g = wm.g.at(i, k), &b = wm.bt.at(i, d);
            const std::int64_t under = std::int64_t{a.under} * g.under * b.under;
            REQUIRE(kCommon % under == 0);
            sum += kCommon / under * a.over * g.over * b.over;
          }
          CHECK(sum == (d == o + k ? kCommon : 0));
        }
  }
  // numerics.md 3.3, the table.
  const int expected[3][3] = {{1, 2, 2}, {3, 4, 4}, {6, 4, 6}};
  for (int i = 0; i < 3; ++i) {
    const auto& wm = ir::winograd_matrices(2 * (i + 1));
    CHECK(ir::transform_roundings(wm.bt) == expected[i][0]);
    CHECK(ir::transform_roundings(wm.g) == expected[i][1]);
    CHECK(ir::transform_roundings(wm.at) == expected[i][2]);
  }
}

TEST_CASE(
    "winograd: the error of an emulated F(2,3), F(4,3) and F(6,3) lies within the bound, not far "
    "below") {
  runtime::ThreadPool pool(1);
  for (int m : {2, 4, 6}) {
    const auto& wm = ir::winograd_matrices(m);
    double most = 0;
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      Chooser pick(seed, "winograd");
      const std::int64_t channels = pick.pick(1, 24), size = wm.n() - 2;  // one tile with padding 1
      const int law = seed % 5 == 4 ? 3 : 0;                              // some with subnormals
      const NodeCase c = make_node(
          ir::Op::kConv2d,
          {pick.tensor({1, channels, size, size}, law), pick.tensor({1, channels, 3, 3}, 0)},
          {{"pad", std::vector<std::int64_t>{1, 1, 1, 1}}});
      const auto problem = runtime::sum_problem(c.graph, c.node, c.operands);
      REQUIRE(winograd_fits(problem));
      const TensorBound bound = winograd_bound(problem, wm, {}, pool);
      CHECK(bound.kind == BoundKind::kTransform);
      std::vector<std::vector<float>> tiles, filters;
      for (std::int64_t ch = 0; ch < channels; ++ch) {
        std::vector<float> tile;
        for (std::int64_t y = -1; y <= size; ++y)
          for (std::int64_t x = -1; x <= size; ++x)
            tile.push_back(
                y < 0 || x < 0 || y == size || x == size
                    ? 0.0f
                    : c.operands[0]
                          .data<float>()[static_cast<std::size_t>((ch * size + y) * size + x)]);
        tiles.push_back(tile);
        const auto w = c.operands[1].data<float>();
        filters.emplace_back(w.begin() + ch * 9, w.begin() + ch * 9 + 9);
      }
      const std::vector<float> y = emulate_winograd(wm, tiles, filters);
      for (std::size_t i = 0; i < y.size(); ++i) {
        Real error = *oracle(c, static_cast<std::int64_t>(i));
        error.subtract(Real(y[i]));
        const double limit = bound.value.data<double>()[i];
        INFO("F(", m, ",3) seed ", seed, " element ", i, " error ", error.to_f64(), " bound ",
             limit);
        REQUIRE(error.magnitude() <= Real(limit));
        if (law == 0) most = std::max(most, std::abs(error.to_f64()) / limit);
      }
    }
    INFO("F(", m, ",3): largest error over bound ", most);
    CHECK(most > 1e-4);
  }
}

TEST_CASE("winograd: tiles, groups, bias and batches are bounded like single tiles") {
  runtime::ThreadPool pool(2);
  Chooser pick(9, "winograd-shape");
  const NodeCase c =
      make_node(ir::Op::kConv2d,
                {pick.tensor({2, 6, 7, 9}, 0), pick.tensor({4, 3, 3, 3}, 0), pick.tensor({4}, 0)},
                {{"pad", std::vector<std::int64_t>{1, 0, 1, 2}}, {"groups", std::int64_t{2}}});
  const auto problem = runtime::sum_problem(c.graph, c.node, c.operands);
  const ir::Tensor size = runtime::exact_value(c.graph, c.node, c.operands, {}, pool).value;
  for (int m : {2, 4, 6}) {
    const TensorBound bound =
        winograd_bound(problem, ir::winograd_matrices(m), {.filters_in_f64 = true}, pool);
    CHECK(bound.value.shape() == size.shape());
    for (std::size_t i = 0; i < bound.value.data<double>().size(); ++i) {
      // At least N u times the value, and finite.
      REQUIRE(bound.value.data<double>()[i] >= 0x1p-24 * std::abs(size.data<float>()[i]) * 0.5);
      REQUIRE(bound.value.data<double>()[i] < 1);
    }
  }
}

}  // namespace
}  // namespace driftc::test
