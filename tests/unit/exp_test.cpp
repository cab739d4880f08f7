// exp of the step table against MPFR: every 97th f32 pattern that is in range, and random f64
// arguments.
#include <doctest/doctest.h>
#include <mpfr.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "ir/exp_steps.h"
#include "ir/support/rng.h"
#include "ir/support/round.h"

namespace driftc::ir {
namespace {

// Distance of `got` to the exact exp(x) in ulp of the result type, at the exact value's binade.
class UlpMeter {
 public:
  explicit UlpMeter(int fraction_bits, int min_exponent)
      : fraction_bits_(fraction_bits), min_exponent_(min_exponent) {
    mpfr_init2(exact_, 120);
    mpfr_init2(difference_, 120);
  }
  ~UlpMeter() {
    mpfr_clear(exact_);
    mpfr_clear(difference_);
  }
  double error(double x, double got) {
    mpfr_set_d(exact_, x, MPFR_RNDN);
    mpfr_exp(exact_, exact_, MPFR_RNDN);
    mpfr_sub_d(difference_, exact_, got, MPFR_RNDN);
    const long exponent = std::max<long>(mpfr_get_exp(exact_) - 1, min_exponent_);
    mpfr_mul_2si(difference_, difference_, fraction_bits_ - exponent, MPFR_RNDN);
    return std::abs(mpfr_get_d(difference_, MPFR_RNDN));
  }

 private:
  mpfr_t exact_, difference_;
  int fraction_bits_, min_exponent_;
};

TEST_CASE("exp: f32 within 1 ulp of the exact value") {
  UlpMeter meter(23, -126);
  double worst = 0;
  float worst_x = 0;
  std::int64_t tested = 0;
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 97) {
    const float x = float_of(static_cast<std::uint32_t>(bits));
    if (!(x < 89.0f && x > -105.0f)) continue;
    // Near 0 there is no range reduction and little to go wrong: a sparser sample is enough there.
    if (std::abs(x) < 0x1p-8f && bits % 16 != 0) continue;
    const float got = exp_by_steps(x);
    if (std::isinf(got)) {
      CHECK(x > exp_table<float>().overflow_above);
      continue;
    }
    ++tested;
    const double error = meter.error(x, got);
    if (error > worst) worst = error, worst_x = x;
  }
  INFO("worst ", worst, " ulp at ", worst_x, " of ", tested);
  CHECK(tested > 2'000'000);
  CHECK(worst <= 1.0);
}

TEST_CASE("exp: f64 within 1 ulp of the exact value") {
  UlpMeter meter(52, -1022);
  const CounterRng rng(1, "exp");
  double worst = 0;
  for (std::uint64_t i = 0; i < 200'000; ++i) {
    const double unit = static_cast<double>(rng.bits(i) >> 11) * 0x1p-53;
    double x = unit * 1455.0 - 745.2;
    if (i % 3 == 1) x = std::ldexp(unit - 0.5, -static_cast<int>(i % 50));
    if (x > exp_table<double>().overflow_above) continue;
    worst = std::max(worst, meter.error(x, exp_by_steps(x)));
  }
  CHECK(worst <= 1.0);
}

TEST_CASE("exp: ends of the range and special values") {
  const float inf = std::numeric_limits<float>::infinity();
  CHECK(exp_by_steps(inf) == inf);
  CHECK(bits_of(exp_by_steps(-inf)) == 0u);
  CHECK(bits_of(exp_by_steps(float_of(0x7FC00001u))) == kCanonicalNanBits);
  CHECK(exp_by_steps(0.0f) == 1.0f);
  CHECK(exp_by_steps(-0.0f) == 1.0f);
  CHECK(std::isfinite(exp_by_steps(0x1.62e42ep6f)));
  CHECK(exp_by_steps(0x1.62e43p6f) == inf);
  CHECK(exp_by_steps(-0x1.9fe368p6f) == 0x1p-149f);
  CHECK(bits_of(exp_by_steps(-0x1.9fe36ap6f)) == 0u);
  CHECK(std::isfinite(exp_by_steps(0x1.62e42fefa39efp9)));
  CHECK(std::isinf(exp_by_steps(0x1.62e42fefa39f0p9)));
  CHECK(exp_by_steps(-0x1.74910d52d3051p9) == 0x1p-1074);
  CHECK(exp_by_steps(-0x1.74910d52d3052p9) == 0.0);
}

}  // namespace
}  // namespace driftc::ir
