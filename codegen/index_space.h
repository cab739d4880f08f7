// Index arithmetic of generated kernels: axes with one stride per view (operand, result), merged
// where they can be, so that a kernel computes as few coordinates as its operands need.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "codegen/cuda_writer.h"
#include "ir/types.h"

namespace driftc::codegen {

struct Axis {
  std::int64_t extent = 1;
  std::vector<std::int64_t>
      strides;  // elements, one per view; 0: the view does not move along this axis
};

// Outermost first. Neighbours merge when every view walks them as one. Axes of extent 1 go under
// kDrop; under kKeep they merge like others, so that the structure does not depend on extents. At
// least one axis is left.
enum class UnitAxes : std::uint8_t { kKeep, kDrop };
// A scalar has no axes: `views` then says how many views its one axis of extent 1 has.
std::vector<Axis> collapse(std::vector<Axis> axes, UnitAxes unit, std::size_t views);

// Whether offsets need 64 bits: an element count, padding included, that does not leave room below
// 2^31 for the rounding up of a grid.
bool needs_wide(std::span<const std::int64_t> element_counts);
inline bool needs_wide(std::initializer_list<std::int64_t> counts) {
  return needs_wide(std::span<const std::int64_t>(counts.begin(), counts.size()));
}

// ceil(a / b) for a >= 0, b > 0.
inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Code for the coordinates of a linear index over `axes` and for the offsets of the views. Extents
// and strides become parameters `<prefix>n<axis>`, `<prefix><view>_s<axis>`; strides 0 and 1 are
// written out, so that the compiler (and the PTX executor) sees what is contiguous.
class IndexCode {
 public:
  IndexCode(KernelBuilder& builder, std::vector<Axis> axes, std::string prefix = "");

  // Declares the coordinates `<prefix>c<axis>` that `views` need, from the linear index `linear`.
  void declare_coordinates(CudaWriter& w, const std::string& linear,
                           std::span<const std::size_t> views);
  // Offset of a view: an expression in the coordinates, or `linear` where the view walks the axes
  // densely.
  std::string offset(std::size_t view, const std::string& linear);
  bool dense(std::size_t view) const;  // strides are those of a dense row-major array over the axes
  const std::vector<Axis>& axes() const { return axes_; }

 private:
  std::string extent_name(std::size_t axis);
  std::string stride_term(std::size_t view, std::size_t axis);

  KernelBuilder& builder_;
  std::vector<Axis> axes_;
  std::string prefix_;
  std::vector<std::string> extent_names_;
  std::map<std::pair<std::size_t, std::size_t>, std::string> stride_names_;
};

}  // namespace driftc::codegen
