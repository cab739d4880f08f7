// Counter-based random numbers: value i of a tensor depends on (seed, name, i) only, so that any
// machine, thread count and evaluation order makes the same bits. Integer and exact IEEE operations
// only (product.md, "Generator"); test vectors are in docs/ir.md.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace driftc {

class CounterRng {
 public:
  CounterRng(std::uint64_t seed, std::string_view name);
  std::uint64_t bits(std::uint64_t counter) const;     // 64 random bits
  std::uint32_t bits24(std::uint64_t counter) const {  // uniform in [0, 2^24)
    return static_cast<std::uint32_t>(bits(counter) >> 40);
  }

 private:
  std::uint64_t key_;
};

enum class Distribution {
  kUniform,    // i * 2^-24 in [0, 1)
  kSymmetric,  // uniform in [-1, 1): (2 i - 2^24) * 2^-24
  kRandom,     // Irwin-Hall: (sum of 12 - 6 * 2^24) * 2^-24, one rounding; mean 0, variance 1
  kRelu,       // max(random, 0)
  kIntegers,   // integers -8 .. 8
  kOnes,       // 1
};

// Fills `out` with elements 0, 1, ... of the tensor called `name`.
void fill(Distribution distribution, std::uint64_t seed, std::string_view name,
          std::span<float> out);
// Weights: symmetric * sqrt_rn(div_rn(6, fan_in)), one rounding for the product ("he").
void fill_he(std::uint64_t seed, std::string_view name, std::int64_t fan_in, std::span<float> out);

}  // namespace driftc
