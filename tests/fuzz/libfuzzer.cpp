// Entry point under libFuzzer: one program per target, which DRIFTC_FUZZ_TARGET names.
// cmake --preset fuzz && cmake --build --preset fuzz, then
// build/fuzz/tests/fuzz/fuzz_gir -timeout=10 -rss_limit_mb=768 -runs=1000000 NEW
// tests/fuzz/corpus/gir
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const driftc::fuzz::Target& target =
      *std::ranges::find(driftc::fuzz::targets(), DRIFTC_FUZZ_TARGET, &driftc::fuzz::Target::name);
  target.run({reinterpret_cast<const char*>(data), size});
  return 0;
}
