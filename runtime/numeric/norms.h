// Euclidean norms of the operands of sums, rounded up, and the panels that sums over windows run
// on. By Cauchy and Schwarz a sum of products has sum|terms| <= ||row|| ||column||: one norm per
// row and one per window bound all outputs.
#pragma once

#include <functional>

#include "runtime/sums/window.h"

namespace driftc::runtime {

// At least the square root of an exact sum of squares, given the sum as any f64 order computes it.
// Squares of f32 values neither overflow nor underflow in f64.
double norm_from(double squares);

// Norms over the windows of [images][channels][height][width]: [image][group][out pixel], each over
// the channels of its group and the taps inside the image.
Scratch<double> window_norms(const Window& window, std::int64_t groups, const double* input,
                             ThreadPool& pool);

// The columns of all images in batches: shifted copies, or gathered where windows are as large as
// the image (as runtime/eager/window_sums.cpp does).
template <class T>
void for_each_panel(const Window& window, const T* input, ThreadPool& pool,
                    const std::function<void(const WindowColumns<T>&)>& fn);

}  // namespace driftc::runtime
