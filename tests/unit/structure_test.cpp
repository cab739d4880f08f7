// Structure of residuals: synthetic fields in both directions.
#include "runtime/compare/structure.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <limits>

#include "ir/support/rng.h"
#include "ir/tensor.h"
#include "runtime/compare/specials.h"

using namespace driftc;
using runtime::compare::find_structure;
using runtime::compare::Residual;

namespace {

struct Index {
  std::int64_t n, c, h, w;
};

// Standard normal residuals of [n,c,h,w], `change` edits them.
Residual field(std::uint64_t seed, ir::Shape shape,
               const std::function<double(double z, Index at)>& change) {
  std::vector<float> noise(static_cast<std::size_t>(shape.elements())), size(noise.size());
  fill(Distribution::kRandom, seed, "z", noise);
  fill(Distribution::kRandom, seed, "expected", size);
  Residual r;
  r.shape = shape;
  std::size_t i = 0;
  for (std::int64_t n = 0; n < shape[0]; ++n)
    for (std::int64_t c = 0; c < shape[1]; ++c)
      for (std::int64_t h = 0; h < shape[2]; ++h)
        for (std::int64_t w = 0; w < shape[3]; ++w, ++i) {
          r.z.push_back(change(noise[i], {n, c, h, w}));
          r.expected.push_back(size[i]);
        }
  return r;
}
const ir::Shape kShape = {2, 24, 20, 20};
double same(double z, Index) { return z; }

std::string words_of(const Residual& r) {
  std::string out;
  for (const auto& s : find_structure(r)) out += s.words + "\n";
  return out;
}

}  // namespace

TEST_CASE("structure: healthy fields are not accused") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CHECK_MESSAGE(words_of(field(seed, kShape, same)) == "", seed);
    CHECK(words_of(field(seed, kShape,
                         [](double z, Index) { return std::fabs(z) > 1.5 ? z : 0; })) == "");
    // Channels and tails whose kernels round differently: other spread, mean 0.
    CHECK(words_of(field(seed, kShape,
                         [](double z, Index i) { return i.c % 8 == 3 ? 0.01 * z : z; })) == "");
    // Heavy tails within the limit.
    CHECK(words_of(field(seed, {1, 3, 9, 7},
                         [](double z, Index) { return z * std::fabs(z) / 2; })) == "");
  }
}

TEST_CASE("structure: shifts of groups are named") {
  struct Fault {
    std::string words;
    std::function<double(double, Index)> change;
  };
  const std::vector<Fault> faults = {
      {"channel 5", [](double z, Index i) { return i.c == 5 ? z + 0.7 : z; }},
      {"odd rows", [](double z, Index i) { return i.h % 2 ? z + 0.15 : z; }},
      {"border ring",
       [](double z, Index i) {
         return i.h == 0 || i.w == 0 || i.h == 19 || i.w == 19 ? z + 0.3 : z;
       }},
      {"position (3, 4)", [](double z, Index i) { return i.h == 3 && i.w == 4 ? z / 4 + 5 : z; }},
      {"batch elements above 0", [](double z, Index i) { return i.n > 0 ? z + 0.12 : z; }},
      {"constant offset", [](double z, Index) { return z + 0.1; }},
      {"modulo 4", [](double z, Index i) { return i.c % 4 == 1 ? z + 0.25 : z; }},
      {"row 7", [](double z, Index i) { return i.h == 7 ? z + 0.6 : z; }}};
  for (const Fault& fault : faults) {
    const Residual r = field(7, kShape, fault.change);
    const auto found = find_structure(r);
    REQUIRE_MESSAGE(!found.empty(), fault.words);
    CHECK_MESSAGE(words_of(r).find(fault.words) != std::string::npos, fault.words << ":\n"
                                                                                  << words_of(r));
    CHECK(found[0].chance < runtime::compare::kFalseAlarm);
  }
  // A scale: residuals follow the sign of the value.
  Residual scaled = field(7, kShape, same);
  for (std::size_t i = 0; i < scaled.z.size(); ++i)
    scaled.z[i] -= std::copysign(0.2, scaled.expected[i]);
  CHECK(words_of(scaled).find("constant scale") != std::string::npos);
}

TEST_CASE("structure: equal mean error, spread out or in one tile (PT-149472, PT-150280)") {
  const ir::Shape shape = {1, 16, 32, 32};
  CHECK(words_of(field(3, shape, same)) == "");
  // 0.3 % of the elements far off, all in one 8x8 tile of one channel.
  const Residual clustered = field(3, shape, [](double z, Index i) {
    return i.c == 4 && i.h >= 8 && i.h < 16 && i.w >= 16 && i.w < 24 && (i.h + i.w) % 2 == 0
               ? 40 * z + 30
               : z;
  });
  const std::string words = words_of(clustered);
  CHECK_MESSAGE(words.find("one tile (batch 0, channel 4, rows from 8, columns from 16)") !=
                    std::string::npos,
                words);
  // One element alone.
  const Residual one =
      field(3, shape, [](double z, Index i) { return i.c == 4 && i.h == 9 && i.w == 9 ? 12 : z; });
  CHECK(words_of(one).find("one element alone is off, at [0,4,9,9]") != std::string::npos);
}

TEST_CASE("structure: healthy twins that show the same shift excuse it") {
  Residual r = field(5, kShape, [](double z, Index) { return z + 0.1; });
  CHECK(words_of(r) != "");
  r.twins.push_back(field(6, kShape, [](double z, Index) { return z + 0.1; }).z);
  CHECK(words_of(r) == "");
  // Equal sums round equally: one value in every element is one error, not as many.
  Residual flat = field(5, kShape, [](double, Index) { return 1.5; });
  for (double& e : flat.expected) e = 3;
  CHECK(words_of(flat) == "");
  // Correlated elements (results of more than one node) are judged by outliers alone.
  Residual graph = field(5, kShape, [](double z, Index) { return z + 0.1; });
  graph.independent = false;
  CHECK(words_of(graph) == "");
}

TEST_CASE("specials are counted apart and explained") {
  const float inf = std::numeric_limits<float>::infinity(),
              nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> right = {nan, nan, inf, 1, inf, -inf, 0, 1e-40f, 3};
  const std::vector<float> got = {0, nan, nan, inf, 5, inf, -0.0f, 0, nan};
  const auto a = ir::Tensor::of<float>({9}, got), e = ir::Tensor::of<float>({9}, right);
  const auto c = runtime::compare::count_specials(a, e);
  CHECK(c.nan_missing == 1);
  CHECK(c.nan_became_zero == 1);
  CHECK(c.nan_extra == 2);
  CHECK(c.inf_became_nan == 1);
  CHECK(c.inf_extra == 1);
  CHECK(c.inf_missing == 1);
  CHECK(c.inf_sign == 1);
  CHECK(c.zero_sign == 1);
  CHECK(c.flushed == 1);
  CHECK(c.first == 0);
  CHECK(explain(c).size() == 8);
  CHECK(explain(runtime::compare::count_specials(e, e)).empty());
  CHECK(!runtime::compare::count_specials(e, e).accusing());
  // FLT_MAX and Inf are one rounding apart.
  const auto top =
      ir::Tensor::of<float>({1}, std::vector<float>{std::numeric_limits<float>::max()});
  const auto over = ir::Tensor::of<float>({1}, std::vector<float>{inf});
  CHECK(!runtime::compare::count_specials(top, over).accusing());
}
