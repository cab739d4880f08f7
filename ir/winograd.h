// Winograd convolution F(m, 3): its matrices as exact fractions, their rounding counts, and the
// order in which a transform is evaluated (numerics.md 3.2, 3.3). Lavin and Gray, "Fast Algorithms
// for Convolutional Neural Networks", CVPR 2016.
//   Y = AT [ sum_c (G g_c G') o (BT d_c B) ] A; input tile n x n, n = m + r - 1.
//
// The named evaluation, which the interpreter runs and the kernels are printed from:
//   M x M'   left product first, then the right one: t = M x, then row by row t M'
//   a row    its non-zero coefficients by ascending column: t = mul_rn(c0, v0), then t = fma_rn(c,
//            v, t); under a muladd order t = add_rn(t, mul_rn(c, v))
//   sums     over the channels under the contract's order, extents (C, 1, 1), rounded to f32
// Coefficients are rounded to the type of the transform: f32, or f64 for filters that are
// transformed in f64, whose results are then rounded to f32 once.
#pragma once

#include <cstdint>
#include <vector>

namespace driftc::ir {

struct Fraction {
  std::int32_t over = 0, under = 1;
  double value() const { return static_cast<double>(over) / static_cast<double>(under); }
};
struct FractionMatrix {
  int rows = 0, columns = 0;
  std::vector<Fraction> values;
  const Fraction& at(int r, int c) const {
    return values[static_cast<std::size_t>(r * columns + c)];
  }
};

struct WinogradMatrices {
  int m = 0, r = 3;
  FractionMatrix bt, g, at;  // n x n, n x r, m x n
  int n() const { return m + r - 1; }
};
// m = 2, 4 or 6 (points 0, +-1, +-2, +-1/2, infinity as far as needed).
const WinogradMatrices& winograd_matrices(int m);

// The non-zero coefficients of one row, by ascending column: the terms of its evaluation, in order.
struct TransformTerm {
  int column;
  double coefficient;  // nearest to the fraction; exact where that is a binary fraction
};
std::vector<TransformTerm> transform_row(const FractionMatrix& matrix, int row);

// Roundings of one leaf in a 1-D transform, the largest over the rows: (nonzeros - 1), plus 1 where
// a coefficient of the row is not +-2^k, plus 1 where one is not an f32.
int transform_roundings(const FractionMatrix& matrix);

}  // namespace driftc::ir
