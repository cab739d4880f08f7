// What checked mode asks about many lanes or many elements at once, vectorised by Highway. Private
// to runtime/ptx.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/ptx/frame.h"

namespace driftc::runtime::ptx {

// What the active lanes of an instruction touch: lowest and highest address, and the bits of all of
// them. Shared addresses are signed 32-bit numbers.
struct LaneExtent {
  std::int64_t low = 0, high = 0;
  std::uint64_t bits = 0;
};

struct LaneFunctions {
  // Addresses of lanes, 16 per group, of the groups [first, last); `masks` has the active lanes of
  // each group, of which there is at least one.
  LaneExtent (*extent32)(const std::uint32_t* addresses, const std::uint16_t* masks,
                         std::uint32_t first, std::uint32_t last);
  LaneExtent (*extent64)(const std::uint64_t* addresses, const std::uint16_t* masks,
                         std::uint32_t first, std::uint32_t last);
  // Whether every one of stamps[0, count) is in [low, high).
  bool (*within)(const std::uint32_t* stamps, std::size_t count, std::uint32_t low,
                 std::uint32_t high);
  // Whether 16 addresses follow each other by `step`.
  bool (*in_line)(const std::uint32_t* addresses, std::uint32_t step);
  bool (*in_line64)(const std::uint64_t* addresses, std::uint64_t step);
  // When all of stamps[0, 16 << log_each) are below `now`: makes them now | lane, where `lane`
  // counts on from `first_lane` every 1 << log_each stamps. Otherwise false, and nothing changes.
  bool (*stamp)(std::uint32_t* stamps, int log_each, std::uint32_t first_lane, std::uint32_t now);
};

// Of the best instruction set of this machine.
const LaneFunctions& lane_functions();

}  // namespace driftc::runtime::ptx
