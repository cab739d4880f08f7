// Built-in topologies with seeded weights: models that need no file and are the same on every
// machine. Convolution and linear weights are `he` literals (seed 0, generator name = value name);
// biases and batch normalisation parameters follow product.md's --reseed-weights. Batch
// normalisation is never folded.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace driftc::frontend::zoo {

struct ZooEntry {
  std::string name, description;
};
// In the order of `driftc zoo`.
std::vector<ZooEntry> zoo_names();
// `batch` >= 1. An unknown name is an error with a hint.
Result<ir::Graph> zoo_graph(std::string_view name, std::int64_t batch = 1);

}  // namespace driftc::frontend::zoo
