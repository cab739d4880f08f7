// Arithmetic that names its rounding. Every function is one IEEE 754 operation rounded to nearest,
// ties to even, in the type of its arguments. Plain `a * b + c` is not written in runtime/ (the
// build also passes -ffp-contract=off, and a test asserts at run time that nothing contracts).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace driftc {

// std::fma is one rounding by the C standard; glibc uses the FMA instruction where there is one and
// an exact software path elsewhere (never double rounding through double).
inline float fma_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
inline float add_rn(float a, float b) { return a + b; }
inline double add_rn(double a, double b) { return a + b; }
inline float sub_rn(float a, float b) { return a - b; }
inline double sub_rn(double a, double b) { return a - b; }
inline float mul_rn(float a, float b) { return a * b; }
inline double mul_rn(double a, double b) { return a * b; }
inline float div_rn(float a, float b) { return a / b; }
inline double div_rn(double a, double b) { return a / b; }
inline float sqrt_rn(float a) { return std::sqrt(a); }
inline double sqrt_rn(double a) { return std::sqrt(a); }

// One rounding f64 -> f32.
inline float to_f32_rn(double a) { return static_cast<float>(a); }

inline std::uint32_t bits_of(float a) { return std::bit_cast<std::uint32_t>(a); }
inline std::uint64_t bits_of(double a) { return std::bit_cast<std::uint64_t>(a); }
inline float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }
inline double double_of(std::uint64_t bits) { return std::bit_cast<double>(bits); }

// The NaN that driftc's interpreter and the PTX executor write (what NVIDIA hardware produces).
inline constexpr std::uint32_t kCanonicalNanBits = 0x7FFFFFFFu;
inline float canonical_nan() { return float_of(kCanonicalNanBits); }

}  // namespace driftc
