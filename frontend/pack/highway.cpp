// Only in the program of `./dev gpu-pack`: the two functions of libhwy.so that dispatch needs,
// since Debian has no archive of it. Which vector width is taken changes speed, never a result.
#include <hwy/targets.h>

#include <cstdint>

namespace hwy {

std::int64_t SupportedTargets() {
  std::int64_t targets = HWY_STATIC_TARGET | HWY_EMU128 | HWY_SCALAR;
  const auto all = [](auto... has) { return (has && ...); };
  if (!all(__builtin_cpu_supports("ssse3"))) return targets;
  targets |= HWY_SSSE3;
  if (!all(__builtin_cpu_supports("sse4.1"), __builtin_cpu_supports("sse4.2"),
           __builtin_cpu_supports("pclmul"), __builtin_cpu_supports("aes")))
    return targets;
  targets |= HWY_SSE4;
  if (!all(__builtin_cpu_supports("avx2"), __builtin_cpu_supports("fma"),
           __builtin_cpu_supports("bmi"), __builtin_cpu_supports("bmi2"),
           __builtin_cpu_supports("lzcnt"), __builtin_cpu_supports("f16c")))
    return targets;
  targets |= HWY_AVX2;
  if (all(__builtin_cpu_supports("avx512f"), __builtin_cpu_supports("avx512vl"),
          __builtin_cpu_supports("avx512dq"), __builtin_cpu_supports("avx512bw"),
          __builtin_cpu_supports("avx512cd")))
    targets |= HWY_AVX3;
  return targets;
}

ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

}  // namespace hwy
