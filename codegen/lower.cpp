#include "codegen/lower.h"

#include <fmt/format.h>

#include "codegen/emitters.h"
#include "codegen/index_space.h"

namespace driftc::codegen {

int KernelContext::operand_index(ir::ValueId value) const {
  const auto& inputs = body().inputs();
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i] == value) return static_cast<int>(i);
  return -1;
}

bool KernelContext::wide(std::vector<std::int64_t> counts) const {
  if (options.force_wide_index) return true;
  for (const ir::TensorType& type : operands) counts.push_back(type.shape.elements());
  counts.push_back(result.shape.elements());
  return needs_wide(counts);
}

Result<LoweredKernel> lower(const ir::Graph& graph, ir::NodeId kernel_node,
                            const LowerOptions& options) {
  const ir::Node& node = graph.node(kernel_node);
  DRIFTC_ASSERT(node.op == ir::Op::kKernel && node.kernel != nullptr, "lower takes kernel nodes");
  const ir::Kernel& kernel = *node.kernel;
  KernelContext context{kernel, {}, graph.value(node.result).type, options};
  for (ir::ValueId v : node.operands) context.operands.push_back(graph.value(v).type);

  auto refuse = [&](const std::string& why) {
    return internal_error(fmt::format("kernel '{}' ({}): {}", graph.name_of(kernel_node),
                                      ir::name_of(kernel.algorithm), why));
  };
  if (kernel.body.inputs().size() != node.operands.size())
    return refuse("the body's inputs do not match the operands");
  const ir::Node* reduction = ir::reduction_node(kernel.body);
  if (reduction != nullptr) {
    if (!kernel.contract.order) return refuse("the contract has no order");
    if (!ir::supports_order(kernel.algorithm, *kernel.contract.order))
      return refuse(fmt::format("no kernel has order {}", ir::to_string(*kernel.contract.order)));
  }

  auto emit = [&]() -> Result<LoweredKernel> {
    switch (kernel.algorithm) {
      case ir::Algorithm::kElementwise:
        return emit_elementwise(context);
      case ir::Algorithm::kCopy:
        return kernel.body.nodes()[0].op == ir::Op::kResize ? emit_resize(context)
                                                            : emit_copy(context);
      case ir::Algorithm::kPool:
        return emit_pool(context);
      case ir::Algorithm::kReduce:
        return reduction != nullptr && reduction->op == ir::Op::kGlobalAvgPool
                   ? emit_reduce(context)
                   : emit_reduce_axes(context);
      case ir::Algorithm::kSoftmax:
        return emit_softmax(context);
      case ir::Algorithm::kDirect:
        return reduction != nullptr && reduction->op == ir::Op::kConvTranspose
                   ? emit_conv_transpose(context)
                   : emit_conv_direct(context);
      case ir::Algorithm::kImplicitGemm:
        return emit_conv_implicit_gemm(context);
      case ir::Algorithm::kIm2col:
        return emit_conv_im2col(context);
      case ir::Algorithm::kWinograd2:
      case ir::Algorithm::kWinograd4:
        return emit_winograd(context);
      case ir::Algorithm::kWinograd2Fused:
      case ir::Algorithm::kWinograd4Fused:
        return emit_winograd_fused(context);
      case ir::Algorithm::kMatmul:
        return emit_matmul(context);
      case ir::Algorithm::kInterpreter:
        break;
    }
    return internal_error("it runs in the interpreter and has no code");
  };
  auto lowered = emit();
  if (!lowered) {
    Diagnostic d = lowered.error();
    d.message = refuse(d.message).message;
    return d;
  }
  lowered->algorithm = kernel.algorithm;
  lowered->contract = kernel.contract;
  lowered->schedule = kernel.schedule;
  return lowered;
}

}  // namespace driftc::codegen
