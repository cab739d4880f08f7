#include "passes/split_k.h"

#include "passes/rewrite.h"
#include "passes/tiling.h"

namespace driftc::passes {
namespace {

constexpr std::int64_t kMinSlice = 128;

ir::SplitCombine parse_combine(const std::string& word) {
  return word == "atomic"     ? ir::SplitCombine::kAtomic
         : word == "pairwise" ? ir::SplitCombine::kPairwise
                              : ir::SplitCombine::kSerial;
}

}  // namespace

Result<ir::Graph> split_k(const ir::Graph& graph, const PassContext& context) {
  const ir::SplitCombine combine = parse_combine(context.options.get("split-k.combine"));
  const bool tuned = context.options.get("split-k.slices") == "tuned";
  const auto fixed = context.options.count("split-k.slices");
  const std::int64_t min_k = *context.options.count("split-k.min-k");
  return edit_kernels(graph, [&](const ir::Node& node, ir::Kernel& kernel) {
    const auto extent = gemm_extent(kernel.body);
    if (!extent || stays_eager(context, node.from)) return false;
    int slices = 1;
    if (tuned) {
      const KernelChoice* choice = choice_for(context.tuned, kernel);
      if (choice == nullptr) return false;
      const ir::ReductionOrder order =
          with_split(*kernel.contract.order, choice->split, choice->combine);
      if (!ir::supports_order(kernel.algorithm, order)) return false;
      kernel.contract.order = order;
      return true;
    }
    if (fixed) {
      slices = extent->k >= 2 * std::int64_t{*fixed} ? *fixed : 1;
    } else if (extent->k >= min_k) {
      slices = slices_for_grid(*extent, kernel.schedule, context.sm_count, kMinSlice);
    }
    const ir::ReductionOrder order = with_split(*kernel.contract.order, slices, combine);
    if (slices < 2 || !ir::supports_order(kernel.algorithm, order)) return false;
    kernel.contract.order = order;
    return true;
  });
}

}  // namespace driftc::passes
