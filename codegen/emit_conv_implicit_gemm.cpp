// Convolution as a tiled matrix product [pixels x positions] * [positions x output channels], the
// left matrix never stored: its elements are read from the image while the tile is loaded.
//
// The weights come prepared as [walk position][output channel], so that position p of the order is
// row p. How the x tile is loaded depends on the walk:
//   taps    crs, block_k a multiple of R*S: a step is whole channels, taps are static after
//   unrolling runs    rsc, cNrs: tap loop outermost, a step is a run of channels of one tap flat
//   anything else: a step is block_k positions, each divided into channel and tap
//   matrix  im2col: the left matrix was stored before, as [group][position of the walk][pixel]
// Lanes run over pixels, or over channels where these are contiguous in memory (runs and flat,
// NHWC).
#include <fmt/format.h>

#include "codegen/conv_code.h"
#include "codegen/element_kernel.h"
#include "codegen/emitters.h"
#include "codegen/sum_code.h"
#include "codegen/tile_gemm.h"
#include "ir/schedule.h"

namespace driftc::codegen {
namespace {

class ImplicitGemm {
 public:
  ImplicitGemm(const KernelContext& context, const ConvProblem& problem, OutputStage& stage)
      : context_(context),
        problem_(problem),
        stage_(stage),
        order_(*context.kernel.contract.order),
        tile_(Tile::of(context.kernel.schedule,
                       ir::lanes_along_columns(context.kernel.schedule, context.result.layout))),
        split_(Split::of(order_, problem.positions())) {
    const bool crs = order_.walk == ir::Walk::kCrs;
    if (context.kernel.algorithm == ir::Algorithm::kIm2col) {
      form_ = Form::kMatrix;
    } else if (crs && tile_.k % problem_.taps() == 0 && problem_.taps() <= 49) {
      form_ = Form::kTaps;
    } else if (!crs && problem_.channels >= tile_.k && problem_.taps() <= 4096) {
      form_ = Form::kRuns;
    } else {
      form_ = Form::kFlat;
    }
    const int threads = tile_.threads();
    channel_lanes_ = form_ != Form::kMatrix && problem_.channels_last && !crs &&
                     threads % tile_.k == 0 && tile_.m % (threads / tile_.k) == 0;
    vector_ = context.kernel.schedule.vector == 4 && tile_.n % 4 == 0 &&
                      (problem_.groups == 1 || problem_.columns % 4 == 0)
                  ? 4
                  : 1;
  }

  Result<LoweredKernel> run();

 private:
  enum class Form : std::uint8_t { kTaps, kRuns, kFlat, kMatrix };

  std::string entry_name() const;
  void declare_pixels();
  void reduction_by_taps();
  void reduction_by_runs();
  void reduction_flat();
  void reduction_of_matrix();
  int matrix_workspace() const { return split_.on ? 1 : 0; }
  std::int64_t matrix_elements() const {
    return problem_.groups * problem_.positions() * problem_.rows();
  }
  Launch matrix_launch() const;
  // Loads xs rows below `steps`; `element(pixel index suffix)` writes the body for position row
  // `kk`.
  void load_pixels(const std::string& steps,
                   const std::function<void(const std::string& kk)>& prepare,
                   const std::string& inside, const std::string& offset);
  void load_weights(const std::string& first, const std::string& steps) {
    tile_kernel_->load_columns("weights", "column0", vector_, first, steps);
  }
  CudaWriter& w() { return builder_->body(); }
  // Threads that load a row of the x tile: one for each of its pixels and, where threads are no
  // multiple of them, some that load nothing, so that groups of threads keep together.
  int row_threads() const {
    int n = tile_.m;
    while (tile_.threads() % n != 0) ++n;
    return n;
  }
  int pixel_groups() const { return tile_.threads() / row_threads(); }
  // The condition of loading row `row` of `limit` ("": of all there are); "" where all threads do.
  std::string loads(const std::string& row, const std::string& limit) const {
    const std::string below = limit.empty() ? "" : row + " < " + limit;
    if (row_threads() == tile_.m) return below;
    return fmt::format("load_m < {}{}", tile_.m, below.empty() ? "" : " && " + below);
  }

  const KernelContext& context_;
  const ConvProblem& problem_;
  OutputStage& stage_;
  const ir::ReductionOrder& order_;
  Tile tile_;
  Split split_;
  Form form_;
  bool channel_lanes_ = false;
  int vector_ = 1;
  std::optional<KernelBuilder> builder_;
  std::optional<ConvCode> conv_;
  std::optional<TileKernel> tile_kernel_;
};

std::string ImplicitGemm::entry_name() const {
  const std::string walk_text = walk_name(order_);
  std::string out = form_ == Form::kMatrix
                        ? fmt::format("conv_im2col_product_{}", tile_.text())
                        : fmt::format("conv_implicit_gemm_{}x{}_{}_{}", problem_.kernel_h,
                                      problem_.kernel_w, walk_text, tile_.text());
  if (form_ == Form::kFlat) out += "_flat";
  if (problem_.groups > 1) out += "_grouped";
  if (split_.on) out += split_.atomic ? "_atomic" : "_split";
  out += sum_suffix(context_.kernel.contract);
  if (!split_.on && !stage_.label().empty()) out += "_" + stage_.label().substr(0, 48);
  return out;
}

// The pixels whose x elements this thread loads: first tap at (y0, x0), at x_base in the image.
void ImplicitGemm::declare_pixels() {
  auto pixel = [&](const std::string& name, const std::string& suffix) {
    w().line(
        fmt::format("const index_t image{0} = {1} / out_hw, place{0} = {1} - image{0} * out_hw;",
                    suffix, name));
    w().line(fmt::format(
        "const index_t out_y{0} = place{0} / out_w, out_x{0} = place{0} - out_y{0} * out_w;",
        suffix));
  };
  const std::string base_group =
      problem_.groups > 1 ? " + " + conv_->along(1, "group * channels") : "";
  if (!channel_lanes_) {
    w().comment(
        "This thread loads one column of the x tile: one output pixel, whose first tap is (y0, "
        "x0).");
    w().line(fmt::format("const int load_m = t % {0}, load_group = t / {0};", row_threads()));
    w().line("const index_t pixel = m0 + load_m;");
    pixel("pixel", "");
    w().line("const index_t y0 = out_y * stride_h - pad_h, x0 = out_x * stride_w - pad_w;");
    w().line(fmt::format("const index_t x_base = {} + {} + {}{};", conv_->along(0, "image"),
                         conv_->along(2, "y0"), conv_->along(3, "x0"), base_group));
    w().line("const bool exists = pixel < rows;");
    return;
  }
  const int per_pass = tile_.threads() / tile_.k, pixels = tile_.m / per_pass;
  w().comment(fmt::format(
      "This thread loads one channel of {} output pixels, whose first taps are (y0, x0).", pixels));
  w().line(fmt::format("const int load_k = t % {0}, load_m = t / {0};", tile_.k));
  w().line(fmt::format("index_t y0[{0}], x0[{0}], x_base[{0}];", pixels));
  w().line(fmt::format("bool exists[{}];", pixels));
  w().line("#pragma unroll");
  w().loop(fmt::format("for (int i = 0; i < {}; ++i)", pixels), [&] {
    w().line(fmt::format("const index_t pixel = m0 + load_m + i * {};", per_pass));
    pixel("pixel", "");
    w().line("y0[i] = out_y * stride_h - pad_h;");
    w().line("x0[i] = out_x * stride_w - pad_w;");
    w().line(fmt::format("x_base[i] = {} + {} + {}{};", conv_->along(0, "image"),
                         conv_->along(2, "y0[i]"), conv_->along(3, "x0[i]"), base_group));
    w().line("exists[i] = pixel < rows;");
  });
}

// crs with whole channels per step: taps are static, their predicates are computed once.
void ImplicitGemm::reduction_by_taps() {
  const std::int64_t kh = problem_.kernel_h, kw = problem_.kernel_w, taps = problem_.taps();
  const std::int64_t step_channels = tile_.k / taps;
  const std::string x = builder_->operand(problem_.input);
  w().line("");
  w().comment(
      "Which taps of the pixel lie in the image. Padding reads +0 and is multiplied like the "
      "rest.");
  w().line(fmt::format("bool inside[{}][{}];", kh, kw));
  w().line("#pragma unroll");
  w().line(fmt::format("for (int r = 0; r < {}; ++r)", kh));
  w().line("#pragma unroll");
  w().line(fmt::format("  for (int s = 0; s < {}; ++s)", kw));
  w().line(fmt::format("    inside[r][s] = exists && {};",
                       ConvCode::inside("y0", "x0", kh > 1 ? "r" : "", kw > 1 ? "s" : "")));
  tile_kernel_->start_sums();
  w().line("");
  if (split_.on) w().comment("A slice may begin inside a channel: its first step starts late.");
  w().line(split_.on ? fmt::format("index_t channel0 = begin / {};", taps)
                     : "index_t channel0 = 0;");
  w().open(fmt::format("for (index_t k0 = {}; k0 < end; k0 += {}, channel0 += {})",
                       split_.on ? fmt::format("channel0 * {}", taps) : "0", tile_.k,
                       step_channels));
  const std::int64_t passes = ceil_div(step_channels, pixel_groups());
  w().line("#pragma unroll");
  w().open(fmt::format("for (int pass = 0; pass < {}; ++pass)", passes));
  w().line(fmt::format("const int c = load_group + pass * {};", pixel_groups()));
  const std::string some =
      loads("c", step_channels % pixel_groups() == 0 ? "" : std::to_string(step_channels));
  if (!some.empty()) w().open(fmt::format("if ({})", some));
  w().line("const bool there = channel0 + c < channels;");
  w().line(fmt::format("const index_t at = x_base + {};", conv_->along(1, "(channel0 + c)")));
  w().line("#pragma unroll");
  w().line(fmt::format("for (int r = 0; r < {}; ++r)", kh));
  w().line("#pragma unroll");
  w().line(fmt::format("  for (int s = 0; s < {}; ++s)", kw));
  w().line(fmt::format(
      "    xs[c * {} + r * {} + s][load_m] = operand(there && inside[r][s] ? {}[at + {}] : 0.0f);",
      taps, kw, x, conv_->tap_offset("r", "s")));
  if (!some.empty()) w().close();
  w().close();
  w().line(fmt::format("const int steps = end - k0 < {0} ? (int)(end - k0) : {0};", tile_.k));
  load_weights("k0", "steps");
  if (split_.on) w().line("const int late = k0 < begin ? (int)(begin - k0) : 0;");
  tile_kernel_->multiply(split_.on ? "late" : "", "steps");
  w().close();
}

void ImplicitGemm::load_pixels(const std::string& steps,
                               const std::function<void(const std::string& kk)>& prepare,
                               const std::string& inside, const std::string& offset) {
  const std::string x = builder_->operand(problem_.input);
  w().line("#pragma unroll");
  if (!channel_lanes_) {
    // The number of passes is written out, so that the loop is unrolled.
    w().open(
        fmt::format("for (int pass = 0; pass < {}; ++pass)", ceil_div(tile_.k, pixel_groups())));
    w().line(fmt::format("const int kk = load_group + pass * {};", pixel_groups()));
    w().open(fmt::format("if ({})", loads("kk", steps)));
    prepare("kk");
    w().line(fmt::format("xs[kk][load_m] = operand({} ? {}[{}] : 0.0f);", inside, x, offset));
    w().close();
    w().close();
    return;
  }
  w().open(fmt::format("for (int i = 0; i < {}; ++i)", tile_.m / (tile_.threads() / tile_.k)));
  w().open(fmt::format("if (load_k < {})", steps));
  prepare("load_k");
  w().line(fmt::format(
      "{} = operand({} ? {}[{}] : 0.0f);",
      tile_kernel_->x_element("load_k", fmt::format("load_m + i * {}", tile_.threads() / tile_.k)),
      inside, x, offset));
  w().close();
  w().close();
}

// rsc and cNrs: one tap at a time, along it a run of channels.
void ImplicitGemm::reduction_by_runs() {
  const std::int64_t kh = problem_.kernel_h, kw = problem_.kernel_w;
  const bool tiled = order_.walk == ir::Walk::kTiledCrs;
  const std::string r = kh > 1 ? "r" : "", s = kw > 1 ? "s" : "";
  tile_kernel_->start_sums();
  w().line("");
  if (tiled) {
    w().open(fmt::format("for (index_t c_tile = 0; c_tile < channels; c_tile += {})",
                         order_.channel_tile));
    w().line(fmt::format("const index_t left = channels - c_tile, width = left < {0} ? left : {0};",
                         order_.channel_tile));
  }
  const std::string width = tiled ? "width" : "channels";
  w().line("#pragma unroll 1");
  w().open(fmt::format("for (int r = 0; r < {}; ++r)", kh));
  w().line("#pragma unroll 1");
  w().open(fmt::format("for (int s = 0; s < {}; ++s)", kw));
  w().comment("Positions run_first ... of the order: this tap, the channels in turn.");
  w().line(tiled ? fmt::format("const index_t run_first = c_tile * {} + (r * {} + s) * width;",
                               kh * kw, kw)
                 : fmt::format("const index_t run_first = (r * {} + s) * channels;", kw));
  if (!channel_lanes_) {
    w().line(fmt::format("const bool inside = exists && {};", ConvCode::inside("y0", "x0", r, s)));
    w().line(fmt::format("const index_t at = x_base + {};", conv_->tap_offset("r", "s")));
  } else {
    const int pixels = tile_.m / (tile_.threads() / tile_.k);
    w().line(fmt::format("bool inside[{}];", pixels));
    w().line(fmt::format("const index_t tap = {};", conv_->tap_offset("r", "s")));
    w().line("#pragma unroll");
    w().line(fmt::format("for (int i = 0; i < {}; ++i) inside[i] = exists[i] && {};", pixels,
                         ConvCode::inside("y0[i]", "x0[i]", r, s)));
  }
  if (split_.on) {
    w().line("const index_t run_begin = begin > run_first ? begin - run_first : 0;");
    w().line(fmt::format("const index_t run_end = end - run_first < {0} ? end - run_first : {0};",
                         width));
  } else {
    w().line(fmt::format("const index_t run_begin = 0, run_end = {};", width));
  }
  w().line("#pragma unroll 1");
  w().open(fmt::format("for (index_t c0 = run_begin; c0 < run_end; c0 += {})", tile_.k));
  w().line(
      fmt::format("const int steps = run_end - c0 < {0} ? (int)(run_end - c0) : {0};", tile_.k));
  const std::string first = tiled ? "(c_tile + c0 + {})" : "(c0 + {})";
  if (channel_lanes_) {
    load_pixels(
        "steps", [](const std::string&) {}, "inside[i]",
        "x_base[i] + tap + " + conv_->along(1, fmt::format(fmt::runtime(first), "load_k")));
  } else {
    load_pixels(
        "steps", [](const std::string&) {}, "inside",
        "at + " + conv_->along(1, fmt::format(fmt::runtime(first), "kk")));
  }
  load_weights("(run_first + c0)", "steps");
  tile_kernel_->multiply("", "steps");
  w().close();
  w().close();
  w().close();
  if (tiled) w().close();
}

void ImplicitGemm::reduction_flat() {
  const std::string r = problem_.kernel_h > 1 ? "r" : "", s = problem_.kernel_w > 1 ? "s" : "";
  const std::string i = channel_lanes_ ? "[i]" : "";
  tile_kernel_->start_sums();
  w().line("");
  w().line("#pragma unroll 1");
  w().open(fmt::format("for (index_t k0 = {}; k0 < end; k0 += {})", tile_kernel_->slice_begin(),
                       tile_.k));
  w().line(fmt::format("const int steps = end - k0 < {0} ? (int)(end - k0) : {0};", tile_.k));
  load_pixels(
      "steps",
      [&](const std::string& kk) {
        w().line(fmt::format("const index_t position = k0 + {};", kk));
        conv_->declare_position(w(), order_, "position");
        w().line(fmt::format("const bool inside = exists{} && {};", i,
                             ConvCode::inside("y0" + i, "x0" + i, r, s)));
      },
      "inside",
      fmt::format("x_base{} + {} + {}", i, conv_->along(1, "channel"),
                  conv_->tap_offset("r", "s")));
  load_weights("k0", "steps");
  tile_kernel_->multiply("", "steps");
  w().close();
}

// The x tile is a block of the stored matrix; pixels are contiguous.
void ImplicitGemm::reduction_of_matrix() {
  const std::string matrix = builder_->workspace(matrix_workspace(), "matrix", "float", false);
  tile_kernel_->start_sums();
  w().line("");
  w().line("#pragma unroll 1");
  w().open(fmt::format("for (index_t k0 = {}; k0 < end; k0 += {})", tile_kernel_->slice_begin(),
                       tile_.k));
  w().line(fmt::format("const int steps = end - k0 < {0} ? (int)(end - k0) : {0};", tile_.k));
  strided_loop(w(), tile_.threads(), tile_.k, tile_.m, "kk", "m", [&] {
    w().line("if (kk < steps)");
    w().line(fmt::format("  {} = operand(m0 + m < rows ? {}[({}k0 + kk) * rows + m0 + m] : 0.0f);",
                         tile_kernel_->x_element("kk", "m"), matrix,
                         problem_.groups > 1 ? "group * positions + " : ""));
  });
  load_weights("k0", "steps");
  tile_kernel_->multiply("", "steps");
  w().close();
}

// matrix[group][p][pixel] = the input under position p of the walk; +0 outside the image.
Launch ImplicitGemm::matrix_launch() const {
  const std::string walk_text = walk_name(order_);
  KernelBuilder builder(
      fmt::format("im2col_{}x{}_{}", problem_.kernel_h, problem_.kernel_w, walk_text),
      context_.wide({problem_.padded_elements(), matrix_elements()}));
  builder.describe(fmt::format(
      "im2col for a {}x{} convolution: one element of the matrix [group][position][pixel] per "
      "thread,\npositions in the order {}. Padding is stored as +0.\n",
      problem_.kernel_h, problem_.kernel_w, walk_text));
  CudaWriter& w = builder.body();
  const std::string x = builder.operand(problem_.input),
                    matrix = builder.workspace(matrix_workspace(), "matrix", "float", true);
  begin_elements(builder, matrix_elements());
  builder.integer("rows", problem_.rows());
  builder.integer("positions", problem_.positions());
  builder.integer("out_hw", problem_.out_h * problem_.out_w);
  builder.integer("out_w", problem_.out_w);
  const ConvCode code(builder, problem_);
  w.line("const index_t line = i / rows, pixel = i - line * rows;");
  w.line("const index_t group = line / positions, position = line - group * positions;");
  w.line("const index_t image = pixel / out_hw, place = pixel - image * out_hw;");
  w.line("const index_t out_y = place / out_w, out_x = place - out_y * out_w;");
  code.declare_position(w, order_, "position");
  w.line("const index_t y0 = out_y * stride_h - pad_h, x0 = out_x * stride_w - pad_w;");
  w.line(fmt::format("const bool inside = {};",
                     ConvCode::inside("y0", "x0", problem_.kernel_h > 1 ? "r" : "",
                                      problem_.kernel_w > 1 ? "s" : "")));
  w.line(fmt::format("{}[i] = inside ? {}[{} + {} + {} + {} + {}] : 0.0f;", matrix, x,
                     code.along(0, "image"), code.along(1, "(group * channels + channel)"),
                     code.along(2, "y0"), code.along(3, "x0"), code.tap_offset("r", "s")));
  return finish_elements(builder, matrix_elements());
}

Result<LoweredKernel> ImplicitGemm::run() {
  const ir::NumericContract& contract = context_.kernel.contract;
  DRIFTC_TRY(prelude, sum_prelude(contract));
  const std::int64_t row_tiles = ceil_div(problem_.rows(), tile_.m);
  const std::int64_t column_tiles = ceil_div(problem_.columns, tile_.n);
  if (column_tiles * problem_.groups > 65535 || split_.slices > 65535)
    return internal_error("more column tiles, groups or slices than a grid holds");
  builder_.emplace(
      entry_name(),
      context_.wide({problem_.padded_elements(), row_tiles * tile_.m,
                     form_ == Form::kMatrix ? matrix_elements() : 0,
                     split_.slices * context_.result.shape.elements(),
                     problem_.positions() * padded_columns(problem_.columns * problem_.groups)}));
  KernelBuilder& b = *builder_;
  b.prelude(prelude);
  const std::string what = form_ == Form::kMatrix
                               ? "Convolution from its im2col matrix"
                               : fmt::format("Convolution {}x{} as a matrix product",
                                             problem_.kernel_h, problem_.kernel_w);
  b.describe(
      fmt::format("{}: rows are output pixels, columns output channels, the sum runs\n"
                  "over channels and taps. A block computes {} pixels x {} channels, a thread {} x "
                  "{} of them.\n{}",
                  what, tile_.m, tile_.n, tile_.thread_m, tile_.thread_n, explain_order(order_)));

  if (form_ != Form::kMatrix) b.operand(problem_.input);
  b.prepared(0, "weights");
  b.integer("rows", problem_.rows());
  b.integer("columns", problem_.columns);
  if (split_.on || form_ != Form::kRuns) b.integer("positions", problem_.positions());
  b.integer("matrix_row", padded_columns(problem_.columns * problem_.groups));
  if (form_ != Form::kMatrix) {
    b.integer("out_hw", problem_.out_h * problem_.out_w);
    b.integer("out_w", problem_.out_w);
    conv_.emplace(b, problem_);
  }
  stage_.declare(b);
  tile_kernel_.emplace(context_, b, stage_, tile_, split_,
                       x_tile(tile_.columns_fast, channel_lanes_), pixel_output(context_, stage_));

  std::string column_tile = "blockIdx.y";
  if (problem_.groups > 1) {
    b.integer("column_tiles", column_tiles);
    w().line("const index_t group = blockIdx.y / column_tiles;");
    column_tile = "blockIdx.y - group * column_tiles";
  }
  tile_kernel_->begin("blockIdx.x", column_tile);
  w().line(problem_.groups > 1 ? "const index_t column0 = group * columns;"
                               : "const index_t column0 = 0;");
  if (split_.on || form_ != Form::kRuns) tile_kernel_->declare_slice("positions");
  if (form_ != Form::kMatrix) declare_pixels();
  switch (form_) {
    case Form::kMatrix:
      reduction_of_matrix();
      break;
    case Form::kTaps:
      reduction_by_taps();
      break;
    case Form::kRuns:
      reduction_by_runs();
      break;
    case Form::kFlat:
      reduction_flat();
      break;
  }
  tile_kernel_->store();

  LoweredKernel lowered;
  if (form_ == Form::kMatrix) lowered.launches.push_back(matrix_launch());
  lowered.launches.push_back(b.finish({static_cast<std::uint32_t>(row_tiles),
                                       static_cast<std::uint32_t>(column_tiles * problem_.groups),
                                       static_cast<std::uint32_t>(split_.slices)},
                                      tile_.block()));
  lowered.preparations.push_back(walk_major(
      problem_.weight, context_.operands[static_cast<std::size_t>(problem_.weight)].shape, order_));
  if (split_.on) {
    lowered.workspaces.push_back(split_workspace(context_, split_));
    lowered.launches.push_back(combine_launch(context_, stage_, split_));
  }
  if (form_ == Form::kMatrix)
    lowered.workspaces.push_back({"matrix", 4 * matrix_elements(), false});
  return lowered;
}

}  // namespace

Result<LoweredKernel> emit_conv_implicit_gemm(const KernelContext& context) {
  if (context.kernel.contract.order->arith == ir::Arith::kMma) return emit_conv_mma(context);
  const ir::Node* conv = ir::reduction_node(context.body());
  if (conv == nullptr) return internal_error("the body has no conv2d");
  DRIFTC_TRY(problem, ConvProblem::of(context, *conv));
  DRIFTC_CHECK(ir::check_schedule(context.kernel.algorithm, context.kernel.schedule));
  DRIFTC_TRY(stage, OutputStage::plan(context, *conv));
  return ImplicitGemm(context, problem, stage).run();
}

Result<LoweredKernel> emit_conv_im2col(const KernelContext& context) {
  return emit_conv_implicit_gemm(context);
}

}  // namespace driftc::codegen
