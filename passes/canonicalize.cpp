#include "passes/canonicalize.h"

#include <algorithm>
#include <cmath>

#include "passes/rewrite.h"

namespace driftc::passes {
namespace {

// Every element of the constant f32 operand is `wanted`, sign of zero included.
bool is_all(const ir::Graph& graph, ir::ValueId value, float wanted) {
  const ir::Node* node = graph.producer(value);
  if (node == nullptr || node->op != ir::Op::kConstant) return false;
  if (node->literal->type().dtype != ir::DType::kF32) return false;
  if (node->literal->origin() == ir::Literal::Origin::kRandom) return false;
  const ir::Tensor& tensor = node->literal->tensor();
  const auto bits = std::bit_cast<std::uint32_t>(wanted);
  return tensor.elements() > 0 && std::ranges::all_of(tensor.data<float>(), [&](float x) {
           return std::bit_cast<std::uint32_t>(x) == bits;
         });
}

bool all_equal(const std::vector<std::int64_t>& values, std::int64_t wanted) {
  return std::ranges::all_of(values, [&](std::int64_t v) { return v == wanted; });
}

// The operand that the node returns unchanged, bit for bit; empty when it computes something.
std::optional<ir::ValueId> unchanged_operand(const ir::Graph& graph, const ir::Node& node) {
  if (node.operands.empty()) return std::nullopt;
  const ir::ValueId x = node.operands[0];
  const ir::TensorType &in = graph.value(x).type, &out = graph.value(node.result).type;
  const auto same_type = [&](ir::ValueId v) {
    return graph.value(v).type.shape == out.shape && graph.value(v).type.dtype == out.dtype;
  };
  const auto when = [&](bool holds) -> std::optional<ir::ValueId> {
    if (holds && same_type(x)) return x;
    return std::nullopt;
  };
  switch (node.op) {
    case ir::Op::kIdentity:
    case ir::Op::kReshape:
    case ir::Op::kFlatten:
      return when(in.shape == out.shape);
    case ir::Op::kTranspose: {
      const auto& perm = node.ints("perm");
      bool sorted = true;
      for (std::size_t i = 0; i < perm.size(); ++i)
        sorted = sorted && perm[i] == static_cast<std::int64_t>(i);
      return when(sorted);
    }
    case ir::Op::kSlice:
      return when(all_equal(node.ints("starts"), 0) && all_equal(node.ints("steps"), 1));
    case ir::Op::kPad:
      return when(all_equal(node.ints("before"), 0) && all_equal(node.ints("after"), 0));
    case ir::Op::kConcat:
      return when(node.operands.size() == 1);
    case ir::Op::kClip:
      return when(std::isinf(node.number("min")) && node.number("min") < 0 &&
                  std::isinf(node.number("max")) && node.number("max") > 0);
    case ir::Op::kRelu: {
      const ir::Node* before = graph.producer(x);
      return when(before != nullptr && before->op == ir::Op::kRelu);
    }
    case ir::Op::kMul:
      if (is_all(graph, node.operands[1], 1.0F)) return when(true);
      if (is_all(graph, x, 1.0F) && same_type(node.operands[1])) return node.operands[1];
      return std::nullopt;
    case ir::Op::kDiv:
      return when(is_all(graph, node.operands[1], 1.0F));
    case ir::Op::kSub:
      return when(is_all(graph, node.operands[1], 0.0F));
    case ir::Op::kAdd:
      if (is_all(graph, node.operands[1], -0.0F)) return when(true);
      if (is_all(graph, x, -0.0F) && same_type(node.operands[1])) return node.operands[1];
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

// One run over the graph; repeated until nothing changes, because one rewrite may enable another.
class Canonicalizer {
 public:
  Canonicalizer(const ir::Graph& graph, const PassContext& context)
      : graph_(graph),
        context_(context),
        consumers_(consumers_of(graph)),
        rewriter_(graph),
        claimed_(graph.node_count()) {}

  ir::Graph run() {
    plan_merges();
    for (std::uint32_t i = 0; i < graph_.node_count(); ++i) {
      const ir::Node& node = graph_.node({i});
      if (removable(node)) {
        give_from(node.result, node.from);
        rewriter_.replace(node.result, rewriter_.mapped(*unchanged_operand(graph_, node)));
        continue;
      }
      if (merged_away(i)) continue;
      const ir::NodeId copy = emit(i);
      if (!claimed_[i].empty()) {
        ir::Node& made = rewriter_.graph().mutable_node(copy);
        made.from = merge_from(*context_.source, {&made.from, &claimed_[i]});
      }
    }
    return rewriter_.finish();
  }

 private:
  // `producer` is merged into the node `into`, its only reader.
  struct Merge {
    std::uint32_t producer, into;
  };

  void plan_merges() {
    for (std::uint32_t i = 0; i < graph_.node_count(); ++i) {
      const ir::Node& node = graph_.node({i});
      if (stays_eager(context_, node.from) || removable(node)) continue;
      const auto producer = mergeable_producer(node);
      if (!producer || into_.contains(*producer) || from_.contains(*producer)) continue;
      into_[*producer] = i;
      from_[i] = *producer;
    }
  }
  bool removable(const ir::Node& node) const {
    return !graph_.is_output(node.result) && !stays_eager(context_, node.from) &&
           unchanged_operand(graph_, node).has_value();
  }
  bool merged_away(std::uint32_t i) const { return into_.contains(i); }

  // The node whose work `node` can take over in one node.
  std::optional<std::uint32_t> mergeable_producer(const ir::Node& node) const {
    switch (node.op) {
      case ir::Op::kReshape:
      case ir::Op::kFlatten:
        return producer_if(node.operands[0], [](const ir::Node& p) {
          return p.op == ir::Op::kReshape || p.op == ir::Op::kFlatten;
        });
      case ir::Op::kTranspose:
        return producer_if(node.operands[0],
                           [](const ir::Node& p) { return p.op == ir::Op::kTranspose; });
      case ir::Op::kConv2d:
        return producer_if(node.operands[0], [&](const ir::Node& p) { return pads_with_zero(p); });
      case ir::Op::kAdd:
        for (std::size_t side : {0u, 1u})
          if (const auto p = producer_if(node.operands[side], [&](const ir::Node& conv) {
                return takes_bias(conv, node.operands[1 - side], node.result);
              }))
            return p;
        return std::nullopt;
      default:
        return std::nullopt;
    }
  }

  template <class Condition>
  std::optional<std::uint32_t> producer_if(ir::ValueId value, Condition condition) const {
    const auto& id = graph_.value(value).producer;
    if (!id || !only_consumer(graph_, value, consumers_)) return std::nullopt;
    const ir::Node& node = graph_.node(*id);
    if (!condition(node) || stays_eager(context_, node.from)) return std::nullopt;
    return id->index;
  }

  bool pads_with_zero(const ir::Node& pad) const {
    if (pad.op != ir::Op::kPad || graph_.value(pad.result).type.shape.rank() != 4) return false;
    if (context_.eager_order && context_.eager_order->skip) return false;
    const auto &before = pad.ints("before"), &after = pad.ints("after");
    const bool spatial = before[0] == 0 && after[0] == 0 && before[1] == 0 && after[1] == 0;
    const bool grows = before[2] >= 0 && before[3] >= 0 && after[2] >= 0 && after[3] >= 0;
    const double value = pad.number("value");
    return spatial && grows && value == 0 && !std::signbit(value);
  }

  // `conv` has no bias and `addend` is a constant with one value per output channel.
  bool takes_bias(const ir::Node& conv, ir::ValueId addend, ir::ValueId sum) const {
    if (conv.operands.size() != 2) return false;
    const ir::Node* constant = graph_.producer(addend);
    if (constant == nullptr || constant->op != ir::Op::kConstant) return false;
    const ir::TensorType &type = graph_.value(conv.result).type, &added = graph_.value(addend).type;
    if (graph_.value(sum).type.shape != type.shape || added.dtype != type.dtype) return false;
    std::size_t channel_axis = 0;
    if (conv.op == ir::Op::kConv2d) {
      if (conv.word("fold") != "none") return false;
      channel_axis = 1;
    } else if (conv.op == ir::Op::kGemm) {
      channel_axis = type.shape.rank() - 1;
    } else {
      return false;
    }
    const std::size_t rank = type.shape.rank();
    if (added.shape.rank() > rank) return false;
    // Broadcasting aligns the last axes.
    for (std::size_t axis = 0; axis < rank; ++axis) {
      const std::size_t missing = rank - added.shape.rank();
      const std::int64_t extent = axis < missing ? 1 : added.shape[axis - missing];
      if (extent != (axis == channel_axis ? type.shape[1] : 1)) return false;
    }
    return true;
  }

  ir::NodeId emit(std::uint32_t i) {
    const auto merge = from_.find(i);
    if (merge == from_.end()) return rewriter_.copy({i});
    const ir::Node &node = graph_.node({i}), &producer = graph_.node({merge->second});
    ir::Node made = producer.op == ir::Op::kPad ? node : producer;
    made.from =
        merge_from(*context_.source, {&producer.from, &node.from, &claimed_[merge->second]});
    made.location = node.location;
    switch (node.op) {
      case ir::Op::kReshape:
      case ir::Op::kFlatten:
        made.op = ir::Op::kReshape;
        made.attributes = {graph_.value(node.result).type.shape.dims()};
        break;
      case ir::Op::kTranspose: {
        const auto &first = producer.ints("perm"), &second = node.ints("perm");
        std::vector<std::int64_t> perm;
        for (std::int64_t axis : second) perm.push_back(first[static_cast<std::size_t>(axis)]);
        made.set("perm", perm);
        break;
      }
      case ir::Op::kConv2d: {
        std::vector<std::int64_t> pad = node.ints("pad");
        const auto &before = producer.ints("before"), &after = producer.ints("after");
        const std::int64_t added[] = {before[2], before[3], after[2], after[3]};
        for (std::size_t k = 0; k < 4; ++k) pad[k] += added[k];
        made.set("pad", pad);
        made.operands[0] = producer.operands[0];
        break;
      }
      default: {  // the bias of a conv or gemm
        const bool first = graph_.producer(node.operands[0]) == &producer;
        made.operands.push_back(bias_constant(node.operands[first ? 1 : 0], producer));
        if (made.op == ir::Op::kGemm) made.set("beta", 1.0);
        break;
      }
    }
    const bool bias_made = node.op == ir::Op::kAdd;
    for (std::size_t k = 0; k + (bias_made ? 1 : 0) < made.operands.size(); ++k)
      made.operands[k] = rewriter_.mapped(made.operands[k]);
    const ir::Value& result = graph_.value(node.result);
    const ir::NodeId id = rewriter_.graph().add_node(std::move(made), result.name, result.type);
    rewriter_.replace(node.result, rewriter_.graph().node(id).result);
    return id;
  }

  // The addend as a vector [K] in the new graph, under a fresh name unless it has that shape
  // already.
  ir::ValueId bias_constant(ir::ValueId addend, const ir::Node& conv) {
    const ir::Value& value = graph_.value(addend);
    const ir::Shape shape{graph_.value(conv.result).type.shape[1]};
    if (value.type.shape == shape) return rewriter_.mapped(addend);
    const ir::Literal& literal = *graph_.producer(addend)->literal;
    return rewriter_.graph().add_constant(fresh(value.name + ".bias"),
                                          ir::Literal::dense(literal.tensor().reshaped(shape)));
  }

  std::string fresh(const std::string& wanted) {
    return fresh_in_both(wanted, graph_, rewriter_.graph());
  }

  // A removed node's source work belongs to whoever reads its value.
  void give_from(ir::ValueId value, const std::vector<std::string>& from) {
    const std::uint32_t self = graph_.value(value).producer->index;
    for (ir::NodeId reader : consumers_[value.index]) {
      auto& list = claimed_[reader.index];
      list.insert(list.end(), from.begin(), from.end());
      list.insert(list.end(), claimed_[self].begin(), claimed_[self].end());
    }
  }

  const ir::Graph& graph_;
  const PassContext& context_;
  std::vector<std::vector<ir::NodeId>> consumers_;
  ir::Rewriter rewriter_;
  std::map<std::uint32_t, std::uint32_t> into_;  // producer -> the node that takes its work
  std::map<std::uint32_t, std::uint32_t> from_;  // that node -> producer
  std::vector<std::vector<std::string>> claimed_;
};

}  // namespace

Result<ir::Graph> canonicalize(const ir::Graph& graph, const PassContext& context) {
  ir::Graph current = graph;
  while (true) {
    ir::Graph next = without_unused_constants(Canonicalizer(current, context).run());
    if (same_graph(next, current)) return next;
    current = std::move(next);
  }
}

}  // namespace driftc::passes
