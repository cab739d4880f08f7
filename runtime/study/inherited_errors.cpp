#include "runtime/study/inherited_errors.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "ir/support/assert.h"
#include "ir/support/round.h"
#include "runtime/eager/interpreter.h"
#include "runtime/numeric/product_sums.h"
#include "runtime/sums/parallel.h"

namespace driftc::runtime::study {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// A tensor of errors as numbers: zero where it is undefined.
class Errors {
 public:
  explicit Errors(const ir::Tensor& tensor)
      : data_(tensor.defined() ? tensor.data<double>().data() : nullptr) {}
  double operator[](std::int64_t i) const { return data_ != nullptr ? data_[i] : 0.0; }

 private:
  const double* data_;
};

ir::Tensor zeros(const ir::Shape& shape) { return ir::Tensor(ir::DType::kF64, shape); }
ir::Tensor or_zeros(const ir::Tensor& tensor, const ir::Shape& shape) {
  return tensor.defined() ? tensor : zeros(shape);
}

// Element of an operand that broadcasts to element i of the result.
class BroadcastIndex {
 public:
  BroadcastIndex(const ir::Shape& operand, const ir::Shape& result) : same_(operand == result) {
    const auto strides = operand.row_major_strides();
    const std::size_t skipped = result.rank() - operand.rank();
    for (std::size_t axis = result.rank(); axis-- > 0;)
      axes_.push_back({result[axis], axis < skipped || operand[axis - skipped] == 1
                                         ? 0
                                         : strides[axis - skipped]});
  }
  std::int64_t operator()(std::int64_t i) const {
    if (same_) return i;
    std::int64_t out = 0;
    for (const auto& [extent, stride] : axes_) {
      out += i % extent * stride;
      i /= extent;
    }
    return out;
  }

 private:
  bool same_;
  std::vector<std::pair<std::int64_t, std::int64_t>> axes_;  // innermost first
};

template <class F>
ErrorTensors elementwise(const Incoming& in, const F& fn) {
  ErrorTensors out{zeros(in.result.shape()), zeros(in.result.shape())};
  double *bound = out.bound.data_mut<double>().data(),
         *variance = out.variance.data_mut<double>().data();
  for_ranges(in.pool, in.result.elements(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      bound[i] = 0;
      variance[i] = 0;
      fn(i, bound[i], variance[i]);
    }
  });
  return out;
}

// add, sub, mul, div.
ErrorTensors binary(const Incoming& in) {
  const BroadcastIndex left(in.values[0].shape(), in.result.shape());
  const BroadcastIndex right(in.values[1].shape(), in.result.shape());
  const Errors ex(in.errors[0].bound), ey(in.errors[1].bound);
  const Errors vx(in.errors[0].variance), vy(in.errors[1].variance);
  // x + x, x * x: one error, not two independent ones; x - x and x / x have none.
  const bool twin = in.node.operands[0] == in.node.operands[1];
  const ir::Op op = in.node.op;
  return elementwise(in, [&](std::int64_t i, double& bound, double& variance) {
    const std::int64_t a = left(i), b = right(i);
    const double x = in.value(0, a), y = in.value(1, b);
    if (op == ir::Op::kAdd || op == ir::Op::kSub) {
      if (twin && op == ir::Op::kSub) return;
      bound = add_rn(ex[a], ey[b]);
      variance = twin ? mul_rn(4.0, vx[a]) : add_rn(vx[a], vy[b]);
    } else if (op == ir::Op::kMul) {
      bound = add_rn(add_rn(mul_rn(std::abs(x), ey[b]), mul_rn(std::abs(y), ex[a])),
                     mul_rn(ex[a], ey[b]));
      const double cross = add_rn(mul_rn(mul_rn(y, y), vx[a]), mul_rn(mul_rn(x, x), vy[b]));
      variance = twin ? mul_rn(2.0, cross) : add_rn(cross, mul_rn(vx[a], vy[b]));
    } else {
      if (ex[a] == 0 && ey[b] == 0 && vx[a] == 0 && vy[b] == 0) return;
      // |x/y - x'/y'| <= (E_x + |x/y| E_y) / (|y| - E_y) while the interval of y leaves out 0.
      const double room = mul_rn(sub_rn(std::abs(y), ey[b]), 1 - 0x1p-50);
      if (!(room > 0)) {
        bound = variance = kUnbounded;
        return;
      }
      if (twin) return;
      const double quotient = std::abs(div_rn(x, y));
      bound = div_rn(add_rn(ex[a], mul_rn(quotient, ey[b])), room);
      variance = div_rn(add_rn(vx[a], mul_rn(mul_rn(quotient, quotient), vy[b])), mul_rn(y, y));
    }
  });
}

// relu and clip are 1-Lipschitz, and constant where the whole interval is clamped.
ErrorTensors clamp(const Incoming& in) {
  const bool clip = in.node.op == ir::Op::kClip;
  const double lowest = clip ? static_cast<double>(static_cast<float>(in.node.number("min"))) : 0.0;
  const double highest =
      clip ? static_cast<double>(static_cast<float>(in.node.number("max"))) : kUnbounded;
  const Errors e(in.errors[0].bound), v(in.errors[0].variance);
  return elementwise(in, [&](std::int64_t i, double& bound, double& variance) {
    const double x = in.value(0, i);
    // The distance to the clamp is exact for relu, else off by less than the factor.
    const double below = mul_rn(sub_rn(lowest, x), lowest == 0 ? 1.0 : 1 - 0x1p-50);
    const double above = mul_rn(sub_rn(x, highest), 1 - 0x1p-50);
    if ((below > 0 && below >= e[i]) || (above > 0 && above >= e[i])) return;
    bound = e[i];
    variance = v[i];
  });
}

ErrorTensors batch_norm(const Incoming& in) {
  const ir::Shape& shape = in.result.shape();
  const std::int64_t channels = shape[1];
  std::int64_t plane = 1;
  for (std::size_t axis = 2; axis < shape.rank(); ++axis) plane *= shape[axis];
  const auto epsilon = static_cast<double>(static_cast<float>(in.node.number("epsilon")));
  const Errors ex(in.errors[0].bound), es(in.errors[1].bound), eb(in.errors[2].bound),
      em(in.errors[3].bound), ev(in.errors[4].bound);
  const Errors vx(in.errors[0].variance), vs(in.errors[1].variance), vb(in.errors[2].variance),
      vm(in.errors[3].variance), vv(in.errors[4].variance);
  return elementwise(in, [&](std::int64_t i, double& bound, double& variance) {
    const std::int64_t c = i / plane % channels;
    const double d = sub_rn(in.value(0, i), in.value(3, c)), scale = in.value(1, c);
    const double spread = add_rn(in.value(4, c), epsilon), inverse = div_rn(1, sqrt_rn(spread));
    const double d_error = add_rn(ex[i], em[c]);
    double inverse_error = 0;
    if (ev[c] > 0) {  // 1/sqrt is convex: the lower end moves it most
      const double low = sub_rn(spread, mul_rn(ev[c], kSlack));
      inverse_error = low > 0 ? mul_rn(sub_rn(div_rn(1, sqrt_rn(low)), inverse), kSlack) +
                                    mul_rn(inverse, 0x1p-50)
                              : kUnbounded;
    }
    const double a = std::abs(mul_rn(scale, inverse));
    const double a_error =
        add_rn(add_rn(mul_rn(std::abs(scale), inverse_error), mul_rn(inverse, es[c])),
               mul_rn(inverse_error, es[c]));
    bound = add_rn(mul_rn(a, d_error), eb[c]);
    if (a_error > 0) bound = add_rn(bound, mul_rn(a_error, add_rn(std::abs(d), d_error)));
    const double slope = mul_rn(mul_rn(0.5, a), div_rn(std::abs(d), spread));  // |dy / dvar|
    variance = add_rn(mul_rn(mul_rn(a, a), add_rn(vx[i], vm[c])), vb[c]);
    variance = add_rn(variance, mul_rn(mul_rn(mul_rn(d, d), mul_rn(inverse, inverse)), vs[c]));
    variance = add_rn(variance, mul_rn(mul_rn(slope, slope), vv[c]));
  });
}

// The largest error in each window; max is 1-Lipschitz in the largest norm.
ErrorTensors max_pool(const Incoming& in) {
  const ir::Shape &x = in.values[0].shape(), &y = in.result.shape();
  const auto &kernel = in.node.ints("kernel"), &stride = in.node.ints("stride"),
             &pad = in.node.ints("pad"), &dilation = in.node.ints("dilation");
  const Errors e(in.errors[0].bound), v(in.errors[0].variance);
  return elementwise(in, [&](std::int64_t i, double& bound, double& variance) {
    const std::int64_t ox = i % y[3], oy = i / y[3] % y[2], plane = i / y[3] / y[2];
    for (std::int64_t r = 0; r < kernel[0]; ++r)
      for (std::int64_t s = 0; s < kernel[1]; ++s) {
        const std::int64_t row = oy * stride[0] - pad[0] + r * dilation[0];
        const std::int64_t column = ox * stride[1] - pad[1] + s * dilation[1];
        if (row < 0 || row >= x[2] || column < 0 || column >= x[3]) continue;
        const std::int64_t from = (plane * x[2] + row) * x[3] + column;
        bound = std::max(bound, e[from]);
        variance = std::max(variance, v[from]);
      }
  });
}

// conv2d, conv1x1_matmul, matmul, gemm, avg_pool, global_avg_pool:
// |sum x w - sum x' w'| <= sum E_x (|w| + E_w) + |x| E_w.
ErrorTensors reduction(const Incoming& in) {
  const SumProblem problem = sum_problem(in.graph, in.id, in.values);
  const bool matmul = in.node.op == ir::Op::kMatmul || in.node.op == ir::Op::kGemm;
  const std::size_t columns = matmul ? 1 : 0, rows = matmul ? 0 : 1;
  const bool trans_rows = in.node.op == ir::Op::kGemm && in.node.integer("trans_a") != 0;
  const bool trans_columns = in.node.op == ir::Op::kGemm && in.node.integer("trans_b") != 0;
  const auto oriented = [](const ir::Tensor& t, bool transposed) {
    if (!transposed || !t.defined()) return t;
    ir::Tensor out(ir::DType::kF64, {t.shape()[1], t.shape()[0]});
    const auto to = out.data_mut<double>();
    const std::int64_t m = t.shape()[0], n = t.shape()[1];
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) to[at(j * m + i)] = t.data<double>()[at(i * n + j)];
    return out;
  };
  const auto sums = [&](const ir::Tensor& e_columns, const ir::Tensor& e_rows, int power) {
    ir::Tensor out = zeros(problem.result);
    const auto add = [&](const ir::Tensor& more) {
      const auto to = out.data_mut<double>();
      for (std::size_t i = 0; i < to.size(); ++i)
        to[i] = add_rn(to[i], mul_rn(more.data<double>()[i], kSumSlack));
    };
    if (e_columns.defined()) {
      ir::Tensor reach;
      if (problem.has_products) {
        reach = absolute(problem.rows, in.pool, power);
        if (e_rows.defined()) {
          const auto to = reach.data_mut<double>();
          for (std::size_t i = 0; i < to.size(); ++i)
            to[i] = add_rn(to[i], e_rows.data<double>()[i]);
        }
      }
      add(product_sums(problem, e_columns, reach, in.pool));
    }
    if (e_rows.defined())
      add(product_sums(problem, absolute(problem.columns, in.pool, power), e_rows, in.pool));
    return out;
  };
  ErrorTensors none;
  const ErrorTensors& row_errors = problem.has_products ? in.errors[rows] : none;
  const ErrorTensors& column_errors = in.errors[columns];
  ErrorTensors out;
  out.bound =
      sums(oriented(column_errors.bound, trans_columns), oriented(row_errors.bound, trans_rows), 1);
  out.variance = sums(oriented(column_errors.variance, trans_columns),
                      oriented(row_errors.variance, trans_rows), 2);
  const bool addend = problem.addend.defined();
  const Errors eb(addend ? in.errors[2].bound : ir::Tensor());
  const Errors vb(addend ? in.errors[2].variance : ir::Tensor());
  const double beta = std::abs(static_cast<double>(problem.beta));
  const auto bound = out.bound.data_mut<double>(), variance = out.variance.data_mut<double>();
  for_each_output(problem, [&](std::size_t i, std::int64_t row, std::int64_t pixel) {
    const double scale = std::abs(
        div_rn(static_cast<double>(problem.alpha), static_cast<double>(problem.count_at(pixel))));
    const std::int64_t b = row * problem.addend_row_stride + pixel * problem.addend_pixel_stride;
    bound[i] = add_rn(mul_rn(scale, bound[i]), mul_rn(beta, eb[b]));
    variance[i] =
        add_rn(mul_rn(mul_rn(scale, scale), variance[i]), mul_rn(mul_rn(beta, beta), vb[b]));
  });
  return out;
}

// y_i = e_i / (e_i + rest): largest where x_i is at its upper end and the others at their lower.
ErrorTensors softmax(const Incoming& in) {
  const ir::Shape& shape = in.result.shape();
  const std::int64_t given = in.node.integer("axis");
  const auto axis = at(given < 0 ? given + static_cast<std::int64_t>(shape.rank()) : given);
  std::int64_t inner = 1;
  for (std::size_t i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  const std::int64_t extent = shape[axis];
  ErrorTensors out{zeros(shape), zeros(shape)};
  if (extent == 0) return out;
  const Errors e(in.errors[0].bound), v(in.errors[0].variance);
  const auto bound = out.bound.data_mut<double>(), variance = out.variance.data_mut<double>();
  for (std::int64_t c = 0; c < in.result.elements() / extent; ++c) {
    const auto index = [&](std::int64_t i) { return (c / inner * extent + i) * inner + c % inner; };
    double most = -kUnbounded;
    for (std::int64_t i = 0; i < extent; ++i) most = std::max(most, in.value(0, index(i)));
    std::vector<double> middle, high, low;
    double sum = 0, sum_high = 0, sum_low = 0, weighted = 0;
    for (std::int64_t i = 0; i < extent; ++i) {
      const double d = sub_rn(in.value(0, index(i)), most), reach = mul_rn(e[index(i)], kSlack);
      middle.push_back(std::exp(d));
      high.push_back(std::exp(add_rn(d, reach)));
      low.push_back(std::exp(sub_rn(d, reach)));
      sum = add_rn(sum, middle.back());
      sum_high = add_rn(sum_high, high.back());
      sum_low = add_rn(sum_low, low.back());
    }
    for (std::int64_t i = 0; i < extent; ++i) {
      const double y = div_rn(middle[at(i)], sum);
      weighted = add_rn(weighted, mul_rn(mul_rn(y, y), v[index(i)]));
    }
    for (std::int64_t i = 0; i < extent; ++i) {
      const double y = div_rn(middle[at(i)], sum);
      // Others without this one, never below what the differences' rounding allows.
      const double others_low =
          std::max(0.0, sub_rn(sub_rn(sum_low, low[at(i)]), mul_rn(sum_low, 0x1p-48)));
      const double others_high = add_rn(sub_rn(sum_high, high[at(i)]), mul_rn(sum_high, 0x1p-48));
      const double upper = div_rn(high[at(i)], add_rn(high[at(i)], others_low));
      const double lower = div_rn(low[at(i)], add_rn(low[at(i)], others_high));
      const std::int64_t to = index(i);
      // exp, sums and quotients are off by less than (extent + 8) 2^-52 of y.
      const double own = mul_rn(y, mul_rn(add_rn(static_cast<double>(extent), 8.0), 0x1p-50));
      bound[at(to)] = in.exact(0) ? 0 : add_rn(std::max(sub_rn(upper, y), sub_rn(y, lower)), own);
      // dy_i = y_i (dx_i - sum_j y_j dx_j)
      const double others = std::max(0.0, sub_rn(weighted, mul_rn(mul_rn(y, y), v[to])));
      const double self = mul_rn(mul_rn(sub_rn(1, y), sub_rn(1, y)), v[to]);
      variance[at(to)] = mul_rn(mul_rn(y, y), add_rn(self, others));
    }
  }
  return out;
}

// Errors move with the elements. What pad puts in is exact.
ErrorTensors moved(const Incoming& in) {
  ir::Graph graph;
  ir::Node node = in.node;
  node.operands.clear();
  for (std::size_t i = 0; i < in.values.size(); ++i)
    node.operands.push_back(graph.add_input(
        "x" + std::to_string(i), {ir::DType::kF64, in.values[i].shape(), ir::Layout::kNchw}));
  if (node.op == ir::Op::kPad) node.set("value", 0.0);
  const ir::NodeId id =
      graph.add_node(node, "y", {ir::DType::kF64, in.result.shape(), ir::Layout::kNchw});
  const auto move = [&](auto member) {
    std::vector<ir::Tensor> operands;
    for (std::size_t i = 0; i < in.values.size(); ++i)
      operands.push_back(or_zeros(in.errors[i].*member, in.values[i].shape()));
    // A reshape shares its operand's buffer; errors are written to later.
    const ir::Tensor shared = evaluate(graph, id, operands, {}, {in.pool});
    return ir::Tensor::of<double>(shared.shape(), shared.data<double>());
  };
  return {move(&ErrorTensors::bound), move(&ErrorTensors::variance)};
}

ErrorTensors unbounded(const Incoming& in) {
  return elementwise(
      in, [](std::int64_t, double& bound, double& variance) { bound = variance = kUnbounded; });
}

// max and min: at most the larger of the two errors.
ErrorTensors larger_error(const Incoming& in) {
  const BroadcastIndex left(in.values[0].shape(), in.result.shape());
  const BroadcastIndex right(in.values[1].shape(), in.result.shape());
  const Errors ex(in.errors[0].bound), ey(in.errors[1].bound);
  const Errors vx(in.errors[0].variance), vy(in.errors[1].variance);
  return elementwise(in, [&](std::int64_t i, double& bound, double& variance) {
    bound = std::max(ex[left(i)], ey[right(i)]);
    variance = std::max(vx[left(i)], vy[right(i)]);
  });
}

// Functions of one operand whose slope is bounded everywhere, or on the interval around the value.
ErrorTensors function(const Incoming& in) {
  const Errors e(in.errors[0].bound), v(in.errors[0].variance);
  const ir::Op op = in.node.op;
  // A slope, or the other operand of two, that may move as well has no bound here.
  if ((op == ir::Op::kPrelu || op == ir::Op::kPow) && !in.exact(1)) return unbounded(in);
  const auto slope = [&](double x, double reach, std::int64_t i) -> double {
    const double low = sub_rn(x, reach), high = add_rn(x, reach);
    switch (op) {
      case ir::Op::kAbs:
      case ir::Op::kNeg:
      case ir::Op::kTanh:
      case ir::Op::kSoftplus:
        return 1;
      case ir::Op::kSigmoid:
        return 0.25;
      case ir::Op::kErf:
      case ir::Op::kGelu:
        return 1.13;
      case ir::Op::kHardSwish:
        return 1.5;
      case ir::Op::kHardSigmoid:
        return std::abs(in.node.number("alpha"));
      case ir::Op::kElu:
      case ir::Op::kLeakyRelu:
        return std::max(1.0, std::abs(in.node.number("alpha")));
      case ir::Op::kPrelu:
        return std::max(
            1.0, std::abs(in.value(1, BroadcastIndex(in.values[1].shape(), in.result.shape())(i))));
      case ir::Op::kExp:
        return mul_rn(std::exp(high), 1 + 0x1p-48);
      case ir::Op::kLog:
        return low > 0 ? div_rn(1, low) : kUnbounded;
      case ir::Op::kSqrt:
        return low > 0 ? div_rn(0.5, sqrt_rn(low)) : kUnbounded;
      default:  // pow, and casts, which jump
        return kUnbounded;
    }
  };
  return elementwise(in, [&](std::int64_t i, double& bound, double& variance) {
    if (e[i] == 0 && v[i] == 0) return;
    const double s = mul_rn(slope(in.value(0, i), mul_rn(e[i], kSlack), i), kSlack);
    bound = e[i] == 0 ? 0 : mul_rn(s, e[i]);
    variance = v[i] == 0 ? 0 : mul_rn(mul_rn(s, s), v[i]);
  });
}

// Means, sums, extremes and interpolation of errors: the weights are those of the values, and none
// is negative. Variances get the squares of the weights, which are at most the weights where these
// are at most 1.
ErrorTensors weighed(const Incoming& in) {
  ir::Graph graph;
  ir::Node node = in.node;
  node.operands = {
      graph.add_input("x", {ir::DType::kF64, in.values[0].shape(), ir::Layout::kNchw})};
  if (node.op == ir::Op::kReduceMin) node.op = ir::Op::kReduceMax;
  const ir::NodeId id =
      graph.add_node(node, "y", {ir::DType::kF64, in.result.shape(), ir::Layout::kNchw});
  const auto weigh = [&](const ir::Tensor& errors) {
    const ir::Tensor operand[] = {or_zeros(errors, in.values[0].shape())};
    const ir::Tensor out = evaluate(graph, id, operand, eager_contract(node), {in.pool});
    ir::Tensor widened = ir::Tensor::of<double>(out.shape(), out.data<double>());
    // Its own sums are off by less than 2^-53 per addition.
    const double slack = 1 + 0x1p-50 * static_cast<double>(in.values[0].elements() + 8);
    for (double& e : widened.data_mut<double>()) e = e >= 0 ? mul_rn(e, slack) : kUnbounded;
    return widened;
  };
  return {weigh(in.errors[0].bound), weigh(in.errors[0].variance)};
}

// |sum x w - sum x' w'| <= sum E_x (|w| + E_w) + |x| E_w, as for the other reductions, by the op
// itself in f64.
ErrorTensors conv_transpose(const Incoming& in) {
  ir::Graph graph;
  ir::Node node = in.node;
  node.operands = {
      graph.add_input("x", {ir::DType::kF64, in.values[0].shape(), ir::Layout::kNchw}),
      graph.add_input("w", {ir::DType::kF64, in.values[1].shape(), ir::Layout::kNchw})};
  const ir::NodeId id =
      graph.add_node(node, "y", {ir::DType::kF64, in.result.shape(), ir::Layout::kNchw});
  const double slack = 1 + 0x1p-50 * static_cast<double>(in.values[1].elements() + 8);
  const std::int64_t plane = in.result.shape()[2] * in.result.shape()[3],
                     channels = in.result.shape()[1];
  const auto carried = [&](ir::Tensor ErrorTensors::*member, int power) {
    ir::Tensor out = zeros(in.result.shape());
    const auto add = [&](const ir::Tensor& x, const ir::Tensor& w) {
      const ir::Tensor operands[] = {x, w};
      const ir::Tensor more = evaluate(graph, id, operands, eager_contract(node), {in.pool});
      const auto to = out.data_mut<double>();
      for (std::size_t i = 0; i < to.size(); ++i)
        to[i] = add_rn(to[i], mul_rn(more.data<double>()[i], slack));
    };
    const ir::Tensor ex = or_zeros(in.errors[0].*member, in.values[0].shape());
    const ir::Tensor ew = or_zeros(in.errors[1].*member, in.values[1].shape());
    add(ex, absolute(in.values[1], in.pool, power));
    add(ex, ew);
    add(absolute(in.values[0], in.pool, power), ew);
    if (in.values.size() == 3) {
      const Errors eb(in.errors[2].*member);
      const auto to = out.data_mut<double>();
      for (std::size_t i = 0; i < to.size(); ++i)
        to[i] = add_rn(to[i], eb[static_cast<std::int64_t>(i) / plane % channels]);
    }
    for (double& e : out.data_mut<double>()) e = e >= 0 ? e : kUnbounded;
    return out;
  };
  return {carried(&ErrorTensors::bound, 1), carried(&ErrorTensors::variance, 2)};
}

}  // namespace

ErrorTensors inherited_errors(const Incoming& in) {
  switch (in.node.op) {
    case ir::Op::kConv2d:
    case ir::Op::kConv1x1Matmul:
    case ir::Op::kMatmul:
    case ir::Op::kGemm:
    case ir::Op::kAvgPool:
    case ir::Op::kGlobalAvgPool:
      return reduction(in);
    case ir::Op::kAdd:
    case ir::Op::kSub:
    case ir::Op::kMul:
    case ir::Op::kDiv:
      return binary(in);
    case ir::Op::kRelu:
    case ir::Op::kClip:
      return clamp(in);
    case ir::Op::kBatchNorm:
      return batch_norm(in);
    case ir::Op::kMaxPool:
      return max_pool(in);
    case ir::Op::kSoftmax:
      return softmax(in);
    case ir::Op::kMax:
    case ir::Op::kMin:
      return larger_error(in);
    case ir::Op::kPrelu:
    case ir::Op::kSqrt:
    case ir::Op::kExp:
    case ir::Op::kLog:
    case ir::Op::kErf:
    case ir::Op::kAbs:
    case ir::Op::kNeg:
    case ir::Op::kSigmoid:
    case ir::Op::kTanh:
    case ir::Op::kSoftplus:
    case ir::Op::kGelu:
    case ir::Op::kElu:
    case ir::Op::kLeakyRelu:
    case ir::Op::kHardSigmoid:
    case ir::Op::kHardSwish:
    case ir::Op::kCast:
    case ir::Op::kPow:
      return function(in);
    case ir::Op::kReduceMean:
    case ir::Op::kReduceSum:
    case ir::Op::kReduceMax:
    case ir::Op::kReduceMin:
    case ir::Op::kResize:
      return weighed(in);
    case ir::Op::kConvTranspose:
      return conv_transpose(in);
    case ir::Op::kArgmax:
      return unbounded(in);
    case ir::Op::kConcat:
    case ir::Op::kFlatten:
    case ir::Op::kReshape:
    case ir::Op::kTranspose:
    case ir::Op::kSlice:
    case ir::Op::kPad:
    case ir::Op::kIdentity:
      return moved(in);
    case ir::Op::kConstant:
    case ir::Op::kKernel:
      break;
  }
  DRIFTC_ASSERT(false, "errors travel through plain ops");
}

}  // namespace driftc::runtime::study
