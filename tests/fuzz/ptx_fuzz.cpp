// Fuzz target: PTX parser and decoder on arbitrary bytes. They must neither crash nor hang,
// whatever the text. Built two ways: with -fsanitize=fuzzer (clang) as it stands, and by
// tests/unit/ptx_fuzz_test.cpp as a seeded loop.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "runtime/ptx/decode.h"
#include "runtime/ptx/parser.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace driftc::runtime::ptx;
  // Longer inputs only repeat what shorter ones find, and make every run slow.
  if (size > 1u << 16) return 0;
  auto module =
      parse_module(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz.ptx");
  if (!module.ok()) return 0;
  for (const Entry& entry : module->entries) {
    auto program = decode(*module, entry.name);
    (void)program;
  }
  return 0;
}
