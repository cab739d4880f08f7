// The summation tree of a black box, from what it returns for chosen summands: FPRev (Xie, Gao,
// Wang, Xue, "Revealing Floating-Point Accumulation Orders in Software/Hardware Implementations",
// USENIX ATC 2025, sections 4 and 5; numerics.md 5). A pair of huge summands of opposite signs
// swallows every unit that is added before the two meet.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ir/support/result.h"

namespace driftc::runtime {

// How many of the n - 2 units survive when summand i is M, j is -M and the others are one unit
// each.
using SurvivingUnits = std::function<Result<double>(std::int64_t i, std::int64_t j)>;

struct SumTree {
  std::vector<SumTree> children;  // empty: a leaf
  std::int64_t leaf = 0;
};
std::int64_t leaves(const SumTree& tree);
// "chain of 16", "16-way blocks of 9", ... : the arities from the root, runs of the same folded.
std::string shape_of(const SumTree& tree);

// Errors (kInput): a count that is no integer in [0, n - 2], or answers that no tree gives; then
// the box adds no fixed tree (Winograd, FFT, compensated or data-dependent sums, atomics). `calls`
// counts.
Result<SumTree> reveal_tree(std::int64_t n, const SurvivingUnits& surviving,
                            std::int64_t* calls = nullptr);

}  // namespace driftc::runtime
