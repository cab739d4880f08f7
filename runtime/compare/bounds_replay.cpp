// replay_bound: the tree of a contract run again with the rounding of every partial sum beside it.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <memory>

#include "ir/support/assert.h"
#include "ir/support/round.h"
#include "runtime/compare/bounds.h"
#include "runtime/compare/bounds_kernel.h"
#include "runtime/numeric/norms.h"

namespace driftc::runtime::compare {
namespace {

constexpr std::size_t kMostLanes = 8;  // f64 lanes of the widest vectors

// A value with the error that its roundings can have made.
struct Tracked {
  float value = 0;
  double bound = 0, variance = 0;

  // One more rounding, to this value; exact where the caller knows so.
  void round_to(float next, bool exact) {
    value = next;
    if (exact) return;
    const double power =
        std::max(std::ldexp(1.0, std::isfinite(next) ? std::ilogb(next == 0 ? 1e-45f : next) : 128),
                 0x1p-126);
    const double ulp = mul_rn(power, 0x1p-23);
    bound = add_rn(bound, mul_rn(ulp, 0.5));
    variance = add_rn(variance, div_rn(mul_rn(ulp, ulp), 12));
  }
  void scale(double factor) {
    bound = mul_rn(bound, std::abs(factor));
    variance = mul_rn(variance, mul_rn(factor, factor));
  }
};

template <class T>
class Replayer {
 public:
  Replayer(const SumProblem& problem, const ir::ReductionOrder& order, ir::BiasPoint bias,
           bool contract, ThreadPool& pool, std::uint64_t seed)
      : problem_(problem),
        order_(order),
        bias_(bias),
        contract_(contract),
        pool_(pool),
        seed_(seed) {}

  Replay run() {
    out_.value = ir::Tensor(ir::DType::kF32, problem_.result);
    out_.bound.value = ir::Tensor(ir::DType::kF64, problem_.result);
    out_.bound.kind = BoundKind::kRunning;
    out_.bound.source = "partial sums of " + ir::to_string(order_);
    out_.variance = ir::Tensor(ir::DType::kF64, problem_.result);
    values_ = out_.value.template data_mut<float>().data();
    bounds_ = out_.bound.value.template data_mut<double>().data();
    variances_ = out_.variance.template data_mut<double>().data();
    for (const SumProduct& product : problem_.products) {
      product_ = &product;
      const float* columns = problem_.columns.data<float>().data() + product.columns_offset;
      if (!order_.skip) {
        const SumPlan all = plan({});
        for_each_panel<float>(problem_.window, columns, pool_,
                              [&](const WindowColumns<float>& panel) { run_panel(all, panel); });
      } else {
        run_by_mask(columns);
      }
    }
    return std::move(out_);
  }

 private:
  SumPlan plan(std::span<const bool> padded) const {
    const Window& w = problem_.window;
    return make_plan(order_, {problem_.group_channels(), w.kernel_h, w.kernel_w}, padded, seed_,
                     sizeof(T) == 8);
  }
  // `.skip`: pixels whose windows reach other taps have trees of their own
  // (runtime/eager/window_sums.cpp).
  void run_by_mask(const float* columns) {
    const Window& w = problem_.window;
    std::map<std::pair<TapRange, TapRange>, std::vector<Pixel>> by_mask;
    for (std::int64_t n = 0; n < w.images; ++n)
      for (std::int64_t y = 0; y < w.out_h; ++y)
        for (std::int64_t x = 0; x < w.out_w; ++x)
          by_mask[{inside_taps(y, w.stride_h, w.pad_top, w.dilation_h, w.kernel_h, w.height),
                   inside_taps(x, w.stride_w, w.pad_left, w.dilation_w, w.kernel_w, w.width)}]
              .push_back({n, y * w.out_w + x});
    const auto positions = static_cast<std::size_t>(problem_.positions());
    const auto padded = std::make_unique<bool[]>(positions);
    for (const auto& [mask, pixels] : by_mask) {
      for (std::size_t p = 0; p < positions; ++p) {
        const auto tap = static_cast<std::int64_t>(p) % w.taps(), r = tap / w.kernel_w,
                   s = tap % w.kernel_w;
        padded[p] = r < mask.first.first || r >= mask.first.last || s < mask.second.first ||
                    s >= mask.second.last;
      }
      const SumPlan masked = plan({padded.get(), positions});
      constexpr std::size_t kBatch = 1024;
      for (std::size_t i = 0; i < pixels.size(); i += kBatch)
        run_panel(masked,
                  gathered_columns(
                      w, columns,
                      std::vector<Pixel>(pixels.begin() + static_cast<std::ptrdiff_t>(i),
                                         pixels.begin() + static_cast<std::ptrdiff_t>(
                                                              std::min(pixels.size(), i + kBatch))),
                      pool_));
    }
  }

  void run_panel(const SumPlan& plan, const WindowColumns<float>& panel) {
    std::vector<std::int64_t> offsets;
    for (std::int64_t c = 0; c < problem_.group_channels(); ++c)
      for (std::int64_t tap : panel.tap_offsets) offsets.push_back(c * panel.channel_stride + tap);
    const std::int64_t lanes = replay_lanes(), blocks = (panel.columns + lanes - 1) / lanes;
    const std::size_t tile_size =
        static_cast<std::size_t>(plan.slots) * kReplayRows * static_cast<std::size_t>(lanes);
    const auto workers = static_cast<std::size_t>(pool_.threads());
    const Scratch<T> values(tile_size * workers);
    const Scratch<double> steps(tile_size * workers), squares(tile_size * workers);
    const std::int64_t operations = problem_.channels_out * panel.columns * problem_.positions();
    for_each(pool_, problem_.groups * blocks, operations, [&](std::size_t index, int worker) {
      const std::int64_t group = static_cast<std::int64_t>(index) / blocks;
      const std::int64_t column = static_cast<std::int64_t>(index) % blocks * lanes;
      const std::int64_t count = std::min(lanes, panel.columns - column);
      ReplayTile<T> tile;
      tile.panel =
          panel.storage.data() + group * problem_.group_channels() * panel.channel_stride + column;
      tile.offsets = offsets.data();
      tile.plan = &plan;
      tile.arith = sum_arith(order_.arith, problem_.has_products);
      const std::size_t scratch = tile_size * static_cast<std::size_t>(worker);
      tile.value = values.data() + scratch;
      tile.steps = steps.data() + scratch;
      tile.squares = squares.data() + scratch;
      std::array<T, kReplayRows * kMostLanes> start{};
      for (std::int64_t first = 0; first < problem_.group_rows(); first += kReplayRows) {
        const std::int64_t row = group * problem_.group_rows() + first;
        tile.row_count =
            static_cast<int>(std::min<std::int64_t>(kReplayRows, problem_.group_rows() - first));
        if (problem_.has_products)
          for (int r = 0; r < tile.row_count; ++r)
            tile.rows[r] = problem_.rows.data<float>().data() + product_->rows_offset +
                           (row + r) * problem_.positions();
        if (bias_ == ir::BiasPoint::kFirst && problem_.addend.defined()) {
          for_lanes(panel, column, count, [&](std::int64_t lane, const Pixel& pixel) {
            for (int r = 0; r < tile.row_count; ++r)
              start[static_cast<std::size_t>(r * lanes + lane)] =
                  problem_.addend_at(row + r, pixel.position);
          });
          tile.start = start.data();
        }
        replay(tile);
        const std::size_t result =
            static_cast<std::size_t>(plan.result) * kReplayRows * static_cast<std::size_t>(lanes);
        for_lanes(panel, column, count, [&](std::int64_t lane, const Pixel& pixel) {
          for (int r = 0; r < tile.row_count; ++r) {
            const std::size_t at = result + static_cast<std::size_t>(r * lanes + lane);
            finish(tile.value[at], tile.steps[at], tile.squares[at], row + r, pixel);
          }
        });
      }
    });
  }
  template <class F>
  static void for_lanes(const WindowColumns<float>& panel, std::int64_t column, std::int64_t count,
                        const F& fn) {
    panel.for_runs(column, count, [&](std::int64_t at, const Pixel& pixel, std::int64_t length) {
      for (std::int64_t i = 0; i < length; ++i)
        fn(at - column + i, Pixel{pixel.image, pixel.position + i});
    });
  }

  // What follows the sum, as runtime/eager/{conv,matmul,pool}.cpp compute it.
  void finish(T sum, double steps, double squares, std::int64_t row, const Pixel& pixel) const {
    // An ulp of 1 is 2^-23 or 2^-52; the slack covers the sums' own roundings.
    constexpr double kUlp = sizeof(T) == 4 ? 0x1p-23 : 0x1p-52, kSlack = 1 + 0x1p-24;
    Tracked t;
    t.bound = mul_rn(steps, 0.5 * kUlp * kSlack);
    t.variance = mul_rn(squares, kUlp * kUlp / 12);
    const float addend = problem_.addend.defined() ? problem_.addend_at(row, pixel.position) : 0.0f;
    const bool late = problem_.addend.defined() && bias_ != ir::BiasPoint::kFirst;
    if (late && bias_ == ir::BiasPoint::kLast && sizeof(T) == 8) {
      const double last = add_rn(static_cast<double>(sum), static_cast<double>(addend));
      const double ulp =
          std::ldexp(0x1p-52, last == 0 || !std::isfinite(last) ? -1000 : std::ilogb(last));
      t.bound = add_rn(t.bound, mul_rn(ulp, 0.5));
      t.variance = add_rn(t.variance, div_rn(mul_rn(ulp, ulp), 12));
      t.round_to(to_f32_rn(last), static_cast<double>(to_f32_rn(last)) == last);
    } else {
      const float stored = static_cast<float>(sum);
      t.round_to(stored, static_cast<T>(stored) == sum);
      if (problem_.alpha != 1.0f) {
        t.scale(problem_.alpha);
        t.round_to(mul_rn(problem_.alpha, t.value), t.value == 0);
      }
      if (late) add_late(t, addend);
    }
    if (!problem_.counts.empty()) {
      const auto count = static_cast<float>(problem_.count_at(pixel.position));
      t.scale(div_rn(1.0, static_cast<double>(count)));
      t.round_to(div_rn(t.value, count), t.value == 0);
      t.bound = mul_rn(t.bound, 1 + 0x1p-50);
      if (problem_.count_at(pixel.position) > (1 << 24))  // the count itself was rounded
        t.bound = add_rn(t.bound, mul_rn(std::abs(static_cast<double>(t.value)), 0x1.01p-24));
    }
    const std::int64_t at =
        product_->out_offset +
        (pixel.image * problem_.channels_out + row) * problem_.window.out_pixels() + pixel.position;
    values_[at] = t.value == t.value ? t.value : canonical_nan();
    bounds_[at] = t.bound;
    variances_[at] = t.variance;
  }
  void add_late(Tracked& t, float addend) const {
    const float beta = problem_.beta;
    if (beta == 1.0f) {
      t.round_to(add_rn(t.value, addend), t.value == 0 || addend == 0);
    } else if (contract_) {
      t.round_to(fma_rn(beta, addend, t.value), addend == 0 || beta == 0);
    } else {
      const float sum = t.value, product = mul_rn(beta, addend);
      t.round_to(product, addend == 0 || beta == 0);
      t.round_to(add_rn(sum, product), sum == 0 || product == 0);
    }
  }

  const SumProblem& problem_;
  const ir::ReductionOrder& order_;
  ir::BiasPoint bias_;
  bool contract_;
  ThreadPool& pool_;
  std::uint64_t seed_;
  const SumProduct* product_ = nullptr;
  Replay out_;
  float* values_ = nullptr;
  double *bounds_ = nullptr, *variances_ = nullptr;
};

}  // namespace

std::optional<Replay> replay_bound(const SumProblem& problem, const ir::NumericContract& contract,
                                   ThreadPool& pool, std::uint64_t atomic_seed) {
  ir::ReductionOrder order;
  if (contract.order) {
    order = *contract.order;
  } else if (!problem.has_products) {
    order.walk = ir::Walk::kHw;
    order.arith = ir::Arith::kAdd;
  }
  if (order.arith == ir::Arith::kKahan || order.arith == ir::Arith::kMma || contract.ftz)
    return std::nullopt;
  ir::BiasPoint bias = order.bias == ir::BiasPoint::kNone ? ir::BiasPoint::kStored : order.bias;
  if (problem.alpha != 1.0f || problem.beta != 1.0f) bias = ir::BiasPoint::kStored;
  const bool wide = order.arith == ir::Arith::kF64 || contract.acc == ir::Precision::kF64 ||
                    contract.in == ir::Precision::kF64;
  if (wide)
    return Replayer<double>(problem, order, bias, contract.contract, pool, atomic_seed).run();
  return Replayer<float>(problem, order, bias, contract.contract, pool, atomic_seed).run();
}

}  // namespace driftc::runtime::compare
