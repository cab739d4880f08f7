#include "runtime/ptx/path.h"

#include <algorithm>
#include <atomic>

#if defined(__x86_64__)
#include <xbyak/xbyak_util.h>
#endif

namespace driftc::runtime::ptx {
namespace {

Path detect() {
#if defined(__x86_64__)
  const Xbyak::util::Cpu cpu;
  using C = Xbyak::util::Cpu;
  if (cpu.has(C::tAVX512F) && cpu.has(C::tAVX512BW) && cpu.has(C::tAVX512DQ) &&
      cpu.has(C::tAVX512VL))
    return Path::kAvx512;
  if (cpu.has(C::tAVX2) && cpu.has(C::tFMA) && cpu.has(C::tF16C)) return Path::kAvx2;
#endif
  return Path::kPortable;
}

std::atomic<Path> highest_path = Path::kAvx512;

}  // namespace

const char* name_of(Path path) {
  switch (path) {
    case Path::kPortable:
      return "portable";
    case Path::kAvx2:
      return "avx2";
    case Path::kAvx512:
      return "avx512";
  }
  return "?";
}

bool path_of(std::string_view name, Path& path) {
  for (Path p : {Path::kPortable, Path::kAvx2, Path::kAvx512}) {
    if (name != name_of(p)) continue;
    path = p;
    return true;
  }
  return false;
}

Path best_path() {
  static const Path detected = detect();
  return std::min(detected, highest_path.load(std::memory_order_relaxed));
}

void limit_path(Path highest) { highest_path = highest; }

}  // namespace driftc::runtime::ptx
