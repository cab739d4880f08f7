#include "ir/winograd.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "ir/support/assert.h"

namespace driftc::ir {
namespace {

// Rows of integers over one denominator per row: {denominator, v0, v1, ...}.
FractionMatrix matrix(int columns, const std::vector<std::vector<std::int32_t>>& rows) {
  FractionMatrix out;
  out.rows = static_cast<int>(rows.size());
  out.columns = columns;
  for (const auto& row : rows)
    for (std::size_t i = 1; i < row.size(); ++i) out.values.push_back({row[i], row[0]});
  return out;
}

WinogradMatrices f2() {
  WinogradMatrices out;
  out.m = 2;
  out.bt = matrix(4, {{1, 1, 0, -1, 0}, {1, 0, 1, 1, 0}, {1, 0, -1, 1, 0}, {1, 0, 1, 0, -1}});
  out.g = matrix(3, {{1, 1, 0, 0}, {2, 1, 1, 1}, {2, 1, -1, 1}, {1, 0, 0, 1}});
  out.at = matrix(4, {{1, 1, 1, 1, 0}, {1, 0, 1, -1, -1}});
  return out;
}
WinogradMatrices f4() {
  WinogradMatrices out;
  out.m = 4;
  out.bt = matrix(6, {{1, 4, 0, -5, 0, 1, 0},
                      {1, 0, -4, -4, 1, 1, 0},
                      {1, 0, 4, -4, -1, 1, 0},
                      {1, 0, -2, -1, 2, 1, 0},
                      {1, 0, 2, -1, -2, 1, 0},
                      {1, 0, 4, 0, -5, 0, 1}});
  out.g = matrix(
      3,
      {{4, 1, 0, 0}, {6, -1, -1, -1}, {6, -1, 1, -1}, {24, 1, 2, 4}, {24, 1, -2, 4}, {1, 0, 0, 1}});
  out.at = matrix(6, {{1, 1, 1, 1, 1, 1, 0},
                      {1, 0, 1, -1, 2, -2, 0},
                      {1, 0, 1, 1, 4, 4, 0},
                      {1, 0, 1, -1, 8, -8, 1}});
  return out;
}
WinogradMatrices f6() {
  WinogradMatrices out;
  out.m = 6;
  out.bt = matrix(8, {{4, 4, 0, -21, 0, 21, 0, -4, 0},
                      {4, 0, 4, 4, -17, -17, 4, 4, 0},
                      {4, 0, -4, 4, 17, -17, -4, 4, 0},
                      {4, 0, 2, 1, -10, -5, 8, 4, 0},
                      {4, 0, -2, 1, 10, -5, -8, 4, 0},
                      {2, 0, 4, 8, -5, -10, 1, 2, 0},
                      {2, 0, -4, 8, 5, -10, -1, 2, 0},
                      {4, 0, -4, 0, 21, 0, -21, 0, 4}});
  out.g = matrix(3, {{1, 1, 0, 0},
                     {9, -2, -2, -2},
                     {9, -2, 2, -2},
                     {90, 1, 2, 4},
                     {90, 1, -2, 4},
                     {45, 32, 16, 8},
                     {45, 32, -16, 8},
                     {1, 0, 0, 1}});
  out.at = matrix(8, {{1, 1, 1, 1, 1, 1, 1, 1, 0},
                      {2, 0, 2, -2, 4, -4, 1, -1, 0},
                      {4, 0, 4, 4, 16, 16, 1, 1, 0},
                      {8, 0, 8, -8, 64, -64, 1, -1, 0},
                      {16, 0, 16, 16, 256, 256, 1, 1, 0},
                      {32, 0, 32, -32, 1024, -1024, 1, -1, 32}});
  return out;
}

}  // namespace

const WinogradMatrices& winograd_matrices(int m) {
  static const WinogradMatrices two = f2(), four = f4(), six = f6();
  DRIFTC_ASSERT(m == 2 || m == 4 || m == 6, "no such Winograd tile");
  return m == 2 ? two : m == 4 ? four : six;
}

std::vector<TransformTerm> transform_row(const FractionMatrix& matrix, int row) {
  std::vector<TransformTerm> terms;
  for (int c = 0; c < matrix.columns; ++c)
    if (matrix.at(row, c).over != 0) terms.push_back({c, matrix.at(row, c).value()});
  return terms;
}

int transform_roundings(const FractionMatrix& matrix) {
  int most = 0;
  for (int r = 0; r < matrix.rows; ++r) {
    int nonzero = 0;
    bool scales = false, inexact = false;
    for (int c = 0; c < matrix.columns; ++c) {
      const Fraction& f = matrix.at(r, c);
      if (f.over == 0) continue;
      ++nonzero;
      // A binary fraction is an integer times 2^-20 here; a power of two has one bit set.
      const double scaled = std::abs(f.value()) * 0x1p20;
      const bool binary = scaled == static_cast<double>(static_cast<std::int64_t>(scaled));
      inexact |= !binary;
      scales |= !binary || std::popcount(static_cast<std::uint64_t>(scaled)) != 1;
    }
    if (nonzero > 0) most = std::max(most, nonzero - 1 + (scales ? 1 : 0) + (inexact ? 1 : 0));
  }
  return most;
}

}  // namespace driftc::ir
