// Tensor-core vectors (runtime/numeric/tensor_core_vectors.h) through one mma.sync each on a GPU.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/cuda/gpu.h"
#include "runtime/numeric/tensor_core_vectors.h"

namespace driftc::runtime::cuda {

// The PTX of the kernel for an instruction; empty where there is no such instruction (m8n8k4 of
// sm_70 has maps of its own and no compiler left). One warp a vector: it loads its fragments as
// they are, multiplies, stores the result's.
std::string mma_ptx(TcFormat format, TcAccumulator accumulator, int k, int capability);

// Bits of each result, f16 widened to f32, in the order of the vectors.
Result<std::vector<std::uint32_t>> run_vectors(Gpu& gpu, const TcVectors& vectors);

}  // namespace driftc::runtime::cuda
