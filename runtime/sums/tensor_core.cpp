#include "runtime/sums/tensor_core.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "ir/support/assert.h"
#include "ir/support/half.h"
#include "ir/support/round.h"

namespace driftc::runtime {
namespace {

struct FormatFacts {
  int emin, fraction;
};
constexpr FormatFacts kF16{-14, 10}, kBf16{-126, 7}, kTf32{-126, 10}, kF32{-126, 23};

FormatFacts facts(TcFormat format) {
  switch (format) {
    case TcFormat::kF16:
      return kF16;
    case TcFormat::kBf16:
      return kBf16;
    case TcFormat::kTf32:
      return kTf32;
  }
  return kF32;
}

// A finite value as sign * significand * 2^(exponent - fraction); subnormals read as emin.
struct Number {
  std::int64_t significand = 0;  // signed
  int exponent = 0;
};
Number number(float value, FormatFacts format) {
  if (value == 0) return {};
  const int exponent = std::max(std::ilogb(value), format.emin);
  return {static_cast<std::int64_t>(std::ldexp(value, format.fraction - exponent)), exponent};
}

// A term of a block: significand * 2^(exponent - fraction).
struct Term {
  std::int64_t significand;
  int exponent, fraction;
};

// Toward zero to `fraction_bits` below emax.
struct Aligned {
  std::int64_t value;
  bool exact;
};
Aligned align(const Term& term, int emax, int fraction_bits) {
  const int shift = fraction_bits - term.fraction - (emax - term.exponent);
  const std::int64_t magnitude = std::abs(term.significand);
  if (shift >= 0) return {term.significand * (std::int64_t{1} << shift), true};
  if (shift <= -63) return {0, magnitude == 0};
  const std::int64_t kept = magnitude >> -shift;
  return {term.significand < 0 ? -kept : kept, (kept << -shift) == magnitude};
}

struct Converted {
  float value;
  double loss;  // at least the distance to the exact value
};
// sum * 2^scale with `precision` bits, none below 2^lowest; toward zero, or to nearest even.
Converted convert(std::int64_t sum, int scale, int precision, int lowest, bool nearest,
                  double limit) {
  if (sum == 0) return {0.0f, 0};
  const std::uint64_t magnitude = static_cast<std::uint64_t>(std::abs(sum));
  const int top = 63 - std::countl_zero(magnitude);
  const int cut = std::max({top - precision + 1, lowest - scale, 0});
  std::uint64_t kept = cut > 63 ? 0 : magnitude >> cut;
  const bool exact = cut == 0 || (cut <= 63 && (kept << cut) == magnitude);
  if (nearest && cut > 0 && cut <= 64) {
    const std::uint64_t half = std::uint64_t{1} << (cut - 1);
    const std::uint64_t rest = cut > 63 ? magnitude : magnitude & ((half << 1) - 1);
    if (rest > half || (rest == half && (kept & 1) != 0)) ++kept;
  }
  const double value = std::ldexp(static_cast<double>(kept), cut + scale);
  const double unit = std::ldexp(nearest ? 0.5 : 1.0, cut + scale);
  const float sign = sum < 0 ? -1.0f : 1.0f;
  if (value >= limit) {
    const float infinite = std::numeric_limits<float>::infinity();
    return {sign * infinite, std::numeric_limits<double>::infinity()};
  }
  return {sign * static_cast<float>(value), exact ? 0 : unit};
}

}  // namespace

std::optional<TensorCore> tensor_core(std::string_view arch, TcFormat format,
                                      TcAccumulator accumulator) {
  const bool f16 = format == TcFormat::kF16, half = accumulator == TcAccumulator::kF16;
  if (half && !f16) return std::nullopt;
  struct Row {
    std::string_view arch;
    int f16_length, tf32_length, fraction_bits, floor_f32, floor_f16;  // lengths 0: no such unit
  };
  constexpr std::array kRows = {
      Row{"sm_70", 4, 0, 23, -131, -20},                                       // V100
      Row{"sm_75", 8, 0, 24, -132, -21},                                       // T4
      Row{"sm_80", 8, 4, 24, -132, -21},                                       // A100
      Row{"sm_86", 8, 4, 24, -132, -21},                                       // A2, A40, 30xx
      Row{"sm_87", 8, 4, 24, -132, -21},   Row{"sm_89", 8, 4, 24, -132, -21},  // L40S, 40xx
      Row{"sm_90", 16, 8, 25, -133, -22},                                      // H100, H200
      Row{"sm_100", 16, 8, 25, -133, -22},                                     // B200
      Row{"sm_120", 16, 8, 25, -133, -22},
  };
  for (const Row& row : kRows) {
    if (row.arch != arch) continue;
    if (!f16 && row.tf32_length == 0) return std::nullopt;
    return TensorCore{format, accumulator,
                      format == TcFormat::kTf32 ? row.tf32_length : row.f16_length,
                      row.fraction_bits, half ? row.floor_f16 : row.floor_f32};
  }
  return std::nullopt;
}

std::optional<TensorCore> tensor_core(const ir::MmaSpec& mma) {
  if (mma.dtype == "f16") return tensor_core(mma.arch, TcFormat::kF16, TcAccumulator::kF32);
  if (mma.dtype == "bf16") return tensor_core(mma.arch, TcFormat::kBf16, TcAccumulator::kF32);
  if (mma.dtype == "tf32") return tensor_core(mma.arch, TcFormat::kTf32, TcAccumulator::kF32);
  return std::nullopt;
}

TcResult tensor_core_block(const TensorCore& core, float c, std::span<const float> a,
                           std::span<const float> b) {
  constexpr std::size_t kMost = 64;
  DRIFTC_ASSERT(
      a.size() == b.size() && a.size() <= static_cast<std::size_t>(core.length) && a.size() < kMost,
      "operands of a block");
  const bool half = core.accumulator == TcAccumulator::kF16;
  const FormatFacts format = facts(core.format), of_c = half ? kF16 : kF32;
  const auto operand = [&](float v) { return core.format == TcFormat::kTf32 ? tf32_trunc(v) : v; };

  // Specials. Products of finite operands are finite here, whatever f32 would say.
  double special = std::isfinite(c) ? 0 : c;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const float x = operand(a[i]), y = operand(b[i]);
    if (!std::isfinite(x) || !std::isfinite(y))
      special = add_rn(special, mul_rn(double{x}, double{y}));
  }
  if (special != 0) {  // NaN or an infinity
    const float value = std::isnan(special) ? canonical_nan() : static_cast<float>(special);
    return {value, std::numeric_limits<double>::infinity()};
  }

  std::array<Term, kMost> terms{};
  std::size_t count = 0;
  int emax = core.floor;
  const auto add = [&](Term term) {
    if (term.significand == 0) return;
    terms[count++] = term;
    emax = std::max(emax, term.exponent);
  };
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Number x = number(operand(a[i]), format), y = number(operand(b[i]), format);
    add({x.significand * y.significand, x.exponent + y.exponent, 2 * format.fraction});
  }
  const Number start = number(c, of_c);
  add({start.significand, start.exponent, of_c.fraction});

  std::int64_t sum = 0;
  int inexact = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Aligned aligned = align(terms[i], emax, core.fraction_bits);
    sum += aligned.value;
    inexact += aligned.exact ? 0 : 1;
  }
  const int scale = emax - core.fraction_bits;
  const Converted out = half ? convert(sum, scale, 11, -24, true, 65536.0)
                             : convert(sum, scale, 24, -149, false, 0x1p128);
  return {out.value,
          add_rn(mul_rn(static_cast<double>(inexact), std::ldexp(1.0, scale)), out.loss)};
}

TcResult tensor_core_chain(const TensorCore& core, int instruction_k, float c,
                           std::span<const float> a, std::span<const float> b) {
  const auto length = static_cast<std::size_t>(std::min(core.length, instruction_k));
  TcResult out{c, 0};
  for (std::size_t k = 0; k < a.size(); k += length) {
    const std::size_t n = std::min(length, a.size() - k);
    const TcResult block = tensor_core_block(core, out.value, a.subspan(k, n), b.subspan(k, n));
    out.value = block.value;
    out.bound = add_rn(out.bound, block.bound);
  }
  return out;
}

double tensor_core_bound(const TensorCore& core, int instruction_k, std::int64_t n,
                         double magnitude, double largest) {
  if (magnitude == 0) return 0;
  const bool half = core.accumulator == TcAccumulator::kF16;
  const auto length = static_cast<double>(std::min(core.length, instruction_k));
  const double blocks = std::ceil(static_cast<double>(n) / length);
  // Truncation never makes a partial sum larger than the magnitudes summed so far; rounding to f16
  // may, by a factor of 1 + 2^-11 per block.
  if (half) magnitude *= std::pow(1 + 0x1p-11, blocks) * (1 + 0x1p-40);
  // A subnormal accumulator aligns at the smallest normal exponent of its format.
  const int accumulator_emin = half ? kF16.emin : kF32.emin;
  const double top = std::max({magnitude, std::ldexp(1.0, std::max(core.floor, accumulator_emin)),
                               std::ldexp(largest, facts(core.format).emin)});
  const double alignment = (length + 1) * std::ldexp(top, -core.fraction_bits);
  const double conversion =
      half ? std::max(magnitude * 0x1p-11, 0x1p-25) : std::max(magnitude * 0x1p-23, 0x1p-149);
  return blocks * (alignment + conversion) * (1 + 0x1p-40);
}

}  // namespace driftc::runtime
