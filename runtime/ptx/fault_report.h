// What went wrong in a block, as a message: kernel, block, thread, PTX line, CUDA source line, the
// buffer an access missed. Private to runtime/ptx.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "ir/support/result.h"
#include "runtime/ptx/frame.h"
#include "runtime/ptx/machine.h"

namespace driftc::runtime::ptx {

// `others`: further faults of the same block, which become notes.
Diagnostic report(const ProgramCode& program, const LaunchConfig& config, const Fault& fault,
                  std::span<const Fault> others, const std::array<std::uint32_t, 3>& block,
                  const DeviceMemory& memory);

}  // namespace driftc::runtime::ptx
