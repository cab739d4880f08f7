// The devices that driftc knows: what a named GPU decides about kernels (PTX target, number of SMs,
// model of its tensor cores) and about what libraries would choose for it (clocks, memory, caches,
// limits). Data, not detection: the same profile gives the same kernels on every
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
  std::string mma_arch;                        // ARCH of mma(...) orders: "sm_90"
  int sm_clock_mhz = 0, memory_clock_mhz = 0;  // the highest
  int memory_gib = 0;                          // capacity of the data sheet
  int bandwidth_gbps = 0;                      // of that memory, 10^9 bytes per second
  int l2_kib = 0;
  // Products per clock and SM of its tensor cores, sums in f32; 0: it has none of that kind.
  int tensor_f16 = 0, tensor_tf32 = 0;

  // Of the compute capability.
  int shared_block_kib = 0;     // shared memory of one block, with opt-in
  int shared_sm_kib = 0;        // of one SM, all blocks together
  int shared_reserved_kib = 0;  // taken by the system for each block
  int blocks_per_sm = 0, threads_per_sm = 0;
  int shared_unit = 0;                       // bytes in which a block gets shared memory
  int f32_per_clock = 0, f64_per_clock = 0;  // fma per clock and SM
};

// The same for every profile.
inline constexpr int kWarpSize = 32, kThreadsPerBlock = 1024, kRegisters = 65536;
inline constexpr int kSharedBlockDefaultKib = 48;
// A warp gets registers in units of this many (8 a thread); a thread has at most kThreadRegisters.
inline constexpr int kRegisterUnit = 256, kThreadRegisters = 255;

std::span<const DeviceProfile> device_profiles();
inline constexpr std::string_view kDefaultDevice = "h200";

// By name or alias, in any letter case. The error hints at the nearest name.
Result<DeviceProfile> device_profile(std::string_view name);

// "a100,h200": names or aliases with ',' between them, at least one, no profile twice.
Result<std::vector<DeviceProfile>> device_list(std::string_view text);

}  // namespace driftc::runtime
