// Device functions of the tensor-core kernels: operands as 32-bit words of shared memory, fragments
// by ldmatrix, products by mma.sync. What the tiled kernels call:
//
//   Sum, start, plus, rounded       as in sum_code.h, in f32
//   operand_word(x)                 tf32: one operand as its word
//   operand_word(low, high)         f16, bf16: two operands, the first in the low half
//   load_fragments(r, row)          ldmatrix: four 8 x 16-byte matrices; every thread gives a row
//   multiply_block(c0..c3, a, b0, b1)   16 rows x 8 columns += 32 bytes of k, in blocks of the
//                                   tensor core (one mma.sync, or two of half the k extent)
#pragma once

#include <vector>

#include "codegen/cuda_writer.h"
#include "ir/numeric.h"
#include "ir/support/result.h"

namespace driftc::codegen {

// Operands of one word: 1 (tf32) or 2.
int operands_per_word(const ir::MmaSpec& mma);
// Internal error for an instruction that the kernels do not use (m16n8k4, m8n8k4) or a contract
// that is not of tensor cores.
Result<std::vector<DeviceFunction>> mma_prelude(const ir::NumericContract& contract);

}  // namespace driftc::codegen
