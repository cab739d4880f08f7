// What the Winograd kernels share: the problem as tiles, the device functions of the transforms,
// printed from the same rows that the interpreter evaluates (ir/winograd.h), and pieces of kernels
// that both forms (in phases, fused) contain.
#pragma once

#include "codegen/conv_code.h"
#include "codegen/emitters.h"
#include "codegen/output_stage.h"
#include "ir/winograd.h"

namespace driftc::codegen {

struct WinogradProblem {
  ConvProblem conv;
  const ir::WinogradMatrices* matrices = nullptr;
  std::int64_t tiles_h = 0, tiles_w = 0;

  static Result<WinogradProblem> of(const KernelContext& context, const ir::Node& node);
  int n() const { return matrices->n(); }
  int m() const { return matrices->m; }
  int area() const { return n() * n(); }  // values of a transformed tile
  std::int64_t tiles() const { return conv.images * tiles_h * tiles_w; }
  // Rows of transformed filters: output channels of a group, rounded up to a multiple of 4.
  std::int64_t filter_row() const;
  std::int64_t filter_elements() const {
    return area() * conv.groups * conv.channels * filter_row();
  }
  std::string name() const;  // "winograd4"
};

// `function`(v, step, out, out_step): one row after the other of `matrix` over the vector
// v[0], v[step], ... `fused`: terms join by fma, else by mul and add. `f64`: in double.
DeviceFunction transform_function(const std::string& function, const ir::FractionMatrix& matrix,
                                  bool fused, bool f64 = false);
bool transforms_fuse(const ir::NumericContract& contract);
// out = M x M': two loops over `function`, through a scratch array `half`. Extents: M is rows x
// columns; `type` of the values.
void emit_sandwich(CudaWriter& w, const std::string& function, int rows, int columns,
                   const std::string& x, const std::string& out, const std::string& type = "float");

// The launch that transforms the filters into workspace `workspace`, laid out [n*n][group][channel]
// [filter_row]; the padding of a row is zero and takes part in no stored sum.
Launch filter_launch(const KernelContext& context, const WinogradProblem& problem, int workspace);
Workspace filter_workspace(const WinogradProblem& problem);

// Declares image, first output (out_y, out_x) of tile `tile`.
void declare_tile(KernelBuilder& builder, const WinogradProblem& problem, const std::string& tile);
// Loads the input tile of channel `channel` into d[n*n]; `exists`: "" or a condition on the tile.
void load_patch(KernelBuilder& builder, const WinogradProblem& problem, const ConvCode& code,
                const std::string& channel, const std::string& exists);

// The end of a tile: y[m*m] through the output stage into the result, for output channel `k` of
// image `image`. Elements outside the image are dropped.
class TileStore {
 public:
  TileStore(const KernelContext& context, KernelBuilder& builder, OutputStage& stage,
            const WinogradProblem& problem);
  void emit(const std::string& k);

 private:
  std::string offset(std::size_t view);

  const KernelContext& context_;
  KernelBuilder& builder_;
  OutputStage& stage_;
  const WinogradProblem& problem_;
  std::vector<std::vector<std::int64_t>> views_;  // strides along n, k, y, x
  std::vector<std::string> offsets_;              // by view, once made
};
// The contract of the code after the channel sums: plain f32.
ir::NumericContract after_sums(ir::NumericContract contract);

}  // namespace driftc::codegen
