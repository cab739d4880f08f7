#include "ir/kernel.h"

#include <fmt/format.h>

#include <array>

namespace driftc::ir {
namespace {
constexpr std::array<std::string_view, 14> kNames = {
    "elementwise",     "copy",       "pool",   "reduce",    "softmax",   "direct",
    "implicit_gemm",   "im2col",     "matmul", "winograd2", "winograd4", "winograd2_fused",
    "winograd4_fused", "interpreter"};
}

std::string_view name_of(Algorithm algorithm) {
  return kNames[static_cast<std::size_t>(algorithm)];
}
std::optional<Algorithm> parse_algorithm(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == name) return static_cast<Algorithm>(i);
  return std::nullopt;
}

std::string to_string(const Schedule& s) {
  return fmt::format("{{block=[{},{},{}], thread=[{},{}], vector={}}}", s.block_m, s.block_n,
                     s.block_k, s.thread_m, s.thread_n, s.vector);
}

const Node* reduction_node(const Graph& body) {
  for (const Node& node : body.nodes())
    if (info(node.op).default_order) return &node;
  return nullptr;
}

ReductionExtent reduction_extent(const Graph& graph, const Node& node) {
  const auto shape = [&](std::size_t i) -> const Shape& {
    return graph.value(node.operands[i]).type.shape;
  };
  switch (node.op) {
    case Op::kConv2d:
    case Op::kConv1x1Matmul:
      return {shape(1)[1], shape(1)[2], shape(1)[3]};
    case Op::kConvTranspose:
      return {shape(1)[0] / node.integer("groups"), shape(1)[2], shape(1)[3]};
    case Op::kMatmul:
      return {shape(0)[shape(0).rank() - 1], 1, 1};
    case Op::kGemm:
      return {shape(0)[node.integer("trans_a") != 0 ? 0 : 1], 1, 1};
    case Op::kAvgPool:
      return {1, node.ints("kernel")[0], node.ints("kernel")[1]};
    case Op::kGlobalAvgPool:
      return {1, shape(0)[2], shape(0)[3]};
    case Op::kReduceMean:
    case Op::kReduceSum: {
      std::int64_t positions = 1;
      for (std::int64_t axis : node.ints("axes"))
        positions *= shape(0)[static_cast<std::size_t>(axis)];
      return {positions, 1, 1};
    }
    case Op::kSoftmax: {
      const std::int64_t axis = node.integer("axis");
      const auto rank = static_cast<std::int64_t>(shape(0).rank());
      return {shape(0)[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)], 1, 1};
    }
    default:
      break;
  }
  DRIFTC_ASSERT(false, "op has no reduction");
}

bool supports_order(Algorithm algorithm, const ReductionOrder& order) {
  const bool sequential = order.kpad == 0 && order.lanes == 1 && order.acc == 1 && order.tile == 0;
  const bool known_arith = order.arith != Arith::kMma;
  // Kernels with mma.sync: blocks follow each other in k, and there is none for sm_70.
  const bool mma = order.arith == Arith::kMma && order.mma.arch != "sm_70" &&
                   order.mma.shape != "m16n8k4" && order.combine != SplitCombine::kAtomic;
  const bool conv_walk =
      order.walk == Walk::kCrs || order.walk == Walk::kRsc || order.walk == Walk::kTiledCrs;
  switch (algorithm) {
    case Algorithm::kElementwise:
    case Algorithm::kCopy:
      return false;
    case Algorithm::kPool:
    case Algorithm::kSoftmax:
      return sequential && !order.skip && order.split == 1 &&
             (order.arith == Arith::kAdd || order.arith == Arith::kKahan ||
              order.arith == Arith::kF64);
    case Algorithm::kReduce:
      return order.kpad == 0 && !order.skip && order.split == 1 && order.acc == 1 &&
             order.tile == 0 && order.lanes <= (order.walk == Walk::kHw ? 32 : 1) &&
             (order.arith == Arith::kAdd || order.arith == Arith::kKahan ||
              order.arith == Arith::kF64);
    case Algorithm::kDirect:
      return conv_walk && sequential && order.split == 1 && known_arith;
    case Algorithm::kImplicitGemm:
      return conv_walk && sequential && !order.skip && (known_arith || mma);
    case Algorithm::kIm2col:
      return conv_walk && sequential && !order.skip && known_arith;
    // The channel sums: no taps left that a walk could order or padding that could be skipped.
    case Algorithm::kWinograd2:
    case Algorithm::kWinograd4:
    case Algorithm::kWinograd2Fused:
    case Algorithm::kWinograd4Fused:
      return conv_walk && sequential && !order.skip && order.split == 1 &&
             (order.bias == BiasPoint::kNone || order.bias == BiasPoint::kStored) && known_arith;
    case Algorithm::kMatmul:
      return order.walk == Walk::kK && sequential && !order.skip && (known_arith || mma);
    case Algorithm::kInterpreter:
      return true;
  }
  return false;
}

int winograd_tile(Algorithm algorithm) {
  if (algorithm == Algorithm::kWinograd2 || algorithm == Algorithm::kWinograd2Fused) return 2;
  if (algorithm == Algorithm::kWinograd4 || algorithm == Algorithm::kWinograd4Fused) return 4;
  return 0;
}

ReductionOrder channel_sums(const ReductionOrder& order) {
  ReductionOrder sums;
  sums.arith = order.arith;
  sums.mma = order.mma;
  if (order.bias != BiasPoint::kNone) sums.bias = BiasPoint::kStored;
  return sums;
}

std::string why_not(Algorithm algorithm, const Graph& graph, const Node& node) {
  if (node.op != Op::kConv2d) return fmt::format("a {} is no conv2d", info(node.op).name);
  if (winograd_tile(algorithm) == 0) {
    const bool known = algorithm == Algorithm::kDirect || algorithm == Algorithm::kImplicitGemm ||
                       algorithm == Algorithm::kIm2col;
    return known ? "" : fmt::format("{} computes no convolution", name_of(algorithm));
  }
  const Shape& w = graph.value(node.operands[1]).type.shape;
  if (w[2] != 3 || w[3] != 3) return fmt::format("its kernel is {}x{}, not 3x3", w[2], w[3]);
  const auto &stride = node.ints("stride"), &dilation = node.ints("dilation");
  if (stride[0] != 1 || stride[1] != 1)
    return fmt::format("its stride is {}x{}, not 1", stride[0], stride[1]);
  if (dilation[0] != 1 || dilation[1] != 1)
    return fmt::format("its dilation is {}x{}, not 1", dilation[0], dilation[1]);
  return "";
}

std::optional<int> contraction_site(const Graph& graph, NodeId id, const std::vector<int>& uses,
                                    const std::function<bool(NodeId)>& in_region) {
  const Node& node = graph.node(id);
  if (node.op != Op::kAdd && node.op != Op::kSub) return std::nullopt;
  for (int i = 0; i < 2; ++i) {
    ValueId value = node.operands[static_cast<std::size_t>(i)];
    while (true) {
      const auto& producer = graph.value(value).producer;
      if (!producer || !in_region(*producer) || uses[value.index] != 1 || graph.is_output(value))
        break;
      const Node& from = graph.node(*producer);
      if (from.op == Op::kMul) return i;
      if (from.op != Op::kIdentity) break;
      value = from.operands[0];
    }
  }
  return std::nullopt;
}

}  // namespace driftc::ir
