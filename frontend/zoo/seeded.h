// Seeded parameter values, as product.md defines them for --reseed-weights and the zoo. Every value
// is a function of (seed, name of the constant, index); each arithmetic step below is one IEEE
// rounding in f32.
#pragma once

#include <cstdint>
#include <string>

#include "ir/literal.h"

namespace driftc::frontend::zoo {

// uniform(-0.1, 0.1) = mul_rn(symmetric, 0.1f): biases, BN shift and mean.
ir::Literal seeded_shift(const ir::Shape& shape, std::uint64_t seed, const std::string& name);
// uniform(0.5, 1.5) = add_rn(uniform, 0.5f): BN scale and variance.
ir::Literal seeded_scale(const ir::Shape& shape, std::uint64_t seed, const std::string& name);

}  // namespace driftc::frontend::zoo
