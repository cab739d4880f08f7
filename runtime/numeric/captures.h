// Captured outputs of real tensor cores as files (magic TCV1; the README beside the data describes
// them).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "ir/support/result.h"
#include "runtime/sums/tensor_core.h"

namespace driftc::runtime {

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
Result<Capture> read_capture(const std::filesystem::path& path);
// The names of the files that an architecture may have.
std::vector<std::string> capture_files(std::string_view arch);

}  // namespace driftc::runtime
