// NaN, Inf, signed zeros and subnormals of a result against what they should be: counted apart, so
// that no norm hides them, and explained.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/tensor.h"

namespace driftc::runtime::compare {

struct SpecialCounts {
  std::int64_t nan_missing = 0;      // should be NaN, is not
  std::int64_t nan_extra = 0;        // is NaN, should not be
  std::int64_t inf_missing = 0;      // should be infinite and is finite
  std::int64_t inf_extra = 0;        // infinite instead of finite
  std::int64_t inf_sign = 0;         // infinite with the other sign
  std::int64_t zero_sign = 0;        // -0 for +0 or the reverse
  std::int64_t flushed = 0;          // zero, should be subnormal
  std::int64_t subnormals = 0;       // expected values that are subnormal
  std::int64_t nan_became_zero = 0;  // of nan_missing
  std::int64_t inf_became_nan = 0;   // of nan_extra
  std::int64_t first = -1;           // flat index of the first NaN or Inf mismatch
  friend bool operator==(const SpecialCounts&, const SpecialCounts&) = default;
  bool accusing() const { return nan_missing + nan_extra + inf_missing + inf_extra + inf_sign > 0; }
};

// `observed` f32, `expected` f32 or f64 (then judged as f32 values), same shape. `near_overflow`
// (optional, flat): the sizes of terms at that element reach the largest f32, so that an order of
// summation may overflow: any special result is right there.
SpecialCounts count_specials(const ir::Tensor& observed, const ir::Tensor& expected,
                             const std::vector<bool>* near_overflow = nullptr);

// One sentence per kind of mismatch with its usual cause; empty when all match.
std::vector<std::string> explain(const SpecialCounts& counts);

}  // namespace driftc::runtime::compare
