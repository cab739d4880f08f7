#include "codegen/element_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace driftc::codegen {

std::vector<Axis> storage_axes(const ir::TensorType& result,
                               const std::vector<std::vector<std::int64_t>>& views) {
  const auto own = ir::storage_strides(result.shape, result.layout);
  std::vector<std::size_t> order(result.shape.rank());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // Equal strides happen next to axes of extent 1 only; the stable sort keeps their logical order.
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return own[a] > own[b]; });
  std::vector<Axis> axes;
  for (std::size_t a : order) {
    Axis axis{result.shape[a], {own[a]}};
    for (const auto& view : views) axis.strides.push_back(view[a]);
    axes.push_back(std::move(axis));
  }
  return axes;
}

void begin_elements(KernelBuilder& builder, std::int64_t elements) {
  CudaWriter& w = builder.body();
  w.line("const index_t i = (index_t)blockIdx.x * 256 + threadIdx.x;");
  w.line("if (i >= " + builder.integer("elements", elements) + ") return;");
}

void declare_place(CudaWriter& w, ir::Layout layout, const std::string& channel,
                   const std::string& channels, const std::string& out_h,
                   const std::string& out_w) {
  const auto peel = [&](const std::string& name, const char* from, const std::string& extent,
                        const char* rest) {
    w.line(fmt::format("const index_t {0} = {1} / {2}, {3} = {1} - {0} * {2};", rest, from, extent,
                       name));
  };
  if (layout == ir::Layout::kNhwc) {
    peel(channel, "i", channels, "pixel");
    peel("out_x", "pixel", out_w, "line");
    peel("out_y", "line", out_h, "image");
  } else {
    peel("out_x", "i", out_w, "line");
    peel("out_y", "line", out_h, "plane");
    peel(channel, "plane", channels, "image");
  }
}
Launch finish_elements(KernelBuilder& builder, std::int64_t elements) {
  return builder.finish({static_cast<std::uint32_t>(ceil_div(elements, kElementThreads)), 1, 1},
                        {kElementThreads, 1, 1});
}

namespace {

std::vector<std::size_t> first(std::size_t count) {
  std::vector<std::size_t> out(count);
  std::iota(out.begin(), out.end(), std::size_t{0});
  return out;
}

}  // namespace

ElementOffsets::ElementOffsets(KernelBuilder& builder, const ir::TensorType& result,
                               const std::vector<std::vector<std::int64_t>>& views)
    : ElementOffsets(builder, result, views, first(views.size())) {}

ElementOffsets::ElementOffsets(KernelBuilder& builder, const ir::TensorType& result,
                               const std::vector<std::vector<std::int64_t>>& views,
                               const std::vector<std::size_t>& used)
    : code_(builder, collapse(storage_axes(result, views), UnitAxes::kKeep, views.size() + 1)) {
  std::vector<std::size_t> needed;
  for (std::size_t a : used) needed.push_back(a + 1);  // view 0 is the result
  code_.declare_coordinates(builder.body(), "i", needed);
}

}  // namespace driftc::codegen
