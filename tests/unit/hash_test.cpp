#include "ir/support/hash.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

using namespace driftc;

TEST_CASE("hash: the published vectors of xxh3") {
  CHECK(hash64_hex(std::string_view{}) == "2d06800538d394c2");
  CHECK(hash128_hex(std::string_view{}) == "99aa06d3014798d86001c324468d497f");
  CHECK(hash64("a") != hash64("b"));
  CHECK(hash64("a", 1) != hash64("a", 2));
}

TEST_CASE("hash: fields are delimited") {
  FieldHasher a, b, c;
  a.add("ab").add("c");
  b.add("a").add("bc");
  c.add("ab").add("c");
  CHECK(a.hex128() != b.hex128());
  CHECK(a.hex128() == c.hex128());
  CHECK(a.hex128().size() == 32);
}

TEST_CASE("hash: a seeded permutation is one, seed 0 is the identity, and seeds differ") {
  std::vector<std::uint32_t> identity(50);
  std::iota(identity.begin(), identity.end(), 0u);
  CHECK(seeded_permutation(0, 50) == identity);
  CHECK(seeded_permutation(1, 50) != seeded_permutation(2, 50));
  CHECK(seeded_permutation(7, 50) == seeded_permutation(7, 50));
  for (std::uint64_t seed : {1u, 2u, 3u, 1000u}) {
    std::vector<std::uint32_t> p = seeded_permutation(seed, 50);
    CHECK(p != identity);
    std::sort(p.begin(), p.end());
    CHECK(p == identity);
  }
  CHECK(seeded_permutation(5, 0).empty());
  CHECK(seeded_permutation(5, 1) == std::vector<std::uint32_t>{0});
}
