// matmul and gemm. The product runs with whichever side is longer as columns: products commute, so
// the bits are the same.
#include <algorithm>

#include "runtime/eager/ops.h"
#include "runtime/sums/sum_engine.h"

namespace driftc::runtime {
namespace {

// element (i, j) = data[i * row_stride + j * column_stride]
template <class T>
struct Matrix {
  const T* data = nullptr;
  std::int64_t row_stride = 0, column_stride = 0;
  Matrix transposed() const { return {data, column_stride, row_stride}; }
};

// Rows of `b` dense, with slack behind: [k][columns].
template <class T>
Scratch<T> column_buffer(const Matrix<T>& b, std::int64_t k, std::int64_t columns,
                         ThreadPool& pool) {
  constexpr std::int64_t kBlock = 32;  // both sides of a transposing copy stay in the cache
  Scratch<T> out(static_cast<std::size_t>(k * columns + kColumnSlack));
  std::fill_n(out.data() + k * columns, kColumnSlack, T{0});
  const std::int64_t blocks = (k + kBlock - 1) / kBlock;
  for_each(pool, blocks, k * columns, [&](std::size_t index, int) {
    const std::int64_t i0 = static_cast<std::int64_t>(index) * kBlock,
                       i1 = std::min(k, i0 + kBlock);
    for (std::int64_t j0 = 0; j0 < columns; j0 += kBlock)
      for (std::int64_t i = i0; i < i1; ++i)
        for (std::int64_t j = j0; j < std::min(columns, j0 + kBlock); ++j)
          out.data()[i * columns + j] = b.data[i * b.row_stride + j * b.column_stride];
  });
  return out;
}

// Receives sums of the product's element (row, column); undoes the exchange of sides.
template <class T>
class MatrixSink {
 public:
  virtual ~MatrixSink() = default;
  virtual void store(std::int64_t row, std::int64_t column, T sum) = 0;
};

template <class T>
class Orient final : public SumSink<T> {
 public:
  Orient(MatrixSink<T>& sink, bool exchanged) : sink_(sink), exchanged_(exchanged) {}
  void store(std::int64_t row, std::int64_t column, const SumBlock<T>& block) override {
    for (std::int64_t r = row; r < row + block.rows; ++r)
      for (std::int64_t i = 0; i < block.columns; ++i) {
        const T sum = block.row(r - row)[i];
        exchanged_ ? sink_.store(column + i, r, sum) : sink_.store(r, column + i, sum);
      }
  }

 private:
  MatrixSink<T>& sink_;
  bool exchanged_;
};

template <class T>
void multiply(std::int64_t m, std::int64_t n, std::int64_t k, Matrix<T> a, Matrix<T> b,
              SumStart<T> start, const SumSettings& settings, const EvalContext& context,
              MatrixSink<T>& sink) {
  const bool exchanged = n < m && n < kColumnSlack;
  if (exchanged) {
    std::swap(m, n);
    std::swap(a, b);
    a = a.transposed();
    b = b.transposed();
    std::swap(start.row_stride, start.column_stride);
  }
  const SumPlan plan =
      make_plan(settings.order, {k, 1, 1}, {}, context.atomic_seed, sizeof(T) == 8);
  SumRows<T> rows;
  rows.a = a.data;
  rows.rows = m;
  rows.row_stride = a.row_stride;
  rows.position_stride = a.column_stride;
  const SumEngine<T> engine(plan, settings.arith, settings.flush, rows, context.pool,
                            sizeof(T) == 4 ? settings.mma : std::nullopt);
  const Scratch<T> buffer = column_buffer(b, k, n, context.pool);
  std::vector<std::int64_t> offsets;
  for (std::int64_t p = 0; p < k; ++p) offsets.push_back(p * n);
  Orient<T> orient(sink, exchanged);
  engine.run({buffer.data(), n, 0, offsets}, start, orient);
}

template <class T, class S>
class MatmulSink final : public MatrixSink<T> {
 public:
  MatmulSink(S* out, std::int64_t columns, bool flush)
      : out_(out), columns_(columns), flush_(flush) {}
  void store(std::int64_t row, std::int64_t column, T sum) override {
    const S rounded = static_cast<S>(sum);
    out_[row * columns_ + column] = canonical(flush_ ? flushed<true>(rounded) : rounded);
  }

 private:
  S* out_;
  std::int64_t columns_;
  bool flush_;
};

template <class T, class S>
ir::Tensor matmul(const OpCall& call, const SumSettings& settings) {
  const ir::Shape &a = call.operand(0).shape(), &b = call.operand(1).shape(),
                  &y = call.result_shape();
  const std::int64_t m = a[a.rank() - 2], k = a[a.rank() - 1], n = b[b.rank() - 1];
  const SumOperand<T> left(call.operand(0), settings.in, call.context.pool);
  const SumOperand<T> right(call.operand(1), settings.in, call.context.pool);
  ir::Tensor result(call.operand(0).dtype(), y);
  const auto out = result.data_mut<S>();
  // Leading axes broadcast: the matrix of each operand that batch `i` of the result uses.
  const std::size_t lead = y.rank() - 2;
  const std::int64_t batches = m * n == 0 ? 0 : result.elements() / (m * n);
  const auto matrix_of = [&](const ir::Shape& shape, std::int64_t batch) {
    std::int64_t index = 0, scale = 1;
    const std::size_t own = shape.rank() - 2;
    for (std::size_t axis = lead; axis-- > 0; batch /= y[axis]) {
      const std::size_t skipped = lead - own;
      if (axis < skipped) continue;
      const std::int64_t extent = shape[axis - skipped];
      if (extent != 1) index += batch % y[axis] * scale;
      scale *= extent;
    }
    return index;
  };
  for (std::int64_t batch = 0; batch < batches; ++batch) {
    MatmulSink<T, S> sink(out.data() + batch * m * n, n, settings.flush);
    multiply<T>(m, n, k, {left.data() + matrix_of(a, batch) * m * k, k, 1},
                {right.data() + matrix_of(b, batch) * k * n, n, 1}, {}, settings, call.context,
                sink);
  }
  return result;
}

// t = store(sum); t = mul_rn(alpha, t); y = add_rn(t, mul_rn(beta, c)). The bias points first and
// last put c into the sum; they apply where alpha = beta = 1, otherwise c is added after storing.
template <class T, class S, bool kFlush>
class GemmSink final : public MatrixSink<T> {
 public:
  S* out = nullptr;
  std::int64_t columns = 0;
  const S* c = nullptr;
  std::int64_t c_row_stride = 0, c_column_stride = 0;
  S alpha = 1, beta = 1;
  bool contract = false;
  ir::BiasPoint bias = ir::BiasPoint::kStored;

  void store(std::int64_t row, std::int64_t column, T sum) override {
    S addend = 0;
    if (c != nullptr) addend = flushed<kFlush>(c[row * c_row_stride + column * c_column_stride]);
    if (c != nullptr && bias == ir::BiasPoint::kLast)
      sum = add_rn(flushed<kFlush>(sum), static_cast<T>(addend));
    S t = flushed<kFlush>(static_cast<S>(sum));
    if (alpha != S{1}) t = flushed<kFlush>(mul_rn(alpha, t));
    if (c != nullptr && bias == ir::BiasPoint::kStored) {
      if (beta == S{1}) {
        t = add_rn(t, addend);
      } else if (contract) {
        t = fma_rn(beta, addend, t);
      } else {
        t = add_rn(t, flushed<kFlush>(mul_rn(beta, addend)));
      }
      t = flushed<kFlush>(t);
    }
    out[row * columns + column] = canonical(t);
  }
};

template <class T, class S, bool kFlush>
ir::Tensor gemm(const OpCall& call, const SumSettings& settings) {
  const ir::Node& node = call.node;
  const ir::Shape &a = call.operand(0).shape(), &b = call.operand(1).shape(),
                  &y = call.result_shape();
  const bool trans_a = node.integer("trans_a") != 0, trans_b = node.integer("trans_b") != 0;
  const SumOperand<T> left(call.operand(0), settings.in, call.context.pool);
  const SumOperand<T> right(call.operand(1), settings.in, call.context.pool);
  const std::int64_t k = a[trans_a ? 0 : 1];
  Matrix<T> am{left.data(), a[1], 1}, bm{right.data(), b[1], 1};
  if (trans_a) am = am.transposed();
  if (trans_b) bm = bm.transposed();

  ir::Tensor result(call.operand(0).dtype(), y);
  GemmSink<T, S, kFlush> sink;
  sink.out = result.data_mut<S>().data();
  sink.columns = y[1];
  sink.alpha = static_cast<S>(node.number("alpha"));
  sink.beta = static_cast<S>(node.number("beta"));
  sink.contract = call.contract.contract;
  SumStart<T> start;
  SumOperand<T> start_values;
  if (call.operands.size() == 3) {
    const ir::Shape& c = call.operand(2).shape();
    sink.c = call.operand(2).template data<S>().data();
    const std::int64_t c_columns = c.rank() == 0 ? 1 : c[c.rank() - 1];
    sink.c_column_stride = c_columns == 1 ? 0 : 1;
    sink.c_row_stride = c.rank() == 2 && c[0] != 1 ? c_columns : 0;
    if (sink.alpha == S{1} && sink.beta == S{1}) sink.bias = settings.bias;
    if (sink.bias == ir::BiasPoint::kFirst) {
      start_values = SumOperand<T>(call.operand(2), ir::Precision::kF32, call.context.pool);
      start = {start_values.data(), sink.c_row_stride, sink.c_column_stride};
    }
  }
  multiply<T>(y[0], y[1], k, am, bm, start, settings, call.context, sink);
  return result;
}

}  // namespace

ir::Tensor evaluate_matmul(const OpCall& call) {
  const SumSettings settings = sum_settings(call);
  const bool f64 = call.operand(0).dtype() == ir::DType::kF64;
  if (call.node.op == ir::Op::kMatmul) {
    if (f64) return matmul<double, double>(call, settings);
    return settings.wide ? matmul<double, float>(call, settings)
                         : matmul<float, float>(call, settings);
  }
  if (f64) return gemm<double, double, false>(call, settings);
  if (settings.wide)
    return settings.flush ? gemm<double, float, true>(call, settings)
                          : gemm<double, float, false>(call, settings);
  return settings.flush ? gemm<float, float, true>(call, settings)
                        : gemm<float, float, false>(call, settings);
}

}  // namespace driftc::runtime
