// Random small networks of conv, batch_norm, add, relu, pool, concat and gemm, for property tests
// and soak runs. The same seed makes the same graph everywhere.
#pragma once

#include <cstdint>

#include "ir/graph.h"
#include "runtime/study/pair_run.h"

namespace driftc::tests {

// Kinds of data: what the sums look like decides which bugs show.
enum class DataKind { kRandom, kIntegers, kPositive, kHuge, kTiny, kSparse };

struct RandomNetwork {
  ir::Graph graph;
  std::vector<runtime::study::NamedTensor> inputs;
  DataKind data;
};
// Of conv, add, relu and pool alone there are few different kernels; NVRTC compiles a sample of
// hundreds in seconds.
enum class Vocabulary { kConvAddReluPool, kAll };
RandomNetwork random_network(std::uint64_t seed, Vocabulary vocabulary = Vocabulary::kAll);

// A pass list like "none,+fuse-epilogue,+contract" and an eager order (or "") drawn from the seed.
struct RandomSettings {
  std::string passes, eager_order;
};
RandomSettings random_settings(std::uint64_t seed);

}  // namespace driftc::tests
