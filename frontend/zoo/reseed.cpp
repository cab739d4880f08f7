#include "frontend/zoo/reseed.h"

#include <algorithm>
#include <optional>

#include "frontend/zoo/seeded.h"

namespace driftc::frontend::zoo {
namespace {

enum class Role : std::uint8_t { kNone, kWeight, kShift, kScale };

// What operand `i` of a node is to it.
Role role_of(ir::Op op, std::size_t i) {
  switch (op) {
    case ir::Op::kConv2d:
    case ir::Op::kConv1x1Matmul:
    case ir::Op::kGemm:
      return i == 1 ? Role::kWeight : i == 2 ? Role::kShift : Role::kNone;
    case ir::Op::kMatmul:
      return i == 1 ? Role::kWeight : Role::kNone;
    case ir::Op::kBatchNorm:  // x, scale, shift, mean, var
      return i == 1 || i == 4 ? Role::kScale : i > 0 ? Role::kShift : Role::kNone;
    default:
      return Role::kNone;
  }
}

bool one_value(const ir::Literal& literal) {
  if (literal.type().dtype != ir::DType::kF32 || literal.type().shape.elements() < 2) return false;
  if (literal.origin() == ir::Literal::Origin::kSplat) return true;
  if (literal.origin() == ir::Literal::Origin::kRandom) return false;
  const auto values = literal.tensor().data<float>();
  return std::all_of(values.begin(), values.end(), [&](float v) { return v == values[0]; });
}

}  // namespace

ir::Graph reseed_weights(const ir::Graph& graph, std::uint64_t seed) {
  // A constant with two roles keeps its value: no recipe would be right for both.
  std::vector<std::optional<Role>> roles(graph.value_count());
  for (const ir::Node& node : graph.nodes())
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      auto& role = roles[node.operands[i].index];
      const Role here = role_of(node.op, i);
      role = role && *role != here ? Role::kNone : here;
    }
  ir::Rewriter rewriter(graph);
  for (std::uint32_t n = 0; n < graph.node_count(); ++n) {
    const ir::Node& node = graph.node({n});
    const Role role = roles[node.result.index].value_or(Role::kNone);
    if (node.op != ir::Op::kConstant || role == Role::kNone || !one_value(*node.literal)) {
      rewriter.copy({n});
      continue;
    }
    const std::string& name = graph.value(node.result).name;
    const ir::Shape& shape = node.literal->type().shape;
    ir::Literal literal = role == Role::kWeight  ? ir::Literal::random(shape, seed, name)
                          : role == Role::kShift ? seeded_shift(shape, seed, name)
                                                 : seeded_scale(shape, seed, name);
    rewriter.replace(node.result, rewriter.graph().add_constant(name, std::move(literal)));
  }
  return rewriter.finish();
}

}  // namespace driftc::frontend::zoo
