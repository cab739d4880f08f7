#include "runtime/numeric/exact.h"

#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>

#include "ir/support/assert.h"
#include "ir/support/round.h"
#include "runtime/numeric/exact_kernel.h"
#include "runtime/numeric/interval.h"
#include "runtime/numeric/norms.h"
#include "runtime/sums/sum_engine.h"

namespace driftc::runtime {
namespace {

constexpr std::int64_t kTile = kColumnSlack;  // no tile is wider
constexpr int kChunk = 64;                    // terms of one chain of the first tier

// The tree of the first tier: chains of kChunk terms, their sums added in order.
ir::ReductionOrder double_order(std::int64_t positions, bool starts_with_addend) {
  ir::ReductionOrder order;
  order.walk = ir::Walk::kCrs;
  if (positions >= 2 * kChunk) order.tile = kChunk;
  order.arith = ir::Arith::kFma;
  if (starts_with_addend) order.bias = ir::BiasPoint::kFirst;
  return order;
}
// Its error over the sum of magnitudes: h roundings on the longest path, gamma_h = h u / (1 - h u),
// u = 2^-53 (numerics.md 4.1). The slack covers gamma's denominator, the norms' own roundings and
// those of decide().
double double_error(std::int64_t positions) {
  const std::int64_t height =
      positions >= 2 * kChunk ? kChunk + (positions + kChunk - 1) / kChunk : positions;
  return mul_rn(static_cast<double>(height + 6), 0x1.0001p-53);
}

struct Counters {
  std::atomic<std::int64_t> compensated = 0, kulisch = 0;
};

// One product: rows and columns in f64 with what is known about them.
struct Operands {
  const SumProblem& problem;
  const SumProduct& product;
  Scratch<double> rows, columns;
  std::vector<double> row_norms;       // Euclidean, rounded up
  std::vector<std::int32_t> row_bits;  // lowest bit set in the row
  std::int32_t column_bits = kNoBits;
  Scratch<double> column_norms;  // [image][group][pixel], rounded up
  std::vector<double> granules;  // per row: all terms of its sums are multiples of it
};

// Receives tiles of f64 sums and makes the rounded results.
class ExactSink final : public SumSink<double> {
 public:
  ExactSink(const Operands& operands, const WindowColumns<double>& columns,
            std::span<const std::int64_t> offsets, std::span<const float> addend,
            const ExactSettings& settings, ExactResult& result, Counters& counters)
      : operands_(operands),
        problem_(operands.problem),
        columns_(columns),
        offsets_(offsets),
        addend_(addend),
        settings_(settings),
        counters_(counters),
        relative_error_(double_error(problem_.positions())),
        plain_(problem_.plain()) {
    rounded_ = result.value.data_mut<float>().data() + operands.product.out_offset;
    if (settings.intervals) {
      value64_ = result.value64.data_mut<double>().data() + operands.product.out_offset;
      radius_ = result.radius.data_mut<double>().data() + operands.product.out_offset;
    }
  }

  void store(std::int64_t row, std::int64_t column, const SumBlock<double>& block) override {
    Tile tile;
    tile.column = column;
    tile.count = block.columns;
    columns_.for_runs(column, block.columns,
                      [&](std::int64_t at, const Pixel& pixel, std::int64_t length) {
                        tile.runs[tile.run_count++] = {at - column, pixel, length};
                      });
    if (tile.run_count == 0) return;
    for (std::int64_t r = 0; r < block.rows; ++r) store_row(row + r, block.row(r), tile);
  }

 private:
  struct Run {
    std::int64_t at;
    Pixel pixel;
    std::int64_t length;
  };
  struct Tile {
    std::int64_t column, count;
    std::array<Run, kTile> runs;
    std::size_t run_count = 0;
  };
  // The outputs of one row over the tile; whole vectors.
  struct Row {
    alignas(64) std::array<double, kTile> magnitude, start, high, low, bound, value, radius;
    alignas(64) std::array<float, kTile> rounded;
  };

  SumScale scale_at(std::int64_t row, std::int64_t pixel) const {
    SumScale scale;
    scale.alpha = problem_.alpha;
    if (!addend_.empty()) {
      scale.addend_a = problem_.addend_at(row, pixel);
      scale.addend_b = problem_.beta;
    }
    scale.count = problem_.count_at(pixel);
    return scale;
  }

  void store_row(std::int64_t row, const double* sums, const Tile& tile) {
    const std::int64_t group = row / problem_.group_rows();
    const double row_norm = operands_.row_norms[static_cast<std::size_t>(row)];
    const bool starts = plain_ && !addend_.empty();
    Row out;
    // Columns that are no output: a magnitude of 0 decides them.
    std::fill_n(out.magnitude.data(), kTile, 0.0);
    if (starts) std::fill_n(out.start.data(), kTile, 0.0);
    std::uint64_t valid = 0;
    for (std::size_t i = 0; i < tile.run_count; ++i) {
      const Run& run = tile.runs[i];
      const double* norms =
          operands_.column_norms.data() +
          (run.pixel.image * problem_.groups + group) * problem_.window.out_pixels() +
          run.pixel.position;
      double* magnitude = out.magnitude.data() + run.at;
      for (std::int64_t j = 0; j < run.length; ++j) magnitude[j] = mul_rn(norms[j], row_norm);
      if (starts)
        for (std::int64_t j = 0; j < run.length; ++j) {
          const double start = problem_.addend_at(row, run.pixel.position + j);
          out.start[static_cast<std::size_t>(run.at + j)] = start;
          magnitude[j] = add_rn(magnitude[j], std::abs(start));
        }
      valid |= (run.length >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << run.length) - 1)
               << run.at;
    }

    ExactTile exact;
    exact.columns = tile.count;
    exact.magnitude = out.magnitude.data();
    const double granule = operands_.granules[static_cast<std::size_t>(row)];
    exact.exact_limit = mul_rn(granule, 0x1p53);
    exact.flush = settings_.operands == Hypothesis::kFtz;
    exact.rounded = out.rounded.data();
    if (settings_.intervals) {
      exact.value = out.value.data();
      exact.radius = out.radius.data();
    }
    std::uint64_t undecided = plain_ ? decide(sums, relative_error_, exact) & valid
                                     : scale_row(row, tile, sums, exact, valid, out);
    if (settings_.first_tier != ExactTier::kDouble) undecided |= finite(sums, tile, valid);
    if (undecided != 0) resolve(row, group, tile, granule, starts, exact, undecided, out);

    for (std::size_t i = 0; i < tile.run_count; ++i) {
      const Run& run = tile.runs[i];
      const std::int64_t to =
          (run.pixel.image * problem_.channels_out + row) * problem_.window.out_pixels() +
          run.pixel.position;
      std::copy_n(out.rounded.data() + run.at, run.length, rounded_ + to);
      if (!settings_.intervals) continue;
      std::copy_n(out.value.data() + run.at, run.length, value64_ + to);
      std::copy_n(out.radius.data() + run.at, run.length, radius_ + to);
    }
  }

  static std::uint64_t finite(const double* sums, const Tile& tile, std::uint64_t valid) {
    std::uint64_t out = 0;
    for (std::int64_t j = 0; j < tile.count; ++j)
      if (std::isfinite(sums[j])) out |= std::uint64_t{1} << j;
    return out & valid;
  }
  template <class F>
  static void for_lanes(const Tile& tile, std::uint64_t lanes, const F& fn) {
    for (std::size_t i = 0; i < tile.run_count; ++i) {
      const Run& run = tile.runs[i];
      for (std::int64_t j = 0; j < run.length; ++j)
        if (((lanes >> (run.at + j)) & 1) != 0)
          fn(static_cast<std::size_t>(run.at + j), run.pixel.position + j);
    }
  }
  // Takes the interval of one output; whether it is decided.
  bool take(const Interval& interval, const ExactTile& exact, std::size_t lane) const {
    if (exact.value != nullptr) {
      exact.value[lane] = interval.head;
      exact.radius[lane] = mul_rn(add_rn(std::abs(interval.tail), interval.bound), 0x1.0001p0);
    }
    const auto rounded = rounded_if_decided(interval, exact.flush);
    if (rounded) exact.rounded[lane] = *rounded;
    return rounded.has_value();
  }
  // The first tier where the sum is scaled or divided.
  std::uint64_t scale_row(std::int64_t row, const Tile& tile, const double* sums,
                          const ExactTile& exact, std::uint64_t valid, Row& out) const {
    std::uint64_t undecided = 0;
    for_lanes(tile, valid, [&](std::size_t j, std::int64_t pixel) {
      const SumScale scale = scale_at(row, pixel);
      const double f64 = div_rn(
          add_rn(mul_rn(sums[j], static_cast<double>(scale.alpha)),
                 mul_rn(static_cast<double>(scale.addend_a), static_cast<double>(scale.addend_b))),
          static_cast<double>(scale.count));
      if (!std::isfinite(f64)) {
        out.rounded[j] = f64 == f64 ? to_f32_rn(f64) : canonical_nan();
        out.value[j] = f64;
        out.radius[j] = 0;
        return;
      }
      const double magnitude = exact.magnitude[j];
      const double error = magnitude > exact.exact_limit ? mul_rn(magnitude, relative_error_) : 0.0;
      if (!take(scaled({sums[j], 0, error}, scale), exact, j)) undecided |= std::uint64_t{1} << j;
    });
    return undecided;
  }

  // The second and third tier.
  void resolve(std::int64_t row, std::int64_t group, const Tile& tile, double granule, bool starts,
               const ExactTile& exact, std::uint64_t undecided, Row& out) {
    const std::int64_t positions = problem_.positions();
    CompensatedRow work;
    work.weights = operands_.rows.data() + (problem_.has_products ? row * positions : 0);
    work.panel = columns_.storage.data() +
                 group * problem_.group_channels() * columns_.channel_stride + tile.column;
    work.offsets = offsets_.data();
    work.n = positions;
    work.start = starts ? out.start.data() : nullptr;
    work.granule = granule;
    work.high = out.high.data();
    work.low = out.low.data();
    work.bound = out.bound.data();
    if (settings_.first_tier != ExactTier::kKulisch) {
      counters_.compensated.fetch_add(std::popcount(undecided), std::memory_order_relaxed);
      compensate(work, exact.magnitude, tile.count, undecided);
      if (plain_) {
        undecided = settle(work, undecided, exact);
      } else {
        std::uint64_t left = 0;
        for_lanes(tile, undecided, [&](std::size_t j, std::int64_t pixel) {
          if (!take(scaled({out.high[j], out.low[j], out.bound[j]}, scale_at(row, pixel)), exact,
                    j))
            left |= std::uint64_t{1} << j;
        });
        undecided = left;
      }
    }
    if (undecided == 0) return;
    counters_.kulisch.fetch_add(std::popcount(undecided), std::memory_order_relaxed);
    for_lanes(tile, undecided, [&](std::size_t j, std::int64_t pixel) {
      WideSum sum;
      // Both hold f32 values, so the conversions are exact.
      for (std::int64_t p = 0; p < positions; ++p)
        sum.add_product(
            to_f32_rn(work.weights[p]),
            to_f32_rn(
                work.panel[offsets_[static_cast<std::size_t>(p)] + static_cast<std::int64_t>(j)]));
      const SumScale scale = scale_at(row, pixel);
      float value = round_to_f32(sum, scale);
      if (exact.flush && std::abs(value) < std::numeric_limits<float>::min())
        value = std::copysign(0.0f, value);
      exact.rounded[j] = value;
      if (exact.value == nullptr) return;
      exact.value[j] = round_to_f64(sum, scale);
      exact.radius[j] = mul_rn(std::abs(exact.value[j]), 0x1p-53);
    });
  }

  const Operands& operands_;
  const SumProblem& problem_;
  const WindowColumns<double>& columns_;
  std::span<const std::int64_t> offsets_;
  std::span<const float> addend_;
  const ExactSettings& settings_;
  Counters& counters_;
  double relative_error_;
  bool plain_;
  float* rounded_ = nullptr;
  double *value64_ = nullptr, *radius_ = nullptr;
};

class Runner {
 public:
  Runner(const SumProblem& problem, const ExactSettings& settings, ThreadPool& pool)
      : problem_(problem), settings_(settings), pool_(pool) {}

  ExactResult run() {
    result_.value = ir::Tensor(ir::DType::kF32, problem_.result);
    if (settings_.intervals) {
      result_.value64 = ir::Tensor(ir::DType::kF64, problem_.result);
      result_.radius = ir::Tensor(ir::DType::kF64, problem_.result);
    }
    if (problem_.addend.defined()) {
      addend_ = problem_.addend.data<float>();
      Scratch<double> wide(addend_.size());
      addend_bits_ =
          widen(addend_.data(), static_cast<std::int64_t>(addend_.size()), wide.data()).lowest_bit;
      start_ = std::move(wide);
    }
    for (const SumProduct& product : problem_.products) multiply(product);
    result_.compensated = counters_.compensated;
    result_.kulisch = counters_.kulisch;
    return std::move(result_);
  }

 private:
  void widen_rows(Operands& to) const {
    const std::int64_t positions = problem_.positions();
    const std::int64_t rows = problem_.has_products ? problem_.channels_out : 1;
    to.rows = Scratch<double>(static_cast<std::size_t>(rows * positions));
    to.row_norms.assign(static_cast<std::size_t>(problem_.channels_out), 0.0);
    to.row_bits.assign(static_cast<std::size_t>(problem_.channels_out), 0);
    if (!problem_.has_products) {
      std::fill_n(to.rows.data(), positions, 1.0);
      std::fill(to.row_norms.begin(), to.row_norms.end(),
                norm_from(static_cast<double>(positions)));
      return;
    }
    const float* from = problem_.rows.data<float>().data() + to.product.rows_offset;
    for_each(pool_, rows, rows * positions, [&](std::size_t row, int) {
      double* wide = to.rows.data() + static_cast<std::int64_t>(row) * positions;
      const Widened about =
          widen(from + static_cast<std::int64_t>(row) * positions, positions, wide);
      to.row_bits[row] = about.lowest_bit;
      to.row_norms[row] = norm_from(about.squares);
    });
  }
  void widen_columns(Operands& to) const {
    constexpr std::int64_t kPiece = 32'768;
    const Window& w = problem_.window;
    const std::int64_t count = w.images * w.channels * w.height * w.width;
    to.columns = Scratch<double>(static_cast<std::size_t>(count));
    const float* from = problem_.columns.data<float>().data() + to.product.columns_offset;
    const std::int64_t pieces = (count + kPiece - 1) / kPiece;
    std::vector<std::int32_t> bits(static_cast<std::size_t>(pieces), kNoBits);
    for_each(pool_, pieces, count, [&](std::size_t i, int) {
      const std::int64_t begin = static_cast<std::int64_t>(i) * kPiece;
      bits[i] = widen(from + begin, std::min(kPiece, count - begin), to.columns.data() + begin)
                    .lowest_bit;
    });
    for (std::int32_t b : bits) to.column_bits = std::min(to.column_bits, b);
    to.column_norms = window_norms(w, problem_.groups, to.columns.data(), pool_);
  }

  void multiply(const SumProduct& product) {
    Operands operands{problem_, product, {}, {}, {}, {}, kNoBits, {}, {}};
    widen_rows(operands);
    widen_columns(operands);
    const Window& w = problem_.window;
    const bool starts = problem_.plain() && !addend_.empty();
    for (std::int32_t bits : operands.row_bits)
      operands.granules.push_back(
          std::ldexp(1.0, std::min(bits + operands.column_bits, starts ? addend_bits_ : kNoBits)));
    const SumPlan plan = make_plan(ir::denote(double_order(problem_.positions(), starts),
                                              {problem_.group_channels(), w.kernel_h, w.kernel_w}));
    SumRows<double> rows;
    rows.a = operands.rows.data();
    rows.groups = problem_.groups;
    rows.rows = problem_.group_rows();
    rows.group_stride = rows.rows * problem_.positions();
    rows.row_stride = problem_.has_products ? problem_.positions() : 0;
    const SumEngine<double> engine(plan, SumArith::kFma, false, rows, pool_);
    for_each_panel<double>(
        w, operands.columns.data(), pool_,
        [&](const WindowColumns<double>& panel) { run_panel(operands, engine, panel); });
  }
  void run_panel(const Operands& operands, const SumEngine<double>& engine,
                 const WindowColumns<double>& panel) {
    std::vector<std::int64_t> offsets;
    for (std::int64_t c = 0; c < problem_.group_channels(); ++c)
      for (std::int64_t tap : panel.tap_offsets) offsets.push_back(c * panel.channel_stride + tap);
    SumColumns<double> columns;
    columns.b = panel.storage.data();
    columns.columns = panel.columns;
    columns.group_stride = problem_.group_channels() * panel.channel_stride;
    columns.offsets = offsets;
    SumStart<double> start;
    if (problem_.plain() && !addend_.empty()) {
      // A start that varies with the pixel belongs to a product, whose columns are its pixels.
      DRIFTC_ASSERT(
          problem_.addend_pixel_stride == 0 || panel.columns == problem_.window.out_pixels(),
          "columns are not pixels");
      start = {start_.data(), problem_.addend_row_stride, problem_.addend_pixel_stride};
    }
    ExactSink sink(operands, panel, offsets, addend_, settings_, result_, counters_);
    engine.run(columns, start, sink);
  }

  const SumProblem& problem_;
  const ExactSettings& settings_;
  ThreadPool& pool_;
  ExactResult result_;
  Counters counters_;
  std::span<const float> addend_;
  std::int32_t addend_bits_ = kNoBits;
  Scratch<double> start_;
};

}  // namespace

ExactResult exact_value(SumProblem problem, const ExactSettings& settings, ThreadPool& pool) {
  // Ones of pooling are no operands to round; its input counts as one only for flushing.
  const bool flush = settings.operands == Hypothesis::kFtz;
  if (problem.has_products || flush)
    problem.columns = rounded(problem.columns, settings.operands, pool);
  if (problem.has_products) problem.rows = rounded(problem.rows, settings.operands, pool);
  if (flush && problem.addend.defined())
    problem.addend = rounded(problem.addend, Hypothesis::kFtz, pool);
  return Runner(problem, settings, pool).run();
}

ExactResult exact_value(const ir::Graph& graph, ir::NodeId node,
                        std::span<const ir::Tensor> operands, const ExactSettings& settings,
                        ThreadPool& pool) {
  return exact_value(sum_problem(graph, node, operands), settings, pool);
}

}  // namespace driftc::runtime
