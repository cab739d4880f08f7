// The devices that driftc knows: what a named GPU decides about kernels (PTX target, number of SMs,
// model of its tensor cores). Data, not detection: the same profile gives the same kernels on every
// machine.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/support/result.h"

namespace driftc::runtime {

struct DeviceProfile {
  std::string name;                  // "h200"
  std::string title;                 // "NVIDIA H200 SXM"
  std::vector<std::string> aliases;  // other names that are accepted
  int compute_major = 0, compute_minor = 0;
  std::string ptx_target;  // for NVRTC: "compute_90"
  int sm_count = 0;
  std::string mma_arch;  // ARCH of mma(...) orders: "sm_90"
};

std::span<const DeviceProfile> device_profiles();
inline constexpr std::string_view kDefaultDevice = "h200";

// By name or alias, in any letter case. The error hints at the nearest name.
Result<DeviceProfile> device_profile(std::string_view name);

}  // namespace driftc::runtime
