// How other tools would decide on a pair of tensors: their comparers with default settings for f32,
// as read in their sources (docs: inductor.md section 3, rows marked [S]). For showing what a fixed
// tolerance accepts and rejects; driftc itself decides nothing with them.
#pragma once

#include <span>
#include <string_view>

#include "ir/tensor.h"

namespace driftc::runtime::compare {

struct EmulatedComparer {
  std::string_view name;
  // Whether the tool says that `result` matches `expected` (both f32); `reference` is the f64
  // result, for tools that have one.
  bool (*passes)(const ir::Tensor& expected, const ir::Tensor& result, const ir::Tensor& reference);
};
std::span<const EmulatedComparer> emulated_comparers();

}  // namespace driftc::runtime::compare
