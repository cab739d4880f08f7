// The frame of kernels with one thread per output element, threads along the result's storage
// order: elementwise chains, pooling, direct convolution, and the kernels that combine split sums.
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
// Statements: the coordinates `image`, `channel`, out_y, out_x of element `i` of a result [N,C,H,W]
// in its storage order. The arguments are names of parameters; `channel` names the coordinate.
void declare_place(CudaWriter& w, ir::Layout layout, const std::string& channel,
                   const std::string& channels, const std::string& out_h, const std::string& out_w);
Launch finish_elements(KernelBuilder& builder, std::int64_t elements);

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
