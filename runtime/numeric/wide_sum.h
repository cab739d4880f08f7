// Exact sums of products of f32 values, and one correct rounding of what is made of them.
//
// WideSum is a Kulisch accumulator (numerics.md 4.5): 10 limbs of 64 bits in two's complement whose
// lowest bit weighs 2^-298, the smallest bit of a product of two f32 values. 554 bits hold every
// product, 86 are left for carries, so 2^85 terms are exact in any order.
//
// ScaledSum is the exact value (alpha * sum + addend_a * addend_b) / count, rounded once. It serves
// sums (alpha 1, no addend, count 1), means and gemm.
#pragma once

#include <array>
#include <cstdint>

namespace driftc::runtime {

class WideSum {
 public:
  static constexpr int kLimbs = 10;
  static constexpr int kLowestExponent = -298;

  // Adds the exact product; both must be finite.
  void add_product(float a, float b);
  void add(float a) { add_product(a, 1.0f); }

  const std::array<std::uint64_t, kLimbs>& limbs() const { return limbs_; }

 private:
  std::array<std::uint64_t, kLimbs> limbs_{};
};

// What is made of the sum; all finite, count in [1, 2^40].
struct SumScale {
  float alpha = 1;
  float addend_a = 0, addend_b = 0;
  std::int64_t count = 1;
  bool plain() const {
    return alpha == 1.0f && count == 1 && (addend_a == 0.0f || addend_b == 0.0f);
  }
};

// To nearest, ties to even, with gradual underflow and overflow to infinity. An exact zero is +0.
float round_to_f32(const WideSum& sum, const SumScale& scale = {});
double round_to_f64(const WideSum& sum, const SumScale& scale = {});

}  // namespace driftc::runtime
