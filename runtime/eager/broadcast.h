// Loops over elements with broadcasting: what the elementwise families share. Internal to
// runtime/eager.
#pragma once

#include <algorithm>
#include <array>

#include "runtime/eager/ops.h"

namespace driftc::runtime {

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

// f(a, b) on every element of two broadcast operands; NaN comes out canonical.
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

}  // namespace driftc::runtime
