// Matrix products: matmul (leading axes broadcast), gemm (transposes, alpha, beta) and a 1x1
// convolution written as one, all as tiles over rows x columns of a strided problem.
#include <fmt/format.h>

#include <numeric>

#include "codegen/emitters.h"
#include "codegen/sum_code.h"
#include "codegen/tile_gemm.h"
#include "ir/schedule.h"

namespace driftc::codegen {
namespace {

using ir::Op;

// The product along the axes of the result: strides of both operands per result axis, 0 where they
// stay.
struct Problem {
  int a = 0, b = 1;
  std::size_t column_axis = 0;
  std::int64_t depth = 0;
  std::vector<std::int64_t> a_strides, b_strides;  // per result axis
  std::int64_t a_k = 0, b_k = 0;                   // along the reduction
  std::int64_t b_column = 1;
  bool b_prepared = false;  // rows of padded_columns(N)
};

Result<Problem> read_problem(const KernelContext& context, const ir::Node& node,
                             std::vector<Preparation>& preparations) {
  Problem p;
  p.a = context.operand_index(node.operands[0]);
  p.b = context.operand_index(node.operands[1]);
  if (p.a < 0 || p.b < 0)
    return internal_error("a matrix product reads operands of the kernel only");
  const ir::TensorType& a = context.operands[static_cast<std::size_t>(p.a)];
  const ir::TensorType& b = context.operands[static_cast<std::size_t>(p.b)];
  if (a.dtype != ir::DType::kF32 || b.dtype != ir::DType::kF32 ||
      context.result.dtype != ir::DType::kF32)
    return internal_error("matrix product kernels are f32");
  const auto as = ir::storage_strides(a.shape, a.layout),
             bs = ir::storage_strides(b.shape, b.layout);
  const std::size_t rank = context.result.shape.rank();
  p.a_strides.assign(rank, 0);
  p.b_strides.assign(rank, 0);
  switch (node.op) {
    case Op::kConv1x1Matmul:
      p.column_axis = 1;
      p.depth = a.shape[1];
      p.a_strides = {as[0], 0, as[2], as[3]};
      p.a_k = as[1];
      p.b_prepared = true;
      break;
    case Op::kGemm: {
      const bool ta = node.integer("trans_a") != 0, tb = node.integer("trans_b") != 0;
      p.column_axis = 1;
      p.depth = a.shape[ta ? 0 : 1];
      p.a_strides[0] = as[ta ? 1 : 0];
      p.a_k = as[ta ? 0 : 1];
      p.b_column = bs[tb ? 0 : 1];
      p.b_k = bs[tb ? 1 : 0];
      p.b_prepared = tb;
      break;
    }
    default: {
      p.column_axis = rank - 1;
      const std::size_t ra = a.shape.rank(), rb = b.shape.rank();
      p.depth = a.shape[ra - 1];
      p.a_k = as[ra - 1];
      p.b_k = bs[rb - 2];
      p.b_column = bs[rb - 1];
      p.a_strides[rank - 2] = as[ra - 2];
      for (std::size_t i = 0; i + 2 < rank; ++i) {  // leading axes, aligned to the right
        if (i + ra >= rank && a.shape[i + ra - rank] == context.result.shape[i])
          p.a_strides[i] = as[i + ra - rank];
        if (i + rb >= rank && b.shape[i + rb - rank] == context.result.shape[i])
          p.b_strides[i] = bs[i + rb - rank];
      }
      break;
    }
  }
  if (!p.b_prepared) return p;
  if (node.op == Op::kConv1x1Matmul) {
    preparations.push_back(walk_major(p.b, b.shape, *context.kernel.contract.order));
  } else {
    preparations.push_back(transposed(p.b, b.shape));
  }
  p.b_k = preparations.back().result_shape[1];
  p.b_column = 1;
  return p;
}

class MatmulEmitter {
 public:
  MatmulEmitter(const KernelContext& context, const ir::Node& node, const Problem& problem,
                OutputStage& stage)
      : context_(context), node_(node), problem_(problem), stage_(stage) {}

  Result<LoweredKernel> run(std::vector<Preparation> preparations);

 private:
  void lay_out();
  void load_rows(KernelBuilder& builder, const Tile& tile, const TileKernel& kernel);
  void load_strided_columns(KernelBuilder& builder, const Tile& tile);
  void load_words(KernelBuilder& builder, const Tile& tile);
  bool mma() const { return context_.kernel.contract.order->arith == ir::Arith::kMma; }
  std::string entry_name(const Tile& tile, const Split& split) const;

  const KernelContext& context_;
  const ir::Node& node_;
  const Problem& problem_;
  OutputStage& stage_;
  TileOutput output_;  // views: result, accesses, then a and b
  std::int64_t rows_ = 1, batches_ = 1;
  std::int64_t a_row_ = 0;                  // stride of a along the row axis
  bool rows_contiguous_ = false;            // lanes of the a tile run over rows
  bool unit_row_ = false, unit_k_ = false;  // strides of a that are 1
  int vector_ = 1;
};

// Splits the axes other than the column's into batch axes (coordinates of a block) and one row
// axis.
void MatmulEmitter::lay_out() {
  const ir::Shape& shape = context_.result.shape;
  std::vector<std::vector<std::int64_t>> views{ir::storage_strides(shape, context_.result.layout)};
  for (std::size_t i = 0; i < stage_.accesses().size(); ++i)
    views.push_back(stage_.strides(context_, i));
  views.push_back(problem_.a_strides);
  views.push_back(problem_.b_strides);
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    if (i == problem_.column_axis) continue;
    Axis axis{shape[i], {}};
    for (const auto& v : views) axis.strides.push_back(v[i]);
    axes.push_back(std::move(axis));
  }
  axes = collapse(std::move(axes), UnitAxes::kKeep, views.size());
  // Along rows b stays: a last axis along which it moves is a batch axis.
  if (axes.back().strides.back() != 0)
    axes.push_back({1, std::vector<std::int64_t>(views.size(), 0)});
  output_.row_axes = {axes.back()};
  axes.pop_back();
  rows_ = output_.row_axes[0].extent;
  a_row_ = output_.row_axes[0].strides[views.size() - 2];
  for (const Axis& a : axes) batches_ *= a.extent;
  output_.batch_axes = std::move(axes);
  for (const auto& v : views) output_.column_strides.push_back(v[problem_.column_axis]);
}

std::string MatmulEmitter::entry_name(const Tile& tile, const Split& split) const {
  std::string out = fmt::format("{}_{}", ir::info(node_.op).name, tile.text());
  if (!output_.batch_axes.empty()) out += fmt::format("_batch{}", output_.batch_axes.size());
  if (split.on) out += split.atomic ? "_atomic" : "_split";
  out += sum_suffix(context_.kernel.contract);
  if (!split.on && !stage_.label().empty()) out += "_" + stage_.label().substr(0, 48);
  return out;
}

// The x tile's element (kk, m) = a(m0 + m, k0 + kk); lanes run over what is contiguous in memory.
void MatmulEmitter::load_rows(KernelBuilder& builder, const Tile& tile, const TileKernel& kernel) {
  CudaWriter& w = builder.body();
  const std::string a = builder.operand(problem_.a);
  auto times = [&](const std::string& index, bool unit, const char* stride) {
    return unit ? index : index + " * " + stride;
  };
  const std::string row = rows_contiguous_ ? "kk" : "m", lane = rows_contiguous_ ? "m" : "kk";
  strided_loop(
      w, tile.threads(), rows_contiguous_ ? tile.k : tile.m, rows_contiguous_ ? tile.m : tile.k,
      row, lane, [&] {
        w.line("if (kk < steps)");
        w.line(fmt::format("  {} = operand(m0 + m < rows ? {}[a_base + {} + {}] : 0.0f);",
                           kernel.x_element("kk", "m"), a, times("(m0 + m)", unit_row_, "a_row"),
                           times("(k0 + kk)", unit_k_, "a_k")));
      });
}

// ws[kk][n] = b(k0 + kk, n0 + n) of a matrix that is read in place.
void MatmulEmitter::load_strided_columns(KernelBuilder& builder, const Tile& tile) {
  CudaWriter& w = builder.body();
  const std::string b = builder.operand(problem_.b);
  const std::string step =
      problem_.b_column == 1 ? "" : " * " + builder.integer("b_column", problem_.b_column);
  strided_loop(w, tile.threads(), tile.k, tile.n, "kk", "n", [&] {
    w.line("if (kk < steps)");
    w.line(
        fmt::format("  ws[kk][n] = operand(n0 + n < columns ? {}[b_base + (k0 + kk) * b_k + (n0 + "
                    "n){}] : 0.0f);",
                    b, step));
  });
}

// Tensor cores: xs[m][word] and ws[n][word]; beyond the last position operands are +0.
void MatmulEmitter::load_words(KernelBuilder& builder, const Tile& tile) {
  CudaWriter& w = builder.body();
  const auto times = [](const std::string& index, bool unit, const char* stride) {
    return unit ? index : fmt::format("({}) * {}", index, stride);
  };
  // Declares an operand for each of the word's positions; `at` is its offset at position `k`.
  const auto word = [&](const char* name, const std::string& exists, const std::string& matrix,
                        const std::function<std::string(const std::string&)>& at) {
    std::string list;
    for (int e = 0; e < tile.word_operands; ++e) {
      const std::string k = tile.word_operands == 1
                                ? "k0 + word"
                                : fmt::format("k0 + word * 2{}", e == 0 ? "" : " + 1");
      w.line(fmt::format("const float {}{} = {} && {} < end ? {}[{}] : 0.0f;", name, e, exists, k,
                         matrix, at(k)));
      list += fmt::format("{}{}{}", e == 0 ? "" : ", ", name, e);
    }
    return "operand_word(" + list + ")";
  };
  const bool by_row = rows_contiguous_;
  strided_loop(w, tile.threads(), by_row ? tile.words() : tile.m, by_row ? tile.m : tile.words(),
               by_row ? "word" : "m", by_row ? "m" : "word", [&] {
                 const std::string value = word(
                     "x", "m0 + m < rows", builder.operand(problem_.a), [&](const std::string& k) {
                       return fmt::format("a_base + {} + {}", times("m0 + m", unit_row_, "a_row"),
                                          times(k, unit_k_, "a_k"));
                     });
                 w.line(fmt::format("xs[m][word] = {};", value));
               });
  const std::string b = problem_.b_prepared ? std::string("weights") : builder.operand(problem_.b);
  const std::string column = problem_.b_prepared || problem_.b_column == 1
                                 ? "n0 + n"
                                 : "(n0 + n) * " + builder.integer("b_column", problem_.b_column);
  strided_loop(w, tile.threads(), tile.words(), tile.n, "word", "n", [&] {
    const std::string value = word("f", "n0 + n < columns", b, [&](const std::string& k) {
      return problem_.b_prepared ? fmt::format("({}) * matrix_row + {}", k, column)
                                 : fmt::format("b_base + ({}) * b_k + {}", k, column);
    });
    w.line(fmt::format("ws[n][word] = {};", value));
  });
}

Result<LoweredKernel> MatmulEmitter::run(std::vector<Preparation> preparations) {
  const ir::NumericContract& contract = context_.kernel.contract;
  DRIFTC_TRY(prelude, sum_prelude(contract));
  lay_out();
  const std::int64_t columns = context_.result.shape[problem_.column_axis];
  const bool columns_fast = output_.column_strides[0] == 1;
  const Tile tile = mma() ? Tile::of_mma(context_.kernel.schedule, contract.order->mma)
                          : Tile::of(context_.kernel.schedule, columns_fast);
  const Split split = Split::of(*contract.order, problem_.depth);
  // Contiguity is decided by the op and the layouts, so that extents of 1 do not change the source.
  const bool image = node_.op == Op::kConv1x1Matmul;
  const ir::TensorType& a = context_.operands[static_cast<std::size_t>(problem_.a)];
  rows_contiguous_ = image ? a.layout == ir::Layout::kNchw
                           : node_.op == Op::kGemm && node_.integer("trans_a") != 0;
  unit_row_ = rows_contiguous_;
  unit_k_ = !rows_contiguous_ && (image || a.layout == ir::Layout::kNchw || a.shape.rank() != 4);
  vector_ = problem_.b_prepared && context_.kernel.schedule.vector == 4 && tile.n % 4 == 0 ? 4 : 1;

  const std::int64_t row_tiles = ceil_div(rows_, tile.m), column_tiles = ceil_div(columns, tile.n);
  if (column_tiles > 65535 || split.slices > 65535)
    return internal_error("more column tiles or slices than a grid holds");
  KernelBuilder b(entry_name(tile, split),
                  context_.wide({row_tiles * tile.m, problem_.depth * padded_columns(columns),
                                 split.slices * context_.result.shape.elements()}));
  b.prelude(prelude);
  b.describe(
      fmt::format("Matrix product in tiles{}: a block computes {} rows x {} columns, a thread {} x "
                  "{} of them.\n{}",
                  mma() ? " on tensor cores" : "", tile.m, tile.n, tile.thread_m, tile.thread_n,
                  explain_order(*contract.order)));
  CudaWriter& w = b.body();
  b.operand(problem_.a);
  if (problem_.b_prepared) {
    b.prepared(0, "weights");
    b.integer("matrix_row", problem_.b_k);
  } else {
    b.operand(problem_.b);
    b.integer("b_k", problem_.b_k);
  }
  b.integer("rows", rows_);
  b.integer("columns", columns);
  b.integer("depth", problem_.depth);
  if (!unit_k_) b.integer("a_k", problem_.a_k);
  if (!unit_row_) b.integer("a_row", a_row_);
  stage_.declare(b);

  const std::size_t a_view = output_.column_strides.size() - 2, b_view = a_view + 1;
  const bool batched = !output_.batch_axes.empty();
  TileKernel kernel(context_, b, stage_, tile, split, x_tile(columns_fast, !rows_contiguous_),
                    output_);
  std::string row_tile = "blockIdx.x";
  if (batched) {
    w.line(
        fmt::format("const index_t batch = blockIdx.x / {};", b.integer("row_tiles", row_tiles)));
    row_tile = "blockIdx.x - batch * row_tiles";
  }
  kernel.begin(row_tile, "blockIdx.y");
  w.line("const index_t column0 = 0;");
  w.line(fmt::format("const index_t a_base = {};", kernel.batch_offset(a_view)));
  if (!problem_.b_prepared)
    w.line(fmt::format("const index_t b_base = {};", kernel.batch_offset(b_view)));
  kernel.declare_slice("depth");
  kernel.start_sums();
  w.line("");
  w.line("#pragma unroll 1");
  w.open(fmt::format("for (index_t k0 = {}; k0 < end; k0 += {})", kernel.slice_begin(), tile.k));
  if (mma()) {
    load_words(b, tile);
    kernel.multiply_mma();
  } else {
    w.line(fmt::format("const int steps = end - k0 < {0} ? (int)(end - k0) : {0};", tile.k));
    load_rows(b, tile, kernel);
    if (problem_.b_prepared) {
      kernel.load_columns("weights", "column0", vector_, "k0", "steps");
    } else {
      load_strided_columns(b, tile);
    }
    kernel.multiply("", "steps");
  }
  w.close();
  kernel.store();

  LoweredKernel lowered;
  lowered.preparations = std::move(preparations);
  lowered.launches.push_back(
      b.finish({static_cast<std::uint32_t>(row_tiles * batches_),
                static_cast<std::uint32_t>(column_tiles), static_cast<std::uint32_t>(split.slices)},
               tile.block()));
  if (split.on) {
    lowered.workspaces.push_back(split_workspace(context_, split));
    lowered.launches.push_back(combine_launch(context_, stage_, split));
  }
  return lowered;
}

}  // namespace

Result<LoweredKernel> emit_matmul(const KernelContext& context) {
  const ir::Node* node = ir::reduction_node(context.body());
  if (node == nullptr || ir::info(node->op).op_class != ir::OpClass::matmul)
    return internal_error("the body has no matrix product");
  const ir::ReductionOrder& order = *context.kernel.contract.order;
  DRIFTC_CHECK(order.arith == ir::Arith::kMma
                   ? ir::check_mma_schedule(context.kernel.schedule, order.mma)
                   : ir::check_schedule(ir::Algorithm::kMatmul, context.kernel.schedule));
  DRIFTC_TRY(stage, OutputStage::plan(context, *node));
  std::vector<Preparation> preparations;
  DRIFTC_TRY(problem, read_problem(context, *node, preparations));
  return MatmulEmitter(context, *node, problem, stage).run(std::move(preparations));
}

}  // namespace driftc::codegen
