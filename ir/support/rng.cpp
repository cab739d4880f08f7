#include "ir/support/rng.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>

#include "ir/support/round.h"

namespace driftc {

CounterRng::CounterRng(std::uint64_t seed, std::string_view name)
    : key_(XXH3_64bits_withSeed(name.data(), name.size(), seed)) {}

std::uint64_t CounterRng::bits(std::uint64_t counter) const {
  std::array<unsigned char, 8> little_endian;
  for (std::size_t i = 0; i < 8; ++i)
    little_endian[i] = static_cast<unsigned char>(counter >> (8 * i));
  return XXH3_64bits_withSeed(little_endian.data(), little_endian.size(), key_);
}

namespace {
constexpr std::int32_t kOne24 = 1 << 24;

float symmetric(const CounterRng& rng, std::uint64_t i) {
  return static_cast<float>(2 * static_cast<std::int32_t>(rng.bits24(i)) - kOne24) * 0x1p-24f;
}

float irwin_hall(const CounterRng& rng, std::uint64_t i) {
  std::int64_t sum = -6 * std::int64_t{kOne24};
  for (std::uint64_t j = 0; j < 12; ++j) sum += rng.bits24(12 * i + j);
  return static_cast<float>(sum) * 0x1p-24f;  // the conversion is the one rounding
}
}  // namespace

void fill(Distribution distribution, std::uint64_t seed, std::string_view name,
          std::span<float> out) {
  const CounterRng rng(seed, name);
  for (std::size_t i = 0; i < out.size(); ++i) {
    switch (distribution) {
      case Distribution::kUniform:
        out[i] = static_cast<float>(rng.bits24(i)) * 0x1p-24f;
        break;
      case Distribution::kSymmetric:
        out[i] = symmetric(rng, i);
        break;
      case Distribution::kRandom:
        out[i] = irwin_hall(rng, i);
        break;
      case Distribution::kRelu: {
        const float r = irwin_hall(rng, i);
        out[i] = r > 0 ? r : 0.0f;
        break;
      }
      case Distribution::kIntegers:
        out[i] = static_cast<float>(
            static_cast<std::int32_t>((std::uint64_t{rng.bits24(i)} * 17) >> 24) - 8);
        break;
      case Distribution::kOnes:
        out[i] = 1.0f;
        break;
    }
  }
}

void fill_he(std::uint64_t seed, std::string_view name, std::int64_t fan_in, std::span<float> out) {
  const CounterRng rng(seed, name);
  const float scale = sqrt_rn(div_rn(6.0f, static_cast<float>(fan_in < 1 ? 1 : fan_in)));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = mul_rn(symmetric(rng, i), scale);
}

}  // namespace driftc
