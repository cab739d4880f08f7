// The vector loops of the exact reference. All are plain f64 arithmetic whose errors are bounded
// here; lanes never mix, so results do not depend on the target.
//
// Notation: u = 2^-53. A product of two f32 values is exact in f64 (48 bits, 2^-298 .. 2^256), so
// `MulAdd` is the same operation with and without a fused multiply-add.
#pragma once

#include <cstdint>

namespace driftc::runtime {

// to[i] = from[i].
inline constexpr std::int32_t kNoBits = 1000;
struct Widened {
  // Every element is a multiple of 2^lowest_bit; kNoBits: all are zero. Meaningless unless all are
  // finite.
  std::int32_t lowest_bit = kNoBits;
  double squares = 0;  // their sum, rounded
};
Widened widen(const float* from, std::int64_t count, double* to);
// to[i] += from[i]^2, two roundings.
void add_squares(const double* from, std::int64_t count, double* to);

// Sums of one row over a tile of at most 64 columns, and what is known about their errors.
struct ExactTile {
  std::int64_t columns = 0;
  const double* magnitude = nullptr;  // per column: at least the sum of the |terms|; 0: not wanted
  // A sum of terms that are multiples of g = 2^k is exact while magnitude <= 2^53 g.
  double exact_limit = 0;
  bool flush = false;        // subnormal results become zero of the same sign
  float* rounded = nullptr;  // out
  double* value =
      nullptr;  // out, may be null: f64 value and the largest distance of the exact sum to it
  double* radius = nullptr;
};

// First tier: `sums` came from a tree of f64 roundings with error <= relative_error * magnitude. A
// lane is decided when both ends of that interval round to the same f32. Returns the mask of
// undecided columns. `sums`, `magnitude`, `rounded`, `value`, `radius` extend to whole vectors.
std::uint64_t decide(const double* sums, double relative_error, const ExactTile& tile);

// Second tier, for the columns in `wanted`: each product p is split by adding it to H, which starts
// at M = 1.5 * 2^K with 2^(K-1) >= magnitude and so stays on the grid 2^(K-52):
//   H' = RN(H + p);  q = H' - H (exact, a multiple of the grid);  r = p - q (exact, |r| <=
//   2^(K-53));  L += r.
// H - M is the exact sum of the q, and L is off by at most n^2 u 2^(K-53), or exact while n
// 2^(K-53) <= 2^53 g. Writes the halves: high = H - M, low = L, bound.
struct CompensatedRow {
  const double* weights = nullptr;        // [n]
  const double* panel = nullptr;          // first column of the tile
  const std::int64_t* offsets = nullptr;  // [n], elements from `panel`
  std::int64_t n = 0;
  const double* start = nullptr;  // per column: one more term; null: none
  double granule = 0;             // g; 0: unknown
  double* high = nullptr;         // out, whole vectors
  double* low = nullptr;
  double* bound = nullptr;
};
void compensate(const CompensatedRow& row, const double* magnitude, std::int64_t columns,
                std::uint64_t wanted);
// Rounds high + low to f32 where the bound decides it. Returns the mask of undecided columns among
// `wanted`.
std::uint64_t settle(const CompensatedRow& row, std::uint64_t wanted, const ExactTile& tile);

}  // namespace driftc::runtime
