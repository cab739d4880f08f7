// Precision hypotheses: what a library may have done to the operands of products before it
// multiplied them (numerics.md 1.5, 4.3). The precision-matched reference rounds the operands so
// and then sums exactly.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "ir/tensor.h"
#include "runtime/thread_pool.h"

namespace driftc::runtime {

enum class Hypothesis : std::uint8_t {
  kF32,        // operands as they are
  kTf32Rna,    // 10 fraction bits, nearest, ties away
  kTf32Trunc,  // low 13 bits dropped
  kBf16,       // nearest, ties to even
  kF16,        // nearest, ties to even; overflows to Inf, subnormals kept
  kFtz,        // f32 with subnormal operands and results flushed to zero of the same sign
};
std::string_view name_of(Hypothesis hypothesis);  // f32 tf32:rna tf32:trunc bf16 f16 ftz
std::optional<Hypothesis> parse_hypothesis(std::string_view name);
std::span<const Hypothesis> all_hypotheses();

float rounded(float value, Hypothesis hypothesis);
// f32 in, f32 out; shares the buffer for kF32.
ir::Tensor rounded(const ir::Tensor& tensor, Hypothesis hypothesis, ThreadPool& pool);

// Largest relative change of a normal operand (numerics.md 4.3, one operand): 2^-11 for tf32:rna
// and f16, 2^-10 for tf32:trunc, 2^-9 for bf16, 0 for f32 and ftz.
double operand_error(Hypothesis hypothesis);

}  // namespace driftc::runtime
