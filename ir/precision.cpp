#include "ir/precision.h"

#include <fmt/format.h>

#include <algorithm>

namespace driftc::ir {
namespace {

// Groups with fewer channels than this on either side leave most of a GEMM tile empty.
constexpr std::int64_t kGemmChannels = 8;

bool is_low(Precision p) { return p == Precision::kF16 || p == Precision::kBF16; }

// Whether kernels of the op run on tensor cores.
bool takes_tensor_cores(const Graph& graph, const Node& node) {
  switch (node.op) {
    case Op::kConv2d:
      return !thin_groups(graph, node);
    case Op::kConv1x1Matmul:
    case Op::kMatmul:
    case Op::kGemm:
      return true;
    default:
      return false;
  }
}

// The instruction of the kernels; empty where the architecture has none.
std::optional<MmaSpec> instruction(Precision precision, const std::string& arch) {
  if (arch.empty() || arch == "sm_70") return std::nullopt;  // no kernels for sm_70
  switch (precision) {
    case Precision::kF16:
      return MmaSpec{arch, "f16", arch == "sm_75" ? "m16n8k8" : "m16n8k16", ""};
    case Precision::kBF16:
      if (arch == "sm_75") return std::nullopt;
      return MmaSpec{arch, "bf16", "m16n8k16", ""};
    case Precision::kTf32Rna:
    case Precision::kTf32Trunc:
      if (arch == "sm_75") return std::nullopt;
      return MmaSpec{arch, "tf32", "m16n8k8", precision == Precision::kTf32Rna ? "rna" : "trunc"};
    case Precision::kF32:
    case Precision::kF64:
      break;
  }
  return std::nullopt;
}

}  // namespace

Result<PrecisionPlan> parse_precision_plan(std::string_view text, std::string_view flag) {
  constexpr std::string_view kHint =
      "P, pytorch, or conv=P,matmul=P,NODE=P with P = f32, tf32, tf32:rna, tf32:trunc, f16, bf16 "
      "or "
      "f64";
  PrecisionPlan plan;
  if (text == "pytorch") {
    plan.conv = Precision::kTf32Rna;
    return plan;
  }
  if (const auto all = parse_precision(text)) {
    plan.conv = plan.matmul = *all;
    return plan;
  }
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view word = rest.substr(0, comma);
    rest.remove_prefix(std::min(rest.size(), comma + 1));
    const std::size_t equals = word.rfind('=');
    if (equals == std::string_view::npos || equals == 0)
      return input_error(
          fmt::format("{} {}: '{}' is no precision and names none", flag, text, word),
          std::string(kHint));
    const auto precision = parse_precision(word.substr(equals + 1));
    if (!precision)
      return input_error(
          fmt::format("{} {}: unknown precision '{}'", flag, text, word.substr(equals + 1)),
          std::string(kHint));
    const std::string_view name = word.substr(0, equals);
    if (name == "conv") {
      plan.conv = *precision;
    } else if (name == "matmul") {
      plan.matmul = *precision;
    } else {
      plan.nodes[std::string(name)] = *precision;
    }
  }
  if (text.empty()) return input_error(fmt::format("{}: empty", flag), std::string(kHint));
  return plan;
}

std::string to_string(const PrecisionPlan& plan) {
  std::string out = fmt::format("conv={},matmul={}", name_of(plan.conv), name_of(plan.matmul));
  for (const auto& [node, precision] : plan.nodes)
    out += fmt::format(",{}={}", node, name_of(precision));
  return out;
}

bool thin_groups(const Graph& graph, const Node& node) {
  const Shape& weights = graph.value(node.operands[1]).type.shape;
  const std::int64_t groups = node.integer("groups");
  return groups > 1 && (weights[1] < kGemmChannels || weights[0] / groups < kGemmChannels);
}

Precision planned(const PrecisionPlan& plan, const Node& node, std::span<const std::string> names) {
  const OpClass op_class = info(node.op).op_class;
  if (op_class != OpClass::conv && op_class != OpClass::matmul) return Precision::kF32;
  for (const std::string& name : names)
    if (const auto found = plan.nodes.find(name); found != plan.nodes.end()) return found->second;
  return op_class == OpClass::conv ? plan.conv : plan.matmul;
}

void set_precision(NumericContract& contract, const Graph& graph, const Node& node,
                   Precision precision, const std::string& mma_arch) {
  if (precision == Precision::kF32 || !contract.order) return;
  if (precision == Precision::kF64) {
    contract.order->arith = Arith::kF64;
    contract.acc = Precision::kF64;
    return;
  }
  const auto mma =
      takes_tensor_cores(graph, node) ? instruction(precision, mma_arch) : std::optional<MmaSpec>();
  if (!mma && !is_low(precision)) return;
  contract.in = precision;
  const ReductionOrder& order = *contract.order;
  const bool chain = order.arith == Arith::kFma && order.kpad == 0 && !order.skip &&
                     order.lanes == 1 && order.acc == 1 && order.tile == 0 &&
                     order.combine != SplitCombine::kAtomic;
  if (!mma || !chain) return;
  contract.order->arith = Arith::kMma;
  contract.order->mma = *mma;
}

Precision stored_precision(const Graph& graph, const Node& node, Precision own,
                           const std::function<Precision(ValueId)>& stored) {
  if (graph.value(node.result).type.dtype != DType::kF32) return Precision::kF32;
  const OpClass op_class = info(node.op).op_class;
  if (op_class == OpClass::conv || op_class == OpClass::matmul)
    return is_low(own) ? own : Precision::kF32;
  switch (node.op) {
    case Op::kSoftmax:
    case Op::kExp:
    case Op::kLog:
    case Op::kPow:
    case Op::kSoftplus:
    case Op::kReduceSum:
    case Op::kCast:  // rounds by itself
    case Op::kConstant:
      return Precision::kF32;
    case Op::kBatchNorm:
    case Op::kPrelu:  // parameters do not promote
      return stored(node.operands[0]);
    default:
      break;
  }
  std::optional<Precision> common;
  for (ValueId operand : node.operands) {
    if (graph.is_constant(operand) && graph.value(operand).type.shape.elements() == 1) continue;
    const Precision p = stored(operand);
    if (common && *common != p) return Precision::kF32;
    common = p;
  }
  return common.value_or(Precision::kF32);
}

std::vector<Precision> stored_precisions(const Graph& graph, const PrecisionPlan& plan) {
  std::vector<Precision> of_node, of_value(graph.value_count(), Precision::kF32);
  for (const Node& node : graph.nodes()) {
    const std::string name = graph.value(node.result).name;
    const Precision p = stored_precision(graph, node, planned(plan, node, std::span(&name, 1)),
                                         [&](ValueId v) { return of_value[v.index]; });
    of_node.push_back(p);
    of_value[node.result.index] = p;
  }
  return of_node;
}

}  // namespace driftc::ir
