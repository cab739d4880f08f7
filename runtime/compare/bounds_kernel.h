// Replays summation plans with half-ulp and ulp^2 sums beside every value: the vector loop of
// replay_bound.
#pragma once

#include <cstdint>

#include "runtime/sums/sum_plan.h"

namespace driftc::runtime::compare {

inline constexpr int kReplayRows = 4;

// Rows x one vector of columns under one plan. T is the type of the chains; operands are f32.
template <class T>
struct ReplayTile {
  const float* rows[kReplayRows] = {};  // canonical positions; null: ones
  int row_count = 0;
  const float* panel = nullptr;           // first column
  const std::int64_t* offsets = nullptr;  // by canonical position
  const SumPlan* plan = nullptr;
  SumArith arith = SumArith::kFma;  // kFma, kMulAdd or kAdd
  const T* start = nullptr;         // [row][lane]: start of chains with a bias; null: +0
  // Scratch and results, [slot][row][lane]: the value, sum of 2^e and sum of 4^e over its rounded
  // results, where an ulp of a result is 2^e times that of 1.
  T* value = nullptr;
  double *steps = nullptr, *squares = nullptr;
};

std::int64_t replay_lanes();
void replay(const ReplayTile<float>& tile);
void replay(const ReplayTile<double>& tile);

}  // namespace driftc::runtime::compare
