// The inner loops of all sums: a tile of `rows` x `vectors * lanes` outputs, each evaluated by the
// same plan in its own lane. Lanes never mix, so the bits do not depend on the vector width, the
// tile or the target. Highway picks the widest target at run time; targets without a fused
// multiply-add call std::fma per lane.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/sums/sum_plan.h"

namespace driftc::runtime {

template <class T>
struct SumTile {
  const T* a = nullptr;                   // packed [leaf][rows]; unused by kAdd and kKahanAdd
  const T* b = nullptr;                   // first column of the tile
  const std::int64_t* offsets = nullptr;  // per leaf: elements from `b`; negative: a row of +0
  const T* zeros = nullptr;               // a row of +0, as wide as the tile
  const SumStep* steps = nullptr;
  std::int32_t step_count = 0;
  T* slots = nullptr;        // [slot][row][column]
  const T* start = nullptr;  // [row][column]: start of chains with a bias; null: +0
};

template <class T>
struct SumKernels {
  using Function = void (*)(const SumTile<T>&);
  static constexpr int kRowSizes = 4;  // 1, 2, 4, 8 rows
  static constexpr int kMaxVectors = 3;

  int lanes = 1;  // elements of a vector
  std::array<std::array<std::array<Function, kMaxVectors>, kRowSizes>, 5>
      table{};  // null: no such size

  Function get(SumArith arith, int rows, int vectors) const;
  int max_rows(SumArith arith) const;
};

// For the best target of this machine.
template <class T>
const SumKernels<T>& sum_kernels();
// Subnormal inputs and results of every operation become zero of the same sign. One row, one
// vector; plain scalar code.
const SumKernels<float>& flushing_sum_kernels();

template <>
const SumKernels<float>& sum_kernels<float>();
template <>
const SumKernels<double>& sum_kernels<double>();

// to[i] = sums[i], or add_rn(sums[i], *bias); NaN becomes canonical.
void finish_row(const float* sums, std::int64_t count, const float* bias, float* to);

}  // namespace driftc::runtime
