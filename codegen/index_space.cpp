#include "codegen/index_space.h"

#include <fmt/format.h>

#include <algorithm>

namespace driftc::codegen {

std::vector<Axis> collapse(std::vector<Axis> axes, UnitAxes unit, std::size_t views) {
  if (!axes.empty()) views = axes[0].strides.size();
  std::vector<Axis> out;
  for (Axis& axis : axes) {
    if (axis.extent == 1 && unit == UnitAxes::kDrop) continue;
    if (!out.empty()) {
      Axis& outer = out.back();
      bool merges = true;
      for (std::size_t v = 0; v < views; ++v)
        merges = merges && outer.strides[v] == axis.strides[v] * axis.extent;
      if (merges) {
        outer.extent *= axis.extent;
        outer.strides = axis.strides;
        continue;
      }
    }
    out.push_back(std::move(axis));
  }
  if (out.empty()) out.push_back({1, std::vector<std::int64_t>(views, 0)});
  return out;
}

bool needs_wide(std::span<const std::int64_t> counts) {
  constexpr std::int64_t kLimit = (std::int64_t{1} << 31) - (std::int64_t{1} << 20);
  return std::any_of(counts.begin(), counts.end(), [](std::int64_t n) { return n > kLimit; });
}

IndexCode::IndexCode(KernelBuilder& builder, std::vector<Axis> axes, std::string prefix)
    : builder_(builder),
      axes_(std::move(axes)),
      prefix_(std::move(prefix)),
      extent_names_(axes_.size()) {}

std::string IndexCode::extent_name(std::size_t axis) {
  if (extent_names_[axis].empty())
    extent_names_[axis] = builder_.integer(fmt::format("{}n{}", prefix_, axis), axes_[axis].extent);
  return extent_names_[axis];
}

bool IndexCode::dense(std::size_t view) const {
  std::int64_t stride = 1;
  for (std::size_t a = axes_.size(); a-- > 0;) {
    if (axes_[a].strides[view] != stride) return false;
    stride *= axes_[a].extent;
  }
  return true;
}

void IndexCode::declare_coordinates(CudaWriter& w, const std::string& linear,
                                    std::span<const std::size_t> views) {
  std::vector<bool> needed(axes_.size(), false);
  for (std::size_t v : views)
    if (!dense(v))
      for (std::size_t a = 0; a < axes_.size(); ++a)
        needed[a] = needed[a] || axes_[a].strides[v] != 0;
  std::size_t outermost = axes_.size();
  for (std::size_t a = axes_.size(); a-- > 0;)
    if (needed[a]) outermost = a;
  std::string rest = linear;
  for (std::size_t a = axes_.size(); a-- > 0 && a >= outermost;) {
    if (a == 0) {
      w.line(fmt::format("const index_t {}c0 = {};", prefix_, rest));
      break;
    }
    const std::string n = extent_name(a);
    if (needed[a]) w.line(fmt::format("const index_t {}c{} = {} % {};", prefix_, a, rest, n));
    if (a > outermost) {
      const std::string next = fmt::format("{}r{}", prefix_, a);
      w.line(fmt::format("const index_t {} = {} / {};", next, rest, n));
      rest = next;
    }
  }
}

std::string IndexCode::stride_term(std::size_t view, std::size_t axis) {
  const std::int64_t stride = axes_[axis].strides[view];
  if (stride == 0) return "";
  std::string c = fmt::format("{}c{}", prefix_, axis);
  if (stride == 1) return c;
  std::string& name = stride_names_[{view, axis}];
  if (name.empty()) name = builder_.integer(fmt::format("{}v{}_s{}", prefix_, view, axis), stride);
  return c + " * " + name;
}

std::string IndexCode::offset(std::size_t view, const std::string& linear) {
  if (dense(view)) return linear;
  std::string out;
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    const std::string term = stride_term(view, a);
    if (term.empty()) continue;
    out += (out.empty() ? "" : " + ") + term;
  }
  return out.empty() ? "0" : out;
}

}  // namespace driftc::codegen
