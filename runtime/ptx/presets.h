// Registers that are set before a block runs: constants and special registers. Private to
// runtime/ptx.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/ptx/bind.h"
#include "runtime/ptx/machine.h"

namespace driftc::runtime::ptx {

// All of them but the block's index, into the register file of `frame`; once for a launch.
void fill_presets(const BoundProgram& bound, const LaunchConfig& config, Frame& frame);
// %ctaid; before every block.
void fill_block_index(const BoundProgram& bound, const std::array<std::uint32_t, 3>& index,
                      Frame& frame);

}  // namespace driftc::runtime::ptx
