// The functions of ir/functions.def, each defined once as a straight line of steps: one rounding to
// nearest, one comparison, one selection or one exact operation on bits per step. The steps are
// written against a machine M, of which there are two:
//
//   NumericSteps<T> (below)       computes: the interpreter, in f32 and f64
//   TextSteps (codegen)           prints each step as a line of CUDA C++: the device prelude
//
// so both make the same bits on every machine, without any libm. exp is the table of
// ir/exp_steps.h; sigmoid, tanh, softplus, elu and the tanh form of gelu derive from it; log and
// erf are tables of their own; pow is exp(y * log|x|) computed in f64 and rounded once. Errors
// against MPFR: docs/numerics.md, held by tests/unit/function_test.cpp.
//
// A machine has Real, Int (the bits of a Real, signed) and Bool, and the operations used here.
// kDouble tells which coefficients apply; `wide()` is the machine of f64.
#pragma once

#include <cmath>
#include <initializer_list>
#include <limits>
#include <type_traits>
#include <utility>

#include "ir/exp_steps.h"
#include "ir/functions.h"
#include "ir/support/round.h"

namespace driftc::ir {

template <class T>
struct NumericSteps {
  using Real = T;
  using Int = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;
  using Unsigned = std::make_unsigned_t<Int>;
  using Bool = bool;
  static constexpr bool kDouble = sizeof(T) == 8;

  Real real(double c) { return static_cast<T>(c); }
  Real add(Real a, Real b) { return add_rn(a, b); }
  Real sub(Real a, Real b) { return sub_rn(a, b); }
  Real mul(Real a, Real b) { return mul_rn(a, b); }
  Real div(Real a, Real b) { return div_rn(a, b); }
  Real fma(Real a, Real b, Real c) { return fma_rn(a, b, c); }
  Real sqrt(Real a) { return sqrt_rn(a); }
  Real exp(Real a) { return exp_by_steps(a); }
  Real abs(Real a) { return std::abs(a); }
  Real neg(Real a) { return -a; }
  Real with_sign_of(Real a, Real sign) { return std::copysign(a, sign); }
  Bool less(Real a, Real b) { return a < b; }
  Bool equal(Real a, Real b) { return a == b; }
  Bool is_nan(Real a) { return a != a; }
  Bool both(Bool a, Bool b) { return a && b; }
  Bool either(Bool a, Bool b) { return a || b; }
  Bool no(Bool a) { return !a; }
  Real select(Bool c, Real a, Real b) { return c ? a : b; }
  Int bits(Real a) { return std::bit_cast<Int>(a); }
  Real from_bits(Int a) { return std::bit_cast<T>(a); }
  Real from_int(Int a) { return static_cast<T>(a); }
  Int integer(std::int64_t c) { return static_cast<Int>(c); }
  // Wrapping, as on the device.
  Int plus(Int a, Int b) {
    return static_cast<Int>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  }
  Int minus(Int a, Int b) {
    return static_cast<Int>(static_cast<Unsigned>(a) - static_cast<Unsigned>(b));
  }
  Int mask(Int a, Int b) { return a & b; }
  Int shift_left(Int a, int by) { return static_cast<Int>(static_cast<Unsigned>(a) << by); }
  Int shift_right(Int a, int by) { return a >> by; }  // of a signed number: copies the sign

  NumericSteps<double> wide() { return {}; }
  double widen(Real a) { return a; }
  Real narrow(double a) { return static_cast<T>(a); }
};

template <class M>
class FunctionSteps {
 public:
  using Real = typename M::Real;
  using Int = typename M::Int;
  using Bool = typename M::Bool;
  static constexpr bool kDouble = M::kDouble;

  explicit FunctionSteps(M machine) : m(std::move(machine)) {}

  Real sqrt(Real x) { return m.sqrt(x); }
  Real exp(Real x) { return m.exp(x); }
  Real abs(Real x) { return m.abs(x); }
  Real neg(Real x) { return m.neg(x); }

  // x = 2^k * (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)); s = f / (2 + f);
  // log(1 + f) = f - (f^2 / 2 - s * (f^2 / 2 + R(s^2))), R the even part of 2 atanh(s) / s - 2.
  Real log(Real x) {
    const Bool tiny = m.less(x, m.real(kDouble ? 0x1p-1022 : 0x1p-126));
    const Real scaled = m.select(tiny, m.mul(x, m.real(kDouble ? 0x1p54 : 0x1p24)), x);
    const Int bits = m.bits(scaled);
    const Int k = m.shift_right(
        m.minus(bits, m.integer(kDouble ? 0x3fe6a09e667f3bcdLL : 0x3f3504f3)), kFractionBits);
    const Real kr = m.sub(m.from_int(k), m.select(tiny, m.real(kDouble ? 54 : 24), m.real(0)));
    const Real f = m.sub(m.from_bits(m.minus(bits, m.shift_left(k, kFractionBits))), m.real(1));
    const Real s = m.div(f, m.add(f, m.real(2)));
    const Real z = m.mul(s, s);
    Real p = z;
    if constexpr (kDouble) {
      p = horner(z, {0x1.2f112df3e5244p-3, 0x1.39a09d078c69fp-3, 0x1.7466496cb03dep-3,
                     0x1.c71c51d8e78afp-3, 0x1.2492494229359p-2, 0x1.999999997fa04p-2,
                     0x1.5555555555593p-1});
    } else {
      p = horner(z, {0xf89e26.0p-26, 0x91e9ee.0p-25, 0xccce13.0p-25, 0xaaaaaa.0p-24});
    }
    const Real r = m.mul(z, p);
    const Real half_square = m.mul(m.mul(m.real(0.5), f), f);
    const Real ln2_low = m.real(kDouble ? 0x1.a39ef35793c76p-33 : 0x1.2fefa2p-17);
    const Real ln2_high = m.real(kDouble ? 0x1.62e42feep-1 : 0x1.62e3p-1);  // exact times k
    const Real inner = m.fma(s, m.add(half_square, r), m.mul(kr, ln2_low));
    Real y = m.fma(kr, ln2_high, m.sub(f, m.sub(half_square, inner)));
    y = m.select(m.less(x, m.real(kInf)), y, x);  // +Inf and NaN
    y = m.select(m.equal(x, m.real(0)), m.real(-kInf), y);
    return m.select(m.less(x, m.real(0)), m.real(kNan), y);
  }

  // |x| < 1: x + x * P(x^2); else 1 - exp(Q(|x|)) with Q a fit of log(erfc).
  Real erf(Real x) {
    const Real a = m.abs(x), square = m.mul(x, x);
    Real p = a, q = a;
    if constexpr (kDouble) {
      p = horner(square, {-0x1.29b9f1b3df556p-38, 0x1.7f072188e194dp-34, -0x1.4e607b41a6416p-30,
                          0x1.fc4356498c2d9p-27, -0x1.5f6d925a0bc7ap-23, 0x1.b9e6509b9867dp-20,
                          -0x1.f4d2561aeafd4p-17, 0x1.f9a326c233146p-14, -0x1.c02db3feeb579p-11,
                          0x1.565bcd0e6502dp-8, -0x1.b82ce312889bap-6, 0x1.ce2f21a042bdep-4,
                          -0x1.812746b0379e7p-2, 0x1.06eba8214db69p-3});
      // Beyond 6 erf rounds to 1; the fit is over u = (a - 3.5) / 2.5.
      const Real bound = m.select(m.less(a, m.real(6)), a, m.real(6));
      const Real u = m.mul(m.sub(bound, m.real(3.5)), m.real(0.4));
      q = horner(u, {0x1.34dd01e247377p-29,  -0x1.f195f0a8368a2p-28, 0x1.36b598558ad84p-28,
                     0x1.43b9fba47758cp-28,  -0x1.2898608ea2494p-29, 0x1.43d2080a94f91p-26,
                     -0x1.172a80e62e800p-23, 0x1.a4ca8b08c35efp-22,  -0x1.ec11c6f3ae400p-21,
                     0x1.00b7cd68af62fp-19,  -0x1.cb14e5898c58cp-19, 0x1.32947938ed058p-18,
                     -0x1.8cc473b9d43c7p-20, -0x1.35f6c4071182cp-16, 0x1.7d4438e255520p-14,
                     -0x1.42c5a434dd655p-12, 0x1.d47dd137089cep-11,  -0x1.372a2188cfd82p-9,
                     0x1.862e9604f58e4p-8,   -0x1.d75a5651f5965p-7,  0x1.1794772e75795p-5,
                     -0x1.4e712f2ed45bbp-4,  -0x1.82b383473a63fp2,   -0x1.22a4dc1adc4d6p4,
                     -0x1.c3991652a25b0p3});
    } else {
      p = horner(square, {-0x1.38ep-11, 0x1.471a58p-8, -0x1.b691b2p-6, 0x1.ce1c44p-4, -0x1.8127p-2,
                          0x1.06eba8p-3});
      const Real even = m.fma(m.real(-0x1.22p-16), a, m.real(0x1.91cfb2p-12));
      const Real odd = m.fma(m.real(-0x1.fd1438p-9), a, m.real(0x1.8d6342p-6));
      q = m.fma(even, square, odd);
      q = m.fma(q, a, m.real(-0x1.b55cb8p-4));
      q = m.fma(q, a, m.real(-0x1.450aap-1));
      q = m.fma(q, a, m.real(-0x1.079d0cp-3));
      q = m.fma(q, a, m.neg(a));
    }
    const Real small = m.fma(p, x, x);
    const Real large = m.with_sign_of(m.sub(m.real(1), m.exp(q)), x);
    const Real y = m.select(m.less(a, m.real(kDouble ? 1 : 0.927734375)), small, large);
    return m.select(m.is_nan(x), m.real(kNan), y);
  }

  // exp(x) - 1: Taylor's series for |x| < 1/2, where the difference would cancel.
  Real expm1(Real x) {
    constexpr int kTerms = kDouble ? 15 : 8;
    double factorial = 1;
    for (int i = 2; i <= kTerms; ++i) factorial *= i;
    Real p = m.real(1 / factorial);
    for (int i = kTerms; i > 2; --i) p = m.fma(p, x, m.real(1 / (factorial /= i)));
    const Real small = m.fma(m.mul(x, x), p, x);
    return m.select(m.less(m.abs(x), m.real(0.5)), small, m.sub(m.exp(x), m.real(1)));
  }

  // e = exp(-|x|); (x < 0 ? e : 1) / (1 + e)
  Real sigmoid(Real x) {
    const Real e = m.exp(m.neg(m.abs(x)));
    return m.div(m.select(m.less(x, m.real(0)), e, m.real(1)), m.add(m.real(1), e));
  }

  // e = expm1(-2|x|); sign(x) * -e / (2 + e)
  Real tanh(Real x) {
    const Real e = expm1(m.mul(m.real(-2), m.abs(x)));
    return m.with_sign_of(m.div(m.neg(e), m.add(m.real(2), e)), x);
  }

  // e = exp(-|x|); u = 1 + e; max(x, 0) + (log(u) + (e - (u - 1)) / u), the last quotient being
  // what 1 + e lost
  Real softplus(Real x) {
    const Real e = m.exp(m.neg(m.abs(x))), u = m.add(m.real(1), e);
    const Real lost = m.div(m.sub(e, m.sub(u, m.real(1))), u);
    return m.add(m.select(m.less(x, m.real(0)), m.real(0), x), m.add(log(u), lost));
  }

  // x/2 * (1 + erf(x / sqrt 2))
  Real gelu(Real x) {
    return m.mul(m.mul(m.real(0.5), x),
                 m.add(m.real(1), erf(m.mul(x, m.real(0x1.6a09e667f3bcdp-1)))));
  }

  // x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))
  Real gelu_tanh(Real x) {
    const Real cube = m.mul(m.mul(x, x), x);
    const Real inner = m.mul(m.real(0x1.9884533d43651p-1), m.add(x, m.mul(m.real(0.044715), cube)));
    return m.mul(m.mul(m.real(0.5), x), m.add(m.real(1), tanh(inner)));
  }

  Real elu(Real x, Real alpha) { return m.select(m.less(x, m.real(0)), m.mul(alpha, expm1(x)), x); }
  Real leaky_relu(Real x, Real alpha) { return m.select(m.less(x, m.real(0)), m.mul(alpha, x), x); }
  Real prelu(Real x, Real slope) { return leaky_relu(x, slope); }

  Real hard_sigmoid(Real x, Real alpha, Real beta) {
    const Real t = m.add(m.mul(alpha, x), beta);
    const Real low = m.select(m.less(t, m.real(0)), m.real(0), t);
    return m.select(m.less(m.real(1), low), m.real(1), low);
  }
  Real hard_swish(Real x) { return m.mul(x, hard_sigmoid(x, m.real(1.0 / 6), m.real(0.5))); }

  // NaN wins; of equal operands the first.
  Real max(Real a, Real b) {
    return m.select(m.either(m.less(a, b), m.both(m.is_nan(b), m.no(m.is_nan(a)))), b, a);
  }
  Real min(Real a, Real b) {
    return m.select(m.either(m.less(b, a), m.both(m.is_nan(b), m.no(m.is_nan(a)))), b, a);
  }

  // In f64 throughout. Special cases as IEEE 754's pow: 1 for y = 0 or x = 1, the sign of odd
  // powers, NaN for negative x and y no integer.
  Real pow(Real x, Real y) {
    auto w = m.wide();
    FunctionSteps<decltype(w)> wide(w);
    return m.narrow(wide.pow_in_f64(m.widen(x), m.widen(y)));
  }

  // The nearest number of a narrower type, ties to even, overflow to Inf.
  Real round_f16(Real x) {
    const Real a = m.abs(x);
    const Real normal = to_fraction(a, kFractionBits - 10);
    const Real magic =
        m.real(kDouble ? 0x1.8p28 : 0.5);  // its last bit is 2^-24, f16's smallest number
    const Real subnormal = m.sub(m.add(a, magic), magic);
    Real y = m.select(m.less(a, m.real(0x1p-14)), subnormal, normal);
    y = m.select(m.less(a, m.real(65520)), y, m.real(kInf));
    return m.with_sign_of(m.select(m.is_nan(x), m.real(kNan), y), x);
  }
  Real round_bf16(Real x) {
    const Real a = m.abs(x);
    Real y = to_fraction(a, kFractionBits - 7);
    if constexpr (kDouble) {
      const Real magic = m.real(0x1.8p-81);  // its last bit is 2^-133
      y = m.select(m.less(a, m.real(0x1p-126)), m.sub(m.add(a, magic), magic), y);
    }
    y = m.select(m.less(a, m.real(0x1.ffp127)), y, m.real(kInf));
    return m.with_sign_of(m.select(m.is_nan(x), m.real(kNan), y), x);
  }
  Real round_f32(Real x) {
    if constexpr (!kDouble) return x;
    const Real a = m.abs(x);
    const Real magic = m.real(0x1.8p-97);  // its last bit is 2^-149
    Real y = to_fraction(a, kFractionBits - 23);
    y = m.select(m.less(a, m.real(0x1p-126)), m.sub(m.add(a, magic), magic), y);
    y = m.select(m.less(a, m.real(0x1.ffffffp127)), y, m.real(kInf));
    return m.with_sign_of(m.select(m.is_nan(x), m.real(kNan), y), x);
  }

  // For f64 machines. l = log|x|, t = y * l, what t lost is multiplied in afterwards.
  Real pow_in_f64(Real x, Real y) {
    const Real a = m.abs(x), l = log(a), t = m.mul(y, l), e = m.exp(t);
    const Real lost = m.fma(y, l, m.neg(t));
    Real r = m.select(m.less(m.abs(t), m.real(700)), m.fma(e, lost, e), e);
    // |x| = 1 with infinite y; not with NaN.
    r = m.select(m.both(m.equal(a, m.real(1)), m.no(m.is_nan(y))), m.real(1), r);
    const Real magnitude = m.abs(y), half = m.mul(magnitude, m.real(0.5));
    const Bool integer = is_integer(magnitude), odd = m.both(integer, m.no(is_integer(half)));
    const Bool negative = m.equal(m.with_sign_of(m.real(1), x), m.real(-1));  // -0 too
    r = m.select(m.both(negative, odd), m.neg(r), r);
    const Bool undefined =
        m.both(m.both(m.less(x, m.real(0)), m.less(m.real(-kInf), x)), m.no(integer));
    r = m.select(undefined, m.real(kNan), r);
    return m.select(m.either(m.equal(y, m.real(0)), m.equal(x, m.real(1))), m.real(1), r);
  }

 private:
  static constexpr int kFractionBits = kDouble ? 52 : 23;
  static constexpr double kInf = std::numeric_limits<double>::infinity();
  static constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

  // Coefficients from the highest power; one fma each.
  Real horner(Real z, std::initializer_list<double> coefficients) {
    auto c = coefficients.begin();
    Real p = m.real(*c);
    for (++c; c != coefficients.end(); ++c) p = m.fma(p, z, m.real(*c));
    return p;
  }
  // a >= 0, f64: adding 2^52 rounds to an integer; numbers from there on are integers.
  Bool is_integer(Real a) {
    const Real magic = m.real(0x1p52);
    return m.either(m.no(m.less(a, magic)), m.equal(m.sub(m.add(a, magic), magic), a));
  }
  // Drops the last `drop` bits of the fraction of a >= 0, to nearest, ties to even. NaN and Inf
  // come out wrong.
  Real to_fraction(Real a, int drop) {
    const Int bits = m.bits(a);
    const Int last = m.mask(m.shift_right(bits, drop), m.integer(1));
    const Int half = m.integer((std::int64_t{1} << (drop - 1)) - 1);
    return m.from_bits(
        m.mask(m.plus(bits, m.plus(half, last)), m.integer(-(std::int64_t{1} << drop))));
  }

  M m;
};

}  // namespace driftc::ir
