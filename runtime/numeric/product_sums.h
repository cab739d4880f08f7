// The sums of a SumProblem in f64, for operands that the caller chooses: magnitudes |w| |x|, error
// bounds |w| E, variances w^2 V. All terms are meant to be non-negative, so that results are
// relatively accurate.
#pragma once

#include <span>

#include "runtime/numeric/sum_problem.h"
#include "runtime/thread_pool.h"

namespace driftc::runtime {

// Covers the roundings of a sum of fewer than 2^20 non-negative f64 terms.
inline constexpr double kSumSlack = 1 + 0x1p-32;

// out = sum over positions of rows * columns, f64, the problem's result shape; alpha, addend and
// counts are left to the caller. `columns` and `rows` are f64 in the layout of problem.columns and
// problem.rows; `rows` undefined: ones.
ir::Tensor product_sums(const SumProblem& problem, const ir::Tensor& columns,
                        const ir::Tensor& rows, ThreadPool& pool);

// sum_p factors[p] |x w| per output, times kSumSlack; `factors` by position, empty: 1.
ir::Tensor magnitudes(const SumProblem& problem, std::span<const double> factors, ThreadPool& pool);

// |values| as f64; `power` 2 squares them.
ir::Tensor absolute(const ir::Tensor& values, ThreadPool& pool, int power = 1);

}  // namespace driftc::runtime
