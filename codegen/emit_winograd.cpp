// Winograd convolution in phases, a kernel each, with the transformed values in workspaces:
//   filters  U = G g G'                 [n*n][group][channel][output channel]
//   data     V = B' d B                 [n*n][channel][tile]
//   products M = sum over channels U V  [n*n][output channel][tile], n*n matrix products per group
//   output   Y = A' M A, bias, epilogue
// Every transform and sum is the named evaluation of ir/winograd.h; the fused form has the same
// bits.
#include <fmt/format.h>

#include "codegen/element_kernel.h"
#include "codegen/sum_code.h"
#include "codegen/tile_gemm.h"
#include "codegen/winograd_code.h"
#include "ir/schedule.h"

namespace driftc::codegen {
namespace {

enum WorkspaceIndex : int { kFilters, kData, kSums };

Launch data_launch(const KernelContext& context, const WinogradProblem& problem) {
  const ir::NumericContract& contract = context.kernel.contract;
  const ConvProblem& conv = problem.conv;
  const std::int64_t elements = conv.channels * conv.groups * problem.tiles();
  KernelBuilder builder(
      fmt::format("{}_data{}", problem.name(), transforms_fuse(contract) ? "" : "_muladd"),
      context.wide({conv.padded_elements(), problem.area() * elements}));
  const int n = problem.n();
  builder.describe(fmt::format(
      "Winograd F({0},3), data: V = B' d B of one {1}x{1} tile of one channel per thread. Tiles "
      "start\nevery {0} pixels; outside the image they read +0.\n",
      problem.m(), n));
  builder.prelude(
      {transform_function("transform_data", problem.matrices->bt, transforms_fuse(contract))});
  CudaWriter& w = builder.body();
  builder.operand(conv.input);
  const std::string out = builder.workspace(kData, "data", "float", true);
  begin_elements(builder, elements);
  builder.integer("tiles", problem.tiles());
  const ConvCode code(builder, conv, Steps::kUnit);
  w.line("const index_t channel = i / tiles, tile = i - channel * tiles;");
  declare_tile(builder, problem, "tile");
  load_patch(builder, problem, code, "channel", "");
  w.line(fmt::format("float v[{}];", n * n));
  emit_sandwich(w, "transform_data", n, n, "d", "v");
  w.line("#pragma unroll");
  w.line(fmt::format("for (int xi = 0; xi < {}; ++xi) {}[xi * elements + i] = v[xi];", n * n, out));
  return finish_elements(builder, elements);
}

// n*n * groups products [tiles x channels] * [channels x output channels].
Result<Launch> product_launch(const KernelContext& context, const WinogradProblem& problem,
                              OutputStage& stage) {
  const ir::NumericContract& contract = context.kernel.contract;
  DRIFTC_TRY(prelude, sum_prelude(contract));
  const ConvProblem& conv = problem.conv;
  const Tile tile = Tile::of(context.kernel.schedule, false);
  const std::int64_t tiles = problem.tiles(), batches = problem.area() * conv.groups;
  const std::int64_t row_tiles = ceil_div(tiles, tile.m),
                     column_tiles = ceil_div(conv.columns, tile.n);
  if (column_tiles > 65535) return internal_error("more column tiles than a grid holds");
  const std::int64_t data_elements = batches * conv.channels * tiles,
                     sum_elements = batches * conv.columns * tiles;
  KernelBuilder b(fmt::format("winograd_products_{}{}", tile.text(), sum_suffix(contract)),
                  context.wide({data_elements, sum_elements, problem.filter_elements(),
                                batches * row_tiles * tile.m}));
  b.prelude(prelude);
  b.describe(fmt::format(
      "Winograd, products: for each place of a transformed tile, the sums over channels of U V. A "
      "block\ncomputes {} tiles x {} output channels, a thread {} x {} of them. Channels 0, 1, 2, "
      "... from +0.\n",
      tile.m, tile.n, tile.thread_m, tile.thread_n));
  CudaWriter& w = b.body();
  const std::string data = b.workspace(kData, "data", "float", false),
                    filters = b.workspace(kFilters, "filters", "float", false);
  b.workspace(kSums, "sums", "float", true);
  b.integer("rows", tiles);
  b.integer("columns", conv.columns);
  b.integer("channels", conv.channels);
  b.integer("matrix_row", problem.filter_row());
  // Views: sums, data, filters.
  TileOutput output;
  output.batch_axes = {
      Axis{batches,
           {conv.columns * tiles, conv.channels * tiles, conv.channels * problem.filter_row()}}};
  output.row_axes = {Axis{tiles, {1, 1, 0}}};
  output.column_strides = {tiles, 0, 1};
  TileKernel kernel(context, b, stage, tile, Split{}, x_tile(false, false), output);
  w.line(fmt::format("const index_t batch = blockIdx.x / {};", b.integer("row_tiles", row_tiles)));
  kernel.begin("blockIdx.x - batch * row_tiles", "blockIdx.y");
  w.line("const index_t column0 = 0;");
  w.line(fmt::format("const float* v = {} + {};", data, kernel.batch_offset(1)));
  w.line(fmt::format("const float* u = {} + {};", filters, kernel.batch_offset(2)));
  kernel.declare_slice("channels");
  kernel.start_sums();
  w.line("");
  w.line("#pragma unroll 1");
  w.open(fmt::format("for (index_t k0 = 0; k0 < end; k0 += {})", tile.k));
  w.line(fmt::format("const int steps = end - k0 < {0} ? (int)(end - k0) : {0};", tile.k));
  strided_loop(w, tile.threads(), tile.k, tile.m, "kk", "m", [&] {
    w.line("if (kk < steps)");
    w.line(fmt::format("  {} = operand(m0 + m < rows ? v[(k0 + kk) * rows + m0 + m] : 0.0f);",
                       kernel.x_element("kk", "m")));
  });
  kernel.load_columns("u", "column0",
                      context.kernel.schedule.vector == 4 && tile.n % 4 == 0 ? 4 : 1, "k0",
                      "steps");
  kernel.multiply("", "steps");
  w.close();
  kernel.store_rounded("sums");
  return b.finish({static_cast<std::uint32_t>(row_tiles * batches),
                   static_cast<std::uint32_t>(column_tiles), 1},
                  tile.block());
}

Result<Launch> output_launch(const KernelContext& context, const WinogradProblem& problem,
                             OutputStage& stage) {
  const ir::NumericContract contract = after_sums(context.kernel.contract);
  DRIFTC_TRY(prelude, sum_prelude(contract));
  const bool fused = transforms_fuse(context.kernel.contract);
  const ConvProblem& conv = problem.conv;
  const std::int64_t channels = conv.columns * conv.groups, elements = channels * problem.tiles();
  std::string entry = fmt::format("{}_output{}", problem.name(), fused ? "" : "_muladd");
  if (!stage.label().empty()) entry += "_" + stage.label().substr(0, 48);
  KernelBuilder builder(entry, context.wide({problem.area() * elements}));
  const int n = problem.n(), m = problem.m();
  builder.describe(fmt::format(
      "Winograd F({0},3), output: Y = A' M A, {0}x{0} outputs of one channel per thread.\n", m));
  builder.prelude(prelude);
  builder.prelude({transform_function("transform_sums", problem.matrices->at, fused)});
  CudaWriter& w = builder.body();
  builder.result();
  const std::string sums = builder.workspace(kSums, "sums", "float", false);
  begin_elements(builder, elements);
  builder.integer("tiles", problem.tiles());
  stage.declare(builder);
  w.line("const index_t k = i / tiles, tile_index = i - k * tiles;");
  declare_tile(builder, problem, "tile_index");
  w.line(fmt::format("float place[{}], tile[{}];", n * n, m * m));
  w.line("#pragma unroll");
  w.line(fmt::format("for (int xi = 0; xi < {}; ++xi) place[xi] = {}[xi * elements + i];", n * n,
                     sums));
  emit_sandwich(w, "transform_sums", m, n, "place", "tile");
  TileStore(context, builder, stage, problem).emit("k");
  return finish_elements(builder, elements);
}

}  // namespace

Result<LoweredKernel> emit_winograd(const KernelContext& context) {
  const ir::Node* conv = ir::reduction_node(context.body());
  if (conv == nullptr) return internal_error("the body has no conv2d");
  DRIFTC_TRY(problem, WinogradProblem::of(context, *conv));
  DRIFTC_CHECK(ir::check_schedule(context.kernel.algorithm, context.kernel.schedule));
  DRIFTC_TRY(stage, OutputStage::plan(context, *conv));
  DRIFTC_TRY(products, product_launch(context, problem, stage));
  DRIFTC_TRY(output, output_launch(context, problem, stage));
  const std::int64_t tiles = problem.tiles(), area = problem.area();
  LoweredKernel lowered;
  lowered.launches = {filter_launch(context, problem, kFilters), data_launch(context, problem),
                      std::move(products), std::move(output)};
  lowered.workspaces = {
      filter_workspace(problem),
      {"data", 4 * area * problem.conv.channels * problem.conv.groups * tiles, false},
      {"sums", 4 * area * problem.conv.columns * problem.conv.groups * tiles, false}};
  return lowered;
}

}  // namespace driftc::codegen
