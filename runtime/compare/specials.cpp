#include "runtime/compare/specials.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace driftc::runtime::compare {

SpecialCounts count_specials(const ir::Tensor& observed, const ir::Tensor& expected,
                             const std::vector<bool>* near_overflow) {
  DRIFTC_ASSERT(observed.shape() == expected.shape(), "equal shapes");
  const auto a = observed.data<float>();
  const ir::Tensor narrow = expected.converted(ir::DType::kF32);
  const auto b = narrow.data<float>();
  SpecialCounts c;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (near_overflow != nullptr && (*near_overflow)[i]) continue;
    const bool was_accusing = c.accusing();
    c.subnormals += std::fpclassify(b[i]) == FP_SUBNORMAL;
    if (std::isnan(b[i]) != std::isnan(a[i])) {
      if (std::isnan(b[i])) {
        ++c.nan_missing;
        c.nan_became_zero += a[i] == 0;
      } else {
        ++c.nan_extra;
        c.inf_became_nan += std::isinf(b[i]);
      }
    } else if (!std::isnan(b[i]) && std::isinf(a[i]) != std::isinf(b[i])) {
      // FLT_MAX and Inf are one rounding apart.
      const float finite = std::isinf(a[i]) ? b[i] : a[i], other = std::isinf(a[i]) ? a[i] : b[i];
      const bool neighbours =
          std::fabs(finite) >= std::numeric_limits<float>::max() * (1 - 0x1p-20f) &&
          std::signbit(finite) == std::signbit(other);
      if (!neighbours) ++(std::isinf(a[i]) ? c.inf_extra : c.inf_missing);
    } else if (std::isinf(a[i]) && a[i] != b[i]) {
      ++c.inf_sign;
    } else if (a[i] == 0) {
      if (b[i] == 0) c.zero_sign += std::signbit(a[i]) != std::signbit(b[i]);
      c.flushed += std::fpclassify(b[i]) == FP_SUBNORMAL;
    }
    if (!was_accusing && c.accusing()) c.first = static_cast<std::int64_t>(i);
  }
  return c;
}

std::vector<std::string> explain(const SpecialCounts& c) {
  std::vector<std::string> out;
  if (c.nan_became_zero > 0)
    out.push_back(
        fmt::format("{} NaN became 0: a relu or a maximum that swallows NaN (x > 0 ? x : 0)",
                    c.nan_became_zero));
  if (c.nan_missing > c.nan_became_zero)
    out.push_back(fmt::format(
        "{} elements should be NaN and are not: a term was not read, or padding was not multiplied",
        c.nan_missing - c.nan_became_zero));
  if (c.inf_became_nan > 0)
    out.push_back(
        fmt::format("{} Inf became NaN: an algorithm that spreads Inf (Inf - Inf in a transform)",
                    c.inf_became_nan));
  if (c.nan_extra > c.inf_became_nan)
    out.push_back(fmt::format(
        "{} NaN out of finite values: memory that was never written or read past its end, or "
        "Inf * 0 in a padded or transformed position",
        c.nan_extra - c.inf_became_nan));
  if (c.inf_extra > 0)
    out.push_back(fmt::format(
        "{} finite values became Inf: a narrower type (f16 ends at 65504) or an overflow",
        c.inf_extra));
  if (c.inf_missing > 0)
    out.push_back(fmt::format("{} Inf became finite: saturation, or a term that was not read",
                              c.inf_missing));
  if (c.inf_sign > 0) out.push_back(fmt::format("{} Inf have the other sign", c.inf_sign));
  if (c.flushed > 0)
    out.push_back(
        fmt::format("{} of {} subnormal results are 0: flush-to-zero", c.flushed, c.subnormals));
  if (c.zero_sign > 0)
    out.push_back(fmt::format("{} zeros have the other sign (harmless: -0 and +0 compare equal)",
                              c.zero_sign));
  return out;
}

}  // namespace driftc::runtime::compare
