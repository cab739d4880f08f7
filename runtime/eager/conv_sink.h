// What becomes of the sums of a convolution. Internal to runtime/eager.
#pragma once

#include <type_traits>

#include "runtime/eager/ops.h"
#include "runtime/eager/window_sums.h"
#include "runtime/sums/sum_kernel.h"

namespace driftc::runtime {

// Rounds to storage, adds the bias where the order says, makes NaN canonical. T: accumulator, S:
// storage.
template <class T, class S, bool kFlush>
class ConvSink final : public PixelSink<T> {
 public:
  ConvSink(std::span<S> out, std::int64_t channels, std::int64_t pixels, const S* bias,
           ir::BiasPoint point)
      : out_(out), channels_(channels), pixels_(pixels), bias_(bias), point_(point) {}

  void store(std::int64_t image, std::int64_t channel, std::int64_t position,
             const SumBlock<T>& block) override {
    for (std::int64_t r = 0; r < block.rows; ++r)
      store_row(channel + r, block.row(r), block.columns,
                out_.data() + (image * channels_ + channel + r) * pixels_ + position);
  }

 private:
  void store_row(std::int64_t channel, const T* sums, std::int64_t n, S* to) const {
    const bool biased = bias_ != nullptr && point_ != ir::BiasPoint::kFirst;
    const S bias = biased ? flushed<kFlush>(bias_[channel]) : S{0};
    if constexpr (std::is_same_v<T, float> && !kFlush) {
      finish_row(sums, n, biased ? &bias : nullptr, to);
    } else if (!biased) {
      for (std::int64_t i = 0; i < n; ++i) to[i] = canonical(rounded(sums[i]));
    } else if (point_ == ir::BiasPoint::kLast) {
      const T wide = static_cast<T>(bias);
      for (std::int64_t i = 0; i < n; ++i)
        to[i] = canonical(rounded(add_rn(flushed<kFlush>(sums[i]), wide)));
    } else {
      for (std::int64_t i = 0; i < n; ++i)
        to[i] = canonical(flushed<kFlush>(add_rn(rounded(sums[i]), bias)));
    }
  }
  static S rounded(T sum) { return flushed<kFlush>(static_cast<S>(sum)); }

  std::span<S> out_;
  std::int64_t channels_, pixels_;
  const S* bias_;
  ir::BiasPoint point_;
};

}  // namespace driftc::runtime
