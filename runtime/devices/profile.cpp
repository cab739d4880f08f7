#include "runtime/devices/profile.h"

#include <algorithm>
#include <sstream>

namespace driftc::runtime {
namespace {

std::vector<std::string> words(const char* text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

std::vector<DeviceProfile> make_profiles() {
  std::vector<DeviceProfile> out = {
#define DEVICE(id, full, others, major, minor, target, sms, mma, clock, mclock, gib, gbps, l2, \
               tf16, ttf32)                                                                    \
  {.name = id,                                                                                 \
   .title = full,                                                                              \
   .aliases = words(others),                                                                   \
   .compute_major = major,                                                                     \
   .compute_minor = minor,                                                                     \
   .ptx_target = target,                                                                       \
   .sm_count = sms,                                                                            \
   .mma_arch = mma,                                                                            \
   .sm_clock_mhz = clock,                                                                      \
   .memory_clock_mhz = mclock,                                                                 \
   .memory_gib = gib,                                                                          \
   .bandwidth_gbps = gbps,                                                                     \
   .l2_kib = l2,                                                                               \
   .tensor_f16 = tf16,                                                                         \
   .tensor_tf32 = ttf32},
#include "runtime/devices/profiles.def"
  };
  for (DeviceProfile& p : out) {
#define CAPABILITY(major, minor, shared_block, shared_sm, reserved, blocks, threads, unit, f32, \
                   f64)                                                                         \
  if (p.compute_major == major && p.compute_minor == minor) {                                   \
    p.shared_block_kib = shared_block;                                                          \
    p.shared_sm_kib = shared_sm;                                                                \
    p.shared_reserved_kib = reserved;                                                           \
    p.blocks_per_sm = blocks;                                                                   \
    p.threads_per_sm = threads;                                                                 \
    p.shared_unit = unit;                                                                       \
    p.f32_per_clock = f32;                                                                      \
    p.f64_per_clock = f64;                                                                      \
  }
#include "runtime/devices/profiles.def"
    DRIFTC_ASSERT(p.threads_per_sm != 0, "a profile whose compute capability has no line");
  }
  return out;
}

}  // namespace

std::span<const DeviceProfile> device_profiles() {
  static const std::vector<DeviceProfile> profiles = make_profiles();
  return profiles;
}

Result<DeviceProfile> device_profile(std::string_view name) {
  std::string wanted(name);
  std::transform(wanted.begin(), wanted.end(), wanted.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  std::vector<std::string> known;
  for (const DeviceProfile& profile : device_profiles()) {
    if (profile.name == wanted ||
        std::find(profile.aliases.begin(), profile.aliases.end(), wanted) != profile.aliases.end())
      return profile;
    known.push_back(profile.name);
  }
  return input_error("unknown device '" + std::string(name) + "'", name_hint(wanted, known));
}

Result<std::vector<DeviceProfile>> device_list(std::string_view text) {
  std::vector<DeviceProfile> out;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    DRIFTC_TRY(device, device_profile(text.substr(begin, end - begin)));
    for (const DeviceProfile& earlier : out)
      if (earlier.name == device.name)
        return input_error("--device names " + device.name + " twice");
    out.push_back(device);
    begin = end + 1;
  }
  return out;
}

}  // namespace driftc::runtime
