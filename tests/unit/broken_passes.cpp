#include "tests/unit/broken_passes.h"

#include <array>

#include "ir/builder.h"
#include "passes/fold_batchnorm.h"
#include "passes/fuse_epilogue.h"
#include "passes/registry.h"
#include "passes/rewrite.h"

namespace driftc::tests {
namespace {

using ir::Op;

// 1x1 with any stride becomes a matmul; the result is cropped where it should have been strided.
Result<ir::Graph> drop_stride(const ir::Graph& graph, const passes::PassContext&) {
  ir::Rewriter rewriter(graph);
  for (std::uint32_t i = 0; i < graph.node_count(); ++i) {
    const ir::Node& node = graph.node({i});
    const bool one_by_one = node.op == Op::kConv2d && node.integer("groups") == 1 &&
                            graph.value(node.operands[1]).type.shape[2] == 1 &&
                            graph.value(node.operands[1]).type.shape[3] == 1 &&
                            node.ints("pad") == std::vector<std::int64_t>{0, 0, 0, 0};
    if (!one_by_one) {
      rewriter.copy({i});
      continue;
    }
    const ir::Value& result = graph.value(node.result);
    ir::TensorType full = result.type;
    full.shape[2] = graph.value(node.operands[0]).type.shape[2];
    full.shape[3] = graph.value(node.operands[0]).type.shape[3];
    const bool strided = full.shape != result.type.shape;
    ir::Node matmul = node;
    matmul.op = Op::kConv1x1Matmul;
    matmul.attributes = {node.word("fold")};
    for (ir::ValueId& operand : matmul.operands) operand = rewriter.mapped(operand);
    const std::string name =
        strided ? passes::fresh_in_both(result.name + ".full", graph, rewriter.graph())
                : result.name;
    ir::NodeId made = rewriter.graph().add_node(std::move(matmul), name, full);
    if (strided) {
      ir::Node crop;
      crop.op = Op::kSlice;
      crop.operands = {rewriter.graph().node(made).result};
      crop.from = node.from;
      crop.attributes = {std::vector<std::int64_t>(4, 0), std::vector<std::int64_t>(4, 1),
                         result.type.shape.dims()};
      made = rewriter.graph().add_node(std::move(crop), result.name, result.type);
    }
    rewriter.replace(node.result, rewriter.graph().node(made).result);
  }
  return rewriter.finish();
}

// Rebuilds each fused conv body, `edit` changing its nodes.
Result<ir::Graph> fuse_then(const ir::Graph& graph, const passes::PassContext& context,
                            void (*edit)(ir::Graph& body)) {
  DRIFTC_TRY(fused, passes::fuse_epilogue(graph, context));
  return passes::edit_kernels(fused, [&](const ir::Node&, ir::Kernel& kernel) {
    if (ir::reduction_node(kernel.body) == nullptr || kernel.body.node_count() < 2) return false;
    edit(kernel.body);
    return true;
  });
}

// relu(sum + residual) becomes relu(sum) + residual.
void move_relu(ir::Graph& body) {
  for (std::uint32_t i = 1; i < body.node_count(); ++i) {
    const ir::Node relu = body.node({i}), add = body.node({i - 1});
    if (relu.op != Op::kRelu || add.op != Op::kAdd || relu.operands[0] != add.result) continue;
    ir::Node &first = body.mutable_node({i - 1}), &second = body.mutable_node({i});
    first.op = Op::kRelu;
    first.operands = {add.operands[0]};
    second.op = Op::kAdd;
    second.operands = {add.result, add.operands[1]};
  }
}
Result<ir::Graph> relu_over_add(const ir::Graph& graph, const passes::PassContext& context) {
  return fuse_then(graph, context, move_relu);
}

// sum + residual reads the sum twice.
void misread_residual(ir::Graph& body) {
  for (std::uint32_t i = 0; i < body.node_count(); ++i) {
    ir::Node& add = body.mutable_node({i});
    if (add.op != Op::kAdd) continue;
    const bool residual =
        !body.value(add.operands[1]).producer &&
        body.value(add.operands[1]).type.shape == body.value(add.result).type.shape;
    if (residual) add.operands[1] = add.operands[0];
  }
}
Result<ir::Graph> wrong_residual(const ir::Graph& graph, const passes::PassContext& context) {
  return fuse_then(graph, context, misread_residual);
}

// Every folded weight is scaled once more, the bias shifted once more (field case PT-124808).
Result<ir::Graph> fold_twice(const ir::Graph& graph, const passes::PassContext& context) {
  DRIFTC_TRY(folded, passes::fold_batchnorm(graph, context));
  ir::Graph result = folded;
  for (const ir::Node& conv : folded.nodes()) {
    if (conv.op != Op::kConv2d || conv.word("fold") == "none") continue;
    const ir::Node& norm = *graph.producer(*graph.find(folded.value(conv.result).name));
    if (norm.op != Op::kBatchNorm) continue;
    const ir::Tensor old = *passes::constant_tensor(folded, conv.operands[1]);
    const ir::Tensor old_bias = *passes::constant_tensor(folded, conv.operands[2]);
    ir::Tensor weights(ir::DType::kF32, old.shape()), bias(ir::DType::kF32, old_bias.shape());
    const auto w = weights.data_mut<float>(), b = bias.data_mut<float>();
    std::copy(old.data<float>().begin(), old.data<float>().end(), w.begin());
    const auto statistic = [&](std::size_t operand, std::size_t k) {
      return passes::constant_tensor(graph, norm.operands[operand])->data<float>()[k];
    };
    const std::size_t run = w.size() / b.size();
    for (std::size_t k = 0; k < b.size(); ++k)
      b[k] = passes::fold_channel(w.subspan(k * run, run), old_bias.data<float>()[k],
                                  statistic(1, k), statistic(2, k), statistic(3, k),
                                  statistic(4, k), norm.number("epsilon"), ir::Fold::kF64);
    const auto put = [&](ir::ValueId value, ir::Tensor tensor) {
      result.mutable_node(*result.value(value).producer).literal =
          std::make_shared<const ir::Literal>(ir::Literal::dense(std::move(tensor)));
    };
    put(conv.operands[1], std::move(weights));
    put(conv.operands[2], std::move(bias));
  }
  return result;
}

constexpr std::array kBroken = {
    BrokenPass{"stride dropped in conv1x1-as-matmul", "conv1x1-as-matmul", drop_stride},
    BrokenPass{"relu moved over the add", "fuse-epilogue", relu_over_add},
    BrokenPass{"residual read through the wrong operand", "fuse-epilogue", wrong_residual},
    BrokenPass{"batch norm folded twice", "fold-batchnorm", fold_twice}};

}  // namespace

std::span<const BrokenPass> broken_passes() { return kBroken; }

std::vector<passes::PassInfo> table_with(const BrokenPass& broken) {
  std::vector<passes::PassInfo> table(passes::all_passes().begin(), passes::all_passes().end());
  for (passes::PassInfo& pass : table)
    if (pass.name == broken.replaces) pass.run = broken.run;
  return table;
}

}  // namespace driftc::tests
