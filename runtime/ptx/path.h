// Which way kernels are executed. Every path gives the same bits; they differ in speed only.
#pragma once

#include <cstdint>
#include <string_view>

namespace driftc::runtime::ptx {

enum class Path : std::uint8_t {
  kPortable,  // the interpreter, vectorised by Highway: runs anywhere, and is the oracle
  kAvx2,      // machine code for 8 lanes at a time; with FMA and F16C
  kAvx512,    // machine code for 16 lanes at a time
};
const char* name_of(Path path);  // "portable", "avx2", "avx512"
// False when the name is none of these; `path` is then left as it was.
bool path_of(std::string_view name, Path& path);

// The best path of this machine, but not above the limit.
Path best_path();
// Process-wide; for tests, benchmarks and DRIFTC_EXECUTOR. The default is no limit (kAvx512).
void limit_path(Path highest);

}  // namespace driftc::runtime::ptx
