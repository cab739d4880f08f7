#include "ir/exp_steps.h"

#include <array>
#include <bit>
#include <limits>

#include "ir/support/round.h"

namespace driftc::ir {
namespace {

using enum ExpRegister;

template <class T>
constexpr ExpArgument<T> reg(ExpRegister r) {
  return {r, 0, false};
}
template <class T>
constexpr ExpArgument<T> minus(ExpRegister r) {
  return {r, 0, true};
}
template <class T>
constexpr ExpArgument<T> constant(T value) {
  return {kConstant, value, false};
}

// p = p * r + c
template <class T>
constexpr ExpStep<T> horner(T c) {
  return {kP, reg<T>(kP), reg<T>(kR), constant(c)};
}

// Horner's first step takes both leading coefficients.
template <class T>
constexpr ExpStep<T> lead(T high, T low) {
  return {kP, constant(high), reg<T>(kR), constant(low)};
}

template <class T>
constexpr std::array<ExpStep<T>, 4> reduction(T log2e, T magic, T ln2_high, T ln2_low) {
  return {{{kT, reg<T>(kX), constant(log2e), constant(magic)},
           {kK, reg<T>(kT), constant(T{1}), constant(-magic)},
           {kR, minus<T>(kK), constant(ln2_high), reg<T>(kX)},
           {kR, minus<T>(kK), constant(ln2_low), reg<T>(kR)}}};
}

template <class T, std::size_t A, std::size_t B>
constexpr std::array<ExpStep<T>, A + B> join(const std::array<ExpStep<T>, A>& a,
                                             const std::array<ExpStep<T>, B>& b) {
  std::array<ExpStep<T>, A + B> out{};
  for (std::size_t i = 0; i < A; ++i) out[i] = a[i];
  for (std::size_t i = 0; i < B; ++i) out[A + i] = b[i];
  return out;
}

// Coefficients are 1/i! rounded to nearest. |r| <= ln2/2, so the first omitted term is below 0.1
// ulp.
constexpr float kMagic32 = 0x1.8p23f;
constexpr double kMagic64 = 0x1.8p52;
constexpr auto kSteps32 =
    join<float>(reduction(0x1.715476p0f, kMagic32, 0x1.62e43p-1f, -0x1.05c61p-29f),
                std::array{lead(0x1.a01a02p-13f, 0x1.6c16c2p-10f), horner(0x1.111112p-7f),
                           horner(0x1.555556p-5f), horner(0x1.555556p-3f), horner(0.5f),
                           horner(1.0f), horner(1.0f)});
constexpr auto kSteps64 = join<double>(
    reduction(0x1.71547652b82fep0, kMagic64, 0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56),
    std::array{lead(0x1.6124613a86d09p-33, 0x1.1eed8eff8d898p-29), horner(0x1.ae64567f544e4p-26),
               horner(0x1.27e4fb7789f5cp-22), horner(0x1.71de3a556c734p-19),
               horner(0x1.a01a01a01a01ap-16), horner(0x1.a01a01a01a01ap-13),
               horner(0x1.6c16c16c16c17p-10), horner(0x1.1111111111111p-7),
               horner(0x1.5555555555555p-5), horner(0x1.5555555555555p-3), horner(0.5), horner(1.0),
               horner(1.0)});

constexpr ExpTable<float> kTable32 = {0x1.62e42ep6f, -0x1.9fe368p6f, kMagic32, 127, 23, kSteps32};
constexpr ExpTable<double> kTable64 = {
    0x1.62e42fefa39efp9, -0x1.74910d52d3051p9, kMagic64, 1023, 52, kSteps64};

template <class T, class Bits>
T run(const ExpTable<T>& table, T x) {
  if (x != x) return static_cast<T>(canonical_nan());
  if (x > table.overflow_above) return std::numeric_limits<T>::infinity();
  if (x < table.underflow_below) return 0;
  std::array<T, 6> regs{};
  regs[static_cast<std::size_t>(kX)] = x;
  auto value = [&](const ExpArgument<T>& a) {
    const T v = a.reg == kConstant ? a.constant : regs[static_cast<std::size_t>(a.reg)];
    return a.negated ? -v : v;
  };
  for (const ExpStep<T>& step : table.steps)
    regs[static_cast<std::size_t>(step.to)] = fma_rn(value(step.a), value(step.b), value(step.c));
  const Bits n = static_cast<Bits>(std::bit_cast<Bits>(regs[static_cast<std::size_t>(kT)]) -
                                   std::bit_cast<Bits>(table.magic));
  const Bits h = n >> 1;
  auto power = [&](Bits e) {
    return std::bit_cast<T>(static_cast<Bits>((e + table.exponent_bias) << table.fraction_bits));
  };
  return mul_rn(mul_rn(regs[static_cast<std::size_t>(kP)], power(h)), power(n - h));
}

}  // namespace

std::string_view name_of(ExpRegister r) {
  constexpr std::array<std::string_view, 6> kNames = {"", "x", "t", "k", "r", "p"};
  return kNames[static_cast<std::size_t>(r)];
}

template <>
const ExpTable<float>& exp_table<float>() {
  return kTable32;
}
template <>
const ExpTable<double>& exp_table<double>() {
  return kTable64;
}

float exp_by_steps(float x) { return run<float, std::int32_t>(kTable32, x); }
double exp_by_steps(double x) { return run<double, std::int64_t>(kTable64, x); }

}  // namespace driftc::ir
