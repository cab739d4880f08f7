// The tensor-core model (tensor_core.h) for 16 outputs at once: the fast form that the PTX executor
// and the interpreter's sums run. Same bits as tensor_core_chain, always: a block whose alignment
// exponent leaves the range in which f32 products and 32-bit sums are exact goes through the scalar
// model.
//
// How a block is computed (tensor_core_block_inl.h), per lane: the largest exponent by 16-bit
// integer maxima of sums of the operands' exponents, which are prepared once per operand, for two
// rows at a time; each product in f32 (exact: two significands of at most 11 bits), scaled by 2^(F
// - emax) and truncated to an integer; an integer sum; a conversion toward zero.
#pragma once

#include <cstdint>

#include "runtime/sums/tensor_core.h"

namespace driftc::runtime {

inline constexpr int kTcLanes = 16;

// Codes stand for exponents in 16 bits: EXP(x) of numerics.md 1.2 or one of these, far enough from
// every finite exponent and from each other that sums of two keep their meaning: two zeros or a
// zero and a number are no product, whatever meets a special value is outside every range.
inline constexpr std::int32_t kTcZeroCode = -8000;
inline constexpr std::int32_t kTcSpecialCode = 12000;  // Inf and NaN

// values[i] becomes the operand of the unit (tf32: low 13 bits dropped). It is representable in
// `format` (tf32: any f32).
//
// Lanes: codes[i] holds the code of values[i], plus 127, in both halves.
void tensor_core_lanes(TcFormat format, std::int64_t count, float* values, std::uint32_t* codes);
// Rows side by side, values[k * rows + r]: codes[k * pairs(rows) + p] holds the code of row 2 p in
// its low half and of row 2 p + 1 in its high one; of an odd number the last row stands in both.
constexpr std::int64_t tensor_core_pairs(std::int64_t rows) { return (rows + 1) / 2; }
void tensor_core_rows(TcFormat format, std::int64_t rows, std::int64_t steps, float* values,
                      std::uint32_t* codes);

// acc[r][j] = chain of blocks over k of row[r][k] * lane[k][j], for `rows` r and 16 lanes j.
struct TcTile {
  // Operand of lane j at step k: at[offset + j], offset = offsets[k], or 16 k where there are none.
  // A negative offset stands for products of +0.
  const float* lanes = nullptr;
  const std::uint32_t* lane_codes = nullptr;
  const std::int64_t* offsets = nullptr;
  // Operand of row r at step k: row_values[k * rows + r].
  const float* row_values = nullptr;
  const std::uint32_t* row_codes = nullptr;
  int rows = 1;
  std::int64_t steps = 0;  // k extent of the chain
  float* acc = nullptr;    // in and out: row r at acc + r * acc_step, 16 elements
  std::int64_t acc_step = kTcLanes;
};
// instruction_k limits the block as in tensor_core_chain.
void tensor_core_tile(const TensorCore& core, int instruction_k, const TcTile& tile);

}  // namespace driftc::runtime
