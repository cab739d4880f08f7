#include "passes/form_kernels.h"

#include "passes/eager_contract.h"
#include "passes/rewrite.h"
#include "passes/tiling.h"

namespace driftc::passes {
namespace {

constexpr std::int64_t kMinMatmulSlice = 32;

ir::Algorithm algorithm_for(const ir::Graph& graph, const ir::Node& node) {
  switch (node.op) {
    case ir::Op::kConv2d: {
      return ir::thin_groups(graph, node) ? ir::Algorithm::kDirect : ir::Algorithm::kImplicitGemm;
    }
    case ir::Op::kConv1x1Matmul:
    case ir::Op::kMatmul:
    case ir::Op::kGemm:
      return ir::Algorithm::kMatmul;
    case ir::Op::kMaxPool:
    case ir::Op::kAvgPool:
      return ir::Algorithm::kPool;
    case ir::Op::kGlobalAvgPool:
    case ir::Op::kReduceMean:
    case ir::Op::kReduceSum:
    case ir::Op::kReduceMax:
    case ir::Op::kReduceMin:
      return ir::Algorithm::kReduce;
    case ir::Op::kConvTranspose:
      return ir::Algorithm::kDirect;
    case ir::Op::kArgmax:
      return ir::Algorithm::kInterpreter;
    case ir::Op::kSoftmax:
      return ir::Algorithm::kSoftmax;
    case ir::Op::kAdd:
    case ir::Op::kSub:
    case ir::Op::kMul:
    case ir::Op::kDiv:
    case ir::Op::kRelu:
    case ir::Op::kClip:
    case ir::Op::kBatchNorm:
    case ir::Op::kMax:
    case ir::Op::kMin:
    case ir::Op::kPow:
    case ir::Op::kPrelu:
    case ir::Op::kSqrt:
    case ir::Op::kExp:
    case ir::Op::kLog:
    case ir::Op::kErf:
    case ir::Op::kAbs:
    case ir::Op::kNeg:
    case ir::Op::kSigmoid:
    case ir::Op::kTanh:
    case ir::Op::kSoftplus:
    case ir::Op::kGelu:
    case ir::Op::kElu:
    case ir::Op::kLeakyRelu:
    case ir::Op::kHardSigmoid:
    case ir::Op::kHardSwish:
    case ir::Op::kCast:
      return ir::Algorithm::kElementwise;
    case ir::Op::kConcat:
    case ir::Op::kFlatten:
    case ir::Op::kReshape:
    case ir::Op::kTranspose:
    case ir::Op::kSlice:
    case ir::Op::kPad:
    case ir::Op::kResize:
    case ir::Op::kIdentity:
      return ir::Algorithm::kCopy;
    case ir::Op::kConstant:
    case ir::Op::kKernel:
      break;
  }
  DRIFTC_ASSERT(false, "not a compute node");
}

// The element type that has no emitter here, if any: kernels compute in f32, copies move any type.
std::optional<ir::DType> type_without_kernel(const ir::Graph& graph, const ir::Node& node,
                                             ir::Algorithm algorithm) {
  if (algorithm == ir::Algorithm::kCopy && node.op != ir::Op::kPad && node.op != ir::Op::kResize)
    return std::nullopt;
  const auto dtype = [&](ir::ValueId value) { return graph.value(value).type.dtype; };
  if (dtype(node.result) != ir::DType::kF32) return dtype(node.result);
  for (ir::ValueId operand : node.operands)
    if (dtype(operand) != ir::DType::kF32) return dtype(operand);
  return std::nullopt;
}

ir::Graph one_node_body(const ir::Graph& graph, const ir::Node& node) {
  ir::Graph body("body");
  ir::Node inner = node;
  inner.operands.clear();
  for (ir::ValueId operand : node.operands) {
    const ir::Value& value = graph.value(operand);
    const auto known = body.find(value.name);
    inner.operands.push_back(known ? *known : body.add_input(value.name, value.type));
  }
  const ir::Value& result = graph.value(node.result);
  const ir::NodeId id = body.add_node(std::move(inner), result.name, result.type);
  body.set_outputs({body.node(id).result});
  return body;
}

ir::Kernel wrap(const ir::Graph& graph, const ir::Node& node, bool channels_last,
                const PassContext& context) {
  ir::Kernel kernel;
  kernel.algorithm = algorithm_for(graph, node);
  kernel.body = one_node_body(graph, node);
  kernel.contract = eager_contract(graph, node, context);
  if (kernel.algorithm == ir::Algorithm::kInterpreter) {
    kernel.reason = "no emitter for " + std::string(ir::info(node.op).name);
    return kernel;
  }
  if (const auto type = type_without_kernel(graph, node, kernel.algorithm)) {
    kernel.algorithm = ir::Algorithm::kInterpreter;
    kernel.reason = "no kernel computes in " + std::string(ir::name_of(*type));
    return kernel;
  }
  if (!kernel.contract.order) return kernel;
  if (!kernel_has_order(context, kernel.algorithm, *kernel.contract.order)) {
    PassContext defaults = context;
    defaults.eager_order.reset();
    kernel.contract = eager_contract(graph, node, defaults);
  }
  if (node.op == ir::Op::kConv2d && channels_last) kernel.contract.order->walk = ir::Walk::kRsc;
  kernel.schedule = schedule_for(kernel, context.sm_count);
  if (node.op == ir::Op::kConv1x1Matmul && !context.options.on("choose-tiling.batch-invariant")) {
    const int slices = slices_for_grid(*gemm_extent(kernel.body), kernel.schedule, context.sm_count,
                                       kMinMatmulSlice);
    if (slices > 1)
      *kernel.contract.order =
          with_split(*kernel.contract.order, slices, ir::SplitCombine::kSerial);
  }
  return kernel;
}

}  // namespace

ir::Graph form_kernels(const ir::Graph& graph, const PassContext& context) {
  ir::Graph stored = graph;
  for (ir::ValueId output : graph.outputs()) stored.set_layout(output, ir::Layout::kNchw);
  ir::Rewriter rewriter(stored);
  for (std::uint32_t i = 0; i < stored.node_count(); ++i) {
    const ir::Node& node = stored.node({i});
    if (node.op == ir::Op::kConstant || node.op == ir::Op::kKernel) {
      rewriter.copy({i});
      continue;
    }
    const bool channels_last = graph.value(node.result).type.layout == ir::Layout::kNhwc;
    ir::Node wrapped;
    wrapped.op = ir::Op::kKernel;
    wrapped.from = node.from;
    wrapped.location = node.location;
    wrapped.kernel = std::make_shared<const ir::Kernel>(wrap(stored, node, channels_last, context));
    for (ir::ValueId input : wrapped.kernel->body.inputs())
      wrapped.operands.push_back(
          rewriter.mapped(*stored.find(wrapped.kernel->body.value(input).name)));
    const ir::Value& result = stored.value(node.result);
    const ir::NodeId id = rewriter.graph().add_node(std::move(wrapped), result.name, result.type);
    rewriter.replace(node.result, rewriter.graph().node(id).result);
  }
  return rewriter.finish();
}

}  // namespace driftc::passes
