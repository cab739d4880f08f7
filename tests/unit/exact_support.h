// What the tests of exact references and bounds share: one-node graphs, random data that is hard to
// sum, and a slow oracle in MPFR that is written from the operators' definitions.
#pragma once

#include <doctest/doctest.h>
#include <mpfr.h>

#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "ir/support/rng.h"
#include "ir/support/round.h"
#include "runtime/numeric/exact.h"

namespace driftc::test {

// A node with its operands.
struct NodeCase {
  ir::Graph graph;
  ir::NodeId node;
  std::vector<ir::Tensor> operands;
  std::string text;

  const ir::Shape& result() const { return graph.value(graph.node(node).result).type.shape; }
};
inline NodeCase make_node(ir::Op op, std::vector<ir::Tensor> operands,
                          const ir::AttributeList& attributes = {}) {
  NodeCase out;
  std::vector<ir::ValueId> values;
  for (const ir::Tensor& t : operands)
    values.push_back(out.graph.add_input("x" + std::to_string(values.size()),
                                         {t.dtype(), t.shape(), ir::Layout::kNchw}));
  ir::Builder builder(out.graph);
  const auto result = builder.add(op, values, attributes, "y");
  REQUIRE(result.ok());
  out.graph.set_outputs({result.value()});
  out.node = {static_cast<std::uint32_t>(out.graph.node_count() - 1)};
  out.operands = std::move(operands);
  out.text = std::string(ir::info(op).name);
  return out;
}

// An exact real number, wide enough for any sum of products of f32 values times an f32.
class Real {
 public:
  explicit Real(double value = 0) {
    mpfr_init2(value_, 2400);
    mpfr_set_d(value_, value, MPFR_RNDN);
  }
  Real(const Real& other) : Real() { mpfr_set(value_, other.value_, MPFR_RNDN); }
  Real& operator=(const Real& other) {
    mpfr_set(value_, other.value_, MPFR_RNDN);
    return *this;
  }
  ~Real() { mpfr_clear(value_); }
  void add(const Real& x) { mpfr_add(value_, value_, x.value_, MPFR_RNDN); }
  void subtract(const Real& x) { mpfr_sub(value_, value_, x.value_, MPFR_RNDN); }
  void multiply(const Real& x) { mpfr_mul(value_, value_, x.value_, MPFR_RNDN); }
  void divide(const Real& x) { mpfr_div(value_, value_, x.value_, MPFR_RNDN); }
  void add_product(double a, double b) {
    Real p(a);
    p.multiply(Real(b));
    add(p);
  }
  Real magnitude() const {
    Real out(*this);
    mpfr_abs(out.value_, out.value_, MPFR_RNDN);
    return out;
  }
  bool operator<=(const Real& other) const { return mpfr_lessequal_p(value_, other.value_) != 0; }
  bool is_zero() const { return mpfr_zero_p(value_) != 0; }
  float to_f32() const {
    if (is_zero()) return 0.0f;
    return mpfr_get_flt(value_, MPFR_RNDN);
  }
  double to_f64() const { return mpfr_get_d(value_, MPFR_RNDN); }

 private:
  mpfr_t value_;
};

// Calls fn(x, w) for each product of output `at` (row-major), padding as x = +0. From ops.def.
template <class F>
void for_terms(const NodeCase& c, std::int64_t at, const F& fn) {
  const ir::Node& node = c.graph.node(c.node);
  const auto x = c.operands[0].data<float>();
  const ir::Shape &xs = c.operands[0].shape(), &ys = c.result();
  const auto index = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  if (node.op == ir::Op::kMatmul || node.op == ir::Op::kGemm) {
    const auto b = c.operands[1].data<float>();
    const ir::Shape& bs = c.operands[1].shape();
    const bool gemm = node.op == ir::Op::kGemm;
    const bool ta = gemm && node.integer("trans_a") != 0, tb = gemm && node.integer("trans_b") != 0;
    const std::int64_t n = ys[ys.rank() - 1], m = ys[ys.rank() - 2];
    const std::int64_t k = ta ? xs[0] : xs[xs.rank() - 1];
    const std::int64_t column = at % n, row = at / n % m, batch = at / n / m;
    // Batch index of an operand by broadcasting its leading axes.
    const auto offset = [&](const ir::Shape& s) {
      std::int64_t rest = batch, out = 0, scale = 1;
      for (std::size_t back = 3; back <= ys.rank(); ++back) {
        const std::int64_t coordinate = rest % ys[ys.rank() - back];
        rest /= ys[ys.rank() - back];
        if (back > s.rank()) continue;
        const std::int64_t extent = s[s.rank() - back];
        if (extent != 1) out += coordinate * scale;
        scale *= extent;
      }
      return out * s[s.rank() - 1] * s[s.rank() - 2];
    };
    const std::int64_t xo = offset(xs), bo = offset(bs);
    for (std::int64_t i = 0; i < k; ++i)
      fn(x[index(xo + (ta ? i * m + row : row * k + i))],
         b[index(bo + (tb ? column * k + i : i * n + column))]);
    return;
  }
  const std::int64_t ox = at % ys[3], oy = at / ys[3] % ys[2], channel = at / ys[3] / ys[2] % ys[1],
                     image = at / ys[3] / ys[2] / ys[1];
  const bool conv = node.op == ir::Op::kConv2d || node.op == ir::Op::kConv1x1Matmul;
  std::int64_t kh = xs[2], kw = xs[3], sh = 1, sw = 1, dh = 1, dw = 1, pt = 0, pl = 0,
               first = channel, count = 1;
  if (conv) {
    const ir::Shape& ws = c.operands[1].shape();
    kh = ws[2];
    kw = ws[3];
    count = ws[1];
    const std::int64_t groups = node.op == ir::Op::kConv2d ? node.integer("groups") : 1;
    first = channel / (ys[1] / groups) * count;
  } else if (node.op == ir::Op::kAvgPool) {
    kh = node.ints("kernel")[0];
    kw = node.ints("kernel")[1];
  }
  if (node.op == ir::Op::kConv2d || node.op == ir::Op::kAvgPool) {
    sh = node.ints("stride")[0];
    sw = node.ints("stride")[1];
    pt = node.ints("pad")[0];
    pl = node.ints("pad")[1];
  }
  if (node.op == ir::Op::kConv2d) {
    dh = node.ints("dilation")[0];
    dw = node.ints("dilation")[1];
  }
  for (std::int64_t ch = 0; ch < count; ++ch)
    for (std::int64_t r = 0; r < kh; ++r)
      for (std::int64_t s = 0; s < kw; ++s) {
        const std::int64_t iy = oy * sh - pt + r * dh, ix = ox * sw - pl + s * dw;
        const bool inside = iy >= 0 && iy < xs[2] && ix >= 0 && ix < xs[3];
        const float value =
            inside ? x[index(((image * xs[1] + first + ch) * xs[2] + iy) * xs[3] + ix)] : 0.0f;
        fn(value,
           conv ? c.operands[1].data<float>()[index(((channel * count + ch) * kh + r) * kw + s)]
                : 1.0f);
      }
}

// What surrounds the sum of one output: (alpha * sum + beta * addend) / count.
struct Surroundings {
  float alpha = 1, beta = 1, addend = 0;
  std::int64_t count = 1;
};
inline Surroundings surroundings(const NodeCase& c, std::int64_t at) {
  const ir::Node& node = c.graph.node(c.node);
  const ir::Shape& ys = c.result();
  Surroundings out;
  if (node.op == ir::Op::kGemm) {
    out.alpha = static_cast<float>(node.number("alpha"));
    out.beta = static_cast<float>(node.number("beta"));
    if (c.operands.size() == 3) {
      const ir::Shape& s = c.operands[2].shape();
      const std::int64_t column = at % ys[1], row = at / ys[1];
      std::int64_t index = 0;
      if (s.rank() >= 1 && s[s.rank() - 1] != 1) index += column;
      if (s.rank() == 2 && s[0] != 1) index += row * s[1];
      out.addend = c.operands[2].data<float>()[static_cast<std::size_t>(index)];
    }
  } else if (c.operands.size() == 3) {
    out.addend = c.operands[2].data<float>()[static_cast<std::size_t>(at / ys[3] / ys[2] % ys[1])];
  } else if (node.op == ir::Op::kGlobalAvgPool) {
    out.count = c.operands[0].shape()[2] * c.operands[0].shape()[3];
  } else if (node.op == ir::Op::kAvgPool) {
    const ir::Shape& xs = c.operands[0].shape();
    const auto &kernel = node.ints("kernel"), &stride = node.ints("stride"),
               &pad = node.ints("pad");
    const bool padding = node.integer("count_include_pad") != 0;
    out.count = 0;
    const std::int64_t ox = at % ys[3], oy = at / ys[3] % ys[2];
    for (std::int64_t r = 0; r < kernel[0]; ++r)
      for (std::int64_t s = 0; s < kernel[1]; ++s) {
        const std::int64_t iy = oy * stride[0] - pad[0] + r, ix = ox * stride[1] - pad[1] + s;
        const bool inside = iy >= 0 && iy < xs[2] && ix >= 0 && ix < xs[3];
        const bool padded =
            iy < xs[2] + pad[2] && ix < xs[3] + pad[3];  // not beyond what ceil_mode adds
        if (inside || (padding && padded)) ++out.count;
      }
  }
  return out;
}

// The exact value of one output; empty when it is not finite (`special` is then what IEEE limits
// say).
inline std::optional<Real> oracle(const NodeCase& c, std::int64_t at, float* special = nullptr,
                                  runtime::Hypothesis h = runtime::Hypothesis::kF32) {
  using runtime::Hypothesis;
  const bool products = c.operands.size() > 1;
  const Hypothesis operand = products || h == Hypothesis::kFtz ? h : Hypothesis::kF32;
  Surroundings around = surroundings(c, at);
  if (h == Hypothesis::kFtz) around.addend = runtime::rounded(around.addend, h);
  Real sum;
  double limit = 0;  // the sum of what is not finite, in IEEE arithmetic
  for_terms(c, at, [&](float x, float w) {
    x = runtime::rounded(x, operand);
    if (products) w = runtime::rounded(w, operand);
    const double p = static_cast<double>(x) * static_cast<double>(w);
    if (!std::isfinite(p)) {
      limit += p;
    } else {
      sum.add_product(x, w);
    }
  });
  if (limit != 0) limit *= static_cast<double>(around.alpha);
  const double addend = static_cast<double>(around.beta) * static_cast<double>(around.addend);
  if (!std::isfinite(addend)) limit += addend;
  if (around.count == 0) limit = std::nan("");
  if (limit != 0) {  // NaN too
    if (special != nullptr)
      *special = std::isnan(limit) ? canonical_nan() : static_cast<float>(limit);
    return std::nullopt;
  }
  sum.multiply(Real(around.alpha));
  sum.add_product(around.beta, around.addend);
  if (around.count != 1) sum.divide(Real(static_cast<double>(around.count)));
  return sum;
}

// Deterministic choices and data.
class Chooser {
 public:
  explicit Chooser(std::uint64_t seed, std::string_view name = "chooser") : rng_(seed, name) {}
  std::int64_t pick(std::int64_t lo, std::int64_t hi) {
    return lo + static_cast<std::int64_t>(rng_.bits(counter_++) %
                                          static_cast<std::uint64_t>(hi - lo + 1));
  }
  bool chance(int one_in) { return pick(1, one_in) == 1; }
  float symmetric() { return std::ldexp(static_cast<float>(pick(-(1 << 24), 1 << 24)), -24); }
  float value(int law) {
    switch (law) {
      case 0:  // ordinary
        return symmetric();
      case 1:  // integers: many exact zeros and ties
        return static_cast<float>(pick(-8, 8));
      case 2:  // all exponents
        return float_of(static_cast<std::uint32_t>(rng_.bits(counter_++) & 0xBFFFFFFF) |
                        0x00800000u);
      case 3:  // subnormals and tiny values
        return std::ldexp(symmetric(), static_cast<int>(-pick(100, 149)));
      case 4:  // huge
        return std::ldexp(symmetric(), static_cast<int>(pick(50, 127)));
      case 5:  // sparse, positive
        return chance(2) ? 0.0f : std::abs(symmetric());
      case 6:  // few bits: products on one grid, ties
        return std::ldexp(static_cast<float>(pick(-255, 255)), static_cast<int>(pick(-20, 20)));
      default:  // powers of two of few exponents: exact ties and cancellation
        return std::ldexp(chance(2) ? 1.0f : -1.0f, static_cast<int>(pick(0, 3) * 12 - 18));
    }
  }
  ir::Tensor tensor(const ir::Shape& shape, int law) {
    ir::Tensor t(ir::DType::kF32, shape);
    for (float& v : t.data_mut<float>()) v = value(law);
    return t;
  }

 private:
  CounterRng rng_;
  std::uint64_t counter_ = 0;
};

// A random sum node of small extents; operands follow the laws of `Chooser`.
inline NodeCase random_sum_node(Chooser& pick, int law) {
  using Ints = std::vector<std::int64_t>;
  const int other = pick.chance(2) ? law : static_cast<int>(pick.pick(0, 7));
  switch (pick.pick(0, 5)) {
    case 0: {
      const std::int64_t m = pick.pick(1, 9), k = pick.pick(1, 200), n = pick.pick(1, 70);
      if (pick.chance(3))
        return make_node(ir::Op::kMatmul,
                         {pick.tensor({2, 1, m, k}, law), pick.tensor({3, k, n}, other)});
      return make_node(ir::Op::kMatmul, {pick.tensor({m, k}, law), pick.tensor({k, n}, other)});
    }
    case 1: {
      const std::int64_t m = pick.pick(1, 9), k = pick.pick(1, 60), n = pick.pick(1, 40);
      const bool ta = pick.chance(2), tb = pick.chance(2);
      std::vector<ir::Tensor> operands = {
          pick.tensor(ta ? ir::Shape{k, m} : ir::Shape{m, k}, law),
          pick.tensor(tb ? ir::Shape{n, k} : ir::Shape{k, n}, other)};
      const ir::Shape c_shapes[] = {{n}, {m, n}, {m, 1}, {1, n}, {}, {1}};
      if (!pick.chance(3)) operands.push_back(pick.tensor(c_shapes[pick.pick(0, 5)], law));
      const bool scaled = pick.chance(2);
      return make_node(ir::Op::kGemm, operands,
                       {{"trans_a", std::int64_t{ta}},
                        {"trans_b", std::int64_t{tb}},
                        {"alpha", scaled ? double{pick.symmetric()} : 1.0},
                        {"beta", scaled ? double{pick.symmetric()} : 1.0}});
    }
    case 2:
    case 3: {
      const std::int64_t groups = pick.pick(1, 3), cin = groups * pick.pick(1, 12),
                         cout = groups * pick.pick(1, 10);
      const std::int64_t h = pick.pick(3, 9), w = pick.pick(3, 12), kh = pick.pick(1, 3),
                         kw = pick.pick(1, 3);
      std::vector<ir::Tensor> operands = {pick.tensor({pick.pick(1, 2), cin, h, w}, law),
                                          pick.tensor({cout, cin / groups, kh, kw}, other)};
      if (pick.chance(2)) operands.push_back(pick.tensor({cout}, law));
      return make_node(
          ir::Op::kConv2d, operands,
          {{"stride", Ints{pick.pick(1, 2), pick.pick(1, 3)}},
           {"pad", Ints{pick.pick(0, 2), pick.pick(0, 2), pick.pick(0, 2), pick.pick(0, 2)}},
           {"dilation", h > 5 && w > 5 ? Ints{pick.pick(1, 2), pick.pick(1, 2)} : Ints{1, 1}},
           {"groups", groups}});
    }
    case 4:
      return make_node(ir::Op::kGlobalAvgPool,
                       {pick.tensor({2, 3, pick.pick(1, 9), pick.pick(1, 9)}, law)});
    default: {
      const std::int64_t kh = pick.pick(1, 3), kw = pick.pick(1, 3);
      return make_node(ir::Op::kAvgPool,
                       {pick.tensor({pick.pick(1, 2), 3, pick.pick(3, 8), pick.pick(3, 9)}, law)},
                       {{"kernel", Ints{kh, kw}},
                        {"stride", Ints{pick.pick(1, 2), pick.pick(1, 2)}},
                        {"pad", Ints{pick.pick(0, kh - 1), pick.pick(0, kw - 1),
                                     pick.pick(0, kh - 1), pick.pick(0, kw - 1)}},
                        {"ceil_mode", pick.pick(0, 1)},
                        {"count_include_pad", pick.pick(0, 1)}});
    }
  }
}

}  // namespace driftc::test
