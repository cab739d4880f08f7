#include "runtime/study/crop.h"

#include <algorithm>
#include <map>

#include "ir/builder.h"
#include "ir/support/rng.h"
#include "passes/tiling.h"
#include "runtime/eager/region.h"
#include "runtime/study/source_map.h"

namespace driftc::runtime::study {
namespace {

using Shapes = std::map<std::uint32_t, ir::Shape>;  // by value of the body

std::int64_t at_most(std::int64_t value, std::int64_t limit) { return std::min(value, limit); }

class Crop {
 public:
  Crop(const ir::Graph& graph, const ir::Node& node, const CropLimits& limits)
      : graph_(graph), node_(node), body_(node.kernel->body), limits_(limits) {}

  // Empty where the shapes do not fit.
  std::optional<ir::Graph> body() {
    const ir::Node& main = *ir::reduction_node(body_);
    switch (main.op) {
      case ir::Op::kConv2d:
      case ir::Op::kConv1x1Matmul:
        convolution(main);
        break;
      case ir::Op::kGemm:
        gemm(main);
        break;
      default:
        matmul(main);
    }
    return rebuilt(main);
  }

 private:
  const ir::Shape& shape(ir::ValueId value) const { return body_.value(value).type.shape; }

  void convolution(const ir::Node& conv) {
    const bool plain = conv.op == ir::Op::kConv1x1Matmul;
    const ir::Shape &x = shape(conv.operands[0]), &w = shape(conv.operands[1]),
                    &y = shape(conv.result);
    const std::int64_t groups = plain ? 1 : conv.integer("groups");
    const std::int64_t own = at_most(w[1], limits_.channels);
    // Groups of few channels are many in a tile's worth of them.
    groups_ = groups == 1
                  ? 1
                  : at_most(groups, std::max<std::int64_t>(2, 40 / std::max<std::int64_t>(own, 1)));
    const std::int64_t columns = at_most(y[1] / groups, limits_.columns);
    const std::int64_t images = at_most(y[0], 2), wide = at_most(y[3], 28);
    const std::int64_t per_line = std::max<std::int64_t>(images * wide, 1);
    const std::int64_t high = at_most(y[2], (limits_.rows + per_line - 1) / per_line);
    const auto input_extent = [&](std::int64_t out, std::size_t axis, std::int64_t old,
                                  std::int64_t whole) {
      if (out == whole) return old;
      if (plain) return out;
      const auto &stride = conv.ints("stride"), &pad = conv.ints("pad"),
                 &dilation = conv.ints("dilation");
      return std::max<std::int64_t>(1, (out - 1) * stride[axis] +
                                           dilation[axis] * (w[axis + 2] - 1) + 1 - pad[axis] -
                                           pad[axis + 2]);
    };
    shapes_[conv.operands[0].index] = {images, own * groups_, input_extent(high, 0, x[2], y[2]),
                                       input_extent(wide, 1, x[3], y[3])};
    shapes_[conv.operands[1].index] = {columns * groups_, own, w[2], w[3]};
    if (conv.operands.size() > 2) shapes_[conv.operands[2].index] = {columns * groups_};
  }

  void gemm(const ir::Node& gemm) {
    const ir::Shape &a = shape(gemm.operands[0]), &y = shape(gemm.result);
    const bool ta = gemm.integer("trans_a") != 0, tb = gemm.integer("trans_b") != 0;
    const std::int64_t m = at_most(y[0], limits_.rows), n = at_most(y[1], limits_.columns),
                       k = at_most(a[ta ? 0 : 1], limits_.channels);
    shapes_[gemm.operands[0].index] = ta ? ir::Shape{k, m} : ir::Shape{m, k};
    shapes_[gemm.operands[1].index] = tb ? ir::Shape{n, k} : ir::Shape{k, n};
    if (gemm.operands.size() > 2)
      shapes_[gemm.operands[2].index] = aligned(shape(gemm.operands[2]), y, ir::Shape{m, n});
  }

  void matmul(const ir::Node& matmul) {
    ir::Shape a = shape(matmul.operands[0]), b = shape(matmul.operands[1]);
    const std::size_t ra = a.rank(), rb = b.rank();
    if (ra < 2 || rb < 2) return;
    a[ra - 2] = at_most(a[ra - 2], limits_.rows);
    a[ra - 1] = b[rb - 2] = at_most(a[ra - 1], limits_.channels);
    b[rb - 1] = at_most(b[rb - 1], limits_.columns);
    for (std::size_t i = 0; i + 2 < ra; ++i) a[i] = at_most(a[i], 2);
    for (std::size_t i = 0; i + 2 < rb; ++i) b[i] = at_most(b[i], 2);
    shapes_[matmul.operands[0].index] = a;
    shapes_[matmul.operands[1].index] = b;
  }

  // An operand that is broadcast to `whole`, when that becomes `cropped`.
  static ir::Shape aligned(ir::Shape operand, const ir::Shape& whole, const ir::Shape& cropped) {
    if (operand.rank() > whole.rank()) return operand;
    const std::size_t lead = whole.rank() - operand.rank();
    for (std::size_t i = 0; i < operand.rank(); ++i)
      if (operand[i] == whole[lead + i]) operand[i] = cropped[lead + i];
    return operand;
  }

  std::optional<ir::Graph> rebuilt(const ir::Node& main) {
    // Shapes of what the epilogue reads follow from the main result's.
    std::vector<ir::TensorType> operands;
    for (const ir::ValueId v : main.operands) operands.push_back(type(v));
    ir::Node cropped_main = main;
    if (main.op == ir::Op::kConv2d) cropped_main.set("groups", groups_);
    const auto inferred = ir::infer_type(main.op, cropped_main.attributes, operands);
    if (!inferred.ok()) return std::nullopt;
    const ir::Shape &whole = shape(main.result), &cropped = inferred->shape;
    if (whole.rank() != cropped.rank()) return std::nullopt;
    for (const ir::Node& node : body_.nodes())
      for (const ir::ValueId v : node.operands)
        if (!body_.value(v).producer && !shapes_.contains(v.index))
          shapes_[v.index] = node.op == ir::Op::kBatchNorm && shape(v).rank() == 1
                                 ? ir::Shape{cropped[1]}
                                 : aligned(shape(v), whole, cropped);

    ir::Graph out("cropped");
    std::map<std::uint32_t, ir::ValueId> made;
    for (std::size_t i = 0; i < body_.inputs().size(); ++i) {
      const ir::ValueId v = body_.inputs()[i];
      ir::TensorType input = type(v);
      input.layout = graph_.value(node_.operands[i]).type.layout;
      made[v.index] = out.add_input(body_.value(v).name, input);
    }
    for (const ir::Node& node : body_.nodes()) {
      ir::Node copy = &node == &main ? cropped_main : node;
      std::vector<ir::TensorType> types;
      for (ir::ValueId& operand : copy.operands) {
        operand = made.at(operand.index);
        types.push_back(out.value(operand).type);
      }
      auto result = ir::infer_type(copy.op, copy.attributes, types);
      if (!result.ok()) return std::nullopt;
      const ir::Value& value = body_.value(node.result);
      result->layout = value.type.layout;
      copy.from = {value.name};
      if (copy.op == ir::Op::kConv2d || copy.op == ir::Op::kConv1x1Matmul)
        copy.set("fold", std::string("none"));
      const ir::NodeId id = out.add_node(std::move(copy), value.name, *result);
      made[node.result.index] = out.node(id).result;
    }
    out.set_outputs({made.at(body_.outputs()[0].index)});
    return out;
  }

  ir::TensorType type(ir::ValueId v) const {
    ir::TensorType out = body_.value(v).type;
    if (const auto found = shapes_.find(v.index); found != shapes_.end()) out.shape = found->second;
    return out;
  }

  const ir::Graph& graph_;
  const ir::Node& node_;
  const ir::Graph& body_;
  const CropLimits& limits_;
  Shapes shapes_;
  std::int64_t groups_ = 1;
};

// The body as a model would have it: NCHW, convolutions as convolutions.
ir::Graph as_source(const ir::Graph& body) {
  ir::Graph out("cropped");
  std::map<std::uint32_t, ir::ValueId> made;
  const auto plain = [](ir::TensorType type) {
    type.layout = ir::Layout::kNchw;
    return type;
  };
  for (const ir::ValueId v : body.inputs())
    made[v.index] = out.add_input(body.value(v).name, plain(body.value(v).type));
  for (const ir::Node& node : body.nodes()) {
    ir::Node copy = node;
    for (ir::ValueId& operand : copy.operands) operand = made.at(operand.index);
    if (copy.op == ir::Op::kConv1x1Matmul) {
      copy.op = ir::Op::kConv2d;
      copy.attributes = *ir::complete_attributes(ir::Op::kConv2d, {});
    }
    const ir::Value& value = body.value(node.result);
    const ir::NodeId id = out.add_node(std::move(copy), value.name, plain(value.type));
    made[node.result.index] = out.node(id).result;
  }
  out.set_outputs({made.at(body.outputs()[0].index)});
  return out;
}

// In [-1, 1), so that every product rounds; variances in [0.5, 1.5).
ir::Tensor seeded(const ir::Graph& source, ir::ValueId input) {
  const ir::Value& value = source.value(input);
  ir::Tensor out(ir::DType::kF32, value.type.shape);
  const bool variance = std::ranges::any_of(source.nodes(), [&](const ir::Node& node) {
    return node.op == ir::Op::kBatchNorm && node.operands[4] == input;
  });
  const std::span<float> data = out.data_mut<float>();
  fill(variance ? Distribution::kUniform : Distribution::kSymmetric, 0, value.name, data);
  if (variance)
    for (float& v : data) v += 0.5f;
  return out;
}

}  // namespace

CroppedKernel crop(const ir::Graph& graph, const ir::Node& node, const CropLimits& limits,
                   ThreadPool& pool) {
  constexpr std::int64_t kWhole = std::int64_t{1} << 40;
  std::optional<ir::Graph> body = Crop(graph, node, limits).body();
  if (!body) body = Crop(graph, node, {kWhole, kWhole, kWhole}).body();
  DRIFTC_ASSERT(body.has_value(), "a kernel's own shapes fit");
  CroppedKernel out;
  out.source = as_source(*body);
  for (const ir::ValueId input : out.source.inputs())
    out.inputs.push_back(seeded(out.source, input));

  ir::Node wrapped;
  wrapped.op = ir::Op::kKernel;
  for (const ir::Node& inner : body->nodes()) wrapped.from.push_back(inner.from[0]);
  for (const ir::ValueId input : body->inputs())
    wrapped.operands.push_back(
        out.compiled.add_input(body->value(input).name, body->value(input).type));
  const ir::Value& result = body->value(body->outputs()[0]);
  ir::TensorType type = result.type;
  type.layout = graph.value(node.result).type.layout;
  const std::string name = result.name;
  ir::Kernel kernel = *node.kernel;
  kernel.contract.fold = ir::Fold::kNone;
  kernel.body = std::move(*body);
  wrapped.kernel = std::make_shared<const ir::Kernel>(std::move(kernel));
  const ir::NodeId id = out.compiled.add_node(std::move(wrapped), name, type);
  out.compiled.set_outputs({out.compiled.node(id).result});

  Evaluator exact(out.source, eager_recipes(out.source), EvalContext{pool, 0}, ir::DType::kF64);
  for (std::size_t i = 0; i < out.inputs.size(); ++i)
    exact.know(out.source.inputs()[i], out.inputs[i]);
  out.reference = exact.value(out.source.outputs()[0]);
  return out;
}

ir::Graph with_kernel(const CroppedKernel& cropped, const ir::Kernel& kernel) {
  ir::Graph out = cropped.compiled;
  ir::Node& node = out.mutable_node(cropped.node());
  ir::Kernel changed = kernel;
  changed.contract.fold = ir::Fold::kNone;
  changed.body = node.kernel->body;
  node.kernel = std::make_shared<const ir::Kernel>(std::move(changed));
  return out;
}

ir::Tensor replay(const CroppedKernel& cropped, const ir::Graph& compiled, ThreadPool& pool) {
  const SourceMap map =
      map_to_source(cropped.source, compiled, eager_contracts(cropped.source, std::nullopt));
  Evaluator evaluator(cropped.source, map.compiled_recipes, EvalContext{pool, 0});
  for (std::size_t i = 0; i < cropped.inputs.size(); ++i)
    evaluator.know(cropped.source.inputs()[i], cropped.inputs[i]);
  return evaluator.value(cropped.source.outputs()[0]);
}

}  // namespace driftc::runtime::study
