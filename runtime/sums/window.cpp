#include "runtime/sums/window.h"

#include <algorithm>
#include <cstring>

namespace driftc::runtime {
namespace {

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}
std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return -floor_div(-a, b); }

// The grid of the shifted layout: rows and columns an axis needs so that every tap is an offset.
std::int64_t grid_extent(std::int64_t out, std::int64_t kernel, std::int64_t dilation,
                         std::int64_t stride) {
  return out + (kernel - 1) * dilation / stride;
}

}  // namespace

TapRange inside_taps(std::int64_t out, std::int64_t stride, std::int64_t pad, std::int64_t dilation,
                     std::int64_t kernel, std::int64_t extent) {
  const std::int64_t origin = out * stride - pad;
  const std::int64_t first = std::clamp<std::int64_t>(ceil_div(-origin, dilation), 0, kernel);
  const std::int64_t last =
      std::clamp<std::int64_t>(ceil_div(extent - origin, dilation), first, kernel);
  return {first, last};
}

double shifted_overhead(const Window& w) {
  const double grid =
      static_cast<double>(grid_extent(w.out_h, w.kernel_h, w.dilation_h, w.stride_h)) *
      static_cast<double>(grid_extent(w.out_w, w.kernel_w, w.dilation_w, w.stride_w));
  return grid / std::max(1.0, static_cast<double>(w.out_pixels()));
}

std::int64_t shifted_batch(const Window& w, int threads) {
  constexpr std::int64_t kColumnsPerThread = 1024, kMaxElements = std::int64_t{1} << 24;
  const std::int64_t grid = grid_extent(w.out_h, w.kernel_h, w.dilation_h, w.stride_h) *
                            grid_extent(w.out_w, w.kernel_w, w.dilation_w, w.stride_w);
  const std::int64_t phases = std::min(w.stride_h, w.kernel_h) * std::min(w.stride_w, w.kernel_w);
  const std::int64_t wanted =
      ceil_div(kColumnsPerThread * threads, std::max<std::int64_t>(1, grid));
  const std::int64_t fits = kMaxElements / std::max<std::int64_t>(1, grid * phases * w.channels);
  return std::clamp<std::int64_t>(std::min(wanted, fits), 1, std::max<std::int64_t>(1, w.images));
}

template <class T>
WindowColumns<T> shifted_columns(const Window& w, const T* input, std::int64_t first,
                                 std::int64_t count, ThreadPool& pool) {
  WindowColumns<T> out;
  out.first_image = first;
  out.out_h = w.out_h;
  out.out_w = w.out_w;
  out.grid_h = grid_extent(w.out_h, w.kernel_h, w.dilation_h, w.stride_h);
  out.grid_w = grid_extent(w.out_w, w.kernel_w, w.dilation_w, w.stride_w);
  // A plain 1x1 convolution has no window: one long row per image.
  const bool plain = w.taps() == 1 && w.stride_h == 1 && w.stride_w == 1 && w.pad_top == 0 &&
                     w.pad_left == 0 && w.out_h == w.height && w.out_w == w.width;
  if (plain) {
    out.out_w = out.grid_w = w.height * w.width;
    out.out_h = out.grid_h = 1;
  }
  // Phases of the stride that some tap reads.
  std::vector<std::int64_t> rows, columns;
  const auto phase = [](std::vector<std::int64_t>& list, std::int64_t p) {
    const auto it = std::find(list.begin(), list.end(), p);
    if (it != list.end()) return it - list.begin();
    list.push_back(p);
    return static_cast<std::ptrdiff_t>(list.size() - 1);
  };
  for (std::int64_t r = 0; r < w.kernel_h; ++r) phase(rows, r * w.dilation_h % w.stride_h);
  for (std::int64_t s = 0; s < w.kernel_w; ++s) phase(columns, s * w.dilation_w % w.stride_w);
  const std::int64_t image = out.grid_h * out.grid_w, plane = count * image;
  const auto phase_columns = static_cast<std::int64_t>(columns.size());
  for (std::int64_t r = 0; r < w.kernel_h; ++r)
    for (std::int64_t s = 0; s < w.kernel_w; ++s)
      out.tap_offsets.push_back((phase(rows, r * w.dilation_h % w.stride_h) * phase_columns +
                                 phase(columns, s * w.dilation_w % w.stride_w)) *
                                    plane +
                                r * w.dilation_h / w.stride_h * out.grid_w +
                                s * w.dilation_w / w.stride_w);
  out.channel_stride = static_cast<std::int64_t>(rows.size()) * phase_columns * plane;
  out.columns = (count - 1) * image + (out.out_h - 1) * out.grid_w + out.out_w;
  const std::int64_t total = w.channels * out.channel_stride;
  out.storage = Scratch<T>(static_cast<std::size_t>(total + kColumnSlack));
  std::fill_n(out.storage.data() + total, kColumnSlack, T{0});

  // In the order of the columns, channels last: a thread lays out the columns that it will sum.
  const std::int64_t pieces =
      count >= pool.threads() ? 1 : std::min<std::int64_t>(pool.threads(), out.grid_h);
  for_each(pool, count * pieces * w.channels, total, [&](std::size_t index, int) {
    const std::int64_t channel = static_cast<std::int64_t>(index) % w.channels;
    const std::int64_t piece = static_cast<std::int64_t>(index) / w.channels % pieces;
    const std::int64_t n = static_cast<std::int64_t>(index) / w.channels / pieces;
    const std::int64_t top = out.grid_h * piece / pieces,
                       bottom = out.grid_h * (piece + 1) / pieces;
    const T* from = input + ((first + n) * w.channels + channel) * w.height * w.width;
    for (std::size_t pr = 0; pr < rows.size(); ++pr)
      for (std::size_t pc = 0; pc < columns.size(); ++pc) {
        T* to = out.storage.data() + channel * out.channel_stride +
                static_cast<std::int64_t>(pr * columns.size() + pc) * plane + n * image +
                top * out.grid_w;
        if (plain) {
          std::memcpy(to, from, static_cast<std::size_t>(image) * sizeof(T));
          continue;
        }
        // Grid columns [lo, hi) lie inside the image.
        const std::int64_t left = columns[pc] - w.pad_left;
        const std::int64_t lo =
            std::clamp<std::int64_t>(ceil_div(-left, w.stride_w), 0, out.grid_w);
        const std::int64_t hi =
            std::clamp<std::int64_t>(ceil_div(w.width - left, w.stride_w), lo, out.grid_w);
        for (std::int64_t y = top; y < bottom; ++y, to += out.grid_w) {
          const std::int64_t row = y * w.stride_h + rows[pr] - w.pad_top;
          if (row < 0 || row >= w.height) {
            std::fill_n(to, out.grid_w, T{0});
            continue;
          }
          const std::int64_t source = row * w.width + left;
          std::fill_n(to, lo, T{0});
          if (w.stride_w == 1) {
            std::copy_n(from + source + lo, hi - lo, to + lo);
          } else {
            for (std::int64_t x = lo; x < hi; ++x) to[x] = from[source + x * w.stride_w];
          }
          std::fill(to + hi, to + out.grid_w, T{0});
        }
      }
  });
  return out;
}

template <class T>
WindowColumns<T> gathered_columns(const Window& w, const T* input, std::vector<Pixel> pixels,
                                  ThreadPool& pool) {
  WindowColumns<T> out;
  out.columns = static_cast<std::int64_t>(pixels.size());
  out.pixels = std::move(pixels);
  for (std::int64_t tap = 0; tap < w.taps(); ++tap) out.tap_offsets.push_back(tap * out.columns);
  out.channel_stride = w.taps() * out.columns;
  const std::int64_t total = w.channels * out.channel_stride;
  out.storage = Scratch<T>(static_cast<std::size_t>(total + kColumnSlack));
  std::fill_n(out.storage.data() + total, kColumnSlack, T{0});
  for_each(pool, w.channels * w.kernel_h, total, [&](std::size_t index, int) {
    const std::int64_t channel = static_cast<std::int64_t>(index) / w.kernel_h;
    const std::int64_t r = static_cast<std::int64_t>(index) % w.kernel_h;
    T* to = out.storage.data() + channel * out.channel_stride + r * w.kernel_w * out.columns;
    for (std::int64_t c = 0; c < out.columns; ++c) {
      const Pixel& pixel = out.pixels[static_cast<std::size_t>(c)];
      const T* from = input + (pixel.image * w.channels + channel) * w.height * w.width;
      const std::int64_t row = pixel.position / w.out_w * w.stride_h - w.pad_top + r * w.dilation_h;
      const std::int64_t origin = pixel.position % w.out_w * w.stride_w - w.pad_left;
      for (std::int64_t s = 0; s < w.kernel_w; ++s) {
        const std::int64_t column = origin + s * w.dilation_w;
        const bool inside = row >= 0 && row < w.height && column >= 0 && column < w.width;
        to[s * out.columns + c] = inside ? from[row * w.width + column] : T{0};
      }
    }
  });
  return out;
}

template WindowColumns<float> shifted_columns(const Window&, const float*, std::int64_t,
                                              std::int64_t, ThreadPool&);
template WindowColumns<double> shifted_columns(const Window&, const double*, std::int64_t,
                                               std::int64_t, ThreadPool&);
template WindowColumns<float> gathered_columns(const Window&, const float*, std::vector<Pixel>,
                                               ThreadPool&);
template WindowColumns<double> gathered_columns(const Window&, const double*, std::vector<Pixel>,
                                                ThreadPool&);

}  // namespace driftc::runtime
