// --reseed-weights: gives a graph whose weights are one constant (the ONNX project's light models)
// weights that tell something. Weights of conv2d, gemm and matmul that are filled with one value
// become `he`; biases, BN shift and mean uniform(-0.1, 0.1); BN scale and variance
// uniform(0.5, 1.5). The generator's name is the constant's. Constants that hold more than one
// value, or feed anything else, stay as they are.
#pragma once

#include <cstdint>

#include "ir/graph.h"

namespace driftc::frontend::zoo {

ir::Graph reseed_weights(const ir::Graph& graph, std::uint64_t seed);

}  // namespace driftc::frontend::zoo
