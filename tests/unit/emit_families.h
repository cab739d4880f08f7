// Families of test kernels: each draws shapes, strides, pads ... at random while everything that
// decides about the source stays fixed, so that a family is one kernel (two with a combine kernel)
// for the compiler.
#pragma once

#include <cstdint>
#include <span>

#include "tests/unit/emit_support.h"

namespace driftc::test {

// Draws from a seed; the same on every machine.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : rng_(seed, "draw") {}
  std::int64_t operator()(std::int64_t low, std::int64_t high) {  // inclusive
    return low + static_cast<std::int64_t>(rng_.bits(next_++) %
                                           static_cast<std::uint64_t>(high - low + 1));
  }

 private:
  CounterRng rng_;
  std::uint64_t next_ = 0;
};

struct Family {
  const char* name;
  KernelCase (*make)(Draw&);
  // batch_norm wants positive variances.
  Distribution distribution = Distribution::kRandom;
};

std::span<const Family> conv_families();
std::span<const Family> algorithm_families();      // Winograd and im2col, some for every run
std::span<const Family> all_algorithm_families();  // every algorithm with every arithmetic
std::span<const Family> matmul_families();
std::span<const Family> other_families();  // elementwise, copy, pool, reduce, softmax

}  // namespace driftc::test
