#include "runtime/numeric/sum_problem.h"

#include <algorithm>

#include "ir/support/assert.h"

namespace driftc::runtime {
namespace {

ir::Tensor transposed(const ir::Tensor& matrix) {
  const std::int64_t rows = matrix.shape()[0], columns = matrix.shape()[1];
  ir::Tensor out(ir::DType::kF32, {columns, rows});
  const auto from = matrix.data<float>();
  const auto to = out.data_mut<float>();
  constexpr std::int64_t kBlock = 32;  // both sides stay in the cache
  for (std::int64_t i0 = 0; i0 < rows; i0 += kBlock)
    for (std::int64_t j0 = 0; j0 < columns; j0 += kBlock)
      for (std::int64_t i = i0; i < std::min(rows, i0 + kBlock); ++i)
        for (std::int64_t j = j0; j < std::min(columns, j0 + kBlock); ++j)
          to[static_cast<std::size_t>(j * rows + i)] =
              from[static_cast<std::size_t>(i * columns + j)];
  return out;
}

void as_convolution(const ir::Node& node, std::span<const ir::Tensor> operands, SumProblem& out) {
  const ir::Shape &x = operands[0].shape(), &w = operands[1].shape();
  Window& window = out.window;
  window = {x[0], x[1], x[2], x[3]};
  window.kernel_h = w[2];
  window.kernel_w = w[3];
  if (node.op == ir::Op::kConv2d) {
    window.stride_h = node.ints("stride")[0];
    window.stride_w = node.ints("stride")[1];
    window.pad_top = node.ints("pad")[0];
    window.pad_left = node.ints("pad")[1];
    window.dilation_h = node.ints("dilation")[0];
    window.dilation_w = node.ints("dilation")[1];
    out.groups = node.integer("groups");
  }
  window.out_h = out.result[2];
  window.out_w = out.result[3];
  out.channels_out = w[0];
  out.columns = operands[0];
  out.rows = operands[1];
  out.products = {{}};
  if (operands.size() == 3) {
    out.addend = operands[2];
    out.addend_row_stride = 1;
  }
}

// a [m, k] times b [k, n]: b is an image of k channels and n pixels, a the weights of m 1x1
// filters.
void as_product(std::int64_t m, std::int64_t k, std::int64_t n, SumProblem& out) {
  out.window = {1, k, 1, n};
  out.window.out_h = 1;
  out.window.out_w = n;
  out.channels_out = m;
}

void as_matmul(std::span<const ir::Tensor> operands, SumProblem& out) {
  const ir::Shape &a = operands[0].shape(), &b = operands[1].shape(), &y = out.result;
  const std::int64_t m = a[a.rank() - 2], k = a[a.rank() - 1], n = b[b.rank() - 1];
  as_product(m, k, n, out);
  out.rows = operands[0];
  out.columns = operands[1];
  const std::size_t lead = y.rank() - 2;
  const std::int64_t batches = m * n == 0 ? 0 : y.elements() / (m * n);
  // Leading axes broadcast: the matrix of an operand that batch `i` of the result uses.
  const auto matrix_of = [&](const ir::Shape& shape, std::int64_t batch) {
    std::int64_t index = 0, scale = 1;
    const std::size_t skipped = y.rank() - shape.rank();
    for (std::size_t axis = lead; axis-- > skipped; batch /= y[axis]) {
      const std::int64_t extent = shape[axis - skipped];
      if (extent != 1) index += batch % y[axis] * scale;
      scale *= extent;
    }
    return index;
  };
  for (std::int64_t batch = 0; batch < batches; ++batch)
    out.products.push_back(
        {matrix_of(a, batch) * m * k, matrix_of(b, batch) * k * n, batch * m * n});
}

void as_gemm(const ir::Node& node, std::span<const ir::Tensor> operands, SumProblem& out) {
  out.rows = node.integer("trans_a") != 0 ? transposed(operands[0]) : operands[0];
  out.columns = node.integer("trans_b") != 0 ? transposed(operands[1]) : operands[1];
  as_product(out.rows.shape()[0], out.rows.shape()[1], out.columns.shape()[1], out);
  out.products = {{}};
  out.alpha = static_cast<float>(node.number("alpha"));
  if (operands.size() == 3) {
    const ir::Shape& c = operands[2].shape();
    const std::int64_t c_columns = c.rank() == 0 ? 1 : c[c.rank() - 1];
    out.addend = operands[2];
    out.beta = static_cast<float>(node.number("beta"));
    out.addend_pixel_stride = c_columns == 1 ? 0 : 1;
    out.addend_row_stride = c.rank() == 2 && c[0] != 1 ? c_columns : 0;
  }
}

void as_mean(const ir::Node& node, std::span<const ir::Tensor> operands, SumProblem& out) {
  const ir::Shape& x = operands[0].shape();
  Window& w = out.window;
  w = {x[0] * x[1], 1, x[2], x[3]};
  w.out_h = out.result[2];
  w.out_w = out.result[3];
  out.has_products = false;
  out.columns = operands[0];
  out.products = {{}};
  std::vector<std::int64_t> pad(4);
  bool padding = false;  // counts include it
  if (node.op == ir::Op::kGlobalAvgPool) {
    w.kernel_h = x[2];
    w.kernel_w = x[3];
  } else {
    w.kernel_h = node.ints("kernel")[0];
    w.kernel_w = node.ints("kernel")[1];
    w.stride_h = node.ints("stride")[0];
    w.stride_w = node.ints("stride")[1];
    pad = node.ints("pad");
    w.pad_top = pad[0];
    w.pad_left = pad[1];
    padding = node.integer("count_include_pad") != 0;
  }
  const auto extent = [&](std::int64_t position, std::int64_t stride, std::int64_t before,
                          std::int64_t after, std::int64_t kernel, std::int64_t size) {
    const std::int64_t begin = position * stride - before;
    const std::int64_t lo = padding ? -before : 0, hi = size + (padding ? after : 0);
    return std::max<std::int64_t>(0, std::min(begin + kernel, hi) - std::max(begin, lo));
  };
  for (std::int64_t y = 0; y < w.out_h; ++y)
    for (std::int64_t column = 0; column < w.out_w; ++column)
      out.counts.push_back(extent(y, w.stride_h, pad[0], pad[2], w.kernel_h, w.height) *
                           extent(column, w.stride_w, pad[1], pad[3], w.kernel_w, w.width));
}

}  // namespace

bool is_sum_node(ir::Op op) {
  return op == ir::Op::kConv2d || op == ir::Op::kConv1x1Matmul || op == ir::Op::kMatmul ||
         op == ir::Op::kGemm || op == ir::Op::kAvgPool || op == ir::Op::kGlobalAvgPool;
}

double SumProblem::multiply_adds() const {
  return static_cast<double>(products.size()) * static_cast<double>(window.images) *
         static_cast<double>(channels_out) * static_cast<double>(window.out_pixels()) *
         static_cast<double>(positions());
}

SumProblem sum_problem(const ir::Graph& graph, ir::NodeId id,
                       std::span<const ir::Tensor> operands) {
  const ir::Node& node = graph.node(id);
  DRIFTC_ASSERT(is_sum_node(node.op), "not a sum node");
  SumProblem out;
  out.result = graph.value(node.result).type.shape;
  switch (node.op) {
    case ir::Op::kMatmul:
      as_matmul(operands, out);
      break;
    case ir::Op::kGemm:
      as_gemm(node, operands, out);
      break;
    case ir::Op::kAvgPool:
    case ir::Op::kGlobalAvgPool:
      as_mean(node, operands, out);
      break;
    default:
      as_convolution(node, operands, out);
  }
  return out;
}

}  // namespace driftc::runtime
