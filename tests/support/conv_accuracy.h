// How accurate the algorithms of a convolution are on the VGG-like layers of Lavin and Gray (CVPR
// 2016): x and w uniform in [-1, 1), 3x3, padding 1, f32, against f64. The figures that
// docs/numerics.md shows and that tests hold.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "ir/numeric.h"

namespace driftc::tests {

struct Layer {
  std::int64_t channels, extent;
};
inline constexpr std::array kVggLayers = {Layer{64, 224}, Layer{128, 112}, Layer{256, 56},
                                          Layer{512, 28}, Layer{512, 14}};

struct ConvError {
  double max = 0, mean = 0;  // |f32 - f64|, over all outputs
};
// Of the layer's convolution with 8 of its filters, order `order`, in the interpreter.
ConvError conv_error(const Layer& layer, const ir::Transform& transform, std::uint64_t seed,
                     const std::string& order = "crs.fma");
// One channel, single tiles of m x m outputs, multiply and add rounded separately; m = 2 or 4.
// Mean |error|.
double single_tile_error(int m, const ir::Transform& transform, std::uint64_t seed);

// Several seeds: the mean of the means, the median of the maxima.
struct ErrorSummary {
  double max = 0, mean = 0;
};
ErrorSummary summarise(const Layer& layer, const ir::Transform& transform, int seeds);

}  // namespace driftc::tests
