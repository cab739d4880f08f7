#include "runtime/numeric/norms.h"

#include <cmath>

#include "ir/support/round.h"
#include "runtime/numeric/exact_kernel.h"

namespace driftc::runtime {
namespace {

// Sums of n non-negative terms are off by less than n 2^-53 of themselves: this covers n < 2^30.
constexpr double kUp = 0x1.000001p0;

}  // namespace

double norm_from(double squares) { return mul_rn(sqrt_rn(squares), kUp); }

Scratch<double> window_norms(const Window& w, std::int64_t groups, const double* input,
                             ThreadPool& pool) {
  const std::int64_t plane = w.height * w.width, channels = w.channels / groups;
  Scratch<double> out(static_cast<std::size_t>(w.images * groups * w.out_pixels()));
  const std::int64_t operations = w.images * w.channels * plane +
                                  w.images * groups * w.out_pixels() * (w.kernel_h + w.kernel_w);
  // Sums of squares over the channels, then along rows, then along columns.
  for_each(pool, w.images * groups, operations, [&](std::size_t index, int) {
    std::vector<double> squares(static_cast<std::size_t>(plane)),
        along(static_cast<std::size_t>(w.height * w.out_w));
    const double* from = input + static_cast<std::int64_t>(index) * channels * plane;
    for (std::int64_t c = 0; c < channels; ++c)
      add_squares(from + c * plane, plane, squares.data());
    for (std::int64_t s = 0; s < w.kernel_w; ++s)
      for (std::int64_t x = 0; x < w.out_w; ++x) {
        const std::int64_t column = x * w.stride_w - w.pad_left + s * w.dilation_w;
        if (column < 0 || column >= w.width) continue;
        for (std::int64_t y = 0; y < w.height; ++y) {
          double& sum = along[static_cast<std::size_t>(y * w.out_w + x)];
          sum = add_rn(sum, squares[static_cast<std::size_t>(y * w.width + column)]);
        }
      }
    double* to = out.data() + static_cast<std::int64_t>(index) * w.out_pixels();
    for (std::int64_t y = 0; y < w.out_h; ++y) {
      double* line = to + y * w.out_w;
      std::fill_n(line, w.out_w, 0.0);
      for (std::int64_t r = 0; r < w.kernel_h; ++r) {
        const std::int64_t row = y * w.stride_h - w.pad_top + r * w.dilation_h;
        if (row < 0 || row >= w.height) continue;
        for (std::int64_t x = 0; x < w.out_w; ++x)
          line[x] = add_rn(line[x], along[static_cast<std::size_t>(row * w.out_w + x)]);
      }
      for (std::int64_t x = 0; x < w.out_w; ++x) line[x] = norm_from(line[x]);
    }
  });
  return out;
}

template <class T>
void for_each_panel(const Window& w, const T* input, ThreadPool& pool,
                    const std::function<void(const WindowColumns<T>&)>& fn) {
  if (w.images == 0 || w.out_pixels() == 0) return;
  if (shifted_overhead(w) <= 2.5) {
    const std::int64_t batch = shifted_batch(w, pool.threads());
    for (std::int64_t n = 0; n < w.images; n += batch)
      fn(shifted_columns(w, input, n, std::min(batch, w.images - n), pool));
    return;
  }
  constexpr std::int64_t kElements = std::int64_t{1} << 22;
  const auto batch = static_cast<std::size_t>(std::max<std::int64_t>(
      kColumnSlack, kElements / std::max<std::int64_t>(1, w.channels * w.taps())));
  std::vector<Pixel> pixels;
  for (std::int64_t n = 0; n < w.images; ++n)
    for (std::int64_t p = 0; p < w.out_pixels(); ++p) {
      pixels.push_back({n, p});
      if (pixels.size() == batch) fn(gathered_columns(w, input, std::exchange(pixels, {}), pool));
    }
  if (!pixels.empty()) fn(gathered_columns(w, input, std::move(pixels), pool));
}
template void for_each_panel(const Window&, const float*, ThreadPool&,
                             const std::function<void(const WindowColumns<float>&)>&);
template void for_each_panel(const Window&, const double*, ThreadPool&,
                             const std::function<void(const WindowColumns<double>&)>&);

}  // namespace driftc::runtime
