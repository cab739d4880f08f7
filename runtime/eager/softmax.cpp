// softmax: m = max x (NaN propagates); e = exp(sub_rn(x, m)); y = div_rn(e, store(sum e)).
#include <algorithm>

#include "ir/exp_steps.h"
#include "runtime/eager/copy_sink.h"
#include "runtime/eager/ops.h"

namespace driftc::runtime {
namespace {

template <class T, class S, bool kFlush>
ir::Tensor softmax(const OpCall& call, const SumSettings& settings) {
  const ir::Shape& x = call.operand(0).shape();
  const auto rank = static_cast<std::int64_t>(x.rank());
  const std::int64_t given = call.node.integer("axis");
  const auto axis = static_cast<std::size_t>(given < 0 ? given + rank : given);
  const std::int64_t extent = x[axis];
  std::int64_t inner = 1;
  for (std::size_t i = axis + 1; i < x.rank(); ++i) inner *= x[i];
  ir::Tensor result(call.operand(0).dtype(), x);
  if (result.elements() == 0) return result;
  const std::int64_t columns = result.elements() / extent;
  const auto in = call.operand(0).data<S>();
  const auto out = result.data_mut<S>();
  // Element i of the sum of column c, in the tensor.
  const auto at = [&](std::int64_t c, std::int64_t i) {
    return static_cast<std::size_t>((c / inner * extent + i) * inner + c % inner);
  };

  // e by [position][column], the layout of the sum engine; kept in `out` for the division.
  const Scratch<T> e(static_cast<std::size_t>(extent * columns + kColumnSlack));
  std::fill_n(e.data() + extent * columns, kColumnSlack, T{0});
  for_each(call.context.pool, columns, result.elements() * 20, [&](std::size_t index, int) {
    const auto c = static_cast<std::int64_t>(index);
    S most = -std::numeric_limits<S>::infinity();
    for (std::int64_t i = 0; i < extent; ++i) {
      const S v = flushed<kFlush>(in[at(c, i)]);
      most = v > most || v != v ? v : most;
    }
    for (std::int64_t i = 0; i < extent; ++i) {
      const S d = flushed<kFlush>(sub_rn(flushed<kFlush>(in[at(c, i)]), most));
      const S value = flushed<kFlush>(ir::exp_by_steps(d));
      out[at(c, i)] = value;
      e.data()[i * columns + c] = static_cast<T>(value);
    }
  });

  const SumPlan plan =
      make_plan(settings.order, {extent, 1, 1}, {}, call.context.atomic_seed, sizeof(T) == 8);
  const SumEngine<T> engine(plan, settings.arith, settings.flush, SumRows<T>{}, call.context.pool);
  std::vector<std::int64_t> offsets;
  for (std::int64_t i = 0; i < extent; ++i) offsets.push_back(i * columns);
  const Scratch<T> sums(static_cast<std::size_t>(columns));
  CopySink<T> sink(sums.data());
  engine.run({e.data(), columns, 0, offsets}, {}, sink);
  for (std::int64_t c = 0; c < columns; ++c) {
    const S sum = flushed<kFlush>(static_cast<S>(sums.data()[c]));
    for (std::int64_t i = 0; i < extent; ++i) {
      S& y = out[at(c, i)];
      y = canonical(flushed<kFlush>(div_rn(y, sum)));
    }
  }
  return result;
}

}  // namespace

ir::Tensor evaluate_softmax(const OpCall& call) {
  const SumSettings settings = sum_settings(call);
  if (call.operand(0).dtype() == ir::DType::kF64)
    return softmax<double, double, false>(call, settings);
  if (settings.flush)
    return settings.wide ? softmax<double, float, true>(call, settings)
                         : softmax<float, float, true>(call, settings);
  return settings.wide ? softmax<double, float, false>(call, settings)
                       : softmax<float, float, false>(call, settings);
}

}  // namespace driftc::runtime
