#include "runtime/eager/window_sums.h"

#include <map>
#include <memory>
#include <utility>

namespace driftc::runtime {
namespace {

// From sums by column to sums by output pixel.
template <class T>
class ColumnSink final : public SumSink<T> {
 public:
  ColumnSink(const WindowColumns<T>& columns, PixelSink<T>& sink)
      : columns_(columns), sink_(sink) {}
  void store(std::int64_t row, std::int64_t column, const SumBlock<T>& block) override {
    columns_.for_runs(column, block.columns,
                      [&](std::int64_t at, const Pixel& pixel, std::int64_t length) {
                        sink_.store(pixel.image, row, pixel.position,
                                    {block.sums + (at - column), block.rows, length, block.stride});
                      });
  }

 private:
  const WindowColumns<T>& columns_;
  PixelSink<T>& sink_;
};

template <class T>
class Runner {
 public:
  Runner(const WindowSums<T>& sums, const SumSettings& settings, const EvalContext& context,
         PixelSink<T>& sink)
      : sums_(sums), settings_(settings), context_(context), sink_(sink) {}

  void run() {
    if (settings_.order.skip) {
      run_by_mask();
    } else {
      run_all({});
    }
  }

 private:
  // Output pixels whose windows reach the same taps.
  using Mask = std::pair<TapRange, TapRange>;

  const Window& window() const { return sums_.window; }
  std::int64_t group_channels() const { return window().channels / sums_.groups; }

  SumPlan plan(std::span<const bool> padded) const {
    return make_plan(settings_.order, {group_channels(), window().kernel_h, window().kernel_w},
                     padded, context_.atomic_seed, sizeof(T) == 8);
  }
  SumEngine<T> engine(const SumPlan& plan) const {
    const std::int64_t positions = group_channels() * window().taps();
    SumRows<T> rows;
    rows.a = sums_.weights;
    rows.groups = sums_.groups;
    rows.rows = sums_.channels_out / sums_.groups;
    rows.group_stride = rows.rows * positions;
    rows.row_stride = positions;
    return SumEngine<T>(plan, settings_.arith, settings_.flush, rows, context_.pool,
                        sizeof(T) == 4 ? settings_.mma : std::nullopt);
  }
  void run_columns(const SumEngine<T>& engine, const WindowColumns<T>& window_columns) {
    std::vector<std::int64_t> offsets;
    for (std::int64_t c = 0; c < group_channels(); ++c)
      for (std::int64_t tap : window_columns.tap_offsets)
        offsets.push_back(c * window_columns.channel_stride + tap);
    SumColumns<T> columns;
    columns.b = window_columns.storage.data();
    columns.columns = window_columns.columns;
    columns.group_stride = group_channels() * window_columns.channel_stride;
    columns.offsets = offsets;
    ColumnSink<T> sink(window_columns, sink_);
    engine.run(columns, {sums_.bias, 1, 0}, sink);
  }
  void run_gathered(const SumEngine<T>& engine, std::vector<Pixel> pixels) {
    constexpr std::int64_t kElements = std::int64_t{1} << 22;
    const auto batch = static_cast<std::size_t>(std::max<std::int64_t>(
        kColumnSlack, kElements / std::max<std::int64_t>(1, window().channels * window().taps())));
    for (std::size_t i = 0; i < pixels.size(); i += batch) {
      std::vector<Pixel> part(
          pixels.begin() + static_cast<std::ptrdiff_t>(i),
          pixels.begin() + static_cast<std::ptrdiff_t>(std::min(pixels.size(), i + batch)));
      run_columns(engine, gathered_columns(window(), sums_.input, std::move(part), context_.pool));
    }
  }
  // Every output pixel under one plan.
  void run_all(std::span<const bool> padded) {
    const SumPlan all = plan(padded);
    const SumEngine<T> sum_engine = engine(all);
    if (shifted_overhead(window()) > 2.5) {
      std::vector<Pixel> pixels;
      for (std::int64_t n = 0; n < window().images; ++n)
        for (std::int64_t p = 0; p < window().out_pixels(); ++p) pixels.push_back({n, p});
      run_gathered(sum_engine, std::move(pixels));
      return;
    }
    const std::int64_t batch = shifted_batch(window(), context_.pool.threads());
    for (std::int64_t n = 0; n < window().images; n += batch)
      run_columns(sum_engine, shifted_columns(window(), sums_.input, n,
                                              std::min(batch, window().images - n), context_.pool));
  }
  // `.skip`: padding positions are removed before counting, so pixels with different masks have
  // different trees. All pixels run under the unpadded plan first where that is the most common
  // one; then the others.
  void run_by_mask() {
    const Window& w = window();
    std::map<Mask, std::vector<Pixel>> by_mask;
    for (std::int64_t y = 0; y < w.out_h; ++y)
      for (std::int64_t x = 0; x < w.out_w; ++x) {
        const Mask mask{inside_taps(y, w.stride_h, w.pad_top, w.dilation_h, w.kernel_h, w.height),
                        inside_taps(x, w.stride_w, w.pad_left, w.dilation_w, w.kernel_w, w.width)};
        by_mask[mask].push_back({0, y * w.out_w + x});
      }
    const Mask inside{{0, w.kernel_h}, {0, w.kernel_w}};
    const auto interior = by_mask.find(inside);
    if (interior != by_mask.end() &&
        static_cast<std::int64_t>(interior->second.size()) * 2 > w.out_pixels()) {
      run_all({});
      by_mask.erase(interior);
    }
    for (const auto& [mask, first_image] : by_mask) {
      std::vector<Pixel> pixels;
      for (std::int64_t n = 0; n < w.images; ++n)
        for (const Pixel& p : first_image) pixels.push_back({n, p.position});
      const std::int64_t positions = group_channels() * w.taps();
      const auto padded = std::make_unique<bool[]>(static_cast<std::size_t>(positions));
      for (std::int64_t p = 0; p < positions; ++p) {
        const std::int64_t r = p % w.taps() / w.kernel_w, s = p % w.kernel_w;
        padded[static_cast<std::size_t>(p)] = r < mask.first.first || r >= mask.first.last ||
                                              s < mask.second.first || s >= mask.second.last;
      }
      const SumPlan masked = plan({padded.get(), static_cast<std::size_t>(positions)});
      run_gathered(engine(masked), std::move(pixels));
    }
  }

  const WindowSums<T>& sums_;
  const SumSettings& settings_;
  const EvalContext& context_;
  PixelSink<T>& sink_;
};

}  // namespace

template <class T>
void window_sums(const WindowSums<T>& sums, const SumSettings& settings, const EvalContext& context,
                 PixelSink<T>& sink) {
  Runner<T>(sums, settings, context, sink).run();
}

template void window_sums(const WindowSums<float>&, const SumSettings&, const EvalContext&,
                          PixelSink<float>&);
template void window_sums(const WindowSums<double>&, const SumSettings&, const EvalContext&,
                          PixelSink<double>&);

}  // namespace driftc::runtime
