// add, sub, mul, div with broadcasting; relu, clip; batch_norm; and the fused multiply-add of
// contraction.
#include <algorithm>
#include <array>

#include "runtime/eager/ops.h"

namespace driftc::runtime {
namespace {

// Walks a result shape with up to kMax broadcast operands: axes that every operand walks alike are
// merged, and the innermost merged axis is a loop with strides 0 or 1.
template <std::size_t kCount>
class BroadcastWalk {
 public:
  BroadcastWalk(const ir::Shape& result, const std::array<const ir::Shape*, kCount>& operands) {
    for (std::size_t axis = 0; axis < result.rank(); ++axis) {
      if (result[axis] == 1) continue;
      std::array<std::int64_t, kCount> strides{};
      for (std::size_t i = 0; i < kCount; ++i) {
        const ir::Shape& shape = *operands[i];
        const std::size_t missing = result.rank() - shape.rank();
        if (axis >= missing && shape[axis - missing] != 1)
          strides[i] = shape.row_major_strides()[axis - missing];
      }
      if (!extents_.empty()) {
        bool merges = true;
        for (std::size_t i = 0; i < kCount; ++i)
          merges = merges && strides_.back()[i] == strides[i] * result[axis];
        if (merges) {
          extents_.back() *= result[axis];
          strides_.back() = strides;
          continue;
        }
      }
      extents_.push_back(result[axis]);
      strides_.push_back(strides);
    }
    if (extents_.empty()) {
      extents_.push_back(1);
      strides_.push_back({});
    }
    inner_ = extents_.back();
    for (std::size_t i = 0; i + 1 < extents_.size(); ++i) outer_ *= extents_[i];
  }

  // line(first result element, first element of each operand, strides, length) for every inner
  // loop.
  template <class Line>
  void run(ThreadPool& pool, const Line& line) const {
    // One long line is cut, many short ones are grouped.
    constexpr std::int64_t kPiece = 32'768;
    const std::int64_t cuts = std::max<std::int64_t>(1, inner_ / kPiece);
    const std::int64_t cut = (inner_ + cuts - 1) / cuts;
    const std::int64_t group =
        std::max<std::int64_t>(1, kPiece / std::max<std::int64_t>(1, inner_));
    const std::int64_t groups = (outer_ + group - 1) / group;
    for_each(pool, groups * cuts, outer_ * inner_, [&](std::size_t index, int) {
      const std::int64_t begin = static_cast<std::int64_t>(index) % cuts * cut;
      const std::int64_t end = std::min(inner_, begin + cut);
      const std::int64_t first = static_cast<std::int64_t>(index) / cuts * group;
      for (std::int64_t row = first; row < std::min(outer_, first + group); ++row) {
        std::array<std::int64_t, kCount> at{};
        std::int64_t rest = row;
        for (std::size_t axis = extents_.size() - 1; axis-- > 0; rest /= extents_[axis])
          for (std::size_t i = 0; i < kCount; ++i)
            at[i] += rest % extents_[axis] * strides_[axis][i];
        for (std::size_t i = 0; i < kCount; ++i) at[i] += begin * strides_.back()[i];
        if (end > begin) line(row * inner_ + begin, at, strides_.back(), end - begin);
      }
    });
  }

 private:
  std::vector<std::int64_t> extents_;
  std::vector<std::array<std::int64_t, kCount>> strides_;
  std::int64_t inner_ = 1, outer_ = 1;
};

template <class S, class F>
ir::Tensor binary(const OpCall& call, const F& f) {
  const auto a = call.operand(0).data<S>(), b = call.operand(1).data<S>();
  ir::Tensor result(call.operand(0).dtype(), call.result_shape());
  S* out = result.data_mut<S>().data();
  const BroadcastWalk<2> walk(call.result_shape(),
                              {&call.operand(0).shape(), &call.operand(1).shape()});
  walk.run(call.context.pool, [&](std::int64_t to, const std::array<std::int64_t, 2>& at,
                                  const std::array<std::int64_t, 2>& stride, std::int64_t n) {
    const S *x = a.data() + at[0], *y = b.data() + at[1];
    S* z = out + to;
    if (stride[0] == 1 && stride[1] == 1) {
      for (std::int64_t i = 0; i < n; ++i) z[i] = canonical(f(x[i], y[i]));
    } else if (stride[0] == 1 && stride[1] == 0) {
      const S other = *y;
      for (std::int64_t i = 0; i < n; ++i) z[i] = canonical(f(x[i], other));
    } else {
      for (std::int64_t i = 0; i < n; ++i) z[i] = canonical(f(x[i * stride[0]], y[i * stride[1]]));
    }
  });
  return result;
}

// f(x) on every element; the result keeps whatever bits f gives.
template <class S, class F>
ir::Tensor unary(const OpCall& call, const F& f) {
  const auto x = call.operand(0).data<S>();
  ir::Tensor result(call.operand(0).dtype(), call.result_shape());
  const auto out = result.data_mut<S>();
  for_ranges(call.context.pool, result.elements(), [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
      out[i] = f(x[i]);
  });
  return result;
}

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
