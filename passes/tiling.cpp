#include "passes/tiling.h"

#include <algorithm>

#include "ir/schedule.h"

namespace driftc::passes {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

std::optional<GemmExtent> gemm_extent(const ir::Graph& body) {
  const ir::Node* node = ir::reduction_node(body);
  if (node == nullptr) return std::nullopt;
  const ir::Shape& out = body.value(node->result).type.shape;
  GemmExtent e;
  switch (node->op) {
    case ir::Op::kConv2d:
      e.batches = node->integer("groups");
      e.m = out[0] * out[2] * out[3];
      e.n = out[1] / e.batches;
      break;
    case ir::Op::kConv1x1Matmul:
      e.m = out[0] * out[2] * out[3];
      e.n = out[1];
      break;
    case ir::Op::kMatmul:
    case ir::Op::kGemm:
      e.n = out.rank() >= 1 ? out[out.rank() - 1] : 1;
      e.m = out.rank() >= 2 ? out[out.rank() - 2] : 1;
      e.batches = e.m * e.n == 0 ? 1 : out.elements() / (e.m * e.n);
      break;
    default:
      return std::nullopt;
  }
  e.k = ir::reduction_extent(body, *node).positions();
  return e;
}

ir::Schedule schedule_for(const ir::Kernel& kernel, int sm_count) {
  if (!kernel.contract.order) return {};
  const ir::Layout layout = kernel.body.value(kernel.body.outputs()[0]).type.layout;
  return ir::default_schedule(kernel.algorithm, kernel.body, *kernel.contract.order, layout,
                              sm_count);
}

Result<ir::Schedule> schedule_with_block(const ir::Kernel& kernel, int block_m, int block_n,
                                         int block_k, int sm_count) {
  ir::Schedule schedule = schedule_for(kernel, sm_count);
  if (schedule == ir::Schedule{}) return schedule;
  schedule.block_m = block_m;
  schedule.block_n = block_n;
  schedule.block_k = block_k;
  schedule.vector = block_n % 4 == 0 ? 4 : 1;
  const ir::ReductionOrder& order = *kernel.contract.order;
  const auto check = [&] {
    return order.arith == ir::Arith::kMma ? ir::check_mma_schedule(schedule, order.mma)
                                          : ir::check_schedule(kernel.algorithm, schedule);
  };
  auto first = check();
  if (first.ok()) return schedule;
  for (int m : {4, 8, 2, 1, 16})
    for (int n : {4, 8, 2, 1, 16}) {
      schedule.thread_m = m;
      schedule.thread_n = n;
      if (check().ok()) return schedule;
    }
  return first.error();
}

std::int64_t grid_blocks(const GemmExtent& e, const ir::Schedule& s) {
  return ceil_div(e.m, std::max(s.block_m, 1)) * ceil_div(e.n, std::max(s.block_n, 1)) * e.batches;
}

int slices_for_grid(const GemmExtent& extent, const ir::Schedule& schedule, int sm_count,
                    std::int64_t min_slice) {
  const std::int64_t blocks = grid_blocks(extent, schedule);
  if (blocks < 1 || blocks >= sm_count) return 1;
  const std::int64_t slices = std::min({sm_count / blocks, extent.k / min_slice, std::int64_t{16}});
  return static_cast<int>(std::max(slices, std::int64_t{1}));
}

ir::ReductionOrder with_split(ir::ReductionOrder order, int slices, ir::SplitCombine combine) {
  order.split = slices;
  order.combine = slices > 1 ? combine : ir::SplitCombine::kSerial;
  return order;
}

}  // namespace driftc::passes
