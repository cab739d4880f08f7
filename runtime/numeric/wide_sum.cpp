#include "runtime/numeric/wide_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

#include "ir/support/assert.h"
#include "ir/support/round.h"

namespace driftc::runtime {
namespace {

using Wide = unsigned __int128;

// A finite f32 as sign * significand * 2^exponent.
struct Parts {
  std::uint32_t significand;
  int exponent;
  bool negative;
};

Parts parts_of(float value) {
  const std::uint32_t bits = bits_of(value), field = (bits >> 23) & 0xFFu;
  DRIFTC_ASSERT(field != 0xFF, "exact sum of a value that is not finite");
  const std::uint32_t hidden = field == 0 ? 0u : 0x800000u;
  return {(bits & 0x7FFFFFu) | hidden, (field == 0 ? 1 : static_cast<int>(field)) - 150,
          (bits >> 31) != 0};
}

// limbs += or -= value * 2^bit, modulo 2^(64 limbs). value < 2^64.
template <std::size_t kCount>
void add_shifted(std::array<std::uint64_t, kCount>& limbs, std::uint64_t value, int bit,
                 bool subtract) {
  auto i = static_cast<std::size_t>(bit / 64);
  const Wide shifted = static_cast<Wide>(value) << (bit % 64);
  std::uint64_t low = static_cast<std::uint64_t>(shifted),
                high = static_cast<std::uint64_t>(shifted >> 64);
  if (!subtract) {
    limbs[i] += low;
    high += limbs[i] < low;  // high <= 2^63, so this cannot wrap
    for (++i; high != 0 && i < kCount; ++i) {
      limbs[i] += high;
      high = limbs[i] < high;
    }
  } else {
    const std::uint64_t before = limbs[i];
    limbs[i] -= low;
    high += before < low;
    for (++i; high != 0 && i < kCount; ++i) {
      const std::uint64_t old = limbs[i];
      limbs[i] -= high;
      high = old < high;
    }
  }
}

// A scaled sum: sign and magnitude, lowest bit 2^kLowest, and whether a remainder lies below it.
class Magnitude {
 public:
  // alpha (lowest bit 2^-149) times a sum (lowest bit 2^-298) needs 2^-447; the top is below 2^(342
  // + 128).
  static constexpr int kLimbs = 16, kLowest = -460;

  Magnitude(const WideSum& sum, const SumScale& scale) {
    // |sum|, shifted to this range and multiplied by alpha's significand.
    std::array<std::uint64_t, WideSum::kLimbs> limbs = sum.limbs();
    bool negative = (limbs.back() >> 63) != 0;
    if (negative) negate(limbs);
    const Parts alpha = parts_of(scale.alpha);
    negative ^= alpha.negative;
    for (int i = 0; i < WideSum::kLimbs; ++i) {
      const Wide product =
          static_cast<Wide>(limbs[static_cast<std::size_t>(i)]) * alpha.significand;
      const int bit = 64 * i + WideSum::kLowestExponent + alpha.exponent - kLowest;
      add_shifted(limbs_, static_cast<std::uint64_t>(product), bit, negative);
      if ((product >> 64) != 0)
        add_shifted(limbs_, static_cast<std::uint64_t>(product >> 64), bit + 64, negative);
    }
    const Parts a = parts_of(scale.addend_a), b = parts_of(scale.addend_b);
    add_shifted(limbs_, static_cast<std::uint64_t>(a.significand) * b.significand,
                a.exponent + b.exponent - kLowest, a.negative != b.negative);
    negative_ = (limbs_.back() >> 63) != 0;
    if (negative_) negate(limbs_);
    divide(static_cast<std::uint64_t>(scale.count));
  }

  // To `precision` bits, none below 2^lowest; the caller's conversions are then exact or overflow.
  double round(int precision, int lowest) const {
    const int top = highest_bit();
    if (top < 0) return 0.0;  // a remainder alone is far below any half
    // Bits [cut, top] are kept.
    const int cut = std::max({top - precision + 1, lowest - kLowest, 0});
    if (cut > top + 1) return negative_ ? -0.0 : 0.0;
    std::uint64_t kept = bits(cut, 54);
    const bool half = cut > 0 && bit(cut - 1);
    const bool sticky = remainder_ || any_below(cut - 1);
    if (half && (sticky || (kept & 1) != 0)) ++kept;
    const double value = std::ldexp(static_cast<double>(kept), cut + kLowest);
    return negative_ ? -value : value;
  }

 private:
  template <std::size_t kCount>
  static void negate(std::array<std::uint64_t, kCount>& limbs) {
    bool carry = true;
    for (std::uint64_t& limb : limbs) {
      limb = ~limb + (carry ? 1 : 0);
      carry = carry && limb == 0;
    }
  }
  void divide(std::uint64_t count) {
    if (count == 1) return;
    Wide rest = 0;
    for (std::size_t i = kLimbs; i-- > 0;) {
      const Wide dividend = (rest << 64) | limbs_[i];
      limbs_[i] = static_cast<std::uint64_t>(dividend / count);
      rest = dividend % count;
    }
    remainder_ = rest != 0;
  }
  int highest_bit() const {
    for (int i = kLimbs; i-- > 0;)
      if (limbs_[static_cast<std::size_t>(i)] != 0)
        return 64 * i + 63 - std::countl_zero(limbs_[static_cast<std::size_t>(i)]);
    return -1;
  }
  bool bit(int i) const {
    return ((limbs_[static_cast<std::size_t>(i / 64)] >> (i % 64)) & 1) != 0;
  }
  // Bits [from, from + count), from >= 0, as a number.
  std::uint64_t bits(int from, int count) const {
    std::uint64_t out = 0;
    for (int i = 0; i < count && from + i < 64 * kLimbs; ++i)
      out |= static_cast<std::uint64_t>(bit(from + i)) << i;
    return out;
  }
  bool any_below(int end) const {
    if (end <= 0) return false;
    for (int i = 0; i < end / 64; ++i)
      if (limbs_[static_cast<std::size_t>(i)] != 0) return true;
    const int rest = end % 64;
    return rest != 0 && (limbs_[static_cast<std::size_t>(end / 64)] << (64 - rest)) != 0;
  }

  std::array<std::uint64_t, kLimbs> limbs_{};
  bool negative_ = false, remainder_ = false;
};

}  // namespace

void WideSum::add_product(float a, float b) {
  const Parts x = parts_of(a), y = parts_of(b);
  const std::uint64_t product = static_cast<std::uint64_t>(x.significand) * y.significand;
  if (product == 0) return;
  add_shifted(limbs_, product, x.exponent + y.exponent - kLowestExponent, x.negative != y.negative);
}

// The range of both formats: 24 bits and nothing below 2^-149; 53 bits and nothing below 2^-1074
// (never reached). Values of 2^128 and more become infinite in the conversion.
float round_to_f32(const WideSum& sum, const SumScale& scale) {
  return to_f32_rn(Magnitude(sum, scale).round(24, -149));
}
double round_to_f64(const WideSum& sum, const SumScale& scale) {
  return Magnitude(sum, scale).round(53, -1074);
}

}  // namespace driftc::runtime
