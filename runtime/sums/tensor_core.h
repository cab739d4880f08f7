// A scalar model of the tensor cores: one output element of a matrix multiply-accumulate, exact to
// the bit (numerics.md 1.1 to 1.3). Every output is a chain of blocks; a block aligns L exact
// products and the accumulator to the largest raw exponent, truncates each to F fractional bits
// below it, adds the integers exactly and converts once: toward zero for an f32 accumulator, to
// nearest even for f16.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "ir/numeric.h"

namespace driftc::runtime {

enum class TcFormat : std::uint8_t { kF16, kBf16, kTf32 };  // of the operands
enum class TcAccumulator : std::uint8_t { kF32, kF16 };

// One row of numerics.md 1.3.
struct TensorCore {
  TcFormat format = TcFormat::kF16;
  TcAccumulator accumulator = TcAccumulator::kF32;
  int length = 16;         // L: products of a block, at most
  int fraction_bits = 25;  // F
  int floor = -133;        // the alignment exponent is never below ("ezero")
};

// `arch`: sm_70, sm_75, sm_80, sm_86, sm_87, sm_89, sm_90, sm_100, sm_120. Empty where the unit
// does not exist (bf16 and tf32 before sm_80; bf16 and tf32 have no f16 accumulator).
std::optional<TensorCore> tensor_core(std::string_view arch, TcFormat format,
                                      TcAccumulator accumulator);
// The unit of an `mma(...)` order: dtype f16, bf16 or tf32, accumulator f32.
std::optional<TensorCore> tensor_core(const ir::MmaSpec& mma);

// What one block or chain made, and how far it can be from the exact value (numerics.md 1.8): the
// terms that lost bits in alignment, each less than 2^(emax - F), and one unit (f16: half) in the
// last place of each inexact conversion. Infinite where a result is not finite.
struct TcResult {
  float value = 0;  // f16 accumulators widened
  double bound = 0;
};

// c + sum a[i] b[i] in one block; a and b have the same size, at most L. Operands are values of
// `format` (tf32: the low 13 bits are ignored), c of the accumulator.
TcResult tensor_core_block(const TensorCore& core, float c, std::span<const float> a,
                           std::span<const float> b);
// The chain of blocks of one or more instructions whose k extent is `instruction_k` (1.3: L =
// min(k, L)).
TcResult tensor_core_chain(const TensorCore& core, int instruction_k, float c,
                           std::span<const float> a, std::span<const float> b);

// The bound of a chain of n products without simulating it, given magnitude >= |c| + sum|a b| and
// `largest`, at least every |a| and |b|. Per block (L + 1) 2^(emax - F) + ulp; 2^emax is at most
// the magnitude, the larger of 2^floor and the accumulator's smallest normal number, or 2^emin
// largest for subnormal operands, whose exponent reads as emin. Holds while nothing overflows.
double tensor_core_bound(const TensorCore& core, int instruction_k, std::int64_t n,
                         double magnitude, double largest);

}  // namespace driftc::runtime
