#include "codegen/element_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
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

Launch finish_elements(KernelBuilder& builder, std::int64_t elements) {
  return builder.finish({static_cast<std::uint32_t>(ceil_div(elements, kElementThreads)), 1, 1},
                        {kElementThreads, 1, 1});
}

namespace {

constexpr std::int64_t kWarp = 32;  // no block is smaller

// Blocks of planes [H,W]: rows of 16 or 32 threads (fewer for narrower images), whichever leaves
// fewer without work, and as many rows as share the height evenly.
Places plane_blocks(std::int64_t planes, std::int64_t h, std::int64_t w, int lines) {
  std::int64_t x = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(w)));
  if (x >= 32) x = ceil_div(w, 16) * 16 < ceil_div(w, 32) * 32 ? 16 : 32;
  const std::int64_t most = kElementThreads / x * lines, tiles = ceil_div(h, most);
  const std::int64_t y = std::max(ceil_div(ceil_div(h, tiles), lines), ceil_div(kWarp, x));
  auto blocks = [](std::int64_t n, std::int64_t each) {
    return static_cast<std::uint32_t>(
        std::min<std::int64_t>(ceil_div(n, each), std::numeric_limits<std::int32_t>::max()));
  };
  return {{blocks(w, x), blocks(h, y * lines), blocks(planes, 1)},
          {static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(y), 1},
          lines,
          true};
}

}  // namespace

Places places_of(const ir::TensorType& result, int lines) {
  constexpr std::uint32_t kMaxGrid = 65535;  // blocks along y and z
  constexpr std::int64_t kTall = 32;
  if (result.shape[2] < kTall) lines = 1;
  const Places places =
      plane_blocks(result.shape[0] * result.shape[1], result.shape[2], result.shape[3], lines);
  if (result.layout == ir::Layout::kNchw && places.grid[1] <= kMaxGrid &&
      places.grid[2] <= kMaxGrid)
    return places;
  const std::int64_t blocks = ceil_div(result.shape.elements(), kElementThreads);
  return {{static_cast<std::uint32_t>(blocks), 1, 1}, {kElementThreads, 1, 1}};
}

Places begin_places(KernelBuilder& builder, const ir::TensorType& result,
                    const std::string& channel, const std::string& channels,
                    const std::string& out_h, const std::string& out_w, int lines) {
  CudaWriter& w = builder.body();
  const Places places = places_of(result, lines);
  if (places.planes) {
    lines = places.lines;
    w.line("const index_t out_x = (index_t)blockIdx.x * blockDim.x + threadIdx.x;");
    const std::string line = "(index_t)blockIdx.y * blockDim.y + threadIdx.y";
    if (lines > 1)
      w.line(fmt::format("const index_t out_y = ({}) * {};  // {} lines a thread", line, lines,
                         lines));
    else
      w.line(fmt::format("const index_t out_y = {};", line));
    w.line(fmt::format("if (out_x >= {} || out_y >= {}) return;", out_w, out_h));
    w.line(fmt::format(
        "const index_t plane = blockIdx.z, image = plane / {0}, {1} = plane - image * {0};",
        channels, channel));
    w.line(fmt::format("const index_t {} = (plane * {} + out_y) * {} + out_x;",
                       lines > 1 ? "first" : "i", out_h, out_w));
    return places;
  }
  begin_elements(builder, result.shape.elements());
  const auto peel = [&](const std::string& name, const char* from, const std::string& extent,
                        const char* rest) {
    w.line(fmt::format("const index_t {0} = {1} / {2}, {3} = {1} - {0} * {2};", rest, from, extent,
                       name));
  };
  if (result.layout == ir::Layout::kNhwc) {
    peel(channel, "i", channels, "pixel");
    peel("out_x", "pixel", out_w, "line");
    peel("out_y", "line", out_h, "image");
  } else {
    peel("out_x", "i", out_w, "line");
    peel("out_y", "line", out_h, "plane");
    peel(channel, "plane", channels, "image");
  }
  return places;
}
void each_line(CudaWriter& w, const Places& places, const std::function<void()>& body) {
  if (places.lines == 1) return body();
  w.line("#pragma unroll");
  w.loop(fmt::format("for (int e = 0; e < {}; ++e)", places.lines), body);
}
void each_element(KernelBuilder& builder, const Places& places, const std::string& out_h,
                  const std::string& out_w, const std::function<void()>& body) {
  CudaWriter& w = builder.body();
  each_line(w, places, [&] {
    if (places.lines == 1) return body();
    w.line(fmt::format("const index_t i = first + e * {};", out_w));
    w.loop(fmt::format("if (out_y + e < {})", out_h), body);
  });
}
std::string of_line(const Places& places, const std::string& name) {
  return places.lines == 1 ? name : name + "[e]";
}
std::string declaration(const Places& places, const std::string& name) {
  return places.lines == 1 ? name : fmt::format("{}[{}]", name, places.lines);
}
Launch finish_places(KernelBuilder& builder, const Places& places) {
  return builder.finish(places.grid, places.block, kElementThreads);
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
