#include "passes/choose_tiling.h"

#include <cstdio>

#include "passes/rewrite.h"
#include "passes/tiling.h"

namespace driftc::passes {
namespace {

constexpr std::int64_t kMinMatmulSlice = 32;

struct Block {
  int m, n, k;
};
std::optional<Block> parse_block(const std::string& text) {
  Block b{};
  if (std::sscanf(text.c_str(), "%dx%dx%d", &b.m, &b.n, &b.k) != 3) return std::nullopt;
  return b;
}

void set_order(ir::Kernel& kernel, const ir::ReductionOrder& order) {
  if (ir::supports_order(kernel.algorithm, order)) kernel.contract.order = order;
}

void accumulate_in(ir::Kernel& kernel, const std::string& how) {
  if (how == "f32" || !kernel.contract.order) return;
  ir::ReductionOrder order = *kernel.contract.order;
  order.arith = how == "kahan" ? ir::Arith::kKahan : ir::Arith::kF64;
  if (!ir::supports_order(kernel.algorithm, order)) return;
  kernel.contract.order = order;
  if (order.arith == ir::Arith::kF64) kernel.contract.acc = ir::Precision::kF64;
}

// A matmul with fewer blocks than the device has SMs splits its k.
void split_small_matmul(ir::Kernel& kernel, int sm_count) {
  if (kernel.algorithm != ir::Algorithm::kMatmul || kernel.contract.order->split != 1) return;
  const int slices =
      slices_for_grid(*gemm_extent(kernel.body), kernel.schedule, sm_count, kMinMatmulSlice);
  set_order(kernel, with_split(*kernel.contract.order, slices, ir::SplitCombine::kSerial));
}

}  // namespace

Result<ir::Graph> choose_tiling(const ir::Graph& graph, const PassContext& context) {
  const Options& options = context.options;
  const bool tuned = options.get("choose-tiling.block") == "tuned";
  const auto block = parse_block(options.get("choose-tiling.block"));
  std::optional<Diagnostic> refused;
  ir::Graph result = edit_kernels(graph, [&](const ir::Node& node, ir::Kernel& kernel) {
    if (stays_eager(context, node.from) || kernel.algorithm == ir::Algorithm::kInterpreter)
      return false;
    accumulate_in(kernel, options.get("choose-tiling.accumulate"));
    if (!gemm_extent(kernel.body)) return true;
    if (const KernelChoice* choice = tuned ? choice_for(context.tuned, kernel) : nullptr) {
      kernel.schedule = choice->schedule;
      set_order(kernel, with_split(*kernel.contract.order, choice->split, choice->combine));
      return true;
    }
    kernel.schedule = schedule_for(kernel, context.sm_count);
    if (block) {
      auto schedule = schedule_with_block(kernel, block->m, block->n, block->k, context.sm_count);
      if (!schedule.ok() && !refused) refused = schedule.error();
      if (schedule.ok()) kernel.schedule = *schedule;
    }
    if (options.on("choose-tiling.batch-invariant")) {
      set_order(kernel, with_split(*kernel.contract.order, 1, ir::SplitCombine::kSerial));
    } else {
      split_small_matmul(kernel, context.sm_count);
    }
    return true;
  });
  if (!refused) return result;
  return input_error("--set choose-tiling.block=" + options.get("choose-tiling.block") +
                         ": no kernel has this block",
                     refused->message);
}

}  // namespace driftc::passes
