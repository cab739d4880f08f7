// What convolution emitters share: the problem read from the body, its parameters, and the code
// that turns an output pixel into input coordinates.
#pragma once

#include "codegen/cuda_writer.h"
#include "codegen/emitters.h"

namespace driftc::codegen {

struct ConvProblem {
  int input = 0, weight = 1;  // operands
  std::int64_t images, channels, columns,
      groups;  // channels and columns (output channels) per group
  std::int64_t in_h, in_w, out_h, out_w;
  std::int64_t kernel_h, kernel_w;
  std::int64_t stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;  // pad: top, left
  std::vector<std::int64_t> x_strides;                                    // n, c, h, w
  bool channels_last = false;  // x is stored with channels innermost

  static Result<ConvProblem> of(const KernelContext& context, const ir::Node& conv);
  std::int64_t taps() const { return kernel_h * kernel_w; }
  std::int64_t positions() const { return channels * taps(); }
  std::int64_t rows() const { return images * out_h * out_w; }
  // Element count that bounds every offset into x, taps outside the image included.
  std::int64_t padded_elements() const;
};

// The walk of an order as names have it: "crs", "c16rs".
std::string walk_name(const ir::ReductionOrder& order);

// The function `within(v, extent)`, which the conditions of taps call.
DeviceFunction within_function(const KernelBuilder& builder);

// Declares the parameters of the input side: xs_n xs_c xs_h xs_w (1 written as literal by
// stride_product), in_h in_w stride_* pad_* dilation_* channels, and row_step and column_step: by
// how much taps are apart in x. They are parameters, so that all taps of a pixel have one address
// plus what is the same for all threads. Unit steps: the algorithm has no stride and no dilation,
// nor parameters for them. Of lines: the kernel walks the rows of LineWindows and declares what
// that takes; columns that are neighbours in memory need no parameter.
enum class Steps : std::uint8_t { kAny, kUnit, kLines };
class ConvCode {
 public:
  ConvCode(KernelBuilder& builder, const ConvProblem& problem, Steps steps = Steps::kAny);
  // "a * xs_h", or "a" for a unit stride. axis: 0..3 = n, c, h, w.
  std::string along(int axis, const std::string& index) const;
  // The offset of tap (r, s) from the pixel's first tap.
  std::string tap_offset(const std::string& r, const std::string& s) const;
  // Whether the tap lies in the image, given y0 and x0 of the pixel.
  static std::string inside(const std::string& y0, const std::string& x0, const std::string& r,
                            const std::string& s);
  // The same of a column alone, and its offset from the window's first one.
  std::string column_inside(const std::string& x0, const std::string& s) const;
  std::string column_offset(const std::string& s) const;
  // Statements: channel, r, s of walk position `p`, in the order's walk.
  void declare_position(CudaWriter& w, const ir::ReductionOrder& order, const std::string& p) const;

 private:
  const ConvProblem& problem_;
  bool unit_columns_;
};

}  // namespace driftc::codegen
