#include "ir/support/hash.h"

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <numeric>
#include <utility>

namespace driftc {
namespace {
std::string hex(XXH128_hash_t h) { return fmt::format("{:016x}{:016x}", h.high64, h.low64); }
std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
}  // namespace

std::uint64_t hash64(std::span<const std::byte> bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}
std::uint64_t hash64(std::string_view text, std::uint64_t seed) {
  return hash64(bytes_of(text), seed);
}
std::string hash64_hex(std::span<const std::byte> bytes) {
  return fmt::format("{:016x}", hash64(bytes));
}
std::string hash64_hex(std::string_view text) { return hash64_hex(bytes_of(text)); }
std::string hash128_hex(std::span<const std::byte> bytes) {
  return hex(XXH3_128bits(bytes.data(), bytes.size()));
}
std::string hash128_hex(std::string_view text) { return hash128_hex(bytes_of(text)); }

struct FieldHasher::State {
  XXH3_state_t xxh;
};
// XXH3_state_t is over-aligned; unique_ptr's new honours that since C++17.
FieldHasher::FieldHasher() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->xxh); }
FieldHasher::~FieldHasher() = default;
FieldHasher& FieldHasher::add(std::span<const std::byte> field) {
  add(static_cast<std::uint64_t>(field.size()));
  XXH3_128bits_update(&state_->xxh, field.data(), field.size());
  return *this;
}
FieldHasher& FieldHasher::add(std::string_view field) { return add(bytes_of(field)); }
FieldHasher& FieldHasher::add(std::uint64_t field) {
  unsigned char little[8];
  for (int i = 0; i < 8; ++i) little[i] = static_cast<unsigned char>(field >> (8 * i));
  XXH3_128bits_update(&state_->xxh, little, sizeof little);
  return *this;
}
std::string FieldHasher::hex128() const { return hex(XXH3_128bits_digest(&state_->xxh)); }
std::uint64_t FieldHasher::value64() const { return XXH3_128bits_digest(&state_->xxh).low64; }

std::vector<std::uint32_t> seeded_permutation(std::uint64_t seed, std::uint32_t count) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  if (seed == 0) return order;
  for (std::uint32_t i = count; i > 1; --i) {
    unsigned char step[4] = {static_cast<unsigned char>(i), static_cast<unsigned char>(i >> 8),
                             static_cast<unsigned char>(i >> 16),
                             static_cast<unsigned char>(i >> 24)};
    std::uint64_t h = XXH3_64bits_withSeed(step, sizeof step, seed);
    std::swap(order[i - 1], order[h % i]);
  }
  return order;
}

}  // namespace driftc
