// What the tiled kernels (implicit-GEMM convolution, matmul) share: a block computes a tile of
// block_m rows x block_n columns; each thread keeps thread_m x thread_n strided sums in registers;
// block_k positions of the reduction are staged in shared memory per step. The kernels differ in
// how they load the tiles.
#pragma once

#include "codegen/emitters.h"
#include "codegen/index_space.h"
#include "codegen/output_stage.h"

namespace driftc::codegen {

struct Tile {
  int m = 64, n = 64, k = 16;      // of the block
  int thread_m = 4, thread_n = 4;  // of a thread
  bool columns_fast = false;  // threadIdx.x runs over columns (they are contiguous in the result)
  // Tensor cores: a warp computes 8 thread_m rows x 4 thread_n columns; the tiles hold words of
  // this many operands each, xs[m][word] and ws[n][word]. 0: no tensor cores.
  int word_operands = 0;

  static Tile of(const ir::Schedule& schedule, bool columns_fast) {
    return {schedule.block_m,  schedule.block_n,  schedule.block_k,
            schedule.thread_m, schedule.thread_n, columns_fast};
  }
  static Tile of_mma(const ir::Schedule& schedule, const ir::MmaSpec& mma);
  int words() const { return k / word_operands; }  // of a row of a tile
  int m_threads() const { return m / thread_m; }
  int n_threads() const { return n / thread_n; }
  int threads() const { return m_threads() * n_threads(); }
  std::array<std::uint32_t, 3> block() const {
    const auto a = static_cast<std::uint32_t>(m_threads()),
               b = static_cast<std::uint32_t>(n_threads());
    if (word_operands != 0) return {a * b, 1, 1};
    return columns_fast ? std::array<std::uint32_t, 3>{b, a, 1}
                        : std::array<std::uint32_t, 3>{a, b, 1};
  }
  std::string text() const;  // "64x64"
};

// Slices of `.splitS`: ceil(positions / S) positions each, of whole mma instructions where there
// are any; empty slices are left out.
struct Split {
  bool on = false;
  bool atomic = false;
  std::int64_t length = 0, slices = 1;

  static Split of(const ir::ReductionOrder& order, std::int64_t positions);
};

// Where outputs go. Rows and columns of the GEMM view are axes of the result; view 0 is the result,
// view a + 1 is access a of the stage.
struct TileOutput {
  std::vector<Axis> batch_axes;  // empty: none. Coordinates of the block, linear index `batch`
  std::vector<Axis> row_axes;    // linear index m
  std::vector<std::int64_t> column_strides;  // further views (operands of a product) may follow
};

// A convolution's result (n, k, p, q): rows are its pixels (n, p, q), the column is k.
TileOutput pixel_output(const KernelContext& context, const OutputStage& stage);

// How the x tile lies in shared memory. Lanes that compute run along rows when these are fast, and
// lanes that load run along rows or positions; the tile is contiguous for both where that is
// possible.
enum class XTile : std::uint8_t {
  kByPosition,        // xs[k][m]: rows are fast, or positions are loaded by row
  kByPositionPadded,  // xs[k][m], a line one element longer: rows are fast but loads run along
                      // positions
  kByRow,  // xs[m][k]: columns are fast (a row is read by all lanes at once), loads along positions
};
inline XTile x_tile(bool columns_fast, bool loads_along_positions) {
  if (!loads_along_positions) return XTile::kByPosition;
  return columns_fast ? XTile::kByRow : XTile::kByPositionPadded;
}

class TileKernel {
 public:
  TileKernel(const KernelContext& context, KernelBuilder& builder, OutputStage& stage,
             const Tile& tile, const Split& split, XTile x_layout, TileOutput output);

  // Shared tiles xs and ws[k][n], thread coordinates, `m0`, `n0`. `row_tile` is the expression of
  // the row tile's index, `column_tile` of the column tile's.
  void begin(const std::string& row_tile, const std::string& column_tile);
  // The element of the x tile: xs[k][m] or xs[m][k].
  std::string x_element(const std::string& k, const std::string& m) const {
    return x_layout_ == XTile::kByRow ? "xs[" + m + "][" + k + "]" : "xs[" + k + "][" + m + "]";
  }
  // Offset of a view that the batch coordinates give ("0" without batch axes).
  std::string batch_offset(std::size_t view) {
    return batch_ ? batch_->offset(view, "batch") : "0";
  }
  // `begin` and `end` of this block's positions under split; an unsplit kernel has 0 and all
  // positions.
  void declare_slice(const std::string& positions);
  std::string slice_begin() const { return split_.on ? "begin" : "0"; }
  void start_sums();  // after n0, group, batch are known
  // Between the load of the tiles and the next load: positions [lo, hi) of the step, lo "" for 0.
  void multiply(const std::string& lo, const std::string& hi);
  // The same for tensor cores: the words of a step are in xs and ws, +0 where positions end.
  void multiply_mma();
  void store();
  // The other end: sums rounded to f32 at view 0 of `array`, without an output stage.
  void store_rounded(const std::string& array);
  // ws[row][...] = weights at position `first` + row, for rows below `steps`; columns beyond the
  // end read +0.
  void load_columns(const std::string& matrix, const std::string& column_base, int vector,
                    const std::string& first, const std::string& steps);

 private:
  // Opens the loops over the thread's outputs. `at`, the offset in the result, is declared when
  // asked for, `column`, the output channel, unless the body has no use for it.
  void for_each_output(const std::vector<std::size_t>& views, bool declare_at,
                       const std::function<void()>& body, bool declare_column = true);
  bool shares_offset(std::size_t view) const;
  std::string view_offset(std::size_t view, const std::string& column);
  void begin_mma();
  // Row i and column j of the thread's outputs, counted from the block's first.
  std::string own_row() const;
  std::string own_column() const;

  const KernelContext& context_;
  KernelBuilder& builder_;
  OutputStage& stage_;
  Tile tile_;
  Split split_;
  XTile x_layout_;
  TileOutput output_;
  std::optional<IndexCode> batch_;
  IndexCode rows_;
  std::vector<std::string> column_names_;
  std::string output_step_;  // of the result, from a thread's column to its next
};

// Visits rows x lanes elements with all threads of a block, lanes innermost: declares `row` and
// `lane` for the thread (whose number is `t`) in each pass.
void strided_loop(CudaWriter& w, int threads, int rows, int lanes, const std::string& row,
                  const std::string& lane, const std::function<void()>& body);

// The launch that adds the slices' sums and runs the output stage; reads workspace 0.
Launch combine_launch(const KernelContext& context, OutputStage& stage, const Split& split);
// Workspace 0 of a split kernel.
Workspace split_workspace(const KernelContext& context, const Split& split);

}  // namespace driftc::codegen
