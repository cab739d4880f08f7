// The one number of `resize` that both the interpreter and code generation derive.
#pragma once

#include <cmath>
#include <cstdint>

#include "ir/support/round.h"

namespace driftc::ir {

// The extent that align_corners aligns with: scale * in, not rounded to whole rows (as ONNX's
// reference has it), but the result's own extent where the two differ only by the rounding of the
// scale.
inline double aligned_extent(double scale, std::int64_t in, std::int64_t out) {
  const double exact = mul_rn(scale, static_cast<double>(in)), whole = static_cast<double>(out);
  return std::abs(sub_rn(exact, whole)) < mul_rn(whole, 0x1p-20) ? whole : exact;
}

}  // namespace driftc::ir
