#include "passes/fold_batchnorm.h"

#include <algorithm>
#include <cmath>

#include "ir/support/round.h"
#include "passes/eager_contract.h"
#include "passes/rewrite.h"

namespace driftc::passes {
namespace {

template <class T>
float fold_in(std::span<float> weights, float bias, float scale, float shift, float mean, float var,
              double epsilon) {
  const T inv = div_rn(T{1}, sqrt_rn(add_rn(T{var}, static_cast<T>(epsilon))));
  const T s = mul_rn(T{scale}, inv);
  for (float& w : weights) w = static_cast<float>(mul_rn(T{w}, s));
  return static_cast<float>(add_rn(mul_rn(sub_rn(T{bias}, T{mean}), s), T{shift}));
}

struct Folded {
  ir::Tensor weights, bias;
};

std::optional<Folded> fold(const ir::Graph& graph, const ir::Node& conv, const ir::Node& norm,
                           ir::Fold how) {
  std::vector<ir::Tensor> constants;  // weights, scale, shift, mean, var, maybe bias
  const auto take = [&](ir::ValueId value) {
    auto tensor = constant_tensor(graph, value);
    if (tensor && tensor->dtype() == ir::DType::kF32) constants.push_back(std::move(*tensor));
  };
  take(conv.operands[1]);
  for (std::size_t i = 1; i < 5; ++i) take(norm.operands[i]);
  const bool biased = conv.operands.size() == 3;
  if (biased) take(conv.operands[2]);
  if (constants.size() != (biased ? 6u : 5u)) return std::nullopt;

  const ir::Shape& shape = constants[0].shape();
  Folded out{ir::Tensor(ir::DType::kF32, shape), ir::Tensor(ir::DType::kF32, ir::Shape{shape[0]})};
  const auto weights = out.weights.data_mut<float>(), bias = out.bias.data_mut<float>();
  std::ranges::copy(constants[0].data<float>(), weights.begin());
  const auto per_channel = static_cast<std::size_t>(shape[1] * shape[2] * shape[3]);
  for (std::size_t k = 0; k < static_cast<std::size_t>(shape[0]); ++k)
    bias[k] =
        fold_channel(weights.subspan(k * per_channel, per_channel),
                     biased ? constants[5].data<float>()[k] : 0.0F, constants[1].data<float>()[k],
                     constants[2].data<float>()[k], constants[3].data<float>()[k],
                     constants[4].data<float>()[k], norm.number("epsilon"), how);
  const auto finite = [](float x) { return std::isfinite(x); };
  if (!std::ranges::all_of(weights, finite) || !std::ranges::all_of(bias, finite))
    return std::nullopt;
  return out;
}

// Whether the source normalises the same convolution's result, with nothing but identities between:
// replay folds the source nodes.
bool adjacent_in_source(const ir::Node& conv, const ir::Node& norm, const PassContext& context) {
  const ir::Graph& source = *context.source;
  const auto result = source.find(norm.from.back());
  const ir::Node* node = result ? source.producer(*result) : nullptr;
  if (node == nullptr || node->op != ir::Op::kBatchNorm) return false;
  node = source.producer(node->operands[0]);
  while (node != nullptr && node->op == ir::Op::kIdentity)
    node = source.producer(node->operands[0]);
  return node != nullptr && node->op == ir::Op::kConv2d &&
         std::ranges::find(conv.from, source.value(node->result).name) != conv.from.end();
}

// The conv whose result `norm` may absorb.
const ir::Node* foldable_conv(const ir::Graph& graph, const ir::Node& norm,
                              const std::vector<std::vector<ir::NodeId>>& consumers,
                              const PassContext& context) {
  if (norm.op != ir::Op::kBatchNorm || stays_eager(context, norm.from)) return nullptr;
  const ir::Node* conv = graph.producer(norm.operands[0]);
  if (conv == nullptr || conv->op != ir::Op::kConv2d || conv->word("fold") != "none")
    return nullptr;
  if (!only_consumer(graph, conv->result, consumers) || stays_eager(context, conv->from))
    return nullptr;
  if (conv->operands.size() == 3 && !bias_is_own(*conv, context)) return nullptr;
  if (!adjacent_in_source(*conv, norm, context)) return nullptr;
  return conv;
}

}  // namespace

float fold_channel(std::span<float> weights, float bias, float scale, float shift, float mean,
                   float var, double epsilon, ir::Fold how) {
  return how == ir::Fold::kF32 ? fold_in<float>(weights, bias, scale, shift, mean, var, epsilon)
                               : fold_in<double>(weights, bias, scale, shift, mean, var, epsilon);
}

Result<ir::Graph> fold_batchnorm(const ir::Graph& graph, const PassContext& context) {
  if (context.match_order) return graph;
  const std::string& in = context.options.get("fold-batchnorm.in");
  const ir::Fold how = in == "f32" ? ir::Fold::kF32 : ir::Fold::kF64;
  const auto consumers = consumers_of(graph);
  std::map<std::uint32_t, Folded> folded;  // by the batch_norm's result
  std::vector<bool> absorbed(graph.node_count());
  for (const ir::Node& norm : graph.nodes()) {
    const ir::Node* conv = foldable_conv(graph, norm, consumers, context);
    if (conv == nullptr) continue;
    if (auto result = fold(graph, *conv, norm, how)) {
      folded.emplace(norm.result.index, std::move(*result));
      absorbed[graph.value(conv->result).producer->index] = true;
    }
  }

  ir::Rewriter rewriter(graph);
  for (std::uint32_t i = 0; i < graph.node_count(); ++i) {
    const ir::Node& node = graph.node({i});
    if (absorbed[i]) continue;
    const auto found = folded.find(node.result.index);
    if (found == folded.end()) {
      rewriter.copy({i});
      continue;
    }
    const ir::Node& conv = *graph.producer(node.operands[0]);
    const ir::Value& result = graph.value(node.result);
    const auto constant = [&](const char* what, ir::Tensor tensor) {
      return rewriter.graph().add_constant(
          fresh_in_both(result.name + what, graph, rewriter.graph()),
          ir::Literal::dense(std::move(tensor)));
    };
    ir::Node made = conv;
    made.from = merge_from(*context.source, {&conv.from, &node.from});
    made.location = node.location;
    made.operands = {rewriter.mapped(conv.operands[0]),
                     constant(".weights", std::move(found->second.weights)),
                     constant(".bias", std::move(found->second.bias))};
    made.set("fold", std::string(ir::name_of(how)));
    const ir::NodeId id = rewriter.graph().add_node(std::move(made), result.name, result.type);
    rewriter.replace(node.result, rewriter.graph().node(id).result);
  }
  return without_unused_constants(rewriter.finish());
}

}  // namespace driftc::passes
