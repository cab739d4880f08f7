#include "runtime/ptx/presets.h"

#include <algorithm>

namespace driftc::runtime::ptx {
namespace {

void fill(const BoundProgram& bound, const BoundProgram::Preset& p, std::uint64_t value,
          Frame& frame) {
  std::byte* at = frame.regs + p.place.offset;
  const std::size_t lanes =
      p.place.mask == 0 ? kGroupLanes : std::size_t{bound.groups} * kGroupLanes;
  switch (bound.program->code.regs[p.reg].kind) {
    case RegKind::kW:
      std::fill_n(reinterpret_cast<std::uint32_t*>(at), lanes, static_cast<std::uint32_t>(value));
      return;
    case RegKind::kL:
      std::fill_n(reinterpret_cast<std::uint64_t*>(at), lanes, value);
      return;
    case RegKind::kP:
    case RegKind::kNone:
      std::fill_n(reinterpret_cast<std::uint16_t*>(at), lanes / kGroupLanes,
                  static_cast<std::uint16_t>(value ? 0xFFFF : 0));
      return;
  }
}

// A special register that is the same for all threads.
std::uint64_t block_value(Special which, const LaunchConfig& config, const Frame& frame) {
  switch (which) {
    case Special::kNtidX:
      return config.block[0];
    case Special::kNtidY:
      return config.block[1];
    case Special::kNtidZ:
      return config.block[2];
    case Special::kNctaidX:
      return config.grid[0];
    case Special::kNctaidY:
      return config.grid[1];
    case Special::kNctaidZ:
      return config.grid[2];
    case Special::kNwarpid:
      return (frame.lanes + 31) / 32;
    case Special::kSharedBase:
      return reinterpret_cast<std::uint64_t>(frame.shared);
    default:
      return 0;  // %ctaid: fill_block_index
  }
}

std::uint32_t thread_value(Special which, const LaunchConfig& config, std::uint32_t i) {
  const std::uint32_t nx = config.block[0], ny = config.block[1], lane = i % 32;
  const std::uint32_t below = (1u << lane) - 1;
  switch (which) {
    case Special::kTidX:
      return i % nx;
    case Special::kTidY:
      return i / nx % ny;
    case Special::kTidZ:
      return i / nx / ny;
    case Special::kLaneId:
      return lane;
    case Special::kWarpId:
      return i / 32;
    case Special::kLanemaskEq:
      return 1u << lane;
    case Special::kLanemaskLt:
      return below;
    case Special::kLanemaskLe:
      return below | 1u << lane;
    case Special::kLanemaskGt:
      return ~(below | 1u << lane);
    case Special::kLanemaskGe:
      return ~below;
    default:
      return 0;
  }
}

}  // namespace

void fill_presets(const BoundProgram& bound, const LaunchConfig& config, Frame& frame) {
  for (const BoundProgram::Preset& p : bound.presets) {
    const RegInfo& info = bound.program->code.regs[p.reg];
    const auto which = static_cast<Special>(info.bits);
    if (info.is_constant) {
      fill(bound, p, info.bits, frame);
    } else if (which < Special::kFirstVarying) {
      fill(bound, p, block_value(which, config, frame), frame);
    } else {
      std::byte* at = frame.regs + p.place.offset;
      for (std::uint32_t i = 0; i < bound.groups * kGroupLanes; ++i)
        if (which == Special::kLocalBase)
          // Lanes that fill up the last group have no area; they never access memory.
          reinterpret_cast<std::uint64_t*>(at)[i] =
              reinterpret_cast<std::uint64_t>(frame.local) + std::uint64_t{i} * frame.local_bytes;
        else
          reinterpret_cast<std::uint32_t*>(at)[i] = thread_value(which, config, i);
    }
  }
}

void fill_block_index(const BoundProgram& bound, const std::array<std::uint32_t, 3>& index,
                      Frame& frame) {
  for (const BoundProgram::Preset& p : bound.presets) {
    const RegInfo& info = bound.program->code.regs[p.reg];
    if (!info.is_special) continue;
    const auto which = static_cast<Special>(info.bits);
    if (which >= Special::kCtaidX && which <= Special::kCtaidZ)
      fill(bound, p, index[info.bits - static_cast<std::uint64_t>(Special::kCtaidX)], frame);
  }
}

}  // namespace driftc::runtime::ptx
