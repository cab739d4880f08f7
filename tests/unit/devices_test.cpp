#include <doctest/doctest.h>

#include <cmath>
#include <map>
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

// The width of the memory bus is in no profile: an independent check of clock and bandwidth.
TEST_CASE("devices: every figure is there; memory clock times bus width is the bandwidth") {
  const std::map<std::string, int> bus_bits = {{"h200", 6144}, {"h100", 5120},   {"a100", 5120},
                                               {"l40s", 384},  {"rtx4090", 384}, {"t4", 256},
                                               {"b200", 7680}, {"v100", 4096}};
  for (const auto& p : runtime::device_profiles()) {
    CAPTURE(p.name);
    CHECK(p.sm_clock_mhz > 1000);
    CHECK(p.memory_gib >= 16);
    CHECK(p.l2_kib >= 4096);
    CHECK(p.shared_sm_kib >= p.shared_block_kib);
    CHECK(p.shared_block_kib >= 64);
    CHECK(p.blocks_per_sm >= 16);
    CHECK(p.threads_per_sm >= runtime::kThreadsPerBlock);
    CHECK((p.shared_unit == 128 || p.shared_unit == 256));
    REQUIRE(bus_bits.contains(p.name));
    const double gbps =
        2.0 * p.memory_clock_mhz * bus_bits.at(p.name) / 8e3;  // two transfers a clock
    CHECK(std::abs(gbps - p.bandwidth_gbps) <= 0.03 * gbps);
  }
}

// Peaks of the data sheets in TFLOPS, dense: f32, f64, f16 and tf32 on tensor cores with f32 sums.
// Those of H100, H200 and B200 on tensor cores are stated at a clock below the boost clock.
TEST_CASE("devices: fma and tensor products per clock come to the peaks of the data sheets") {
  struct Peaks {
    double f32, f64, f16, tf32;
  };
  const std::map<std::string, Peaks> sheets = {
      {"h200", {67, 34, 989, 495}},       {"h100", {67, 34, 989, 495}},
      {"a100", {19.5, 9.7, 312, 156}},    {"l40s", {91.6, 1.43, 362, 183}},
      {"rtx4090", {82.6, 1.29, 165, 83}}, {"t4", {8.1, 0.254, 65, 0}},
      {"b200", {75, 37, 2250, 1125}},     {"v100", {15.7, 7.8, 125, 0}}};
  for (const auto& p : runtime::device_profiles()) {
    CAPTURE(p.name);
    REQUIRE(sheets.contains(p.name));
    const Peaks& sheet = sheets.at(p.name);
    const auto tflops = [&](int per_clock) {
      return 2e-6 * p.sm_count * p.sm_clock_mhz * per_clock;
    };
    CHECK(tflops(p.f32_per_clock) == doctest::Approx(sheet.f32).epsilon(0.03));
    CHECK(tflops(p.f64_per_clock) == doctest::Approx(sheet.f64).epsilon(0.03));
    CHECK(tflops(p.tensor_f16) == doctest::Approx(sheet.f16).epsilon(0.1));
    CHECK(tflops(p.tensor_tf32) == doctest::Approx(sheet.tf32).epsilon(0.1));
  }
}
