#include "frontend/zoo/seeded.h"

#include "ir/support/rng.h"
#include "ir/support/round.h"

namespace driftc::frontend::zoo {

ir::Literal seeded_shift(const ir::Shape& shape, std::uint64_t seed, const std::string& name) {
  ir::Tensor tensor(ir::DType::kF32, shape);
  auto values = tensor.data_mut<float>();
  fill(Distribution::kSymmetric, seed, name, values);
  for (float& v : values) v = mul_rn(v, 0.1f);
  return ir::Literal::dense(std::move(tensor));
}

ir::Literal seeded_scale(const ir::Shape& shape, std::uint64_t seed, const std::string& name) {
  ir::Tensor tensor(ir::DType::kF32, shape);
  auto values = tensor.data_mut<float>();
  fill(Distribution::kUniform, seed, name, values);
  for (float& v : values) v = add_rn(v, 0.5f);
  return ir::Literal::dense(std::move(tensor));
}

}  // namespace driftc::frontend::zoo
