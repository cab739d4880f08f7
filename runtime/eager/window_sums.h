// Sums over sliding windows under any order: convolution (products with weights) and average
// pooling (none).
#pragma once

#include "runtime/eager/ops.h"
#include "runtime/sums/window.h"

namespace driftc::runtime {

// Receives finished sums by output pixel; called from several threads.
template <class T>
class PixelSink {
 public:
  virtual ~PixelSink() = default;
  // The block's rows are output channels channel, channel + 1, ...; its columns the output
  // positions position, position + 1, ... of one image.
  virtual void store(std::int64_t image, std::int64_t channel, std::int64_t position,
                     const SumBlock<T>& block) = 0;
};

template <class T>
struct WindowSums {
  Window window;
  std::int64_t groups = 1, channels_out = 1;  // channels_out counts through all groups
  const T* input = nullptr;
  const T* weights = nullptr;  // [channels_out][channels / groups][taps]; null: no products
  const T* bias = nullptr;     // start value per output channel (bias.first); null: +0
};

template <class T>
void window_sums(const WindowSums<T>& sums, const SumSettings& settings, const EvalContext& context,
                 PixelSink<T>& sink);

}  // namespace driftc::runtime
