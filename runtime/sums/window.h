// Sliding windows (convolution, average pooling) as columns for the sum engine.
//
// Two layouts of `b`:
// - shifted: a zero-padded copy of the images, split by the stride's phases, in which the columns
// of a position
//   are those of position 0 at another offset. Nothing is copied per position. Columns run over a
//   grid that is a little larger than the output; what falls outside is computed and dropped.
// - gathered: a chosen list of output pixels, every position copied out (im2col). For `.skip`
// borders, whose
//   pixels have programs of their own, and for windows as large as the image.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ir/graph.h"
#include "runtime/sums/sum_engine.h"

namespace driftc::runtime {

struct Window {
  std::int64_t images = 0, channels = 0, height = 0, width = 0;  // of the input
  std::int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1;
  std::int64_t pad_top = 0, pad_left = 0, dilation_h = 1, dilation_w = 1;
  std::int64_t out_h = 0, out_w = 0;

  std::int64_t taps() const { return kernel_h * kernel_w; }
  std::int64_t out_pixels() const { return out_h * out_w; }
};

// Taps [first, last) of a window that lie inside an axis of `extent`, for output coordinate `out`.
struct TapRange {
  std::int64_t first, last;
  friend bool operator==(const TapRange&, const TapRange&) = default;
  friend auto operator<=>(const TapRange&, const TapRange&) = default;
};
TapRange inside_taps(std::int64_t out, std::int64_t stride, std::int64_t pad, std::int64_t dilation,
                     std::int64_t kernel, std::int64_t extent);

// An output pixel: image and position in the output plane.
struct Pixel {
  std::int64_t image, position;
};

// Columns of a batch of images, with the map from column to output pixel. Channels of a position
// are `channel_stride` apart; offsets are those of the window's taps for channel 0.
template <class T>
struct WindowColumns {
  Scratch<T> storage;
  std::int64_t columns = 0, channel_stride = 0;
  std::vector<std::int64_t> tap_offsets;

  // Calls fn(first column of the run, pixel of that column, length) for the runs of consecutive
  // output pixels among columns [begin, begin + count).
  template <class F>
  void for_runs(std::int64_t begin, std::int64_t count, const F& fn) const {
    if (!pixels.empty()) {
      for (std::int64_t c = begin; c < begin + count; ++c)
        fn(c, pixels[static_cast<std::size_t>(c)], std::int64_t{1});
      return;
    }
    for (std::int64_t c = begin; c < begin + count;) {
      const std::int64_t x = c % grid_w, row = c / grid_w;
      const std::int64_t y = row % grid_h, image = row / grid_h;
      const std::int64_t length = std::min(begin + count - c, grid_w - x);
      if (y < out_h && x < out_w)
        fn(c, Pixel{first_image + image, y * out_w + x}, std::min(length, out_w - x));
      c += length;
    }
  }

  // Shifted: columns form a grid.
  std::int64_t first_image = 0, grid_h = 0, grid_w = 0, out_h = 0, out_w = 0;
  // Gathered: one entry per column.
  std::vector<Pixel> pixels;
};

// Columns computed per output pixel by the shifted layout (1 is ideal).
double shifted_overhead(const Window& window);
// Images of one batch for the shifted layout: enough columns to fill tiles and threads, bounded
// memory.
std::int64_t shifted_batch(const Window& window, int threads);

// `input` holds the images densely, converted to T. Images [first, first + count).
template <class T>
WindowColumns<T> shifted_columns(const Window& window, const T* input, std::int64_t first,
                                 std::int64_t count, ThreadPool& pool);
template <class T>
WindowColumns<T> gathered_columns(const Window& window, const T* input, std::vector<Pixel> pixels,
                                  ThreadPool& pool);

}  // namespace driftc::runtime
