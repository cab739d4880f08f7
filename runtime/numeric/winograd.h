// Winograd matrices F(m, 3) with their rounding counts (numerics.md 3.2, 3.3), as exact fractions.
// Y = AT [ sum_c (G g_c G') o (BT d_c B) ] A; input tile n x n, n = m + r - 1.
#pragma once

#include <cstdint>
#include <vector>

namespace driftc::runtime {

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
const WinogradMatrices& winograd(int m);

// Roundings of one leaf in a 1-D transform, the largest over the rows: (nonzeros - 1), plus 1 where
// a coefficient of the row is not +-2^k, plus 1 where one is not an f32.
int transform_roundings(const FractionMatrix& matrix);

}  // namespace driftc::runtime
