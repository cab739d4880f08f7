#include "codegen/tile_gemm.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "codegen/element_kernel.h"
#include "codegen/mma_code.h"
#include "codegen/sum_code.h"

namespace driftc::codegen {

Tile Tile::of_mma(const ir::Schedule& schedule, const ir::MmaSpec& mma) {
  Tile out = of(schedule, false);
  out.word_operands = operands_per_word(mma);
  return out;
}

std::string Tile::text() const { return fmt::format("{}x{}", m, n); }

Split Split::of(const ir::ReductionOrder& order, std::int64_t positions) {
  Split out;
  if (order.split <= 1) return out;
  out.on = true;
  out.atomic = order.combine == ir::SplitCombine::kAtomic;
  const std::int64_t unit = order.arith == ir::Arith::kMma ? order.mma.k() : 1;
  out.length = std::max<std::int64_t>(1, ceil_div(ceil_div(positions, order.split), unit) * unit);
  out.slices = std::max<std::int64_t>(1, ceil_div(positions, out.length));
  return out;
}

TileOutput pixel_output(const KernelContext& context, const OutputStage& stage) {
  std::vector<std::vector<std::int64_t>> views{
      ir::storage_strides(context.result.shape, context.result.layout)};
  for (std::size_t a = 0; a < stage.accesses().size(); ++a)
    views.push_back(stage.strides(context, a));
  TileOutput out;
  for (std::size_t axis : {0u, 2u, 3u}) {
    Axis row{context.result.shape[axis], {}};
    for (const auto& v : views) row.strides.push_back(v[axis]);
    out.row_axes.push_back(std::move(row));
  }
  out.row_axes = collapse(std::move(out.row_axes), UnitAxes::kKeep, views.size());
  for (const auto& v : views) out.column_strides.push_back(v[1]);
  return out;
}

TileKernel::TileKernel(const KernelContext& context, KernelBuilder& builder, OutputStage& stage,
                       const Tile& tile, const Split& split, XTile x_layout, TileOutput output)
    : context_(context),
      builder_(builder),
      stage_(stage),
      tile_(tile),
      split_(split),
      x_layout_(x_layout),
      output_(std::move(output)),
      rows_(builder, output_.row_axes, "m_"),
      column_names_(output_.column_strides.size()) {
  if (!output_.batch_axes.empty()) batch_.emplace(builder, output_.batch_axes, "b_");
}

void TileKernel::begin(const std::string& row_tile, const std::string& column_tile) {
  CudaWriter& w = builder_.body();
  if (tile_.word_operands != 0) {
    begin_mma();
  } else {
    const int padding = x_layout_ == XTile::kByPositionPadded ? 1 : 0;
    w.line(x_layout_ == XTile::kByRow
               ? fmt::format("__shared__ __align__(16) float xs[{}][{}];", tile_.m, tile_.k)
               : fmt::format("__shared__ float xs[{}][{}];", tile_.k, tile_.m + padding));
    w.line(fmt::format("__shared__ __align__(16) float ws[{}][{}];", tile_.k, tile_.n));
    const char* fast = tile_.columns_fast ? "n" : "m";
    const char* slow = tile_.columns_fast ? "m" : "n";
    w.line(fmt::format("const int {}_thread = threadIdx.x, {}_thread = threadIdx.y;", fast, slow));
    w.line(fmt::format("const int t = threadIdx.y * {} + threadIdx.x;", tile_.block()[0]));
  }
  w.line(fmt::format("const index_t m0 = (index_t)({}) * {}, n0 = (index_t)({}) * {};", row_tile,
                     tile_.m, column_tile, tile_.n));
  if (batch_) {
    std::vector<std::size_t> views(output_.column_strides.size());
    std::iota(views.begin(), views.end(), std::size_t{0});
    batch_->declare_coordinates(w, "batch", views);
  }
}

// Rows of words start four words apart, so that the eight rows of a matrix lie in different banks.
void TileKernel::begin_mma() {
  CudaWriter& w = builder_.body();
  const int warps_m = tile_.m / (8 * tile_.thread_m);
  w.line(fmt::format("__shared__ __align__(16) unsigned xs[{0}][{2}], ws[{1}][{2}];", tile_.m,
                     tile_.n, tile_.words() + 4));
  w.line("const int t = threadIdx.x, thread_of_warp = t % 32, warp = t / 32;");
  w.comment(
      fmt::format("A warp computes {} rows x {} columns; a thread has every 8th row of them "
                  "and pairs of columns.",
                  8 * tile_.thread_m, 4 * tile_.thread_n));
  w.line(fmt::format("const int warp_m = warp % {0} * {1}, warp_n = warp / {0} * {2};", warps_m,
                     8 * tile_.thread_m, 4 * tile_.thread_n));
  w.line(
      "const int m_thread = warp_m + thread_of_warp / 4, n_thread = warp_n + thread_of_warp % 4 "
      "* 2;");
}

std::string TileKernel::own_row() const {
  if (tile_.word_operands != 0) return "m_thread + i * 8";
  return fmt::format("m_thread + i * {}", tile_.m_threads());
}
std::string TileKernel::own_column() const {
  if (tile_.word_operands != 0) return "n_thread + j / 2 * 8 + j % 2";
  return fmt::format("n_thread + j * {}", tile_.n_threads());
}

void TileKernel::declare_slice(const std::string& positions) {
  CudaWriter& w = builder_.body();
  if (!split_.on) {
    w.line(fmt::format("const index_t end = {};", positions));
    return;
  }
  const std::string length = builder_.integer("slice_length", split_.length);
  w.comment("The slice of the reduction that this block sums.");
  w.line(fmt::format("const index_t begin = (index_t)blockIdx.z * {};", length));
  w.line(
      fmt::format("const index_t end = begin + {0} < {1} ? begin + {0} : {1};", length, positions));
}

// A view laid out like the result shares its offset.
bool TileKernel::shares_offset(std::size_t view) const {
  bool same = output_.column_strides[view] == output_.column_strides[0];
  for (const Axis& a : output_.row_axes) same = same && a.strides[view] == a.strides[0];
  for (const Axis& a : output_.batch_axes) same = same && a.strides[view] == a.strides[0];
  return same;
}

std::string TileKernel::view_offset(std::size_t view, const std::string& column) {
  if (view != 0 && shares_offset(view)) return "at";
  std::string out = batch_ ? batch_->offset(view, "batch") : "0";
  auto append = [&](const std::string& term) {
    if (term == "0") return;
    out = out == "0" ? term : out + " + " + term;
  };
  append(rows_.offset(view, "m"));
  const std::int64_t stride = output_.column_strides[view];
  if (stride == 1) append(column);
  if (stride != 0 && stride != 1) {
    if (column_names_[view].empty())
      column_names_[view] = builder_.integer(fmt::format("column_s{}", view), stride);
    append(column + " * " + column_names_[view]);
  }
  return out;
}

void TileKernel::for_each_output(const std::vector<std::size_t>& views, bool declare_at,
                                 const std::function<void()>& body, bool declare_column) {
  CudaWriter& w = builder_.body();
  w.line("#pragma unroll");
  w.open(fmt::format("for (int i = 0; i < {}; ++i)", tile_.thread_m));
  w.line(fmt::format("const index_t m = m0 + {};", own_row()));
  w.line("if (m >= rows) continue;");
  rows_.declare_coordinates(w, "m", views);
  // A thread's outputs of a row are apart by what is the same for all threads.
  const std::int64_t stride = output_.column_strides[0];
  const bool steps = declare_at && tile_.word_operands == 0 && stride != 0;
  if (steps) {
    w.line("const index_t own = column0 + n0 + n_thread;");
    w.line(fmt::format("const index_t first = {};", view_offset(0, "own")));
    if (output_step_.empty())
      output_step_ = stride == 1 ? std::to_string(tile_.n_threads())
                                 : builder_.integer("output_step", tile_.n_threads() * stride);
  }
  w.line("#pragma unroll");
  w.open(fmt::format("for (int j = 0; j < {}; ++j)", tile_.thread_n));
  w.line(fmt::format("const index_t n = n0 + {};", own_column()));
  w.line("if (n >= columns) continue;");
  const bool by_column = std::any_of(views.begin(), views.end(), [&](std::size_t v) {
    return v != 0 && output_.column_strides[v] != 0 && !shares_offset(v);
  });
  if (declare_column && (!steps || by_column)) w.line("const index_t column = column0 + n;");
  if (declare_at)
    w.line(fmt::format("const index_t at = {};  // of the result",
                       steps ? "first + j * " + output_step_ : view_offset(0, "column")));
  body();
  w.close();
  w.close();
}

void TileKernel::start_sums() {
  CudaWriter& w = builder_.body();
  w.line("");
  w.line(fmt::format("Sum acc[{}][{}];", tile_.thread_m, tile_.thread_n));
  w.line("#pragma unroll");
  w.line(fmt::format("for (int i = 0; i < {}; ++i)", tile_.thread_m));
  w.line("#pragma unroll");
  w.line(fmt::format("  for (int j = 0; j < {}; ++j) start(acc[i][j], 0.0f);", tile_.thread_n));
  if (!stage_.starts_with_bias()) return;
  w.comment(split_.on ? "The first slice starts with the bias instead of +0."
                      : "Sums start with the bias.");
  if (split_.on) w.open("if (blockIdx.z == 0)");
  const std::size_t view = stage_.bias_access() + 1;
  const std::string offset = view_offset(view, "column");
  // The bias of a single output channel is at 0.
  const bool by_column = offset == "at" || offset.find("column") != std::string::npos;
  for_each_output(
      {view}, offset == "at",
      [&] {
        w.line(fmt::format("start(acc[i][j], {});", stage_.emit_bias(builder_, [&](std::size_t a) {
          return view_offset(a + 1, "column");
        })));
      },
      by_column);
  if (split_.on) w.close();
}

void TileKernel::multiply(const std::string& lo, const std::string& hi) {
  CudaWriter& w = builder_.body();
  w.line("__syncthreads();");
  auto one = [&] {
    w.line(fmt::format("float x[{}], f[{}];", tile_.thread_m, tile_.thread_n));
    w.line("#pragma unroll");
    w.line(fmt::format("for (int i = 0; i < {}; ++i) x[i] = {};", tile_.thread_m,
                       x_element("kk", fmt::format("m_thread + i * {}", tile_.m_threads()))));
    w.line("#pragma unroll");
    w.line(fmt::format("for (int j = 0; j < {}; ++j) f[j] = ws[kk][n_thread + j * {}];",
                       tile_.thread_n, tile_.n_threads()));
    w.line("#pragma unroll");
    w.line(fmt::format("for (int j = 0; j < {}; ++j)", tile_.thread_n));
    w.line("#pragma unroll");
    w.line(fmt::format("  for (int i = 0; i < {}; ++i) add_product(acc[i][j], x[i], f[j]);",
                       tile_.thread_m));
  };
  w.comment(
      "A whole step is unrolled; a tail stops where the positions end, so that no sum ever meets "
      "a\n"
      "product that is not in its order (adding a zero product would turn -0 into +0).");
  const std::string whole = lo.empty() ? fmt::format("{} == {}", hi, tile_.k)
                                       : fmt::format("{} == 0 && {} == {}", lo, hi, tile_.k);
  w.open(fmt::format("if ({})", whole));
  w.line("#pragma unroll");
  w.loop(fmt::format("for (int kk = 0; kk < {}; ++kk)", tile_.k), one);
  w.otherwise();
  w.line("#pragma unroll 4");
  w.loop(fmt::format("for (int kk = {}; kk < {}; ++kk)", lo.empty() ? "0" : lo, hi), one);
  w.close();
  w.line("__syncthreads();");
}

void TileKernel::multiply_mma() {
  CudaWriter& w = builder_.body();
  const int row_blocks = tile_.thread_m / 2, column_pairs = tile_.thread_n / 4;
  w.line("__syncthreads();");
  w.comment("Eight words of k at a time; the products of an output follow each other in k.");
  w.line("#pragma unroll");
  w.open(fmt::format("for (int word = 0; word < {}; word += 8)", tile_.words()));
  w.line(fmt::format("unsigned x[{}][4], f[{}][4];", row_blocks, column_pairs));
  w.line("#pragma unroll");
  w.line(fmt::format("for (int i = 0; i < {}; ++i)", row_blocks));
  w.line(
      "  load_fragments(x[i], &xs[warp_m + i * 16 + thread_of_warp % 16]"
      "[word + thread_of_warp / 16 * 4]);");
  w.line("#pragma unroll");
  w.line(fmt::format("for (int j = 0; j < {}; ++j)", column_pairs));
  w.line(
      "  load_fragments(f[j], &ws[warp_n + j * 16 + thread_of_warp / 16 * 8 + thread_of_warp % "
      "8]");
  w.line("                         [word + thread_of_warp / 8 % 2 * 4]);");
  w.line("#pragma unroll");
  w.line(fmt::format("for (int i = 0; i < {}; i += 2)", tile_.thread_m));
  w.line("#pragma unroll");
  w.line(fmt::format("  for (int j = 0; j < {}; j += 2)", tile_.thread_n));
  w.line("    multiply_block(acc[i][j].value, acc[i][j + 1].value, acc[i + 1][j].value,");
  w.line(
      "                   acc[i + 1][j + 1].value, x[i / 2], f[j / 4][j % 4], f[j / 4][j % 4 + "
      "1]);");
  w.close();
  w.line("__syncthreads();");
}

void TileKernel::store() {
  CudaWriter& w = builder_.body();
  std::vector<std::size_t> views{0};
  w.line("");
  if (split_.on) {
    const std::string part = builder_.workspace(
        0, "part", sums_in_f64(context_.kernel.contract) ? "double" : "float", true);
    const std::string elements = builder_.integer("elements", context_.result.shape.elements());
    for_each_output(views, true, [&] {
      if (split_.atomic) {
        w.line(fmt::format("atomicAdd(&{}[at], acc[i][j].value);", part));
      } else {
        w.line(fmt::format("{}[(index_t)blockIdx.z * {} + at] = acc[i][j].value;", part, elements));
      }
    });
    return;
  }
  for (std::size_t a : stage_.emitted()) views.push_back(a + 1);
  const std::string out = builder_.result();
  for_each_output(views, true, [&] {
    const std::string value = stage_.emit(
        builder_, w, [&](std::size_t a) { return view_offset(a + 1, "column"); },
        "acc[i][j].value");
    w.line(fmt::format("{}[at] = {};", out, value));
  });
}

void TileKernel::store_rounded(const std::string& array) {
  CudaWriter& w = builder_.body();
  w.line("");
  for_each_output({0}, true, [&] { w.line(array + "[at] = rounded(acc[i][j].value);"); });
}

void TileKernel::load_columns(const std::string& matrix, const std::string& column_base, int vector,
                              const std::string& first, const std::string& steps) {
  CudaWriter& w = builder_.body();
  const int lanes = tile_.n / vector;
  strided_loop(w, tile_.threads(), tile_.k, lanes, "row", "lane", [&] {
    w.open(fmt::format("if (row < {})", steps));
    w.line(vector == 1 ? "const index_t n = n0 + lane;"
                       : fmt::format("const index_t n = n0 + lane * {};", vector));
    const std::string at = fmt::format("({} + row) * matrix_row + {} + n", first, column_base);
    if (vector == 1) {
      w.line(fmt::format("ws[row][lane] = operand(n < columns ? {}[{}] : 0.0f);", matrix, at));
    } else {
      w.line("float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);");
      w.line(fmt::format("if (n < columns) v = *reinterpret_cast<const float4*>(&{}[{}]);", matrix,
                         at));
      w.line("v.x = operand(v.x); v.y = operand(v.y); v.z = operand(v.z); v.w = operand(v.w);");
      w.line("*reinterpret_cast<float4*>(&ws[row][lane * 4]) = v;");
    }
    w.close();
  });
}

void strided_loop(CudaWriter& w, int threads, int rows, int lanes, const std::string& row,
                  const std::string& lane, const std::function<void()>& body) {
  // A row has as many threads as divide all of them, some of which do nothing, unless that were
  // most: so groups of threads stay in a row, and rows need no division.
  int wide = lanes;
  while (wide < threads && threads % wide != 0) ++wide;
  const bool even = threads % wide == 0 && wide < 2 * lanes;
  // The number of passes is written out, so that the loop is unrolled and addresses become
  // constants.
  const int passes = (rows * (even ? wide : lanes) + threads - 1) / threads;
  if (passes > 1) {
    w.line("#pragma unroll");
    w.open(fmt::format("for (int pass = 0; pass < {}; ++pass)", passes));
  } else {
    w.open("");
  }
  if (even) {
    const std::string step = passes > 1 ? fmt::format(" + pass * {}", threads / wide) : "";
    w.line(fmt::format("const int {0} = t % {2}, {1} = t / {2}{3};", lane, row, wide, step));
  } else {
    const std::string e = passes > 1 ? fmt::format("(t + pass * {})", threads) : "t";
    w.line(fmt::format("const int {0} = {3} % {2}, {1} = {3} / {2};", lane, row, lanes, e));
  }
  std::string some;
  if (rows * (even ? wide : lanes) % threads != 0) some = fmt::format("{} < {}", row, rows);
  if (even && wide != lanes)
    some = fmt::format("{} < {}{}", lane, lanes, some.empty() ? "" : " && " + some);
  if (!some.empty()) w.open(fmt::format("if ({})", some));
  body();
  if (!some.empty()) w.close();
  w.close();
}

Workspace split_workspace(const KernelContext& context, const Split& split) {
  const std::int64_t element = sums_in_f64(context.kernel.contract) ? 8 : 4;
  const std::int64_t copies = split.atomic ? 1 : split.slices;
  return {"part", element * copies * context.result.shape.elements(), split.atomic};
}

Launch combine_launch(const KernelContext& context, OutputStage& stage, const Split& split) {
  const ir::NumericContract& contract = context.kernel.contract;
  const bool pairwise = !split.atomic && contract.order->combine == ir::SplitCombine::kPairwise;
  std::string entry = split.atomic ? "combine_atomic"
                      : pairwise   ? fmt::format("combine_pairwise_{}", split.slices)
                                   : "combine_serial";
  entry += sum_suffix(contract);
  if (!stage.label().empty()) entry += "_" + stage.label().substr(0, 48);
  const std::int64_t elements = context.result.shape.elements();
  KernelBuilder builder(entry, context.wide({elements * split.slices}));
  builder.describe(
      split.atomic ? "Finishes sums that blocks added atomically: one output element per thread.\n"
      : pairwise
          ? "Adds the slices' sums in adjacent pairs, pairs of pairs ...: one output element per "
            "thread.\n"
          : "Adds the slices' sums from the first to the last: one output element per thread.\n");
  builder.prelude(sum_prelude(contract).value());  // the main kernel has asked already
  const std::string out = builder.result();
  const std::string part =
      builder.workspace(0, "part", sums_in_f64(contract) ? "double" : "float", false);
  begin_elements(builder, elements);
  stage.declare(builder);
  std::vector<std::vector<std::int64_t>> views;
  for (std::size_t a = 0; a < stage.accesses().size(); ++a)
    views.push_back(stage.strides(context, a));
  ElementOffsets offsets(builder, context.result, views, stage.emitted());
  CudaWriter& w = builder.body();
  std::string total = "total";
  if (split.atomic) {
    w.line(fmt::format("const total_t total = {}[i];", part));
  } else if (pairwise) {
    std::vector<std::string> level;
    for (std::int64_t s = 0; s < split.slices; ++s) {
      level.push_back(fmt::format("s0_{}", s));
      w.line(fmt::format("const total_t {} = {}[i + elements * {}];", level.back(), part, s));
    }
    for (int depth = 1; level.size() > 1; ++depth) {
      std::vector<std::string> next;
      for (std::size_t s = 0; s + 1 < level.size(); s += 2) {
        next.push_back(fmt::format("s{}_{}", depth, s / 2));
        w.line(
            fmt::format("const total_t {} = plus({}, {});", next.back(), level[s], level[s + 1]));
      }
      if (level.size() % 2 == 1) next.push_back(level.back());
      level = std::move(next);
    }
    total = level[0];
  } else {
    w.line(fmt::format("total_t total = {}[i];", part));
    w.line(fmt::format("for (int s = 1; s < {}; ++s) total = plus(total, {}[i + elements * s]);",
                       builder.integer("slices", split.slices), part));
  }
  const std::string value = stage.emit(
      builder, w, [&](std::size_t a) { return offsets(a); }, total);
  w.line(fmt::format("{}[i] = {};", out, value));
  return finish_elements(builder, elements);
}

}  // namespace driftc::codegen
