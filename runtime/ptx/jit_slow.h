// What machine code calls for an access it cannot make itself. Private to runtime/ptx.
#pragma once

#include <cstdint>

#include "runtime/ptx/jit.h"

namespace driftc::runtime::ptx {

// Makes the access of the lanes in context.slow_mask one by one, checked, and remembers the buffer.
// Nonzero: a fault was noted in the frame.
extern "C" std::uint32_t driftc_ptx_jit_slow(JitContext* context, std::uint32_t access) noexcept;

inline JitCache* caches_of(JitContext* context) { return reinterpret_cast<JitCache*>(context + 1); }

}  // namespace driftc::runtime::ptx
