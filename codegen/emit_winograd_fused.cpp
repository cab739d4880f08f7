// Winograd convolution with data, products and output in one kernel: transformed tiles live in
// shared memory for a step of channels, the n*n sums of a tile in the registers of one thread. The
// filters are transformed by a launch of their own. Bits are those of the form in phases.
#include <fmt/format.h>

#include "codegen/sum_code.h"
#include "codegen/tile_gemm.h"
#include "codegen/winograd_code.h"
#include "ir/schedule.h"

namespace driftc::codegen {
namespace {

Result<Launch> fused_launch(const KernelContext& context, const WinogradProblem& problem,
                            OutputStage& stage) {
  const ir::NumericContract& contract = context.kernel.contract;
  DRIFTC_TRY(prelude, sum_prelude(contract));
  const bool f64 = sums_in_f64(contract), fused = transforms_fuse(contract);
  const ConvProblem& conv = problem.conv;
  const Tile tile = Tile::of(context.kernel.schedule, false);
  const int n = problem.n(), m = problem.m(), area = problem.area();
  const std::int64_t row_tiles = ceil_div(problem.tiles(), tile.m),
                     column_tiles = ceil_div(conv.columns, tile.n);
  if (column_tiles * conv.groups > 65535)
    return internal_error("more column tiles and groups than a grid holds");
  std::string entry =
      fmt::format("{}_fused_{}{}", problem.name(), tile.text(), sum_suffix(contract));
  if (!stage.label().empty()) entry += "_" + stage.label().substr(0, 48);
  KernelBuilder b(
      entry, context.wide({conv.padded_elements(), problem.filter_elements(), row_tiles * tile.m}));
  b.describe(fmt::format(
      "Winograd F({0},3), data, products and output: a block computes {1} tiles of {0}x{0} outputs "
      "of {2}\nchannels, a thread one tile of one channel. Each step transforms the tiles of {3} "
      "input channels\n(V = B' d B) and adds U V to the {4} sums of the tile, channels 0, 1, 2, "
      "... from +0.\n",
      m, tile.m, tile.n, tile.k, area));
  b.prelude(prelude);
  b.prelude({transform_function("transform_data", problem.matrices->bt, fused),
             transform_function("transform_sums", problem.matrices->at, fused)});
  CudaWriter& w = b.body();
  b.operand(conv.input);
  const std::string filters = b.workspace(0, "filters", "float", false);
  b.integer("tiles", problem.tiles());
  b.integer("columns", conv.columns);
  b.integer("filter_row", problem.filter_row());
  b.integer("column_tiles", column_tiles);
  const ConvCode code(b, conv, Steps::kUnit);
  stage.declare(b);
  w.line(fmt::format("__shared__ float vs[{}][{}][{}];", tile.k, area, tile.m));
  w.line(fmt::format("__shared__ float us[{}][{}][{}];", tile.k, area, tile.n));
  w.line(fmt::format("const int t = threadIdx.y * {} + threadIdx.x;", tile.m));
  w.line("const index_t group = blockIdx.y / column_tiles;");
  w.line(fmt::format("const index_t n0 = (blockIdx.y - group * column_tiles) * {};", tile.n));
  w.line(fmt::format("const index_t m0 = (index_t)blockIdx.x * {};", tile.m));
  w.comment("The tile whose data this thread transforms is the one whose outputs it computes.");
  w.line("const index_t tile_index = m0 + threadIdx.x;");
  w.line("const bool exists = tile_index < tiles;");
  declare_tile(b, problem, "tile_index");
  w.line(fmt::format("Sum acc[{}];", area));
  w.line("#pragma unroll");
  w.line(fmt::format("for (int xi = 0; xi < {}; ++xi) start(acc[xi], 0.0f);", area));
  w.line("");
  w.line("#pragma unroll 1");
  w.open(fmt::format("for (index_t c0 = 0; c0 < channels; c0 += {})", tile.k));
  w.line(
      fmt::format("const int steps = channels - c0 < {0} ? (int)(channels - c0) : {0};", tile.k));
  w.open(fmt::format("for (int c = threadIdx.y; c < steps; c += {})", tile.n));
  load_patch(b, problem, code, "(group * channels + c0 + c)", "exists");
  w.line(fmt::format("float v[{}];", area));
  emit_sandwich(w, "transform_data", n, n, "d", "v");
  w.line("#pragma unroll");
  w.line(fmt::format("for (int xi = 0; xi < {}; ++xi) vs[c][xi][threadIdx.x] = operand(v[xi]);",
                     area));
  w.close();
  w.comment("U of this step; channels of the output beyond the last read +0.");
  w.open(fmt::format("for (int e = t; e < steps * {}; e += {})", area * tile.n, tile.threads()));
  w.line(fmt::format(
      "const int c = e / {0}, rest = e - c * {0}, xi = rest / {1}, j = rest - xi * {1};",
      area * tile.n, tile.n));
  w.line(fmt::format("const index_t row = (xi * {} + group) * channels + c0 + c;",
                     b.integer("groups", conv.groups)));
  w.line(fmt::format(
      "us[c][xi][j] = operand(n0 + j < columns ? {}[row * filter_row + n0 + j] : 0.0f);", filters));
  w.close();
  w.line("__syncthreads();");
  w.line("#pragma unroll 1");
  w.open("for (int c = 0; c < steps; ++c)");
  w.line("#pragma unroll");
  w.line(fmt::format("for (int xi = 0; xi < {}; ++xi)", area));
  w.line("  add_product(acc[xi], vs[c][xi][threadIdx.x], us[c][xi][threadIdx.y]);");
  w.close();
  w.line("__syncthreads();");
  w.close();
  w.line("");
  w.line("if (!exists || n0 + threadIdx.y >= columns) return;");
  w.line(fmt::format("float place[{}], tile[{}];", area, m * m));
  w.line("#pragma unroll");
  w.line(fmt::format("for (int xi = 0; xi < {}; ++xi) place[xi] = {};", area,
                     f64 ? "__double2float_rn(acc[xi].value)" : "acc[xi].value"));
  emit_sandwich(w, "transform_sums", m, n, "place", "tile");
  TileStore(context, b, stage, problem).emit("group * columns + n0 + threadIdx.y");
  return b.finish({static_cast<std::uint32_t>(row_tiles),
                   static_cast<std::uint32_t>(column_tiles * conv.groups), 1},
                  {static_cast<std::uint32_t>(tile.m), static_cast<std::uint32_t>(tile.n), 1});
}

}  // namespace

Result<LoweredKernel> emit_winograd_fused(const KernelContext& context) {
  const ir::Node* conv = ir::reduction_node(context.body());
  if (conv == nullptr) return internal_error("the body has no conv2d");
  DRIFTC_TRY(problem, WinogradProblem::of(context, *conv));
  DRIFTC_CHECK(ir::check_schedule(context.kernel.algorithm, context.kernel.schedule));
  DRIFTC_TRY(stage, OutputStage::plan(context, *conv));
  DRIFTC_TRY(fused, fused_launch(context, problem, stage));
  LoweredKernel lowered;
  lowered.launches = {filter_launch(context, problem, 0), std::move(fused)};
  lowered.workspaces = {filter_workspace(problem)};
  return lowered;
}

}  // namespace driftc::codegen
