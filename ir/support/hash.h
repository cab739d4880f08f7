// Hashes that name things (cache keys, buffers, models): xxh3, stable across machines and versions.
// Not cryptographic: they detect damage and change, not malice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace driftc {

std::uint64_t hash64(std::span<const std::byte> bytes, std::uint64_t seed = 0);
std::uint64_t hash64(std::string_view text, std::uint64_t seed = 0);
std::string hash64_hex(std::span<const std::byte> bytes);  // 16 lower-case hex digits
std::string hash64_hex(std::string_view text);
std::string hash128_hex(std::span<const std::byte> bytes);  // 32 lower-case hex digits
std::string hash128_hex(std::string_view text);

// Hash of a sequence of fields. Each field is preceded by its length, so that ("ab","c") and
// ("a","bc") differ.
class FieldHasher {
 public:
  FieldHasher();
  ~FieldHasher();
  FieldHasher(const FieldHasher&) = delete;
  FieldHasher& operator=(const FieldHasher&) = delete;
  FieldHasher& add(std::string_view field);
  FieldHasher& add(std::span<const std::byte> field);
  FieldHasher& add(std::uint64_t field);
  std::string hex128() const;
  std::uint64_t value64() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The order in which `count` things happen under a schedule seed: seed 0 is 0, 1, 2, ...; any other
// seed is a Fisher-Yates shuffle driven by xxh3(seed, step), the same on every machine. The PTX
// executor orders the blocks of each grid dimension by it (z outermost), and the replay of an
// atomic split-K uses the same call.
std::vector<std::uint32_t> seeded_permutation(std::uint64_t seed, std::uint32_t count);

}  // namespace driftc
