// libFuzzer target: clang++ -fsanitize=fuzzer,address,undefined; seeds: tests/models/*.onnx.
// The seeded loop that every build runs is tests/unit/onnx_fuzz_test.cpp.
#include "tests/fuzz/onnx_fuzz.h"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  driftc::fuzz::onnx_file({reinterpret_cast<const char*>(data), size});
  return 0;
}
