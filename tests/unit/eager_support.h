// What the interpreter's tests share: one-node graphs, random tensors, and a slow evaluator of
// orders that is written from the grammar's text, by values, without ir::denote.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "ir/support/rng.h"
#include "ir/support/round.h"
#include "runtime/eager/interpreter.h"

namespace driftc::test {

inline ir::Tensor random_tensor(const ir::Shape& shape, const std::string& name,
                                Distribution distribution = Distribution::kRandom,
                                std::uint64_t seed = 1) {
  ir::Tensor t(ir::DType::kF32, shape);
  fill(distribution, seed, name, t.data_mut<float>());
  return t;
}

inline ir::Tensor tensor(const ir::Shape& shape, const std::vector<float>& values) {
  return ir::Tensor::of<float>(shape, values);
}

inline ir::ReductionOrder order_of(const std::string& text) {
  auto order = ir::parse_order(text);
  REQUIRE_MESSAGE(order.ok(), text);
  return order.value();
}

// Evaluates one op on tensors.
class OneOp {
 public:
  OneOp(ir::Op op, const std::vector<ir::Tensor>& operands,
        const ir::AttributeList& attributes = {}) {
    std::vector<ir::ValueId> values;
    for (const ir::Tensor& t : operands)
      values.push_back(graph_.add_input("x" + std::to_string(values.size()),
                                        {t.dtype(), t.shape(), ir::Layout::kNchw}));
    ir::Builder builder(graph_);
    auto result = builder.add(op, values, attributes, "y");
    REQUIRE(result.ok());
    graph_.set_outputs({result.value()});
    operands_ = operands;
    contract = runtime::eager_contract(graph_.nodes()[0]);
  }
  ir::Tensor run(int threads = 1) const {
    runtime::ThreadPool pool(threads);
    return runtime::evaluate(graph_, {0}, operands_, contract, {pool, atomic_seed});
  }
  ir::Tensor run(const std::string& order) {
    contract.order = order_of(order);
    return run();
  }
  const ir::Shape& result_shape() const { return graph_.values().back().type.shape; }

  ir::NumericContract contract;
  std::uint64_t atomic_seed = 0;

 private:
  ir::Graph graph_;
  std::vector<ir::Tensor> operands_;
};

// One leaf of a sum: x * w, or x where there are no products.
template <class T>
struct Leaf {
  T x = 0, w = 0;
  bool padding = false;  // the position lies in the padding
};

// The sum of leaves given as leaf(c, r, s), from the words of the grammar.
template <class T>
class SlowSum {
 public:
  SlowSum(const ir::ReductionOrder& order, bool products, T bias)
      : order_(order), products_(products), bias_(bias) {}

  T run(std::int64_t channels, std::int64_t rows, std::int64_t columns,
        const std::function<Leaf<T>(std::int64_t, std::int64_t, std::int64_t)>& leaf) const {
    std::vector<Leaf<T>> all;
    const auto pad = [&](std::size_t run) {
      if (order_.kpad == 0) return;
      while (run++ % static_cast<std::size_t>(order_.kpad) != 0) all.push_back({});
    };
    const auto rsc = [&](std::int64_t c0, std::int64_t c1) {
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t s = 0; s < columns; ++s) {
          for (std::int64_t c = c0; c < c1; ++c) all.push_back(leaf(c, r, s));
          pad(static_cast<std::size_t>(c1 - c0));
        }
    };
    if (order_.walk == ir::Walk::kRsc) {
      rsc(0, channels);
    } else if (order_.walk == ir::Walk::kTiledCrs) {
      for (std::int64_t c = 0; c < channels; c += order_.channel_tile)
        rsc(c, std::min<std::int64_t>(channels, c + order_.channel_tile));
    } else {
      for (std::int64_t c = 0; c < channels; ++c)
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t s = 0; s < columns; ++s) all.push_back(leaf(c, r, s));
      pad(all.size());
    }
    if (order_.skip) std::erase_if(all, [](const Leaf<T>& l) { return l.padding; });
    return split(all);
  }

 private:
  using Leaves = std::vector<Leaf<T>>;

  static T pairwise(std::vector<T> parts) {
    while (parts.size() > 1) {
      std::vector<T> next;
      for (std::size_t i = 0; i < parts.size(); i += 2)
        next.push_back(i + 1 < parts.size() ? add_rn(parts[i], parts[i + 1]) : parts[i]);
      parts = next;
    }
    return parts[0];
  }
  T split(const Leaves& all) const {
    if (order_.split == 1) return lanes(all, true);
    const std::size_t unit = order_.tile ? static_cast<std::size_t>(order_.tile) : 1;
    const auto s = static_cast<std::size_t>(order_.split);
    const std::size_t share = (all.size() + s - 1) / s;
    const std::size_t length = (share + unit - 1) / unit * unit;
    std::vector<T> parts;
    for (std::size_t i = 0; i < s; ++i) {
      const std::size_t begin = std::min(all.size(), i * length),
                        end = std::min(all.size(), begin + length);
      if (begin == end && i > 0) continue;
      parts.push_back(lanes(Leaves(all.begin() + static_cast<std::ptrdiff_t>(begin),
                                   all.begin() + static_cast<std::ptrdiff_t>(end)),
                            i == 0));
    }
    if (order_.combine == ir::SplitCombine::kPairwise) return pairwise(parts);
    T sum = order_.combine == ir::SplitCombine::kAtomic ? add_rn(T{0}, parts[0]) : parts[0];
    for (std::size_t i = 1; i < parts.size(); ++i) sum = add_rn(sum, parts[i]);
    return sum;
  }
  static Leaves every(const Leaves& in, int first, int step) {
    Leaves out;
    for (std::size_t i = 0; i < in.size(); ++i)
      if (static_cast<int>(i) % step == first) out.push_back(in[i]);
    return out;
  }
  T lanes(const Leaves& in, bool first) const {
    std::vector<T> lane;
    for (int l = 0; l < order_.lanes; ++l)
      lane.push_back(accumulators(every(in, l, order_.lanes), first && l == 0));
    for (int offset = order_.lanes / 2; offset > 0; offset /= 2) {
      std::vector<T> next = lane;
      for (int l = 0; l < order_.lanes; ++l)
        next[static_cast<std::size_t>(l)] =
            add_rn(lane[static_cast<std::size_t>(l)], lane[static_cast<std::size_t>(l ^ offset)]);
      lane = next;
    }
    return lane[0];
  }
  T accumulators(const Leaves& in, bool first) const {
    std::vector<T> parts;
    for (int a = 0; a < order_.acc; ++a)
      parts.push_back(tiles(every(in, a, order_.acc), first && a == 0));
    return pairwise(parts);
  }
  T tiles(const Leaves& in, bool first) const {
    const T start = first && order_.bias == ir::BiasPoint::kFirst ? bias_ : T{0};
    if (order_.tile == 0) return chain(in, start);
    T sum = start;
    for (std::size_t i = 0; i < in.size(); i += static_cast<std::size_t>(order_.tile)) {
      const std::size_t end = std::min(in.size(), i + static_cast<std::size_t>(order_.tile));
      sum = add_rn(sum, chain(Leaves(in.begin() + static_cast<std::ptrdiff_t>(i),
                                     in.begin() + static_cast<std::ptrdiff_t>(end)),
                              T{0}));
    }
    return sum;
  }
  T chain(const Leaves& in, T s) const {
    T e = 0;
    for (const Leaf<T>& l : in) {
      if (order_.arith == ir::Arith::kKahan) {
        const T p = products_ ? mul_rn(l.x, l.w) : l.x;
        const T y = sub_rn(p, e), t = add_rn(s, y);
        e = sub_rn(sub_rn(t, s), y);
        s = t;
      } else if (!products_) {
        s = add_rn(s, l.x);
      } else if (order_.arith == ir::Arith::kMulAdd) {
        s = add_rn(s, mul_rn(l.x, l.w));
      } else {
        s = fma_rn(l.x, l.w, s);
      }
    }
    return s;
  }

  ir::ReductionOrder order_;
  bool products_;
  T bias_;
};

// The slow sum in the accumulator type of the order, rounded to f32, with the bias at its point.
inline float slow_sum(
    const ir::ReductionOrder& order, bool products, bool has_bias, float bias,
    std::int64_t channels, std::int64_t rows, std::int64_t columns,
    const std::function<Leaf<float>(std::int64_t, std::int64_t, std::int64_t)>& leaf) {
  float result = 0;
  if (order.arith == ir::Arith::kF64) {
    const SlowSum<double> sum(order, products, bias);
    double value =
        sum.run(channels, rows, columns, [&](std::int64_t c, std::int64_t r, std::int64_t s) {
          const Leaf<float> l = leaf(c, r, s);
          return Leaf<double>{l.x, l.w, l.padding};
        });
    if (has_bias && order.bias == ir::BiasPoint::kLast) value = add_rn(value, double{bias});
    result = to_f32_rn(value);
  } else {
    result = SlowSum<float>(order, products, bias).run(channels, rows, columns, leaf);
    if (has_bias && order.bias == ir::BiasPoint::kLast) result = add_rn(result, bias);
  }
  const bool stored = order.bias == ir::BiasPoint::kStored || order.bias == ir::BiasPoint::kNone;
  return has_bias && stored ? add_rn(result, bias) : result;
}

}  // namespace driftc::test
