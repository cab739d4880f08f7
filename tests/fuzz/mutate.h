// Seeded mutations of a byte string: the loop backend of the fuzz targets.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ir/support/rng.h"

namespace driftc::fuzz {

// Mutation `index` of `seed`: one to four edits (flip a bit, set a byte to a telling value, insert,
// delete, copy a run elsewhere, truncate), each from the counter-based generator, so a failure is
// one (seed, index).
// Grammars give `words`, which every other insertion then takes.
inline std::string mutated(std::string_view bytes, std::uint64_t seed, std::uint64_t index,
                           std::span<const std::string_view> words = {}) {
  const CounterRng rng(seed, "mutate");
  std::uint64_t counter = index * 64;
  const auto draw = [&](std::uint64_t below) { return rng.bits(counter++) % below; };
  std::string out(bytes);
  for (std::uint64_t edits = 1 + draw(4); edits > 0 && !out.empty(); --edits) {
    const auto at = static_cast<std::size_t>(draw(out.size()));
    constexpr unsigned char kTelling[] = {0x00, 0x01, 0x7F, 0x80, 0xFF, 0x08, 0x0A, 0x12};
    switch (draw(7)) {
      case 0:
      case 1:
        out[at] = static_cast<char>(out[at] ^ (1 << draw(8)));
        break;
      case 2:
        out[at] = static_cast<char>(kTelling[draw(8)]);
        break;
      case 3:
        if (!words.empty() && draw(4) != 0) {
          out.insert(at, words[static_cast<std::size_t>(draw(words.size()))]);
          break;
        }
        out.insert(at, 1 + draw(10), static_cast<char>(kTelling[draw(8)]));
        break;
      case 4:
        out.erase(at, 1 + draw(8));
        break;
      case 5:
        out.insert(at, out.substr(static_cast<std::size_t>(draw(out.size())), 1 + draw(32)));
        break;
      default:
        if (draw(8) == 0) out.resize(at);
    }
  }
  return out;
}

}  // namespace driftc::fuzz
