#include "runtime/numeric/hypothesis.h"

#include <array>
#include <cmath>
#include <limits>

#include "ir/support/half.h"
#include "runtime/sums/parallel.h"

namespace driftc::runtime {
namespace {

struct Row {
  Hypothesis hypothesis;
  std::string_view name;
  double operand_error;
};
constexpr std::array kRows = {
    Row{Hypothesis::kF32, "f32", 0.0},
    Row{Hypothesis::kTf32Rna, "tf32:rna", 0x1p-11},
    Row{Hypothesis::kTf32Trunc, "tf32:trunc", 0x1p-10},
    Row{Hypothesis::kBf16, "bf16", 0x1p-9},
    Row{Hypothesis::kF16, "f16", 0x1p-11},
    Row{Hypothesis::kFtz, "ftz", 0.0},
};
constexpr std::array kAll = {Hypothesis::kF32,  Hypothesis::kTf32Rna, Hypothesis::kTf32Trunc,
                             Hypothesis::kBf16, Hypothesis::kF16,     Hypothesis::kFtz};

const Row& row_of(Hypothesis hypothesis) { return kRows[static_cast<std::size_t>(hypothesis)]; }

}  // namespace

std::string_view name_of(Hypothesis hypothesis) { return row_of(hypothesis).name; }
std::optional<Hypothesis> parse_hypothesis(std::string_view name) {
  for (const Row& row : kRows)
    if (row.name == name) return row.hypothesis;
  return std::nullopt;
}
std::span<const Hypothesis> all_hypotheses() { return kAll; }
double operand_error(Hypothesis hypothesis) { return row_of(hypothesis).operand_error; }

float rounded(float value, Hypothesis hypothesis) {
  switch (hypothesis) {
    case Hypothesis::kF32:
      return value;
    case Hypothesis::kTf32Rna:
      return tf32_rna(value);
    case Hypothesis::kTf32Trunc:
      return tf32_trunc(value);
    case Hypothesis::kBf16:
      return bf16_to_f32(f32_to_bf16_rne(value));
    case Hypothesis::kF16:
      return f16_to_f32(f32_to_f16_rne(value));
    case Hypothesis::kFtz:
      return std::abs(value) < std::numeric_limits<float>::min() ? std::copysign(0.0f, value)
                                                                 : value;
  }
  return value;
}

ir::Tensor rounded(const ir::Tensor& tensor, Hypothesis hypothesis, ThreadPool& pool) {
  if (hypothesis == Hypothesis::kF32) return tensor;
  ir::Tensor out(ir::DType::kF32, tensor.shape());
  const auto from = tensor.data<float>();
  const auto to = out.data_mut<float>();
  for_ranges(pool, tensor.elements(), [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
      to[i] = rounded(from[i], hypothesis);
  });
  return out;
}

}  // namespace driftc::runtime
