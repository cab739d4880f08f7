// The tensor-core model (tensor_core.h) for 16 outputs at once: the fast form that the PTX executor
// and the interpreter's sums run. Same bits as tensor_core_chain, always: a block whose alignment
// exponent leaves the range in which f32 products and 32-bit sums are exact goes through the scalar
// model.
//
// How a block is computed, per lane: the largest exponent by integer maxima of the operands'
// exponents, which are prepared once per operand; each product in f32 (exact: two significands of
// at most 11 bits), scaled by 2^(F - emax) and truncated to an integer; an integer sum; a
// conversion toward zero.
#pragma once

#include <cstdint>

#include "runtime/sums/tensor_core.h"

namespace driftc::runtime {

inline constexpr int kTcLanes = 16;

// Exponents as tensor_core_exponents writes them: EXP(x) of numerics.md 1.2, or one of these, far
// enough from every finite exponent that sums of two keep their meaning.
inline constexpr std::int32_t kTcZeroExponent = -100'000;
inline constexpr std::int32_t kTcSpecialExponent = 300'000;  // Inf and NaN

// values[i] = operand of the unit (tf32: low 13 bits dropped), exponents[i] = its exponent.
// `values` may be `from`. The values of `from` are representable in `format` (tf32: any f32).
void tensor_core_operands(TcFormat format, const float* from, std::int64_t count, float* values,
                          std::int32_t* exponents);

// acc[r][j] = chain of blocks over k of scalar[r][k] * lane[k][j], for `rows` r and 16 lanes j.
struct TcTile {
  // Operand of lane j at step k: at[offset + j], offset = offsets[k], or 16 k where there are none.
  // A negative offset stands for products of +0.
  const float* lanes = nullptr;
  const std::int32_t* lane_exponents = nullptr;
  const std::int64_t* offsets = nullptr;
  // Operand of row r at step k: at[r * row_step + k * scalar_step].
  const float* scalars = nullptr;
  const std::int32_t* scalar_exponents = nullptr;
  std::int64_t row_step = 0, scalar_step = 1;
  int rows = 1;
  std::int64_t steps = 0;  // k extent of the chain
  float* acc = nullptr;    // in and out: row r at acc + r * acc_step, 16 elements
  std::int64_t acc_step = kTcLanes;
};
// instruction_k limits the block as in tensor_core_chain.
void tensor_core_tile(const TensorCore& core, int instruction_k, const TcTile& tile);

}  // namespace driftc::runtime
