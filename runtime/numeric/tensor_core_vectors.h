// Inputs whose results tell models of tensor cores apart (numerics.md 1.6), and captured hardware
// outputs as files. One vector is one output element: d = c + sum a[i] b[i], in one instruction.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/support/result.h"
#include "runtime/sums/tensor_core.h"

namespace driftc::runtime {

struct TcVector {
  std::string name;         // "T3"; of captured rows "row 17"
  std::vector<float> a, b;  // as many as the instruction's k
  float c = 0;
  std::uint32_t expected = 0;  // bits of d as f32; captured, or by the model
  bool open = false;           // what the hardware does is not settled: to be recorded, not judged
};

// All vectors of one instruction.
struct TcVectors {
  std::string source;  // "h200_fp16.bin", "T1 to T11"
  TcFormat format = TcFormat::kF16;
  TcAccumulator accumulator = TcAccumulator::kF32;
  int k = 16;
  std::vector<TcVector> vectors;
};

// T1 to T11 for an architecture, by instruction; `expected` is the model's answer. T7, T9 and T10
// are open (numerics.md 1.7 and 8).
std::vector<TcVectors> discriminating_vectors(std::string_view arch);

// The captured files of an architecture in `folder` (magic TCV1; the f16 accumulator's outputs as
// vectors of their own). Empty where there are none; an error where one is damaged.
Result<std::vector<TcVectors>> captured_vectors(const std::string& folder, std::string_view arch);

}  // namespace driftc::runtime
