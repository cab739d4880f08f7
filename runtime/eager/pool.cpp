// max_pool; avg_pool and global_avg_pool, whose sums may follow any order of the walk `hw`.
#include <algorithm>

#include "runtime/eager/ops.h"
#include "runtime/eager/window_sums.h"

namespace driftc::runtime {
namespace {

template <class S>
ir::Tensor max_pool(const OpCall& call) {
  const ir::Node& node = call.node;
  const ir::Shape &x = call.operand(0).shape(), &y = call.result_shape();
  const auto &kernel = node.ints("kernel"), &stride = node.ints("stride"), &pad = node.ints("pad"),
             &dilation = node.ints("dilation");
  const auto in = call.operand(0).data<S>();
  ir::Tensor result(call.operand(0).dtype(), y);
  const auto out = result.data_mut<S>();
  const std::int64_t height = x[2], width = x[3], out_h = y[2], out_w = y[3];
  // Taps one by one over a whole output row: each output still sees its taps in row-major order.
  for_each(call.context.pool, x[0] * x[1], result.elements() * kernel[0] * kernel[1],
           [&](std::size_t plane, int) {
             const S* from = in.data() + static_cast<std::int64_t>(plane) * height * width;
             S* row = out.data() + static_cast<std::int64_t>(plane) * out_h * out_w;
             for (std::int64_t oy = 0; oy < out_h; ++oy, row += out_w) {
               std::fill_n(row, out_w, -std::numeric_limits<S>::infinity());
               for (std::int64_t r = 0; r < kernel[0]; ++r) {
                 const std::int64_t iy = oy * stride[0] - pad[0] + r * dilation[0];
                 if (iy < 0 || iy >= height) continue;
                 const S* line = from + iy * width;
                 for (std::int64_t s = 0; s < kernel[1]; ++s) {
                   const std::int64_t left = s * dilation[1] - pad[1];
                   // Outputs [lo, hi) read inside the line.
                   const std::int64_t lo =
                       std::min(out_w, left >= 0 ? 0 : (-left + stride[1] - 1) / stride[1]);
                   const std::int64_t hi = left >= width
                                               ? lo
                                               : std::clamp<std::int64_t>(
                                                     (width - 1 - left) / stride[1] + 1, lo, out_w);
                   for (std::int64_t ox = lo; ox < hi; ++ox) {
                     const S v = line[ox * stride[1] + left];
                     row[ox] = v > row[ox] || v != v ? v : row[ox];
                   }
                 }
               }
             }
           });
  return result;
}

// y = div_rn(store(sum), count), count by output position.
template <class T, class S, bool kFlush>
class MeanSink final : public PixelSink<T> {
 public:
  MeanSink(S* out, std::span<const S> counts) : out_(out), counts_(counts) {}
  void store(std::int64_t image, std::int64_t, std::int64_t position,
             const SumBlock<T>& block) override {
    const auto at = static_cast<std::size_t>(position);
    S* to = out_ + image * static_cast<std::int64_t>(counts_.size()) + position;
    for (std::int64_t i = 0; i < block.columns; ++i) {
      const S sum = flushed<kFlush>(static_cast<S>(block.sums[i]));
      to[i] = canonical(flushed<kFlush>(div_rn(sum, counts_[at + static_cast<std::size_t>(i)])));
    }
  }

 private:
  S* out_;
  std::span<const S> counts_;
};

// Inputs that the mean of each output position is over.
template <class S>
std::vector<S> window_counts(const OpCall& call, const Window& w) {
  std::vector<S> counts;
  const bool global = call.node.op == ir::Op::kGlobalAvgPool;
  const bool padding = !global && call.node.integer("count_include_pad") != 0;
  const std::vector<std::int64_t> pad =
      global ? std::vector<std::int64_t>(4) : call.node.ints("pad");
  const auto extent = [](std::int64_t out, std::int64_t stride, std::int64_t before,
                         std::int64_t kernel, std::int64_t lo, std::int64_t hi) {
    const std::int64_t begin = out * stride - before;
    return std::max<std::int64_t>(0, std::min(begin + kernel, hi) - std::max(begin, lo));
  };
  for (std::int64_t y = 0; y < w.out_h; ++y)
    for (std::int64_t x = 0; x < w.out_w; ++x) {
      const std::int64_t rows = extent(y, w.stride_h, w.pad_top, w.kernel_h, padding ? -pad[0] : 0,
                                       w.height + (padding ? pad[2] : 0));
      const std::int64_t columns = extent(x, w.stride_w, w.pad_left, w.kernel_w,
                                          padding ? -pad[1] : 0, w.width + (padding ? pad[3] : 0));
      counts.push_back(static_cast<S>(rows * columns));
    }
  return counts;
}

template <class T, class S>
ir::Tensor mean(const OpCall& call, const SumSettings& settings) {
  const ir::Node& node = call.node;
  const ir::Shape &x = call.operand(0).shape(), &y = call.result_shape();
  const SumOperand<T> input(call.operand(0), ir::Precision::kF32, call.context.pool);
  WindowSums<T> sums;
  Window& window = sums.window;
  window = {x[0] * x[1], 1, x[2], x[3]};
  window.out_h = y[2];
  window.out_w = y[3];
  if (node.op == ir::Op::kGlobalAvgPool) {
    window.kernel_h = x[2];
    window.kernel_w = x[3];
  } else {
    window.kernel_h = node.ints("kernel")[0];
    window.kernel_w = node.ints("kernel")[1];
    window.stride_h = node.ints("stride")[0];
    window.stride_w = node.ints("stride")[1];
    window.pad_top = node.ints("pad")[0];
    window.pad_left = node.ints("pad")[1];
  }
  sums.input = input.data();
  const std::vector<S> counts = window_counts<S>(call, window);
  ir::Tensor result(call.operand(0).dtype(), y);
  S* out = result.data_mut<S>().data();
  if (settings.flush) {
    MeanSink<T, S, true> sink(out, counts);
    window_sums(sums, settings, call.context, sink);
  } else {
    MeanSink<T, S, false> sink(out, counts);
    window_sums(sums, settings, call.context, sink);
  }
  return result;
}

}  // namespace

ir::Tensor evaluate_max_pool(const OpCall& call) {
  return call.operand(0).dtype() == ir::DType::kF64 ? max_pool<double>(call)
                                                    : max_pool<float>(call);
}

ir::Tensor evaluate_mean(const OpCall& call) {
  const SumSettings settings = sum_settings(call);
  if (call.operand(0).dtype() == ir::DType::kF64) return mean<double, double>(call, settings);
  return settings.wide ? mean<double, float>(call, settings) : mean<float, float>(call, settings);
}

}  // namespace driftc::runtime
