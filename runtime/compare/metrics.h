// Numbers about two results of the same value. Pure: knows tensors, no graphs.
// Units: ULP are counted in f32, the storage type of both arms. Two NaNs are equal; -0 and +0 are 0
// ULP apart but mismatch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/tensor.h"

namespace driftc::runtime::compare {

struct WorstElement {
  std::vector<std::int64_t> index;
  float eager = 0, compiled = 0;
  std::optional<double> reference;
  std::uint64_t ulp = 0;
};

struct Metrics {
  std::int64_t elements = 0;
  std::int64_t mismatched = 0;      // bit patterns differ, NaNs being one class
  double max_abs = 0;               // over elements where both are finite
  double max_rel = 0;               // |a-b| / max(|a|,|b|), 0/0 = 0
  std::uint64_t max_ulp = 0;        // steps between the two on the ordered line of f32 values
  double rel_l2 = 0;                // ||a-b|| / ||a||, a = eager; inf when only ||a|| is 0
  std::int64_t nan_mismatch = 0;    // NaN in exactly one arm
  std::int64_t inf_mismatch = 0;    // infinite in exactly one arm, or of opposite sign
  std::vector<WorstElement> worst;  // at most `worst_count`, largest |a-b| first, ties by index
};

// Both f32 of the same shape. `reference` (f64, same shape) fills WorstElement::reference.
Metrics measure(const ir::Tensor& eager, const ir::Tensor& compiled,
                const ir::Tensor* reference = nullptr, std::size_t worst_count = 5);

struct Distance {
  double max_abs = 0, rel_l2 = 0;  // infinite when one side is not finite where the other is
};
Distance distance(const ir::Tensor& value, const ir::Tensor& reference64);

// Position on the line of f32 values ordered by size: ordered(-0) == ordered(+0) == 0.
constexpr std::int64_t ordered(std::uint32_t bits) {
  const auto magnitude = static_cast<std::int64_t>(bits & 0x7FFFFFFFu);
  return (bits >> 31) != 0 ? -magnitude : magnitude;
}

// Class predicted per sample: the index of the largest element of [N, classes, 1...]; empty when
// the value has no such shape. Ties go to the lower index, NaN counts as largest.
struct ClassChanges {
  std::int64_t changed = 0, of = 0;
  std::vector<std::int64_t> samples;  // indices whose class changed
};
std::optional<ClassChanges> class_changes(const ir::Tensor& eager, const ir::Tensor& compiled);

}  // namespace driftc::runtime::compare
