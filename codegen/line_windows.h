// Windows over an image, for kernels whose threads have several lines of the output one below the
// other (Places::lines): the windows of such lines overlap, so the thread walks down the rows of
// the image and reads each of them once, for every line whose window it is in. What one line sees
// is its own window, row by row.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "codegen/element_kernel.h"

namespace driftc::codegen {

class LineWindows {
 public:
  // Whether a convolution's lines share rows: the taps of a channel have to follow each other.
  static bool apply(const ir::ReductionOrder& order, std::int64_t channels, int lines) {
    return lines > 1 && (channels == 1 || order.walk == ir::Walk::kCrs);
  }
  // Along the height: `kernel` taps, `dilation` apart, `stride` from one line's window to the next.
  LineWindows(int lines, std::int64_t kernel, std::int64_t stride, std::int64_t dilation);

  // Rows of the image that the thread walks, and how far apart they are in the image.
  std::int64_t rows() const { return rows_; }
  std::int64_t apart() const { return apart_; }
  // Rows of the image that some window reads.
  std::int64_t rows_read() const;

  // The name of a row's number in each_row(): "r", a tap's row, when the thread has one line only.
  const char* row() const { return lines_ == 1 ? "r" : "j"; }
  void each_row(CudaWriter& w, const char* pragma, const std::function<void()>& body) const;
  // Inside each_row(): the body for every line `e` whose window has this row, as its row `r`.
  void each_window(CudaWriter& w, const std::function<void()>& body) const;

 private:
  int lines_;
  std::int64_t kernel_, apart_;
  std::int64_t line_step_, tap_step_;  // in rows
  std::int64_t rows_;
};

}  // namespace driftc::codegen
