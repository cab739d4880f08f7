// The functions of ir/functions.def against MPFR, in f32 and f64, and their special values. The
// limits here are the figures that docs/numerics.md states.
#include <doctest/doctest.h>
#include <mpfr.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <string>

#include "ir/function_steps.h"
#include "ir/support/half.h"
#include "ir/support/rng.h"

namespace driftc::ir {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class Exact {
 public:
  Exact() { mpfr_init2(v, 240); }
  ~Exact() { mpfr_clear(v); }
  Exact(const Exact&) = delete;
  Exact& operator=(const Exact&) = delete;
  mpfr_t v;
};

// y = f(x), by MPFR; `t` is room for one intermediate.
using ExactFunction = void (*)(mpfr_t y, mpfr_t x, mpfr_t t);

void exact_sigmoid(mpfr_t y, mpfr_t x, mpfr_t t) {
  mpfr_neg(t, x, MPFR_RNDN);
  mpfr_exp(t, t, MPFR_RNDN);
  mpfr_add_ui(t, t, 1, MPFR_RNDN);
  mpfr_ui_div(y, 1, t, MPFR_RNDN);
}
void exact_softplus(mpfr_t y, mpfr_t x, mpfr_t t) {
  mpfr_exp(t, x, MPFR_RNDN);
  mpfr_log1p(y, t, MPFR_RNDN);
}
void exact_gelu(mpfr_t y, mpfr_t x, mpfr_t t) {
  mpfr_sqrt_ui(t, 2, MPFR_RNDN);
  mpfr_div(t, x, t, MPFR_RNDN);
  mpfr_erf(t, t, MPFR_RNDN);
  mpfr_add_ui(t, t, 1, MPFR_RNDN);
  mpfr_mul(t, t, x, MPFR_RNDN);
  mpfr_div_2ui(y, t, 1, MPFR_RNDN);
}
void exact_gelu_tanh(mpfr_t y, mpfr_t x, mpfr_t t) {
  mpfr_sqr(t, x, MPFR_RNDN);
  mpfr_mul(t, t, x, MPFR_RNDN);
  mpfr_mul_d(t, t, 0.044715, MPFR_RNDN);
  mpfr_add(t, t, x, MPFR_RNDN);
  mpfr_const_pi(y, MPFR_RNDN);
  mpfr_ui_div(y, 2, y, MPFR_RNDN);
  mpfr_sqrt(y, y, MPFR_RNDN);
  mpfr_mul(t, t, y, MPFR_RNDN);
  mpfr_tanh(t, t, MPFR_RNDN);
  mpfr_add_ui(t, t, 1, MPFR_RNDN);
  mpfr_mul(t, t, x, MPFR_RNDN);
  mpfr_div_2ui(y, t, 1, MPFR_RNDN);
}

template <class T>
struct Row {
  const char* name;
  T (*got)(T);
  ExactFunction exact;
  double low, high;          // arguments
  double limit;              // ulp
  bool of_argument = false;  // ulp of x instead of the result: where the formula cancels
};

template <class T>
FunctionSteps<NumericSteps<T>> steps() {
  return FunctionSteps<NumericSteps<T>>(NumericSteps<T>());
}

template <class T>
const std::array<Row<T>, 8>& rows() {
  constexpr bool kDouble = sizeof(T) == 8;
  static const std::array<Row<T>, 8> table = {{
      {"log", [](T x) { return steps<T>().log(x); },
       [](mpfr_t y, mpfr_t x, mpfr_t) { mpfr_log(y, x, MPFR_RNDN); }, 0, kInf, 0.8},
      {"erf", [](T x) { return steps<T>().erf(x); },
       [](mpfr_t y, mpfr_t x, mpfr_t) { mpfr_erf(y, x, MPFR_RNDN); }, -7, 7, kDouble ? 3.5 : 1.0},
      {"sigmoid", [](T x) { return steps<T>().sigmoid(x); }, exact_sigmoid, kDouble ? -700.0 : -87,
       kDouble ? 700.0 : 87, 2.3},
      {"tanh", [](T x) { return steps<T>().tanh(x); },
       [](mpfr_t y, mpfr_t x, mpfr_t) { mpfr_tanh(y, x, MPFR_RNDN); }, -20, 20, 3.1},
      {"softplus", [](T x) { return steps<T>().softplus(x); }, exact_softplus,
       kDouble ? -700.0 : -87, 100, 2.0},
      {"elu", [](T x) { return steps<T>().elu(x, 1); },
       [](mpfr_t y, mpfr_t x, mpfr_t) { mpfr_expm1(y, x, MPFR_RNDN); }, -100, -0x1p-60, 1.3},
      {"gelu", [](T x) { return steps<T>().gelu(x); }, exact_gelu, -12, 12, 2.0, true},
      {"gelu_tanh", [](T x) { return steps<T>().gelu_tanh(x); }, exact_gelu_tanh, -12, 12, 2.3,
       true},
  }};
  return table;
}

// Distance in ulp of T at the binade of `at`.
template <class T>
double ulps(mpfr_t exact, T got, mpfr_t at, mpfr_t scratch) {
  constexpr int kFraction = sizeof(T) == 8 ? 52 : 23, kLeast = sizeof(T) == 8 ? -1022 : -126;
  mpfr_sub_d(scratch, exact, static_cast<double>(got), MPFR_RNDN);
  const long exponent = mpfr_zero_p(at) ? kLeast : std::max<long>(mpfr_get_exp(at) - 1, kLeast);
  mpfr_mul_2si(scratch, scratch, kFraction - exponent, MPFR_RNDN);
  return std::abs(mpfr_get_d(scratch, MPFR_RNDN));
}

// Half of the arguments uniform in the range (as far as it is finite), half of them by exponent.
template <class T>
T argument(const CounterRng& rng, std::uint64_t i, double low, double high) {
  const double unit = static_cast<double>(rng.bits(2 * i) >> 11) * 0x1p-53;
  const std::uint64_t word = rng.bits(2 * i + 1);
  const double most = std::min(high, 64.0);
  if (i % 2 == 0) return static_cast<T>(low + (most - std::max(low, -1e9)) * unit);
  const int exponent = static_cast<int>(word % 160) - (high > 1e9 ? 80 : 154);
  double x = std::ldexp(1 + unit, exponent);
  if (low < 0 && (word >> 20) % 2 == 0) x = -x;
  return static_cast<T>(std::clamp(x, low, high));
}

template <class T>
void check_rows(std::uint64_t samples) {
  mpfr_set_emin(-100000);
  Exact x, y, t;
  for (const Row<T>& row : rows<T>()) {
    const CounterRng rng(1, row.name);
    double worst = 0, worst_x = 0;
    for (std::uint64_t i = 0; i < samples; ++i) {
      const T a = argument<T>(rng, i, row.low, row.high);
      if (!(a > row.low && a < row.high)) continue;
      mpfr_set_d(x.v, static_cast<double>(a), MPFR_RNDN);
      row.exact(y.v, x.v, t.v);
      const double error = ulps<T>(y.v, row.got(a), row.of_argument ? x.v : y.v, t.v);
      if (error > worst) worst = error, worst_x = static_cast<double>(a);
    }
    MESSAGE(std::string(row.name), sizeof(T) == 8 ? " f64: " : " f32: ", worst, " ulp at ",
            worst_x);
    CHECK_MESSAGE(worst <= row.limit, std::string(row.name), " is off by ", worst, " ulp at ",
                  worst_x);
  }
}

std::uint64_t samples(std::uint64_t usual) {
  const char* more = std::getenv("DRIFTC_FUNCTION_SAMPLES");
  return more != nullptr ? std::strtoull(more, nullptr, 10) : usual;
}

TEST_CASE("functions: f32 against MPFR") { check_rows<float>(samples(30'000)); }
TEST_CASE("functions: f64 against MPFR") { check_rows<double>(samples(15'000)); }

TEST_CASE("functions: pow against MPFR") {
  Exact x, y, t;
  const CounterRng rng(1, "pow");
  double worst = 0, worst64 = 0, worst_wide = 0;
  for (std::uint64_t i = 0; i < samples(30'000); ++i) {
    const double u = static_cast<double>(rng.bits(3 * i) >> 11) * 0x1p-53;
    const double v = static_cast<double>(rng.bits(3 * i + 1) >> 11) * 0x1p-53;
    const double base = std::ldexp(1 + u, static_cast<int>(rng.bits(3 * i + 2) % 40) - 20);
    const double exponent = i % 3 == 0 ? std::floor(v * 12) - 6 : (v - 0.5) * (i % 3 == 1 ? 4 : 12);
    const auto a = static_cast<float>(base), b = static_cast<float>(exponent);
    const float got = steps<float>().pow(a, b);
    if (std::isfinite(got) && got > 0x1p-126f) {
      mpfr_set_d(x.v, double{a}, MPFR_RNDN);
      mpfr_set_d(t.v, double{b}, MPFR_RNDN);
      mpfr_pow(y.v, x.v, t.v, MPFR_RNDN);
      worst = std::max(worst, ulps<float>(y.v, got, y.v, t.v));
    }
    mpfr_set_d(x.v, base, MPFR_RNDN);
    mpfr_set_d(t.v, exponent, MPFR_RNDN);
    mpfr_pow(y.v, x.v, t.v, MPFR_RNDN);
    const double off = ulps<double>(y.v, steps<double>().pow(base, exponent), y.v, t.v);
    const double reach = std::abs(exponent * std::log(base));
    (reach < 8 ? worst64 : worst_wide) = std::max(reach < 8 ? worst64 : worst_wide, off);
  }
  MESSAGE("pow f32: ", worst, " ulp; f64: ", worst64, " ulp where |y log x| < 8, ", worst_wide,
          " up to 88");
  CHECK(worst <= 0.501);
  CHECK(worst64 <= 10);
  CHECK(worst_wide <= 60);
}

TEST_CASE("functions: special values") {
  auto s = steps<float>();
  const auto same = [](float got, float want) {
    return want != want ? got != got : bits_of(got) == bits_of(want);
  };
  struct Special {
    const char* name;
    float got, want;
  };
  const Special table[] = {
      {"log 0", s.log(0.0f), -kInf},
      {"log -0", s.log(-0.0f), -kInf},
      {"log 1", s.log(1.0f), 0.0f},
      {"log -1", s.log(-1.0f), kNan},
      {"log -inf", s.log(-kInf), kNan},
      {"log inf", s.log(kInf), kInf},
      {"log nan", s.log(kNan), kNan},
      {"log of the smallest number", s.log(0x1p-149f), -103.278929903431851103f},
      {"erf -0", s.erf(-0.0f), -0.0f},
      {"erf inf", s.erf(kInf), 1.0f},
      {"erf -inf", s.erf(-kInf), -1.0f},
      {"erf nan", s.erf(kNan), kNan},
      {"sigmoid 0", s.sigmoid(0.0f), 0.5f},
      {"sigmoid inf", s.sigmoid(kInf), 1.0f},
      {"sigmoid -inf", s.sigmoid(-kInf), 0.0f},
      {"sigmoid nan", s.sigmoid(kNan), kNan},
      {"tanh 0", s.tanh(0.0f), 0.0f},
      {"tanh -0", s.tanh(-0.0f), -0.0f},
      {"tanh inf", s.tanh(kInf), 1.0f},
      {"tanh -inf", s.tanh(-kInf), -1.0f},
      {"tanh nan", s.tanh(kNan), kNan},
      {"tanh of a tiny number", s.tanh(0x1p-140f), 0x1p-140f},
      {"softplus inf", s.softplus(kInf), kInf},
      {"softplus -inf", s.softplus(-kInf), 0.0f},
      {"softplus nan", s.softplus(kNan), kNan},
      {"softplus 0", s.softplus(0.0f), 0x1.62e43p-1f},
      {"elu -0", s.elu(-0.0f, 2.0f), -0.0f},
      {"elu -inf", s.elu(-kInf, 2.0f), -2.0f},
      {"elu inf", s.elu(kInf, 2.0f), kInf},
      {"elu nan", s.elu(kNan, 2.0f), kNan},
      {"gelu -0", s.gelu(-0.0f), -0.0f},
      {"gelu inf", s.gelu(kInf), kInf},
      {"gelu nan", s.gelu(kNan), kNan},
      {"leaky_relu -0", s.leaky_relu(-0.0f, 0.5f), -0.0f},
      {"leaky_relu -2", s.leaky_relu(-2.0f, 0.5f), -1.0f},
      {"leaky_relu nan", s.leaky_relu(kNan, 0.5f), kNan},
      {"hard_sigmoid inf", s.hard_sigmoid(kInf, 0.2f, 0.5f), 1.0f},
      {"hard_sigmoid -inf", s.hard_sigmoid(-kInf, 0.2f, 0.5f), 0.0f},
      {"hard_sigmoid nan", s.hard_sigmoid(kNan, 0.2f, 0.5f), kNan},
      {"hard_swish 3", s.hard_swish(3.0f), 3.0f},
      {"hard_swish -4", s.hard_swish(-4.0f), -0.0f},
      {"abs -0", s.abs(-0.0f), 0.0f},
      {"neg 0", s.neg(0.0f), -0.0f},
      {"sqrt -0", s.sqrt(-0.0f), -0.0f},
      {"sqrt -1", s.sqrt(-1.0f), kNan},
      {"max 0 -0", s.max(0.0f, -0.0f), 0.0f},
      {"max -0 0", s.max(-0.0f, 0.0f), -0.0f},
      {"max 1 nan", s.max(1.0f, kNan), kNan},
      {"max nan 1", s.max(kNan, 1.0f), kNan},
      {"max -inf inf", s.max(-kInf, kInf), kInf},
      {"min 1 nan", s.min(1.0f, kNan), kNan},
      {"min nan 1", s.min(kNan, 1.0f), kNan},
      {"min 2 1", s.min(2.0f, 1.0f), 1.0f},
      // IEEE 754-2019, 9.2.1
      {"pow x 0", s.pow(kNan, 0.0f), 1.0f},
      {"pow 1 y", s.pow(1.0f, kNan), 1.0f},
      {"pow -1 inf", s.pow(-1.0f, kInf), 1.0f},
      {"pow -1 -inf", s.pow(-1.0f, -kInf), 1.0f},
      {"pow -1 nan", s.pow(-1.0f, kNan), kNan},
      {"pow nan 1", s.pow(kNan, 1.0f), kNan},
      {"pow 0 3", s.pow(0.0f, 3.0f), 0.0f},
      {"pow -0 3", s.pow(-0.0f, 3.0f), -0.0f},
      {"pow -0 2", s.pow(-0.0f, 2.0f), 0.0f},
      {"pow -0 0.5", s.pow(-0.0f, 0.5f), 0.0f},
      {"pow 0 -1", s.pow(0.0f, -1.0f), kInf},
      {"pow -0 -1", s.pow(-0.0f, -1.0f), -kInf},
      {"pow -0 -2", s.pow(-0.0f, -2.0f), kInf},
      {"pow -8 1/3", s.pow(-8.0f, 1.0f / 3), kNan},
      {"pow -2 3", s.pow(-2.0f, 3.0f), -8.0f},
      {"pow -2 -3", s.pow(-2.0f, -3.0f), -0.125f},
      {"pow 3 2", s.pow(3.0f, 2.0f), 9.0f},
      {"pow 2 0.5", s.pow(2.0f, 0.5f), 0x1.6a09e6p0f},
      {"pow inf 0.5", s.pow(kInf, 0.5f), kInf},
      {"pow inf -1", s.pow(kInf, -1.0f), 0.0f},
      {"pow -inf 3", s.pow(-kInf, 3.0f), -kInf},
      {"pow -inf 2", s.pow(-kInf, 2.0f), kInf},
      {"pow -inf 0.5", s.pow(-kInf, 0.5f), kInf},
      {"pow -inf -3", s.pow(-kInf, -3.0f), -0.0f},
      {"pow 0.5 inf", s.pow(0.5f, kInf), 0.0f},
      {"pow 2 inf", s.pow(2.0f, kInf), kInf},
      {"pow 2 -inf", s.pow(2.0f, -kInf), 0.0f},
      {"pow 2 -149", s.pow(2.0f, -149.0f), 0x1p-149f},
      {"pow 2 128", s.pow(2.0f, 128.0f), kInf},
      {"pow -2 big odd", s.pow(-1.0f, 0x1.fffffep23f), -1.0f},
      {"pow -1 even", s.pow(-1.0f, 0x1p30f), 1.0f},
  };
  for (const Special& row : table)
    CHECK_MESSAGE(same(row.got, row.want), std::string(row.name), ": ", row.got, ", expected ",
                  row.want);
}

TEST_CASE("functions: rounding to f16, bf16 and f32 is one rounding, from f32 and from f64") {
  auto s = steps<float>();
  auto d = steps<double>();
  const auto check = [&](float x) {
    const float half = f16_to_f32(f32_to_f16_rne(x)), brain = bf16_to_f32(f32_to_bf16_rne(x));
    if (x != x) {
      CHECK(s.round_f16(x) != s.round_f16(x));
      CHECK(s.round_bf16(x) != s.round_bf16(x));
      return;
    }
    REQUIRE(bits_of(s.round_f16(x)) == bits_of(half));
    REQUIRE(bits_of(s.round_bf16(x)) == bits_of(brain));
    REQUIRE(bits_of(d.round_f16(double{x})) == bits_of(double{half}));
    REQUIRE(bits_of(d.round_bf16(double{x})) == bits_of(double{brain}));
    REQUIRE(bits_of(d.round_f32(double{x})) == bits_of(double{x}));
  };
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 4'093)
    check(float_of(static_cast<std::uint32_t>(bits)));
  // Every f16 number and the ties beside it.
  for (std::uint32_t h = 0; h < 0x7c00; ++h) {
    const float x = f16_to_f32(static_cast<std::uint16_t>(h)),
                next = f16_to_f32(static_cast<std::uint16_t>(h + 1));
    check(x);
    if (std::isinf(next)) continue;
    const float tie = (x + next) / 2;
    for (float y : {tie, std::nextafter(tie, 0.0f), std::nextafter(tie, kInf)}) check(y), check(-y);
    // Not a tie in f64: rounding to f32 first would make it one.
    const double above = std::nextafter(double{tie}, 1e9),
                 below = std::nextafter(double{tie}, -1e9);
    REQUIRE(d.round_f16(above) == double{next});
    REQUIRE(d.round_f16(below) == double{x});
  }
  const CounterRng rng(1, "round");
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    const double x = double_of(rng.bits(i));
    if (x != x) continue;
    REQUIRE(bits_of(d.round_f32(x)) == bits_of(double{static_cast<float>(x)}));
  }
  for (double x :
       {0x1.fffffefp127, 0x1.ffffffp127, 0x1p-149, 0x1p-150, 0x1.8p-149, 0x1.000001p-150, 0x1p-126})
    CHECK(d.round_f32(x) == double{static_cast<float>(x)});
}

}  // namespace
}  // namespace driftc::ir
