// Convolution on tensor cores: the tiled matrix product of emit_conv_implicit_gemm.cpp with
// mma.sync, in any of its orders. Steps run over positions of the order, whatever channel and tap
// they are; beyond the last one operands are +0, which leaves every block as it is.
//
// Lanes that load x run over pixels, or over positions where channels are contiguous in memory.
#include <fmt/format.h>

#include "codegen/conv_code.h"
#include "codegen/emitters.h"
#include "codegen/sum_code.h"
#include "codegen/tile_gemm.h"
#include "ir/schedule.h"

namespace driftc::codegen {
namespace {

class ConvMma {
 public:
  ConvMma(const KernelContext& context, const ConvProblem& problem, OutputStage& stage)
      : context_(context),
        problem_(problem),
        stage_(stage),
        order_(*context.kernel.contract.order),
        tile_(Tile::of_mma(context.kernel.schedule, order_.mma)),
        split_(Split::of(order_, problem.positions())),
        word_lanes_(problem.channels_last && order_.walk != ir::Walk::kCrs) {}

  Result<LoweredKernel> run();

 private:
  std::string entry_name() const;
  void declare_pixels();
  void load_by_pixel();
  void load_by_word();
  void load_weights();
  // "operand_word(a, b)" of what `element` gives for each operand of the word.
  std::string word_of(const std::function<std::string(int)>& element) const {
    std::string out = "operand_word(" + element(0);
    for (int e = 1; e < tile_.word_operands; ++e) out += ", " + element(e);
    return out + ")";
  }
  std::string position(const std::string& word, int e) const {
    if (tile_.word_operands == 1) return "k0 + " + word;
    return fmt::format("k0 + {} * 2{}", word, e ? " + 1" : "");
  }
  std::string r() const { return problem_.kernel_h > 1 ? "r" : ""; }
  std::string s() const { return problem_.kernel_w > 1 ? "s" : ""; }
  CudaWriter& w() { return builder_->body(); }

  const KernelContext& context_;
  const ConvProblem& problem_;
  OutputStage& stage_;
  const ir::ReductionOrder& order_;
  Tile tile_;
  Split split_;
  bool word_lanes_;
  std::optional<KernelBuilder> builder_;
  std::optional<ConvCode> conv_;
};

std::string ConvMma::entry_name() const {
  const std::string walk_text = walk_name(order_);
  std::string out = fmt::format("conv_mma_{}x{}_{}_{}", problem_.kernel_h, problem_.kernel_w,
                                walk_text, tile_.text());
  if (problem_.groups > 1) out += "_grouped";
  if (split_.on) out += "_split";
  out += sum_suffix(context_.kernel.contract);
  if (!split_.on && !stage_.label().empty()) out += "_" + stage_.label().substr(0, 48);
  return out;
}

// The pixels whose words this thread loads: the first tap at (y0, x0), at x_base in the image.
void ConvMma::declare_pixels() {
  const std::string group = problem_.groups > 1 ? " + " + conv_->along(1, "group * channels") : "";
  const std::string i = word_lanes_ ? "[i]" : "";
  const auto body = [&] {
    w().line("const index_t image = pixel / out_hw, place = pixel - image * out_hw;");
    w().line("const index_t out_y = place / out_w, out_x = place - out_y * out_w;");
    const std::string type = word_lanes_ ? "" : "const index_t ";
    w().line(fmt::format("{}y0{} = out_y * stride_h - pad_h;", type, i));
    w().line(fmt::format("{}x0{} = out_x * stride_w - pad_w;", type, i));
    w().line(fmt::format("{}x_base{} = {} + {} + {}{};", type, i, conv_->along(0, "image"),
                         conv_->along(2, "y0" + i), conv_->along(3, "x0" + i), group));
    w().line(fmt::format("{}exists{} = pixel < rows;", word_lanes_ ? "" : "const bool ", i));
  };
  if (!word_lanes_) {
    w().comment("This thread loads one row of the x tile: one output pixel.");
    w().line(fmt::format("const int load_m = t % {0}, load_group = t / {0};", tile_.m));
    w().line("const index_t pixel = m0 + load_m;");
    body();
    return;
  }
  const int per_pass = tile_.threads() / tile_.words(), pixels = tile_.m / per_pass;
  w().comment(fmt::format("This thread loads one word of {} output pixels.", pixels));
  w().line(fmt::format("const int load_word = t % {0}, load_m = t / {0};", tile_.words()));
  w().line(fmt::format("index_t y0[{0}], x0[{0}], x_base[{0}];", pixels));
  w().line(fmt::format("bool exists[{}];", pixels));
  w().line("#pragma unroll");
  w().loop(fmt::format("for (int i = 0; i < {}; ++i)", pixels), [&] {
    w().line(fmt::format("const index_t pixel = m0 + load_m + i * {};", per_pass));
    body();
  });
}

void ConvMma::load_by_pixel() {
  const std::string x = builder_->operand(problem_.input);
  w().comment("Padding, and what lies beyond the last position, reads +0.");
  w().open("const auto input = [&](index_t position) -> float");
  conv_->declare_position(w(), order_, "position");
  w().line(fmt::format("const bool inside = exists && position < end && {};",
                       ConvCode::inside("y0", "x0", r(), s())));
  w().line(fmt::format("return inside ? {}[x_base + {} + {}] : 0.0f;", x,
                       conv_->along(1, "channel"), conv_->tap_offset("r", "s")));
  w().close("};");
  const int groups = tile_.threads() / tile_.m;
  w().line("#pragma unroll");
  w().open(
      fmt::format("for (int word = load_group; word < {}; word += {})", tile_.words(), groups));
  w().line(fmt::format("xs[load_m][word] = {};", word_of([&](int e) {
                         return fmt::format("input({})", position("word", e));
                       })));
  w().close();
}

void ConvMma::load_by_word() {
  const std::string x = builder_->operand(problem_.input);
  const int per_pass = tile_.threads() / tile_.words();
  w().comment("Where the operands of this thread's word lie in the window.");
  w().line(fmt::format("index_t at[{0}], tap_y[{0}], tap_x[{0}];", tile_.word_operands));
  w().line(fmt::format("bool there[{}];", tile_.word_operands));
  w().line("#pragma unroll");
  w().loop(fmt::format("for (int e = 0; e < {}; ++e)", tile_.word_operands), [&] {
    w().line(fmt::format("const index_t position = k0 + load_word * {} + e;", tile_.word_operands));
    conv_->declare_position(w(), order_, "position");
    w().line("there[e] = position < end;");
    w().line(problem_.kernel_h > 1 ? "tap_y[e] = r * dilation_h;" : "tap_y[e] = 0;");
    w().line(problem_.kernel_w > 1 ? "tap_x[e] = s * dilation_w;" : "tap_x[e] = 0;");
    w().line(fmt::format("at[e] = {} + {} + {};", conv_->along(1, "channel"),
                         conv_->along(2, "tap_y[e]"), conv_->along(3, "tap_x[e]")));
  });
  w().comment("Padding, and what lies beyond the last position, reads +0.");
  w().open("const auto input = [&](int i, int e) -> float");
  w().line("const index_t y = y0[i] + tap_y[e], x = x0[i] + tap_x[e];");
  w().line(
      "const bool inside = exists[i] && there[e] && y >= 0 && y < in_h && x >= 0 && x < in_w;");
  w().line(fmt::format("return inside ? {}[x_base[i] + at[e]] : 0.0f;", x));
  w().close("};");
  w().line("#pragma unroll");
  w().line(fmt::format("for (int i = 0; i < {}; ++i)", tile_.m / per_pass));
  w().line(fmt::format("  xs[load_m + i * {}][load_word] = {};", per_pass,
                       word_of([](int e) { return fmt::format("input(i, {})", e); })));
}

void ConvMma::load_weights() {
  strided_loop(w(), tile_.threads(), tile_.words(), tile_.n, "word", "lane", [&] {
    w().line("const bool exists_n = n0 + lane < columns;");
    for (int e = 0; e < tile_.word_operands; ++e)
      w().line(
          fmt::format("const float w{0} = exists_n && {1} < end ? weights[({1}) * matrix_row + "
                      "column0 + n0 + lane] : 0.0f;",
                      e, position("word", e)));
    w().line(
        fmt::format("ws[lane][word] = {};", word_of([](int e) { return fmt::format("w{}", e); })));
  });
}

Result<LoweredKernel> ConvMma::run() {
  const ir::NumericContract& contract = context_.kernel.contract;
  DRIFTC_TRY(prelude, sum_prelude(contract));
  const std::int64_t row_tiles = ceil_div(problem_.rows(), tile_.m);
  const std::int64_t column_tiles = ceil_div(problem_.columns, tile_.n);
  if (column_tiles * problem_.groups > 65535 || split_.slices > 65535)
    return internal_error("more column tiles, groups or slices than a grid holds");
  builder_.emplace(
      entry_name(),
      context_.wide({problem_.padded_elements(), row_tiles * tile_.m,
                     problem_.positions() * padded_columns(problem_.columns * problem_.groups),
                     split_.slices * context_.result.shape.elements()}));
  KernelBuilder& b = *builder_;
  b.prelude(prelude);
  b.describe(fmt::format(
      "Convolution as a tiled matrix product on tensor cores: a block computes {} output pixels x "
      "{} output channels.\n{}",
      tile_.m, tile_.n, explain_order(order_)));
  b.operand(problem_.input);
  b.prepared(0, "weights");
  b.integer("rows", problem_.rows());
  b.integer("columns", problem_.columns);
  b.integer("positions", problem_.positions());
  b.integer("matrix_row", padded_columns(problem_.columns * problem_.groups));
  b.integer("out_hw", problem_.out_h * problem_.out_w);
  b.integer("out_w", problem_.out_w);
  conv_.emplace(b, problem_);
  stage_.declare(b);
  TileKernel kernel(context_, b, stage_, tile_, split_, XTile::kByRow,
                    pixel_output(context_, stage_));

  std::string column_tile = "blockIdx.y";
  if (problem_.groups > 1) {
    b.integer("column_tiles", column_tiles);
    w().line("const index_t group = blockIdx.y / column_tiles;");
    column_tile = "blockIdx.y - group * column_tiles";
  }
  kernel.begin("blockIdx.x", column_tile);
  w().line(problem_.groups > 1 ? "const index_t column0 = group * columns;"
                               : "const index_t column0 = 0;");
  kernel.declare_slice("positions");
  declare_pixels();
  kernel.start_sums();
  w().line("");
  w().line("#pragma unroll 1");
  w().open(fmt::format("for (index_t k0 = {}; k0 < end; k0 += {})", kernel.slice_begin(), tile_.k));
  if (word_lanes_) {
    load_by_word();
  } else {
    load_by_pixel();
  }
  load_weights();
  kernel.multiply_mma();
  w().close();
  kernel.store();

  LoweredKernel lowered;
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
  return lowered;
}

}  // namespace

Result<LoweredKernel> emit_conv_mma(const KernelContext& context) {
  const ir::Node* conv = ir::reduction_node(context.body());
  if (conv == nullptr) return internal_error("the body has no conv2d");
  DRIFTC_TRY(problem, ConvProblem::of(context, *conv));
  DRIFTC_CHECK(ir::check_mma_schedule(context.kernel.schedule, context.kernel.contract.order->mma));
  DRIFTC_TRY(stage, OutputStage::plan(context, *conv));
  return ConvMma(context, problem, stage).run();
}

}  // namespace driftc::codegen
