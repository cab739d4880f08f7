#include "tests/unit/emit_reference.h"

#include <cmath>
#include <functional>
#include <limits>

#include "ir/exp_steps.h"
#include "ir/functions.h"
#include "ir/support/half.h"
#include "ir/support/round.h"
#include "ir/winograd.h"
#include "runtime/eager/interpreter.h"

namespace driftc::test {
namespace {

using ir::Op;
using Index = std::vector<std::int64_t>;

struct Leaf {
  float x = 0, w = 0;
};

// One reduction by its denotation. `last` (bias.last) is added to the total in the accumulator's
// type.
float sum(const ir::NumericContract& contract, const ir::SumProgram& program,
          const std::function<Leaf(std::int32_t)>& leaf, bool products, float bias, bool last) {
  const ir::Arith arith = contract.order->arith;
  const bool f64 = arith == ir::Arith::kF64 || contract.acc == ir::Precision::kF64;
  std::vector<double> wide;
  std::vector<float> narrow;
  for (const auto& chain : program.chains) {
    const float start =
        chain.starts_with_bias && contract.order->bias == ir::BiasPoint::kFirst ? bias : 0.0f;
    double d = start;
    float s = start, lost = 0;
    for (std::int32_t p : chain.leaves) {
      Leaf l = leaf(p);
      if (contract.in == ir::Precision::kTf32Rna) l = {tf32_rna(l.x), tf32_rna(l.w)};
      if (contract.in == ir::Precision::kTf32Trunc) l = {tf32_trunc(l.x), tf32_trunc(l.w)};
      if (f64) {
        d = products ? fma_rn(double{l.x}, double{l.w}, d) : add_rn(d, double{l.x});
      } else if (arith == ir::Arith::kKahan) {
        const float y = sub_rn(products ? mul_rn(l.x, l.w) : l.x, lost);
        const float t = add_rn(s, y);
        lost = sub_rn(sub_rn(t, s), y);
        s = t;
      } else if (!products) {
        s = add_rn(s, l.x);
      } else {
        s = arith == ir::Arith::kFma ? fma_rn(l.x, l.w, s) : add_rn(s, mul_rn(l.x, l.w));
      }
    }
    wide.push_back(d);
    narrow.push_back(s);
  }
  for (const auto& a : program.additions) {
    const auto to = static_cast<std::size_t>(a.to), from = static_cast<std::size_t>(a.from);
    wide[to] = add_rn(wide[to], wide[from]);
    narrow[to] = add_rn(narrow[to], narrow[from]);
  }
  if (f64) return to_f32_rn(last ? add_rn(wide[0], double{bias}) : wide[0]);
  return last ? add_rn(narrow[0], bias) : narrow[0];
}

class Evaluator {
 public:
  Evaluator(const ir::Kernel& kernel, const std::vector<ir::Tensor>& operands, std::uint64_t seed)
      : kernel_(kernel),
        body_(kernel.body),
        seed_(seed),
        values_(body_.value_count()),
        uses_(body_.use_counts()) {
    for (std::size_t i = 0; i < operands.size(); ++i)
      values_[body_.inputs()[i].index] = operands[i];
  }

  ir::Tensor run() {
    for (std::uint32_t i = 0; i < body_.node_count(); ++i) {
      const ir::Node& node = body_.node({i});
      values_[node.result.index] = evaluate(node, {i});
    }
    return values_[body_.outputs()[0].index];
  }

 private:
  const ir::Tensor& value(const ir::Node& n, std::size_t i) const {
    return values_[n.operands[i].index];
  }
  const ir::Shape& shape(ir::ValueId v) const { return body_.value(v).type.shape; }

  // Element of `t` at the index of a broader shape, axes aligned to the right.
  static float at(const ir::Tensor& t, const Index& index) {
    std::int64_t offset = 0;
    const auto strides = t.shape().row_major_strides();
    for (std::size_t a = 0; a < t.shape().rank(); ++a)
      if (t.shape()[a] != 1) offset += strides[a] * index[index.size() - t.shape().rank() + a];
    return t.data<float>()[static_cast<std::size_t>(offset)];
  }
  static void each(const ir::Shape& s, const std::function<void(const Index&)>& visit) {
    Index index(s.rank(), 0);
    for (std::int64_t n = s.elements(); n > 0; --n) {
      visit(index);
      for (std::size_t a = s.rank(); a-- > 0;) {
        if (++index[a] < s[a]) break;
        index[a] = 0;
      }
    }
  }
  ir::Tensor make(const ir::Shape& s, const std::function<float(const Index&)>& element) {
    ir::Tensor out(ir::DType::kF32, s);
    const auto to = out.data_mut<float>();
    std::size_t n = 0;
    each(s, [&](const Index& index) { to[n++] = element(index); });
    return out;
  }

  ir::Tensor evaluate(const ir::Node& n, ir::NodeId id) {
    const ir::Shape& out = shape(n.result);
    const bool contract = kernel_.contract.contract;
    auto x = [&](std::size_t i, const Index& index) { return at(value(n, i), index); };
    switch (n.op) {
      case Op::kConstant:
        return n.literal->tensor();
      case Op::kIdentity:
        return value(n, 0);
      case Op::kAdd:
      case Op::kSub:
        if (contract)
          if (const auto site =
                  ir::contraction_site(body_, id, uses_, [](ir::NodeId) { return true; })) {
            const ir::Node* mul = body_.producer(n.operands[static_cast<std::size_t>(*site)]);
            while (mul->op == Op::kIdentity) mul = body_.producer(mul->operands[0]);
            return make(out, [&](const Index& i) {
              float a = at(value(*mul, 0), i), c = x(static_cast<std::size_t>(1 - *site), i);
              const float b = at(value(*mul, 1), i);
              if (n.op == Op::kSub) (*site == 0 ? c : a) = -(*site == 0 ? c : a);
              return fma_rn(a, b, c);
            });
          }
        return make(out, [&](const Index& i) {
          return n.op == Op::kAdd ? add_rn(x(0, i), x(1, i)) : sub_rn(x(0, i), x(1, i));
        });
      case Op::kMul:
        return make(out, [&](const Index& i) { return mul_rn(x(0, i), x(1, i)); });
      case Op::kDiv:
        return make(out, [&](const Index& i) { return div_rn(x(0, i), x(1, i)); });
      case Op::kRelu:
        return make(out, [&](const Index& i) { return x(0, i) < 0 ? 0.0f : x(0, i); });
      case Op::kClip: {
        const auto lo = static_cast<float>(n.number("min")),
                   hi = static_cast<float>(n.number("max"));
        return make(out, [&](const Index& i) {
          const float t = x(0, i) < lo ? lo : x(0, i);
          return t > hi ? hi : t;
        });
      }
      case Op::kBatchNorm:
        return make(out, [&](const Index& i) {
          auto p = [&](std::size_t k) {
            return value(n, k).data<float>()[static_cast<std::size_t>(i[1])];
          };
          const float d = sub_rn(x(0, i), p(3));
          const float inv =
              div_rn(1.0f, sqrt_rn(add_rn(p(4), static_cast<float>(n.number("epsilon")))));
          const float m = mul_rn(d, inv);
          return contract ? fma_rn(m, p(1), p(2)) : add_rn(mul_rn(m, p(1)), p(2));
        });
      case Op::kConv2d:
      case Op::kConv1x1Matmul:
        return conv(n);
      case Op::kMatmul:
      case Op::kGemm:
        return matmul(n);
      case Op::kMaxPool:
      case Op::kAvgPool:
        return pool(n);
      case Op::kGlobalAvgPool:
        return make(out, [&](const Index& i) {
          const ir::Shape& s = shape(n.operands[0]);
          const auto program = ir::denote(*kernel_.contract.order, {1, s[2], s[3]});
          return div_rn(sum(
                            kernel_.contract, program,
                            [&](std::int32_t p) {
                              return Leaf{at(value(n, 0), {i[0], i[1], p / s[3], p % s[3]}), 0};
                            },
                            false, 0, false),
                        static_cast<float>(s[2] * s[3]));
        });
      case Op::kSoftmax:
        return softmax(n);
      case Op::kConvTranspose:
      case Op::kReduceMean:
      case Op::kReduceSum:
      case Op::kReduceMax:
      case Op::kReduceMin:
      case Op::kResize:
        return interpreted(n, id);
      default:
        return ir::function_call(n) ? interpreted(n, id) : move(n);
    }
  }

  // Ops whose interpreter has oracles of its own (eager_reduce_test.cpp, function_test.cpp).
  ir::Tensor interpreted(const ir::Node& n, ir::NodeId id) {
    std::vector<ir::Tensor> operands;
    for (ir::ValueId v : n.operands) operands.push_back(values_[v.index]);
    runtime::ThreadPool pool(1);
    return runtime::evaluate(body_, id, operands, kernel_.contract, {pool});
  }

  float biased(const ir::Node& n, const ir::SumProgram& program,
               const std::function<Leaf(std::int32_t)>& leaf,
               const std::optional<float>& bias) const {
    const ir::BiasPoint point = kernel_.contract.order->bias;
    const bool last = bias && point == ir::BiasPoint::kLast;
    float t = sum(kernel_.contract, program, leaf, true, bias.value_or(0.0f), last);
    if (n.op == Op::kGemm && n.number("alpha") != 1)
      t = mul_rn(static_cast<float>(n.number("alpha")), t);
    if (bias && (point == ir::BiasPoint::kStored || point == ir::BiasPoint::kNone))
      t = add_rn(t, *bias);
    return t;
  }

  // M x M' of row-major matrices, as ir/winograd.h words it.
  template <class T>
  static std::vector<T> sandwich(const ir::FractionMatrix& m, const std::vector<T>& x, bool fused) {
    const int rows = m.rows, columns = m.columns;
    auto row = [&](int r, const std::function<T(int)>& v) {
      std::optional<T> t;
      for (int c = 0; c < columns; ++c) {
        if (m.at(r, c).over == 0) continue;
        const T f = static_cast<T>(static_cast<double>(m.at(r, c).over) / m.at(r, c).under);
        t = !t ? mul_rn(f, v(c)) : fused ? fma_rn(f, v(c), *t) : add_rn(*t, mul_rn(f, v(c)));
      }
      return *t;
    };
    std::vector<T> half(static_cast<std::size_t>(rows * columns)),
        out(static_cast<std::size_t>(rows * rows));
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < columns; ++j)
        half[static_cast<std::size_t>(i * columns + j)] =
            row(i, [&](int c) { return x[static_cast<std::size_t>(c * columns + j)]; });
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < rows; ++j)
        out[static_cast<std::size_t>(i * rows + j)] =
            row(j, [&](int c) { return half[static_cast<std::size_t>(i * columns + c)]; });
    return out;
  }

  ir::Tensor winograd(const ir::Node& n) {
    const ir::WinogradMatrices& wm = ir::winograd_matrices(kernel_.contract.transform.m);
    const ir::Shape &xs = shape(n.operands[0]), &ws = shape(n.operands[1]), &ys = shape(n.result);
    const bool fused = kernel_.contract.order->arith != ir::Arith::kMulAdd;
    const std::int64_t per_group = ys[1] / n.integer("groups");
    const int size = wm.n();
    ir::Tensor out(ir::DType::kF32, ys);
    const auto to = out.data_mut<float>();
    // Transformed filters and data by (channel, place), for one output channel and one tile.
    auto filter = [&](std::int64_t k, std::int64_t c) {
      std::vector<float> taps;
      for (std::int64_t r = 0; r < 3; ++r)
        for (std::int64_t s = 0; s < 3; ++s) taps.push_back(at(value(n, 1), {k, c, r, s}));
      if (kernel_.contract.transform.filters == ir::Precision::kF32)
        return sandwich<float>(wm.g, taps, fused);
      const auto wide = sandwich<double>(wm.g, {taps.begin(), taps.end()}, fused);
      std::vector<float> narrow;
      for (double v : wide) narrow.push_back(to_f32_rn(v));
      return narrow;
    };
    for (std::int64_t image = 0; image < ys[0]; ++image)
      for (std::int64_t y = 0; y < ys[2]; y += wm.m)
        for (std::int64_t x = 0; x < ys[3]; x += wm.m)
          for (std::int64_t group = 0; group < n.integer("groups"); ++group) {
            std::vector<std::vector<float>> data;
            for (std::int64_t c = 0; c < ws[1]; ++c) {
              std::vector<float> patch;
              for (std::int64_t r = 0; r < size; ++r)
                for (std::int64_t s = 0; s < size; ++s) {
                  const std::int64_t iy = y - n.ints("pad")[0] + r, ix = x - n.ints("pad")[1] + s;
                  const bool inside = iy >= 0 && iy < xs[2] && ix >= 0 && ix < xs[3];
                  patch.push_back(inside ? at(value(n, 0), {image, group * ws[1] + c, iy, ix})
                                         : 0.0f);
                }
              data.push_back(sandwich<float>(wm.bt, patch, fused));
            }
            for (std::int64_t k = group * per_group; k < (group + 1) * per_group; ++k) {
              std::vector<std::vector<float>> filters;
              for (std::int64_t c = 0; c < ws[1]; ++c) filters.push_back(filter(k, c));
              std::vector<float> sums;
              const auto program = ir::denote(*kernel_.contract.order, {ws[1], 1, 1});
              for (std::size_t place = 0; place < static_cast<std::size_t>(size * size); ++place)
                sums.push_back(sum(
                    kernel_.contract, program,
                    [&](std::int32_t c) {
                      const auto i = static_cast<std::size_t>(c);
                      return Leaf{data[i][place], filters[i][place]};
                    },
                    true, 0, false));
              const std::vector<float> tile = sandwich<float>(wm.at, sums, fused);
              for (std::int64_t r = 0; r < wm.m && y + r < ys[2]; ++r)
                for (std::int64_t s = 0; s < wm.m && x + s < ys[3]; ++s) {
                  float v = tile[static_cast<std::size_t>(r * wm.m + s)];
                  if (n.operands.size() == 3)
                    v = add_rn(v, value(n, 2).data<float>()[static_cast<std::size_t>(k)]);
                  to[static_cast<std::size_t>(((image * ys[1] + k) * ys[2] + y + r) * ys[3] + x +
                                              s)] = v;
                }
            }
          }
    return out;
  }

  ir::Tensor conv(const ir::Node& n) {
    if (kernel_.contract.transform.m != 0) return winograd(n);
    const bool plain = n.op == Op::kConv1x1Matmul;
    const ir::Shape &xs = shape(n.operands[0]), &ws = shape(n.operands[1]);
    const std::int64_t groups = plain ? 1 : n.integer("groups");
    const Index stride = plain ? Index{1, 1} : n.ints("stride"),
                pad = plain ? Index{0, 0, 0, 0} : n.ints("pad"),
                dilation = plain ? Index{1, 1} : n.ints("dilation");
    ir::ReductionOrder order = *kernel_.contract.order;
    if (order.walk == ir::Walk::kK) order.walk = ir::Walk::kCrs;
    return make(shape(n.result), [&](const Index& i) {
      std::vector<char> padded;
      auto place = [&](std::int64_t p) {
        const std::int64_t c = p / (ws[2] * ws[3]), r = p / ws[3] % ws[2], s = p % ws[3];
        return Index{i[0], i[1] / (ws[0] / groups) * ws[1] + c,
                     i[2] * stride[0] - pad[0] + r * dilation[0],
                     i[3] * stride[1] - pad[1] + s * dilation[1]};
      };
      auto outside = [&](const Index& at) {
        return at[2] < 0 || at[2] >= xs[2] || at[3] < 0 || at[3] >= xs[3];
      };
      const std::int64_t positions = ws[1] * ws[2] * ws[3];
      std::unique_ptr<bool[]> mask(new bool[static_cast<std::size_t>(positions)]);
      for (std::int64_t p = 0; p < positions; ++p)
        mask[static_cast<std::size_t>(p)] = outside(place(p));
      const auto program =
          ir::denote(order, {ws[1], ws[2], ws[3]},
                     std::span<const bool>(mask.get(), static_cast<std::size_t>(positions)), seed_);
      auto leaf = [&](std::int32_t p) {
        const Index where = place(p);
        return Leaf{outside(where) ? 0.0f : at(value(n, 0), where),
                    value(n, 1).data<float>()[static_cast<std::size_t>(i[1] * positions + p)]};
      };
      std::optional<float> bias;
      if (n.operands.size() == 3) bias = value(n, 2).data<float>()[static_cast<std::size_t>(i[1])];
      return biased(n, program, leaf, bias);
    });
  }

  ir::Tensor matmul(const ir::Node& n) {
    const bool gemm = n.op == Op::kGemm;
    const bool ta = gemm && n.integer("trans_a") != 0, tb = gemm && n.integer("trans_b") != 0;
    const ir::Shape& as = shape(n.operands[0]);
    const std::int64_t depth = as[as.rank() - (ta ? 2 : 1)];
    const auto program = ir::denote(*kernel_.contract.order, {depth, 1, 1}, {}, seed_);
    return make(shape(n.result), [&](const Index& i) {
      auto pick = [&](std::size_t operand, std::int64_t row, std::int64_t column) {
        Index where(i);
        where[i.size() - 2] = row;
        where[i.size() - 1] = column;
        return at(value(n, operand), where);
      };
      const std::int64_t m = i[i.size() - 2], k = i[i.size() - 1];
      std::optional<float> bias;
      if (n.operands.size() == 3) {
        bias = at(value(n, 2), i);
        if (n.number("beta") != 1) bias = mul_rn(static_cast<float>(n.number("beta")), *bias);
      }
      return biased(
          n, program,
          [&](std::int32_t p) {
            return Leaf{ta ? pick(0, p, m) : pick(0, m, p), tb ? pick(1, k, p) : pick(1, p, k)};
          },
          bias);
    });
  }

  ir::Tensor pool(const ir::Node& n) {
    const ir::Shape& xs = shape(n.operands[0]);
    const Index &kernel = n.ints("kernel"), &stride = n.ints("stride"), &pad = n.ints("pad");
    const bool mean = n.op == Op::kAvgPool;
    const Index dilation = mean ? Index{1, 1} : n.ints("dilation");
    return make(shape(n.result), [&](const Index& i) {
      auto x = [&](std::int64_t p) -> std::optional<float> {
        const std::int64_t h = i[2] * stride[0] - pad[0] + p / kernel[1] * dilation[0];
        const std::int64_t w = i[3] * stride[1] - pad[1] + p % kernel[1] * dilation[1];
        if (h < 0 || h >= xs[2] || w < 0 || w >= xs[3]) return std::nullopt;
        return at(value(n, 0), {i[0], i[1], h, w});
      };
      const std::int64_t taps = kernel[0] * kernel[1];
      if (!mean) {
        float m = -std::numeric_limits<float>::infinity();
        for (std::int64_t p = 0; p < taps; ++p)
          if (const auto v = x(p)) m = *v > m || std::isnan(*v) ? *v : m;
        return m;
      }
      std::int64_t count = 0;
      for (std::int64_t p = 0; p < taps; ++p) {
        const std::int64_t h = i[2] * stride[0] - pad[0] + p / kernel[1],
                           w = i[3] * stride[1] - pad[1] + p % kernel[1];
        const bool declared = h < xs[2] + pad[2] && w < xs[3] + pad[3];
        if (n.integer("count_include_pad") != 0 ? declared : x(p).has_value()) ++count;
      }
      const auto program = ir::denote(*kernel_.contract.order, {1, kernel[0], kernel[1]});
      const float s = sum(
          kernel_.contract, program,
          [&](std::int32_t p) {
            return Leaf{x(p).value_or(0.0f), 0};
          },
          false, 0, false);
      return div_rn(s, static_cast<float>(count));
    });
  }

  ir::Tensor softmax(const ir::Node& n) {
    const ir::Shape& s = shape(n.result);
    const std::int64_t given = n.integer("axis");
    const auto axis =
        static_cast<std::size_t>(given < 0 ? given + static_cast<std::int64_t>(s.rank()) : given);
    const auto program = ir::denote(*kernel_.contract.order, {s[axis], 1, 1});
    return make(s, [&](const Index& i) {
      auto x = [&](std::int64_t k) {
        Index where(i);
        where[axis] = k;
        return at(value(n, 0), where);
      };
      float m = -std::numeric_limits<float>::infinity();
      for (std::int64_t k = 0; k < s[axis]; ++k) m = x(k) > m || std::isnan(x(k)) ? x(k) : m;
      const float total = sum(
          kernel_.contract, program,
          [&](std::int32_t p) {
            return Leaf{ir::exp_by_steps(sub_rn(x(p), m)), 0};
          },
          false, 0, false);
      return div_rn(ir::exp_by_steps(sub_rn(x(i[axis]), m)), total);
    });
  }

  ir::Tensor move(const ir::Node& n) {
    const ir::Shape& out = shape(n.result);
    switch (n.op) {
      case Op::kReshape:
      case Op::kFlatten:
        return value(n, 0).reshaped(out);
      case Op::kConcat:
        return make(out, [&](const Index& i) {
          const auto axis = static_cast<std::size_t>(n.integer("axis"));
          Index where(i);
          std::size_t part = 0;
          while (where[axis] >= shape(n.operands[part])[axis])
            where[axis] -= shape(n.operands[part++])[axis];
          // `at` treats extents of 1 as broadcast, which is the same here.
          return at(value(n, part), where);
        });
      case Op::kTranspose:
        return make(out, [&](const Index& i) {
          Index where(i.size());
          for (std::size_t a = 0; a < i.size(); ++a)
            where[static_cast<std::size_t>(n.ints("perm")[a])] = i[a];
          return at(value(n, 0), where);
        });
      case Op::kSlice:
        return make(out, [&](const Index& i) {
          Index where(i);
          for (std::size_t a = 0; a < i.size(); ++a)
            where[a] = n.ints("starts")[a] + i[a] * n.ints("steps")[a];
          return at(value(n, 0), where);
        });
      case Op::kPad:
        return make(out, [&](const Index& i) {
          Index where(i);
          for (std::size_t a = 0; a < i.size(); ++a) {
            where[a] -= n.ints("before")[a];
            if (where[a] < 0 || where[a] >= shape(n.operands[0])[a])
              return static_cast<float>(n.number("value"));
          }
          return at(value(n, 0), where);
        });
      default:
        DRIFTC_ASSERT(false, "op of no test");
    }
  }

  const ir::Kernel& kernel_;
  const ir::Graph& body_;
  std::uint64_t seed_;
  std::vector<ir::Tensor> values_;
  std::vector<int> uses_;
};

}  // namespace

ir::Tensor reference(const ir::Kernel& kernel, const std::vector<ir::Tensor>& operands,
                     std::uint64_t atomic_seed) {
  return Evaluator(kernel, operands, atomic_seed).run();
}

}  // namespace driftc::test
