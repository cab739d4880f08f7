#include <doctest/doctest.h>

#include <set>

#include "runtime/devices/profile.h"

using namespace driftc;

TEST_CASE("devices: names, aliases and letter case") {
  CHECK(runtime::device_profile("h200")->sm_count == 132);
  CHECK(runtime::device_profile("T4")->ptx_target == "compute_75");
  CHECK(runtime::device_profile("sm_90")->name == "h100");
  CHECK(runtime::device_profile(runtime::kDefaultDevice).ok());
  const auto unknown = runtime::device_profile("h2000");
  REQUIRE(!unknown.ok());
  CHECK(unknown.error().message == "unknown device 'h2000'");
  CHECK(unknown.error().hint == "did you mean 'h200'?");
}

TEST_CASE("devices: each name and alias belongs to one profile, mma architectures parse") {
  std::set<std::string> names;
  for (const auto& profile : runtime::device_profiles()) {
    CHECK(names.insert(profile.name).second);
    for (const auto& alias : profile.aliases) CHECK(names.insert(alias).second);
    CHECK(profile.sm_count > 0);
    const std::set<std::string> archs{"sm_70", "sm_75", "sm_80", "sm_89", "sm_90", "sm_100"};
    CHECK(archs.contains(profile.mma_arch));
  }
}
