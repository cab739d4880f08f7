#include "codegen/line_windows.h"

#include <fmt/format.h>

#include <numeric>
#include <set>

namespace driftc::codegen {

LineWindows::LineWindows(int lines, std::int64_t kernel, std::int64_t stride, std::int64_t dilation)
    : lines_(lines),
      kernel_(kernel),
      apart_(lines == 1 ? dilation : std::gcd(stride, dilation)),
      line_step_(stride / apart_),
      tap_step_(dilation / apart_),
      rows_((lines - 1) * line_step_ + (kernel - 1) * tap_step_ + 1) {}

std::int64_t LineWindows::rows_read() const {
  std::set<std::int64_t> rows;
  for (std::int64_t e = 0; e < lines_; ++e)
    for (std::int64_t r = 0; r < kernel_; ++r) rows.insert(e * line_step_ + r * tap_step_);
  return static_cast<std::int64_t>(rows.size());
}

void LineWindows::each_row(CudaWriter& w, const char* pragma,
                           const std::function<void()>& body) const {
  w.line(pragma);
  w.loop(fmt::format("for (int {0} = 0; {0} < {1}; ++{0})", row(), rows_), body);
}

void LineWindows::each_window(CudaWriter& w, const std::function<void()>& body) const {
  if (lines_ == 1) return body();
  w.line("#pragma unroll");
  w.open(fmt::format("for (int e = 0; e < {}; ++e)", lines_));
  const std::string steps = line_step_ == 1 ? "e" : fmt::format("e * {}", line_step_);
  if (tap_step_ == 1) {
    w.line(fmt::format("const int r = j - {};  // of line e's window", steps));
    w.line(fmt::format("if (r < 0 || r >= {}) continue;", kernel_));
  } else {
    w.line(fmt::format("const int ahead = j - {}, r = ahead / {};  // r: of line e's window", steps,
                       tap_step_));
    w.line(
        fmt::format("if (ahead < 0 || ahead % {} != 0 || r >= {}) continue;", tap_step_, kernel_));
  }
  body();
  w.close();
}

}  // namespace driftc::codegen
