// exp(x), defined once. The interpreter runs this table; the CUDA prelude prints it. Both therefore
// make the same bits on every machine, without any libm. Error: at most 1 ulp
// (tests/unit/exp_test.cpp, against MPFR).
//
//   x is NaN            -> the canonical NaN
//   x > overflow_above  -> +Inf
//   x < underflow_below -> +0            (comparisons first: the steps assume x in between)
//   run `steps`: every step is one fma_rn over named registers and constants
//   n = integer(k), read from the bits of t: bits(t) - bits(magic)
//   h = n >> 1 (arithmetic shift, rounds down);  y = mul_rn(mul_rn(p, 2^h), 2^(n - h))
//
// The first product is exact, the second rounds only where the result is subnormal: 2^h and 2^(n-h)
// are always normal numbers, built from their exponent field.
//
// The steps: t = x * log2(e) + magic rounds to an integer (magic = 1.5 * 2^(fraction bits)); k = t
// - magic; r = x - k * ln2 in two parts (the first difference is exact); p = sum r^i / i! by
// Horner's rule.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace driftc::ir {

enum class ExpRegister : std::uint8_t { kConstant, kX, kT, kK, kR, kP };
std::string_view name_of(ExpRegister r);  // "x" "t" "k" "r" "p"; empty for kConstant

// A register, or a constant when `reg` is kConstant. `negated` flips the sign (exact).
template <class T>
struct ExpArgument {
  ExpRegister reg = ExpRegister::kConstant;
  T constant = 0;
  bool negated = false;
};

// to = fma_rn(a, b, c)
template <class T>
struct ExpStep {
  ExpRegister to;
  ExpArgument<T> a, b, c;
};

template <class T>
struct ExpTable {
  T overflow_above, underflow_below, magic;
  int exponent_bias, fraction_bits;  // to build 2^n
  std::span<const ExpStep<T>> steps;
};

template <class T>
const ExpTable<T>& exp_table();
template <>
const ExpTable<float>& exp_table<float>();
template <>
const ExpTable<double>& exp_table<double>();

// The table, executed.
float exp_by_steps(float x);
double exp_by_steps(double x);

}  // namespace driftc::ir
