#include "codegen/winograd_code.h"

#include <fmt/format.h>

#include <cmath>

#include "codegen/element_kernel.h"
#include "codegen/sum_code.h"

namespace driftc::codegen {
namespace {

// A coefficient as CUDA writes it, exact: "5.0f", or hexadecimal where it is no short decimal.
std::string literal(double coefficient, bool f64) {
  const double value = f64 ? coefficient : static_cast<double>(static_cast<float>(coefficient));
  if (value * 4 == std::nearbyint(value * 4) && std::abs(value) < 1024)
    return fmt::format(
        "{}{}",
        value == std::nearbyint(value) ? fmt::format("{:.1f}", value) : fmt::format("{}", value),
        f64 ? "" : "f");
  return fmt::format("{:a}{}", value, f64 ? "" : "f");
}

// One row, e.g. __fadd_rn(__fmaf_rn(-5.0f, v2, __fmul_rn(4.0f, v0)), v4).
std::string row_expression(const std::vector<ir::TransformTerm>& terms, bool fused, bool f64) {
  const char* const add = f64 ? "__dadd_rn" : "__fadd_rn";
  const char* const subtract = f64 ? "__dsub_rn" : "__fsub_rn";
  const char* const multiply = f64 ? "__dmul_rn" : "__fmul_rn";
  const char* const fma = f64 ? "__fma_rn" : "__fmaf_rn";
  std::string sum;
  for (const ir::TransformTerm& term : terms) {
    const std::string v = fmt::format("v{}", term.column), c = literal(term.coefficient, f64);
    if (sum.empty()) {
      // A factor of +-1 rounds nothing.
      sum = term.coefficient == 1    ? v
            : term.coefficient == -1 ? "-" + v
                                     : fmt::format("{}({}, {})", multiply, c, v);
    } else if (term.coefficient == 1 || term.coefficient == -1) {
      sum = fmt::format("{}({}, {})", term.coefficient == 1 ? add : subtract, sum, v);
    } else if (fused) {
      sum = fmt::format("{}({}, {}, {})", fma, c, v, sum);
    } else {
      sum = fmt::format("{}({}, {}({}, {}))", add, sum, multiply, c, v);
    }
  }
  return sum;
}

}  // namespace

Result<WinogradProblem> WinogradProblem::of(const KernelContext& context, const ir::Node& node) {
  const std::string why = ir::why_not(context.kernel.algorithm, context.body(), node);
  if (!why.empty()) return internal_error(why);
  const ir::Transform& transform = context.kernel.contract.transform;
  if (transform.m != ir::winograd_tile(context.kernel.algorithm))
    return internal_error(fmt::format("the contract's transform is {}", to_string(transform)));
  WinogradProblem p;
  DRIFTC_TRY(conv, ConvProblem::of(context, node));
  p.conv = conv;
  p.matrices = &ir::winograd_matrices(transform.m);
  p.tiles_h = ceil_div(conv.out_h, p.m());
  p.tiles_w = ceil_div(conv.out_w, p.m());
  return p;
}
std::int64_t WinogradProblem::filter_row() const { return padded_columns(conv.columns); }
std::string WinogradProblem::name() const { return fmt::format("winograd{}", m()); }

bool transforms_fuse(const ir::NumericContract& contract) {
  return contract.order->arith != ir::Arith::kMulAdd;
}
ir::NumericContract after_sums(ir::NumericContract contract) {
  contract.order->arith = ir::Arith::kFma;
  contract.in = contract.acc = ir::Precision::kF32;
  return contract;
}

DeviceFunction transform_function(const std::string& function, const ir::FractionMatrix& matrix,
                                  bool fused, bool f64) {
  const char* const type = f64 ? "double" : "float";
  CudaWriter w;
  w.open(fmt::format(
      "static __device__ __forceinline__ void {}(const {}* v, int step, {}* out, int out_step)",
      function, type, type));
  for (int c = 0; c < matrix.columns; ++c)
    w.line(fmt::format("const {} v{} = v[{} * step];", type, c, c));
  for (int r = 0; r < matrix.rows; ++r)
    w.line(fmt::format("out[{} * out_step] = {};", r,
                       row_expression(ir::transform_row(matrix, r), fused, f64)));
  w.close();
  return {function, w.text()};
}

void emit_sandwich(CudaWriter& w, const std::string& function, int rows, int columns,
                   const std::string& x, const std::string& out, const std::string& type) {
  w.line(fmt::format("{} half[{}];", type, rows * columns));
  w.line("#pragma unroll");
  w.line(fmt::format("for (int j = 0; j < {0}; ++j) {1}({2} + j, {0}, half + j, {0});", columns,
                     function, x));
  w.line("#pragma unroll");
  w.line(fmt::format("for (int i = 0; i < {0}; ++i) {1}(half + i * {2}, 1, {3} + i * {0}, 1);",
                     rows, function, columns, out));
}

Workspace filter_workspace(const WinogradProblem& problem) {
  return {"filters", 4 * problem.filter_elements(), false};
}

Launch filter_launch(const KernelContext& context, const WinogradProblem& problem, int workspace) {
  const ir::NumericContract& contract = context.kernel.contract;
  const bool f64 = contract.transform.filters == ir::Precision::kF64,
             fused = transforms_fuse(contract);
  const ConvProblem& conv = problem.conv;
  const std::int64_t elements = conv.groups * conv.channels * problem.filter_row();
  KernelBuilder builder(
      fmt::format("{}_filters_{}{}", problem.name(), f64 ? "f64" : "f32", fused ? "" : "_muladd"),
      context.wide({problem.filter_elements()}));
  const int n = problem.n();
  builder.describe(
      fmt::format("Winograd F({},3), filters: U = G g G' of one 3x3 filter per thread{}.\n"
                  "U is stored as {} matrices [group][channel][output channel].\n",
                  problem.m(), f64 ? ", in f64 and rounded to f32 once" : ", in f32", n * n));
  builder.prelude({transform_function("transform_filter", problem.matrices->g, fused, f64)});
  CudaWriter& w = builder.body();
  const std::string weights = builder.operand(conv.weight),
                    out = builder.workspace(workspace, "filters", "float", true);
  begin_elements(builder, elements);
  builder.integer("channels", conv.channels);
  builder.integer("columns", conv.columns);
  builder.integer("filter_row", problem.filter_row());
  w.line("const index_t row = i / filter_row, k = i - row * filter_row;");
  // A vector load takes the padding along: it holds something, though nothing that is stored.
  w.open("if (k >= columns)");
  w.line("#pragma unroll");
  w.line(fmt::format("for (int xi = 0; xi < {}; ++xi) {}[xi * elements + i] = 0.0f;", n * n, out));
  w.line("return;");
  w.close();
  w.line("const index_t group = row / channels, c = row - group * channels;");
  w.line(fmt::format("const float* g = {} + ((group * columns + k) * channels + c) * 9;", weights));
  const char* const type = f64 ? "double" : "float";
  w.line(fmt::format("{} taps[9], u[{}];", type, n * n));
  w.line("#pragma unroll");
  w.line(fmt::format("for (int tap = 0; tap < 9; ++tap) taps[tap] = {}g[tap];",
                     f64 ? "(double)" : ""));
  emit_sandwich(w, "transform_filter", n, 3, "taps", "u", type);
  w.line("#pragma unroll");
  w.line(fmt::format("for (int xi = 0; xi < {}; ++xi) {}[xi * elements + i] = {};", n * n, out,
                     f64 ? "__double2float_rn(u[xi])" : "u[xi]"));
  return finish_elements(builder, elements);
}

void declare_tile(KernelBuilder& builder, const WinogradProblem& problem, const std::string& tile) {
  CudaWriter& w = builder.body();
  builder.integer("tiles_h", problem.tiles_h);
  builder.integer("tiles_w", problem.tiles_w);
  w.line(fmt::format("const index_t tile_row = {0} / tiles_w, image = tile_row / tiles_h;", tile));
  w.line(
      fmt::format("const index_t out_y = (tile_row - image * tiles_h) * {0}, out_x = ({1} - "
                  "tile_row * tiles_w) * {0};",
                  problem.m(), tile));
}

void load_patch(KernelBuilder& builder, const WinogradProblem& problem, const ConvCode& code,
                const std::string& channel, const std::string& exists) {
  CudaWriter& w = builder.body();
  const int n = problem.n();
  const std::string in = builder.operand(problem.conv.input);
  w.line("const index_t y0 = out_y - pad_h, x0 = out_x - pad_w;");
  w.line(fmt::format("const index_t base = {} + {} + {} + {};", code.along(0, "image"),
                     code.along(1, channel), code.along(2, "y0"), code.along(3, "x0")));
  w.line(fmt::format("float d[{}];", n * n));
  w.line("#pragma unroll");
  w.open(fmt::format("for (int r = 0; r < {}; ++r)", n));
  w.line("#pragma unroll");
  w.open(fmt::format("for (int s = 0; s < {}; ++s)", n));
  w.line(fmt::format(
      "const bool inside = {}y0 + r >= 0 && y0 + r < in_h && x0 + s >= 0 && x0 + s < in_w;",
      exists.empty() ? "" : exists + " && "));
  w.line(fmt::format("d[r * {} + s] = inside ? {}[base + {} + {}] : 0.0f;", n, in,
                     code.along(2, "r"), code.along(3, "s")));
  w.close();
  w.close();
}

TileStore::TileStore(const KernelContext& context, KernelBuilder& builder, OutputStage& stage,
                     const WinogradProblem& problem)
    : context_(context), builder_(builder), stage_(stage), problem_(problem) {
  views_.push_back(ir::storage_strides(context.result.shape, context.result.layout));
  for (std::size_t a = 0; a < stage.accesses().size(); ++a)
    views_.push_back(stage.strides(context, a));
  offsets_.resize(views_.size());
}

// image * s0 + k * s1 + y * s2 + x * s3, without the axes along which the view stays.
std::string TileStore::offset(std::size_t view) {
  if (view != 0 && views_[view] == views_[0]) return "at";
  if (!offsets_[view].empty()) return offsets_[view];
  static constexpr const char* kIndex[] = {"image", "k", "y", "x"};
  // Which stride is 1 follows from the layout, never from the extents.
  const std::size_t unit = context_.result.layout == ir::Layout::kNhwc ? 1 : 3;
  std::string out;
  for (std::size_t axis = 0; axis < 4; ++axis) {
    const std::int64_t stride = views_[view][axis];
    if (stride == 0) continue;
    std::string term = kIndex[axis];
    if (!(view == 0 && axis == unit))
      term += " * " + builder_.integer(fmt::format("v{}_s{}", view, axis), stride);
    out += (out.empty() ? "" : " + ") + term;
  }
  return offsets_[view] = out.empty() ? "0" : out;
}

void TileStore::emit(const std::string& k) {
  CudaWriter& w = builder_.body();
  builder_.integer("out_h", problem_.conv.out_h);
  builder_.integer("out_w", problem_.conv.out_w);
  const std::string out = builder_.result();
  const int m = problem_.m();
  if (k != "k") w.line(fmt::format("const index_t k = {};", k));
  w.line("#pragma unroll");
  w.open(fmt::format("for (int r = 0; r < {}; ++r)", m));
  w.line("#pragma unroll");
  w.open(fmt::format("for (int s = 0; s < {}; ++s)", m));
  w.line("const index_t y = out_y + r, x = out_x + s;");
  w.open("if (y < out_h && x < out_w)");
  w.line(fmt::format("const index_t at = {};  // of the result", offset(0)));
  const std::string value = stage_.emit(
      builder_, w, [&](std::size_t a) { return offset(a + 1); },
      fmt::format("tile[r * {} + s]", m));
  w.line(fmt::format("{}[at] = {};", out, value));
  w.close();
  w.close();
  w.close();
}

}  // namespace driftc::codegen
