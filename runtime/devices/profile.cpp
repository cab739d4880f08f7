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

}  // namespace

std::span<const DeviceProfile> device_profiles() {
  static const std::vector<DeviceProfile> profiles = {
#define DEVICE(name, title, aliases, major, minor, target, sms, mma) \
  {name, title, words(aliases), major, minor, target, sms, mma},
#include "runtime/devices/profiles.def"
#undef DEVICE
  };
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

}  // namespace driftc::runtime
