// Conversions between f32 and the 16-bit and tf32 formats, in software, every rounding named.
// rne: nearest, ties to even; rna: nearest, ties away from zero; trunc: toward zero.
#pragma once

#include <bit>
#include <cstdint>

namespace driftc {

// f16 bits -> f32, exact.
inline float f16_to_f32(std::uint16_t h) {
  const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000u) << 16;
  const std::uint32_t exponent = (h >> 10) & 0x1Fu;
  std::uint32_t fraction = h & 0x3FFu;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F800000u | (fraction << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  if (fraction == 0) return std::bit_cast<float>(sign);
  const int shift = std::countl_zero(fraction) - 21;  // bring the leading bit to position 10
  fraction = (fraction << shift) & 0x3FFu;
  return std::bit_cast<float>(sign | (static_cast<std::uint32_t>(113 - shift) << 23) |
                              (fraction << 13));
}

// f32 -> f16 bits, rne; overflow to Inf, NaN to the canonical 0x7FFF.
inline std::uint16_t f32_to_f16_rne(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return 0x7FFF;
  if (magnitude >= 0x477FF000u) return static_cast<std::uint16_t>(sign | 0x7C00u);
  if (magnitude >= 0x38800000u) {  // normal f16
    const std::uint32_t rounded = magnitude + 0xFFFu + ((magnitude >> 13) & 1u) - 0x38000000u;
    return static_cast<std::uint16_t>(sign | (rounded >> 13));
  }
  if (magnitude < 0x33000000u) return sign;                   // below half the smallest subnormal
  const int shift = 126 - static_cast<int>(magnitude >> 23);  // 14..24 bits to drop
  const std::uint32_t significand = (magnitude & 0x7FFFFFu) | 0x800000u;
  const std::uint32_t kept = significand >> shift;
  const std::uint32_t rest = significand & ((1u << shift) - 1u), half = 1u << (shift - 1);
  return static_cast<std::uint16_t>(sign | (kept + (rest > half || (rest == half && (kept & 1u)))));
}

// bf16 bits -> f32, exact; f32 -> bf16 bits, rne, NaN to 0x7FFF.
inline float bf16_to_f32(std::uint16_t h) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(h) << 16);
}
inline std::uint16_t f32_to_bf16_rne(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return 0x7FFF;
  return static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

// tf32 operands (10 fraction bits) as f32 values: `cvt.rna.tf32.f32` and the hardware's truncation
// of raw f32 operands (numerics.md 1.5).
inline float tf32_rna(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const bool finite = (bits & 0x7F800000u) != 0x7F800000u;
  return std::bit_cast<float>((bits + (finite ? 0x1000u : 0u)) & 0xFFFFE000u);
}
inline float tf32_trunc(float value) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & 0xFFFFE000u);
}

}  // namespace driftc
