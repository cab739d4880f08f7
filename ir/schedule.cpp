#include "ir/schedule.h"

#include <fmt/format.h>

#include <algorithm>

namespace driftc::ir {
namespace {

bool fused_winograd(Algorithm algorithm) {
  return algorithm == Algorithm::kWinograd2Fused || algorithm == Algorithm::kWinograd4Fused;
}
bool tiled(Algorithm algorithm) {
  return algorithm == Algorithm::kImplicitGemm || algorithm == Algorithm::kIm2col ||
         algorithm == Algorithm::kMatmul || winograd_tile(algorithm) != 0;
}
// Values per position and thread block row or column: a fused Winograd step holds whole transformed
// tiles.
int values_per_position(Algorithm algorithm) {
  if (!fused_winograd(algorithm)) return 1;
  const int n = winograd_tile(algorithm) + 2;
  return n * n;
}

struct Problem {
  std::int64_t rows = 1, columns = 1, groups = 1, taps = 1;
};

Problem problem_of(Algorithm algorithm, const Graph& body, const Node& node) {
  const auto shape = [&](std::size_t i) -> const Shape& {
    return body.value(node.operands[i]).type.shape;
  };
  const Shape& y = body.value(node.result).type.shape;
  switch (node.op) {
    case Op::kConv2d:
      if (const int m = winograd_tile(algorithm); m != 0)  // rows are tiles, the positions channels
        return {y[0] * ((y[2] + m - 1) / m) * ((y[3] + m - 1) / m), y[1] / node.integer("groups"),
                node.integer("groups") * (m + 2) * (m + 2), 1};
      return {y[0] * y[2] * y[3], y[1] / node.integer("groups"), node.integer("groups"),
              shape(1)[2] * shape(1)[3]};
    case Op::kConv1x1Matmul:
      return {y[0] * y[2] * y[3], y[1], 1, 1};
    case Op::kMatmul: {
      Problem p;
      p.columns = y[y.rank() - 1];
      p.rows = p.columns == 0 ? 0 : y.elements() / p.columns;
      // Rows of different batches share a block only when b is one matrix.
      if (shape(1).rank() > 2) {
        p.rows = y[y.rank() - 2];
        p.groups = p.rows * p.columns == 0 ? 1 : y.elements() / (p.rows * p.columns);
      }
      return p;
    }
    default:
      return {y[0], y[1], 1, 1};
  }
}

}  // namespace

Result<void> check_schedule(Algorithm algorithm, const Schedule& s) {
  if (!tiled(algorithm)) return {};
  auto refuse = [&](std::string why) {
    return internal_error(
        fmt::format("schedule {} of {}: {}", to_string(s), name_of(algorithm), why));
  };
  if (s.block_m < 1 || s.block_n < 1 || s.block_k < 1 || s.thread_m < 1 || s.thread_n < 1)
    return refuse("every extent of a tiled kernel is at least 1");
  if (s.block_m > 4096 || s.block_n > 4096 || s.block_k > 4096)
    return refuse("a block extent passes 4096");
  if (s.block_m % s.thread_m != 0 || s.block_n % s.thread_n != 0)
    return refuse("block extents are multiples of the thread's");
  const int threads = (s.block_m / s.thread_m) * (s.block_n / s.thread_n);
  if (threads < 32 || threads > 1024 || threads % 32 != 0)
    return refuse(fmt::format("{} threads; 32 to 1024 in steps of 32 are possible", threads));
  if (algorithm == Algorithm::kImplicitGemm && threads < s.block_m)
    return refuse(fmt::format("{} threads are fewer than block_m", threads));
  if (algorithm != Algorithm::kImplicitGemm && threads % s.block_m != 0)
    return refuse(fmt::format("{} threads are no multiple of block_m", threads));
  if (s.thread_m * s.thread_n > 256) return refuse("more than 256 sums per thread");
  if (fused_winograd(algorithm) && (s.thread_m != 1 || s.thread_n != 1))
    return refuse("a thread of a fused Winograd kernel computes one tile of one channel");
  if (4ll * s.block_k * values_per_position(algorithm) * (s.block_m + 1 + s.block_n) > 48 * 1024)
    return refuse("the tiles need more than 48 KiB of shared memory");
  if (s.vector != 1 && s.vector != 4) return refuse("vector is 1 or 4");
  return {};
}

bool lanes_along_columns(const Schedule& s, Layout layout) {
  const int m_threads = s.block_m / s.thread_m;
  return layout == Layout::kNhwc || (m_threads > 1 && m_threads % 2 == 1);
}

Result<void> check_mma_schedule(const Schedule& s, const MmaSpec& mma) {
  auto refuse = [&](std::string why) {
    return internal_error(
        fmt::format("schedule {} on tensor cores: {}", to_string(s), std::move(why)));
  };
  if (s.block_m < 1 || s.block_n < 1 || s.block_k < 1 || s.thread_m < 1 || s.thread_n < 1)
    return refuse("every extent of a tiled kernel is at least 1");
  if (s.block_m > 4096 || s.block_n > 4096 || s.block_k > 4096)
    return refuse("a block extent passes 4096");
  if (s.thread_m % 2 != 0 || s.thread_n % 4 != 0)
    return refuse("thread_m is even and thread_n a multiple of 4");
  if (s.block_m % (8 * s.thread_m) != 0 || s.block_n % (4 * s.thread_n) != 0)
    return refuse(fmt::format("block extents are multiples of a warp's {} x {}", 8 * s.thread_m,
                              4 * s.thread_n));
  const int per_word = mma.dtype == "tf32" ? 1 : 2;
  if (s.block_k % (8 * per_word) != 0)
    return refuse(fmt::format("block_k is a multiple of {}", 8 * per_word));
  const int words = s.block_k / per_word;
  const int threads = (s.block_m / s.thread_m) * (s.block_n / s.thread_n);
  if (threads > 1024) return refuse(fmt::format("{} threads; at most 1024 are possible", threads));
  if (threads % s.block_m != 0 || threads % words != 0 || s.block_m % (threads / words) != 0)
    return refuse(fmt::format("{} threads do not divide the loads of {} rows of {} words", threads,
                              s.block_m, words));
  if (s.thread_m * s.thread_n > 128) return refuse("more than 128 sums per thread");
  if (4ll * (words + 4) * (s.block_m + s.block_n) > 48 * 1024)
    return refuse("the tiles need more than 48 KiB of shared memory");
  return {};
}

namespace {

// Warps of 32 x 32 outputs, less where the problem is smaller; rows of 64 bytes.
Schedule mma_schedule(const Problem& p, const MmaSpec& mma) {
  Schedule s;
  s.block_m = p.rows <= 32 ? 32 : 64;
  s.block_n = p.columns <= 16 ? 16 : p.columns <= 32 ? 32 : 64;
  s.thread_m = 4;
  s.thread_n = s.block_n == 16 ? 4 : 8;
  s.block_k = mma.dtype == "tf32" ? 16 : 32;
  return s;
}

// Of more than 64 columns: the tile that leaves the fewest of its columns empty, the largest of
// those.
int column_tile(std::int64_t columns) {
  const auto covered = [&](int tile) { return (columns + tile - 1) / tile * tile; };
  int best = 128;
  for (const int tile : {112, 96, 80, 64})
    if (covered(tile) < covered(best)) best = tile;
  return best;
}

// Images of 14x14 and 7x7 pixels end in the middle of a tile of 64, and a quarter of its sums are
// nobody's. Seven threads cover 49 or 98 of their pixels, 32 lanes along the output channels; there
// are as many blocks as before, and a thread has fewer sums.
void cover_small_images(const Problem& p, Schedule& s) {
  const auto covered = [&](std::int64_t tile) { return (p.rows + tile - 1) / tile * tile; };
  const bool whole = p.columns >= 128 && covered(49) < covered(98);
  const int rows = whole ? 49 : 98, columns = whole ? 128 : 64;
  const std::int64_t usual = covered(s.block_m);
  if (s.block_m != 64 || p.columns < columns || 8 * (usual - covered(rows)) < usual) return;
  s.block_m = rows;
  s.block_n = columns;
  s.thread_m = rows / 7;
  s.thread_n = columns / 32;
  s.vector = 4;
}

}  // namespace

Schedule default_schedule(Algorithm algorithm, const Graph& body, const ReductionOrder& order,
                          Layout layout, int /*sm_count*/) {
  Schedule s;
  const Node* node = reduction_node(body);
  if (!tiled(algorithm) || node == nullptr) return s;
  const Problem p = problem_of(algorithm, body, *node);
  if (order.arith == Arith::kMma) return mma_schedule(p, order.mma);
  if (fused_winograd(algorithm)) return {16, 16, 8, 1, 1, 1};
  const bool conv = algorithm == Algorithm::kImplicitGemm || algorithm == Algorithm::kIm2col;
  // Threads in x run along what is contiguous in the result; that side is 16 threads wide.
  const bool columns_fast = winograd_tile(algorithm) != 0            ? false
                            : conv || node->op == Op::kConv1x1Matmul ? layout == Layout::kNhwc
                                                                     : true;

  // A matrix-vector product: no reuse to tile for, lanes along the columns.
  if (!conv && columns_fast && p.rows <= 4) return {1, 128, 32, 1, 1, 1};

  s.block_m = p.rows <= 16 ? 16 : p.rows <= 32 ? 32 : p.rows < 1024 ? 64 : 128;
  s.block_n = p.columns <= 16 ? 16 : p.columns <= 32 ? 32 : p.columns < 128 ? 64 : 128;
  if (algorithm == Algorithm::kImplicitGemm && p.columns > 64) s.block_n = column_tile(p.columns);
  // Large tiles stage their weights four at a time; a step of a small one has too few vectors to
  // give every thread as many, and those of 80 columns do not end with a group of threads
  // (measured on the PTX executor; docs/performance.md).
  if (s.block_n == 128 ? s.block_m >= 64 : s.block_m == 128 && s.block_n <= 64) s.vector = 4;
  // The side of the x threads is 16 wide; the other gives each thread four outputs, or up to eight
  // in large tiles.
  const int fast = columns_fast ? s.block_n : s.block_m,
            slow = columns_fast ? s.block_m : s.block_n;
  const int thread_fast = fast / 16;
  int thread_slow = slow >= 64 ? slow / 16 : slow >= 32 ? 4 : 2;
  // Threads have to be a multiple of block_m: thread_m * thread_n divides block_n.
  while (thread_slow > 1 && s.block_n % (thread_fast * thread_slow) != 0) thread_slow /= 2;
  s.thread_m = columns_fast ? thread_slow : thread_fast;
  s.thread_n = columns_fast ? thread_fast : thread_slow;
  while (s.block_n % (s.thread_m * s.thread_n) != 0) (columns_fast ? s.thread_n : s.thread_m) /= 2;

  if (algorithm == Algorithm::kImplicitGemm) cover_small_images(p, s);

  const int threads = (s.block_m / s.thread_m) * (s.block_n / s.thread_n);
  const auto fit = [&](std::int64_t positions) {
    return 4 * positions * (s.block_m + 1 + s.block_n) <= 48 * 1024;
  };
  if (algorithm == Algorithm::kImplicitGemm && order.walk == Walk::kCrs && p.taps <= 49 &&
      fit(p.taps)) {
    // Whole channels, at least 32 positions, each group of threads with as many channels as the
    // others.
    std::int64_t channels = std::max(1, threads / s.block_m);
    while (channels * p.taps < 32) channels *= 2;
    while (channels > 1 && !fit(channels * p.taps)) channels /= 2;
    s.block_k = static_cast<int>(channels * p.taps);
    return s;
  }
  // A step does not go beyond a run of channels: longer ones are left for longer runs.
  const ReductionExtent extent = reduction_extent(body, *node);
  std::int64_t run = algorithm == Algorithm::kIm2col ? extent.positions() : extent.c;
  if (order.walk == Walk::kTiledCrs && algorithm != Algorithm::kIm2col)
    run = std::min<std::int64_t>(run, order.channel_tile);
  s.block_k = run >= 32 && p.taps <= 25 ? 32 : 16;
  return s;
}

}  // namespace driftc::ir
