// reduce_mean, reduce_sum (any order of the walk `k`), reduce_max, reduce_min and argmax over axes.
#include <limits>

#include "runtime/eager/copy_sink.h"
#include "runtime/eager/ops.h"

namespace driftc::runtime {
namespace {

// Where the elements of a reduction lie in the operand: element p of result i is at
// results[i] + positions[p], positions in row-major order of the reduced axes.
struct Reduction {
  std::vector<std::int64_t> results, positions;
};

void add_axis(std::vector<std::int64_t>& offsets, std::int64_t extent, std::int64_t stride) {
  std::vector<std::int64_t> out;
  out.reserve(offsets.size() * static_cast<std::size_t>(extent));
  for (std::int64_t at : offsets)
    for (std::int64_t i = 0; i < extent; ++i) out.push_back(at + i * stride);
  offsets = std::move(out);
}

Reduction reduction_of(const ir::Shape& x, const std::vector<std::int64_t>& axes) {
  Reduction r{{0}, {0}};
  const auto strides = x.row_major_strides();
  for (std::size_t a = 0; a < x.rank(); ++a) {
    const bool reduced =
        std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(a)) != axes.end();
    add_axis(reduced ? r.positions : r.results, x[a], strides[a]);
  }
  return r;
}

template <class T, class S, bool kFlush>
ir::Tensor sum_or_mean(const OpCall& call, const SumSettings& settings) {
  const Reduction r = reduction_of(call.operand(0).shape(), call.node.ints("axes"));
  const auto columns = static_cast<std::int64_t>(r.results.size());
  const auto extent = static_cast<std::int64_t>(r.positions.size());
  ir::Tensor result(call.operand(0).dtype(), call.result_shape());
  if (columns == 0) return result;
  const auto in = call.operand(0).data<S>();
  const auto out = result.data_mut<S>();
  const Scratch<T> rows(static_cast<std::size_t>(extent * columns + kColumnSlack));
  std::fill_n(rows.data() + extent * columns, kColumnSlack, T{0});
  for_each(call.context.pool, extent, extent * columns, [&](std::size_t p, int) {
    T* to = rows.data() + static_cast<std::int64_t>(p) * columns;
    for (std::int64_t c = 0; c < columns; ++c)
      to[c] = static_cast<T>(
          in[static_cast<std::size_t>(r.results[static_cast<std::size_t>(c)] + r.positions[p])]);
  });
  const SumPlan plan =
      make_plan(settings.order, {extent, 1, 1}, {}, call.context.atomic_seed, sizeof(T) == 8);
  const SumEngine<T> engine(plan, settings.arith, settings.flush, SumRows<T>{}, call.context.pool);
  std::vector<std::int64_t> offsets;
  for (std::int64_t p = 0; p < extent; ++p) offsets.push_back(p * columns);
  const Scratch<T> sums(static_cast<std::size_t>(columns));
  CopySink<T> sink(sums.data());
  engine.run({rows.data(), columns, 0, offsets}, {}, sink);
  const bool mean = call.node.op == ir::Op::kReduceMean;
  const S count = static_cast<S>(extent);
  for (std::int64_t c = 0; c < columns; ++c) {
    const S sum = flushed<kFlush>(static_cast<S>(sums.data()[c]));
    out[static_cast<std::size_t>(c)] = canonical(mean ? flushed<kFlush>(div_rn(sum, count)) : sum);
  }
  return result;
}

template <class S>
ir::Tensor extreme(const OpCall& call) {
  const Reduction r = reduction_of(call.operand(0).shape(), call.node.ints("axes"));
  const bool largest = call.node.op == ir::Op::kReduceMax;
  ir::Tensor result(call.operand(0).dtype(), call.result_shape());
  const auto in = call.operand(0).data<S>();
  const auto out = result.data_mut<S>();
  const S first =
      largest ? -std::numeric_limits<S>::infinity() : std::numeric_limits<S>::infinity();
  for_each(call.context.pool, result.elements(), call.operand(0).elements(),
           [&](std::size_t i, int) {
             S m = first;
             for (std::int64_t p : r.positions) {
               const S v = in[static_cast<std::size_t>(r.results[i] + p)];
               m = (largest ? v > m : v < m) || v != v ? v : m;
             }
             out[i] = m;
           });
  return result;
}

template <class S>
ir::Tensor argmax(const OpCall& call) {
  const Reduction r = reduction_of(call.operand(0).shape(), {call.node.integer("axis")});
  const bool last = call.node.integer("last") != 0;
  ir::Tensor result(ir::DType::kI64, call.result_shape());
  const auto in = call.operand(0).data<S>();
  const auto out = result.data_mut<std::int64_t>();
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::size_t best = 0;
    S m = in[static_cast<std::size_t>(r.results[i])];
    for (std::size_t p = 1; p < r.positions.size() && m == m; ++p) {
      const S v = in[static_cast<std::size_t>(r.results[i] + r.positions[p])];
      if (!(v > m || v != v || (last && v == m))) continue;
      m = v;
      best = p;
    }
    out[i] = static_cast<std::int64_t>(best);
  }
  return result;
}

}  // namespace

ir::Tensor evaluate_reduce_sum(const OpCall& call) {
  const SumSettings settings = sum_settings(call);
  if (call.operand(0).dtype() == ir::DType::kF64)
    return sum_or_mean<double, double, false>(call, settings);
  if (settings.flush)
    return settings.wide ? sum_or_mean<double, float, true>(call, settings)
                         : sum_or_mean<float, float, true>(call, settings);
  return settings.wide ? sum_or_mean<double, float, false>(call, settings)
                       : sum_or_mean<float, float, false>(call, settings);
}

ir::Tensor evaluate_reduce_extreme(const OpCall& call) {
  return call.operand(0).dtype() == ir::DType::kF64 ? extreme<double>(call) : extreme<float>(call);
}

ir::Tensor evaluate_argmax(const OpCall& call) {
  return call.operand(0).dtype() == ir::DType::kF64 ? argmax<double>(call) : argmax<float>(call);
}

}  // namespace driftc::runtime
