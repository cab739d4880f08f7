// Captured outputs of real tensor cores against the block model and against mma.sync in the PTX
// executor. What `./dev tensorcore-check` prints.
#pragma once

#include <cstdint>
#include <string>

#include "ir/support/result.h"
#include "runtime/numeric/captures.h"
#include "runtime/thread_pool.h"

namespace driftc::runtime::study {

struct CaptureResult {
  std::int64_t outputs = 0;       // f32 and f16 ones together
  std::int64_t wrong_scalar = 0;  // tensor_core_chain
  std::int64_t wrong_lanes = 0;   // tensor_core_tile
  std::int64_t wrong_mma = 0;     // mma.sync in the executor
};
Result<CaptureResult> check_capture(const Capture& capture, ThreadPool& pool);

}  // namespace driftc::runtime::study
