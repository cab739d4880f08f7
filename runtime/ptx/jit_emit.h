// Translators of units into machine code. Private to runtime/ptx.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/ptx/bind.h"
#include "runtime/ptx/jit.h"
#include "runtime/ptx/jit_values.h"

namespace driftc::runtime::ptx {

// Runs groups [context->first, context->last). A segment returns 0, or 1 after a fault that the
// frame holds. A region returns the number of the first group it did not do.
using JitFn = std::uint64_t (*)(JitContext* context);

// Position-independent code, or nothing when the unit is too large for the registers and tables
// there are. `first_access` numbers the accesses of this unit in `accesses`; the one behind them is
// the unit's own.
std::optional<std::vector<std::uint8_t>> emit_segment_avx512(
    const BoundProgram& bound, const UnitPlan& unit, const std::vector<Shape>& shapes,
    const Seen& seen, std::uint32_t first_access, std::vector<JitAccess>& accesses);
std::optional<std::vector<std::uint8_t>> emit_segment_avx2(
    const BoundProgram& bound, const UnitPlan& unit, const std::vector<Shape>& shapes,
    const Seen& seen, std::uint32_t first_access, std::vector<JitAccess>& accesses);
bool segment_supports(const Code& code, const Inst& inst);

// How the lanes of a group see a base of a region, as looked at before translation and checked by
// the code for every group.
enum class BaseForm : std::uint8_t { kSplat, kVector, kPattern };

// Code for a region whose bases look as they do for `group` now.
std::optional<std::vector<std::uint8_t>> emit_region(const BoundRegion& region, const Frame& frame,
                                                     std::uint32_t group, bool avx512);

}  // namespace driftc::runtime::ptx
