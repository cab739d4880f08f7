// The way to one output element of a convolution under a contract with a Winograd transform: the
// sums over channels at the places of its tile, and how the output transform joins them. What
// `driftc show --stage tree` prints for such kernels; tests hold the result equal to the
// interpreter's element in every bit.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/tensor.h"

namespace driftc::runtime::study {

struct WinogradTrace {
  ir::Transform transform;
  int n = 0;                            // places of a tile along one axis
  std::int64_t tile_y = 0, tile_x = 0;  // first output of the tile
  int row = 0, column = 0;              // the element in its tile
  std::int64_t channels = 0;            // terms of each sum
  std::vector<float> sums;              // [n][n], after the order's sum over channels
  std::vector<double> factors;  // [n][n]: how often each enters the element, A'[row] A'[column]
  struct Step {
    std::string what;  // "+ -2 * column 3"
    float partial = 0;
  };
  std::vector<float> columns;  // [n]: A'[row] over each column of the sums
  std::vector<Step> steps;     // A'[column] over them, then the bias
  float result = 0;
};

// `node` is a conv2d that the transform fits, `index` an element of its result, `operands` the
// node's, f32.
WinogradTrace trace_winograd(const ir::Graph& graph, ir::NodeId node,
                             std::span<const std::int64_t> index,
                             std::span<const ir::Tensor> operands,
                             const ir::NumericContract& contract);

}  // namespace driftc::runtime::study
