// The frame of kernels with one thread per output element, threads along the result's storage
// order, or (images in NCHW) along a row of the image: elementwise chains, pooling, direct
// convolution, and the kernels that combine split sums.
#pragma once

#include <functional>

#include "codegen/emitters.h"
#include "codegen/index_space.h"
#include "codegen/pointwise.h"

namespace driftc::codegen {

inline constexpr std::uint32_t kElementThreads = 256;

// Axes of the result in storage order (outermost first), each with the result's stride as view 0
// and then one stride per row of `views` (strides along the logical axes of the result).
std::vector<Axis> storage_axes(const ir::TensorType& result,
                               const std::vector<std::vector<std::int64_t>>& views);

// Opens the kernel: `i` is the element's offset in the result, threads past the end return.
void begin_elements(KernelBuilder& builder, std::int64_t elements);
Launch finish_elements(KernelBuilder& builder, std::int64_t elements);

// The same with the coordinates `image`, `channel`, out_y and out_x of element `i` of a result
// [N,C,H,W]. In NCHW a block is a rectangle of one plane, so that neighbours stay in one row, the
// channel is the same for the whole block, and nothing has to be divided per thread. In NHWC, and
// for more planes than a grid has blocks along z, threads follow the storage order. The arguments
// are names of parameters; `channel` names the coordinate.
//
// With `lines` > 1 a thread of a tall plane has that many elements, out_y and those below it: `i`
// is then the first one's offset and called `first`, and lines past the end are the caller's to
// leave out.
struct Places {
  std::array<std::uint32_t, 3> grid, block;
  int lines = 1;
  bool planes = false;  // blocks are rectangles of planes
};
// The geometry alone.
Places places_of(const ir::TensorType& result, int lines = 1);
// Lines of a direct convolution: they share the thread's weights, columns and work on its index.
constexpr int direct_lines(std::int64_t taps, bool starts_with_bias) {
  return taps <= 9 && !starts_with_bias ? 4 : 1;
}
Places begin_places(KernelBuilder& builder, const ir::TensorType& result,
                    const std::string& channel, const std::string& channels,
                    const std::string& out_h, const std::string& out_w, int lines = 1);
// A loop over the thread's lines, `e` being the number of one; just the body when it has one.
void each_line(CudaWriter& w, const Places& places, const std::function<void()>& body);
// The same where an element is written, for lines that exist; declares `i`.
void each_element(KernelBuilder& builder, const Places& places, const std::string& out_h,
                  const std::string& out_w, const std::function<void()>& body);
// "name" or "name[e]": a variable of each line, and its declaration.
std::string of_line(const Places& places, const std::string& name);
std::string declaration(const Places& places, const std::string& name);
Launch finish_places(KernelBuilder& builder, const Places& places);

// Code for the offsets of accesses of a one-thread-per-element kernel: collapses the axes, declares
// the coordinates that `used` accesses need. `views` are the accesses' strides along the logical
// axes of the result.
class ElementOffsets {
 public:
  ElementOffsets(KernelBuilder& builder, const ir::TensorType& result,
                 const std::vector<std::vector<std::int64_t>>& views);
  ElementOffsets(KernelBuilder& builder, const ir::TensorType& result,
                 const std::vector<std::vector<std::int64_t>>& views,
                 const std::vector<std::size_t>& used);
  std::string operator()(std::size_t access) { return code_.offset(access + 1, "i"); }

 private:
  IndexCode code_;
};

}  // namespace driftc::codegen
