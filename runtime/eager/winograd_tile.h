// The transforms of one Winograd tile. Internal to runtime.
#pragma once

#include <cstddef>
#include <vector>

#include "ir/support/round.h"
#include "ir/winograd.h"

namespace driftc::runtime {

// M x M' in the named evaluation of ir/winograd.h. T: the type of every operation; `fused`: terms
// join by fma, else by mul and add.
template <class T>
class Sandwich {
 public:
  Sandwich(const ir::FractionMatrix& matrix, bool fused)
      : rows_(matrix.rows), columns_(matrix.columns), fused_(fused) {
    for (int r = 0; r < rows_; ++r) {
      for (const ir::TransformTerm& term : ir::transform_row(matrix, r))
        terms_.push_back({term.column, static_cast<T>(term.coefficient)});
      ends_.push_back(terms_.size());
    }
  }
  // x is columns x columns, out rows x rows, both row-major.
  void operator()(const T* x, T* out) const {
    T half[kLargest * kLargest];
    for (int i = 0; i < rows_; ++i)
      for (int j = 0; j < columns_; ++j) half[i * columns_ + j] = row(i, x + j, columns_);
    for (int i = 0; i < rows_; ++i)
      for (int j = 0; j < rows_; ++j) out[i * rows_ + j] = row(j, half + i * columns_, 1);
  }
  // One row of the matrix over v[0], v[step], ...; `visit(column, coefficient, partial sum)` sees
  // each term join.
  template <class Visit>
  T row(int r, const T* v, int step, const Visit& visit) const {
    std::size_t i = r == 0 ? 0 : ends_[static_cast<std::size_t>(r) - 1];
    T sum = mul_rn(terms_[i].coefficient, v[terms_[i].column * step]);
    visit(terms_[i].column, terms_[i].coefficient, sum);
    for (++i; i < ends_[static_cast<std::size_t>(r)]; ++i) {
      const T c = terms_[i].coefficient, x = v[terms_[i].column * step];
      sum = fused_ ? fma_rn(c, x, sum) : add_rn(sum, mul_rn(c, x));
      visit(terms_[i].column, c, sum);
    }
    return sum;
  }
  static constexpr int kLargest = 8;

 private:
  struct Term {
    int column;
    T coefficient;
  };
  T row(int r, const T* v, int step) const {
    return row(r, v, step, [](int, T, T) {});
  }

  int rows_, columns_;
  bool fused_;
  std::vector<Term> terms_;
  std::vector<std::size_t> ends_;
};

}  // namespace driftc::runtime
