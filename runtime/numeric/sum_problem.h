// A reduction node as numbers see it: every output is
//   (alpha * sum over positions p of rows[row][p] * columns[p][column]  +  beta * addend) / count
// over windows of an input (convolution, pooling) or a plain matrix product, which is a 1x1 window.
// The exact reference and the bounds are evaluated on this form, so they cover the same nodes in
// the same way.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/graph.h"
#include "ir/tensor.h"
#include "runtime/sums/window.h"

namespace driftc::runtime {

// conv2d, conv1x1_matmul, matmul, gemm, avg_pool, global_avg_pool.
bool is_sum_node(ir::Op op);

// Output (image, row, pixel) of one product is at out_offset + (image * channels_out + row) *
// pixels + pixel.
struct SumProduct {
  std::int64_t rows_offset = 0, columns_offset = 0,
               out_offset = 0;  // elements into the operands and the result
};

struct SumProblem {
  Window window;  // of the columns; `channels` counts through all groups
  std::int64_t groups = 1;
  std::int64_t channels_out = 1;     // rows, through all groups
  bool has_products = true;          // false: all rows are ones (pooling)
  std::vector<SumProduct> products;  // more than one for a batched matmul
  // Operands as the form wants them: columns [images][channels][height][width], rows
  // [channels_out][positions]; pooling has no rows. Transposed copies where the node says so.
  ir::Tensor columns, rows;
  // addend[row * row_stride + pixel * pixel_stride]; undefined: none.
  ir::Tensor addend;
  std::int64_t addend_row_stride = 0, addend_pixel_stride = 0;
  float alpha = 1, beta = 1;
  std::vector<std::int64_t> counts;  // mean: per output pixel, at least 1; empty: 1
  ir::Shape result;

  std::int64_t group_channels() const { return window.channels / groups; }
  std::int64_t positions() const { return group_channels() * window.taps(); }
  std::int64_t group_rows() const { return channels_out / groups; }
  // The sum with the addend as one more term is the whole value.
  bool plain() const { return alpha == 1.0f && beta == 1.0f && counts.empty(); }
  double multiply_adds() const;
  float addend_at(std::int64_t row, std::int64_t pixel) const {
    return addend.data<float>()[static_cast<std::size_t>(row * addend_row_stride +
                                                         pixel * addend_pixel_stride)];
  }
  std::int64_t count_at(std::int64_t pixel) const {
    return counts.empty() ? 1 : counts[static_cast<std::size_t>(pixel)];
  }
};

// fn(flat index into the result, row, pixel) for every output, in order.
template <class F>
void for_each_output(const SumProblem& problem, const F& fn) {
  for (const SumProduct& product : problem.products) {
    auto at = static_cast<std::size_t>(product.out_offset);
    for (std::int64_t image = 0; image < problem.window.images; ++image)
      for (std::int64_t row = 0; row < problem.channels_out; ++row)
        for (std::int64_t pixel = 0; pixel < problem.window.out_pixels(); ++pixel)
          fn(at++, row, pixel);
  }
}

// Operands as `evaluate` takes them, all f32. The node must be a sum node.
SumProblem sum_problem(const ir::Graph& graph, ir::NodeId node,
                       std::span<const ir::Tensor> operands);

}  // namespace driftc::runtime
