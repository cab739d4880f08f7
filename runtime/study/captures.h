// Captured outputs of real tensor cores (magic TCV1, the README beside the data describes the file)
// against the block model and against mma.sync in the PTX executor. What `./dev tensorcore-check`
// prints.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/support/result.h"
#include "runtime/sums/tensor_core.h"
#include "runtime/thread_pool.h"

namespace driftc::runtime::study {

struct Capture {
  std::string file;  // "h200_fp16.bin"
  std::string arch;  // "sm_90"
  TcFormat format = TcFormat::kF16;
  int k = 0;                       // products of a row
  std::vector<float> a, b;         // [row][k]
  std::vector<float> c, d32, d16;  // [row]; d16 is empty where it was not captured
  std::int64_t rows() const { return static_cast<std::int64_t>(c.size()); }
};

// Files of the folder by name; GPU_FORMAT.bin with a GPU and a format that the model knows. Bad
// files are errors with the place.
Result<std::vector<Capture>> read_captures(const std::string& folder);

struct CaptureResult {
  std::int64_t outputs = 0;       // f32 and f16 ones together
  std::int64_t wrong_scalar = 0;  // tensor_core_chain
  std::int64_t wrong_lanes = 0;   // tensor_core_tile
  std::int64_t wrong_mma = 0;     // mma.sync in the executor
  std::string without_mma;        // why the executor was not asked; "" where it was
};
Result<CaptureResult> check_capture(const Capture& capture, ThreadPool& pool);

}  // namespace driftc::runtime::study
