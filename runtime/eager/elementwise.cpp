// add, sub, mul, div with broadcasting; relu, clip; batch_norm; and the fused multiply-add of
// contraction.
#include "runtime/eager/broadcast.h"

namespace driftc::runtime {
namespace {

// d = sub_rn(x, mean); i = div_rn(1, sqrt_rn(add_rn(var, epsilon))); y = add_rn(mul_rn(mul_rn(d,
// i), scale), shift); with contract=on the last two are one fma.
template <class S, bool kFlush>
ir::Tensor batch_norm(const OpCall& call) {
  const ir::Shape& shape = call.result_shape();
  const auto x = call.operand(0).data<S>(), scale = call.operand(1).data<S>(),
             shift = call.operand(2).data<S>(), mean = call.operand(3).data<S>(),
             variance = call.operand(4).data<S>();
  const S epsilon = flushed<kFlush>(static_cast<S>(call.node.number("epsilon")));
  ir::Tensor result(call.operand(0).dtype(), shape);
  S* out = result.data_mut<S>().data();
  const std::int64_t channels = shape[1];
  const std::int64_t planes = shape[0] * channels;
  const std::int64_t plane = planes == 0 ? 0 : result.elements() / planes;
  for_each(call.context.pool, planes, result.elements() * 4, [&](std::size_t index, int) {
    const std::size_t c = index % static_cast<std::size_t>(channels);
    const S m = flushed<kFlush>(mean[c]), g = flushed<kFlush>(scale[c]),
            b = flushed<kFlush>(shift[c]);
    const S root =
        flushed<kFlush>(sqrt_rn(flushed<kFlush>(add_rn(flushed<kFlush>(variance[c]), epsilon))));
    const S inverse = flushed<kFlush>(div_rn(S{1}, root));
    const S* from = x.data() + static_cast<std::int64_t>(index) * plane;
    S* to = out + static_cast<std::int64_t>(index) * plane;
    if (call.contract.contract) {
      for (std::int64_t i = 0; i < plane; ++i) {
        const S d = flushed<kFlush>(sub_rn(flushed<kFlush>(from[i]), m));
        to[i] = canonical(flushed<kFlush>(fma_rn(flushed<kFlush>(mul_rn(d, inverse)), g, b)));
      }
    } else {
      for (std::int64_t i = 0; i < plane; ++i) {
        const S d = flushed<kFlush>(sub_rn(flushed<kFlush>(from[i]), m));
        const S scaled = flushed<kFlush>(mul_rn(flushed<kFlush>(mul_rn(d, inverse)), g));
        to[i] = canonical(flushed<kFlush>(add_rn(scaled, b)));
      }
    }
  });
  return result;
}

template <class S, bool kFlush>
ir::Tensor dispatch(const OpCall& call) {
  const auto flush = [](S v) { return flushed<kFlush>(v); };
  switch (call.node.op) {
    case ir::Op::kAdd:
      return binary<S>(call, [&](S a, S b) { return flush(add_rn(flush(a), flush(b))); });
    case ir::Op::kSub:
      return binary<S>(call, [&](S a, S b) { return flush(sub_rn(flush(a), flush(b))); });
    case ir::Op::kMul:
      return binary<S>(call, [&](S a, S b) { return flush(mul_rn(flush(a), flush(b))); });
    case ir::Op::kDiv:
      return binary<S>(call, [&](S a, S b) { return flush(div_rn(flush(a), flush(b))); });
    case ir::Op::kRelu:
      return unary<S>(call, [&](S x) {
        x = flush(x);
        return x < S{0} ? S{0} : x;
      });
    case ir::Op::kClip: {
      const S least = static_cast<S>(call.node.number("min"));
      const S most = static_cast<S>(call.node.number("max"));
      return unary<S>(call, [&](S x) {
        x = flush(x);
        const S t = x < least ? least : x;
        return t > most ? most : t;
      });
    }
    case ir::Op::kBatchNorm:
      return batch_norm<S, kFlush>(call);
    default:
      DRIFTC_ASSERT(false, "not an elementwise op");
  }
}

template <class S, bool kFlush>
ir::Tensor fused(FusedForm form, const ir::Tensor& a, const ir::Tensor& b, const ir::Tensor& c,
                 const ir::Shape& shape, ThreadPool& pool) {
  ir::Tensor result(a.dtype(), shape);
  S* out = result.data_mut<S>().data();
  const S *x = a.data<S>().data(), *y = b.data<S>().data(), *z = c.data<S>().data();
  const BroadcastWalk<3> walk(shape, {&a.shape(), &b.shape(), &c.shape()});
  walk.run(pool, [&](std::int64_t to, const std::array<std::int64_t, 3>& at,
                     const std::array<std::int64_t, 3>& stride, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
      S p = flushed<kFlush>(x[at[0] + i * stride[0]]);
      const S q = flushed<kFlush>(y[at[1] + i * stride[1]]);
      S r = flushed<kFlush>(z[at[2] + i * stride[2]]);
      if (form == FusedForm::kMinus) r = -r;
      if (form == FusedForm::kReversed) p = -p;
      out[to + i] = canonical(flushed<kFlush>(fma_rn(p, q, r)));
    }
  });
  return result;
}

}  // namespace

ir::Tensor evaluate_elementwise(const OpCall& call) {
  if (call.operand(0).dtype() == ir::DType::kF64) return dispatch<double, false>(call);
  return call.contract.ftz ? dispatch<float, true>(call) : dispatch<float, false>(call);
}

ir::Tensor fused_multiply_add(FusedForm form, const ir::Tensor& a, const ir::Tensor& b,
                              const ir::Tensor& c, const ir::Shape& result, bool flush,
                              const EvalContext& context) {
  if (a.dtype() == ir::DType::kF64)
    return fused<double, false>(form, a, b, c, result, context.pool);
  return flush ? fused<float, true>(form, a, b, c, result, context.pool)
               : fused<float, false>(form, a, b, c, result, context.pool);
}

}  // namespace driftc::runtime
