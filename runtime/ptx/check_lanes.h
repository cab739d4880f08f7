// What checked mode asks about many lanes or many elements at once, vectorised by Highway. Private
// to runtime/ptx.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/ptx/frame.h"

namespace driftc::runtime::ptx {

// What the active lanes of an instruction touch: lowest and highest address, and whether all are
// multiples of the width asked for. Shared addresses are signed 32-bit numbers.
struct LaneExtent {
  std::int64_t low = 0, high = 0;
  bool aligned = true;
};

struct LaneFunctions {
  // Addresses of lanes, 16 per group, of the groups [first, last); `masks` has the active lanes of
  // each group, of which there is at least one. `width`: a power of two.
  LaneExtent (*extent32)(const std::uint32_t* addresses, const std::uint16_t* masks,
                         std::uint32_t first, std::uint32_t last, std::uint32_t width);
  LaneExtent (*extent64)(const std::uint64_t* addresses, const std::uint16_t* masks,
                         std::uint32_t first, std::uint32_t last, std::uint32_t width);
  // Whether every one of stamps[0, count) is in [low, high).
  bool (*within)(const std::uint32_t* stamps, std::size_t count, std::uint32_t low,
                 std::uint32_t high);
  // Whether 16 addresses follow each other by `step`.
  bool (*in_line)(const std::uint64_t* addresses, std::uint64_t step);
  // Writes of 1 << log_each stamps by each lane of the groups [first, last), lane 0 of group 0
  // being thread 0, at stamps[(address + offset) >> shift]. As long as all 16 lanes of a group are
  // active and in line, and all of their stamps are below `now`: those become now | thread. Returns
  // the first group of which that is not so (unchanged), or `last`.
  std::uint32_t (*stamp_rows)(std::uint32_t* stamps, const std::uint32_t* addresses,
                              const std::uint16_t* masks, std::uint32_t first, std::uint32_t last,
                              std::int64_t offset, std::uint32_t shift, std::uint32_t log_each,
                              std::uint32_t now);
};

// Of the best instruction set of this machine.
const LaneFunctions& lane_functions();

}  // namespace driftc::runtime::ptx
