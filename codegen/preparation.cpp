#include "codegen/preparation.h"

#include <fmt/format.h>

namespace driftc::codegen {
namespace {

std::string walk_text(const Preparation& p) {
  if (p.walk == ir::Walk::kCrs) return "crs";
  if (p.walk == ir::Walk::kRsc) return "rsc";
  return fmt::format("c{}rs", p.channel_tile);
}

}  // namespace

std::string to_string(const Preparation& p) {
  if (p.kind == Preparation::Kind::kTransposed)
    return fmt::format("transposed(operand={})", p.operand);
  return fmt::format("walk_major(operand={}, walk={})", p.operand, walk_text(p));
}

std::int64_t padded_columns(std::int64_t columns) { return (columns + 3) / 4 * 4; }

Preparation walk_major(int operand, const ir::Shape& weight, const ir::ReductionOrder& order) {
  Preparation p;
  p.kind = Preparation::Kind::kWalkMajor;
  p.operand = operand;
  p.walk = order.walk == ir::Walk::kK ? ir::Walk::kCrs : order.walk;
  p.channel_tile = order.channel_tile;
  p.result_shape = {weight[1] * weight[2] * weight[3], padded_columns(weight[0])};
  return p;
}

Preparation transposed(int operand, const ir::Shape& matrix) {
  Preparation p;
  p.kind = Preparation::Kind::kTransposed;
  p.operand = operand;
  p.result_shape = {matrix[1], padded_columns(matrix[0])};
  return p;
}

ir::Tensor prepare(const Preparation& p, const ir::Tensor& operand) {
  DRIFTC_ASSERT(operand.dtype() == ir::DType::kF32, "preparations are for f32");
  ir::Tensor out(ir::DType::kF32, p.result_shape);
  const auto in = operand.data<float>();
  const auto to = out.data_mut<float>();
  const ir::Shape& shape = operand.shape();
  const std::int64_t rows = p.result_shape[0], columns = p.result_shape[1];

  if (p.kind == Preparation::Kind::kTransposed) {
    DRIFTC_ASSERT(shape.rank() == 2 && shape[1] == rows, "operand of another shape");
    for (std::int64_t n = 0; n < shape[0]; ++n)
      for (std::int64_t k = 0; k < rows; ++k)
        to[static_cast<std::size_t>(k * columns + n)] = in[static_cast<std::size_t>(n * rows + k)];
    return out;
  }

  // The walk is the denotation of a plain chain: the one place that knows what "rsc" means.
  DRIFTC_ASSERT(shape.rank() == 4 && shape[1] * shape[2] * shape[3] == rows,
                "operand of another shape");
  if (rows == 0 || shape[0] == 0) return out;
  ir::ReductionOrder order;
  order.walk = p.walk;
  order.channel_tile = p.channel_tile;
  const ir::SumProgram program = ir::denote(order, {shape[1], shape[2], shape[3]});
  const auto& leaves = program.chains[0].leaves;
  DRIFTC_ASSERT(static_cast<std::int64_t>(leaves.size()) == rows, "walk visits each position once");
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t position = leaves[static_cast<std::size_t>(row)];
    for (std::int64_t k = 0; k < shape[0]; ++k)
      to[static_cast<std::size_t>(row * columns + k)] =
          in[static_cast<std::size_t>(k * rows + position)];
  }
  return out;
}

}  // namespace driftc::codegen
