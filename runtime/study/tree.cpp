#include "runtime/study/tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "ir/kernel.h"
#include "ir/support/half.h"
#include "ir/support/round.h"
#include "runtime/sums/tensor_core.h"

namespace driftc::runtime::study {
namespace {

using ir::Arith;
using ir::BiasPoint;
using ir::Op;
using ir::SumProgram;

// Row-major offset of an index.
std::size_t offset(const ir::Shape& shape, std::span<const std::int64_t> index) {
  std::int64_t at = 0;
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) at = at * shape[axis] + index[axis];
  return static_cast<std::size_t>(at);
}

float at(const ir::Tensor& tensor, std::initializer_list<std::int64_t> index) {
  return tensor.data<float>()[offset(tensor.shape(), {index.begin(), index.size()})];
}

struct WindowPlace {
  std::int64_t image, channel;  // of the first channel of the group
  std::int64_t top, left, dilation_h, dilation_w;
};

// Positions c, r, s of a window over x; outside x they are padding and read +0.
void add_window(SumOperands& out, const ir::Tensor& x, const WindowPlace& place) {
  const ir::Shape& shape = x.shape();
  for (std::int64_t c = 0; c < out.extent.c; ++c)
    for (std::int64_t r = 0; r < out.extent.r; ++r)
      for (std::int64_t s = 0; s < out.extent.s; ++s) {
        const std::int64_t y = place.top + r * place.dilation_h,
                           z = place.left + s * place.dilation_w;
        const bool outside = y < 0 || y >= shape[2] || z < 0 || z >= shape[3];
        out.padded.push_back(outside);
        out.a.push_back(outside ? 0.0f : at(x, {place.image, place.channel + c, y, z}));
      }
}

SumOperands conv_operands(const ir::Node& node, std::span<const std::int64_t> i,
                          std::span<const ir::Tensor> operands) {
  const ir::Tensor &x = operands[0], &w = operands[1];
  SumOperands out;
  out.extent = {w.shape()[1], w.shape()[2], w.shape()[3]};
  WindowPlace place{i[0], 0, i[2], i[3], 1, 1};
  if (node.op == Op::kConv2d) {
    const auto &stride = node.ints("stride"), &pad = node.ints("pad"),
               &dilation = node.ints("dilation");
    const std::int64_t per_group = w.shape()[0] / node.integer("groups");
    place = {i[0],
             i[1] / per_group * out.extent.c,
             i[2] * stride[0] - pad[0],
             i[3] * stride[1] - pad[1],
             dilation[0],
             dilation[1]};
  }
  add_window(out, x, place);
  const auto weights =
      w.data<float>().subspan(static_cast<std::size_t>(i[1] * out.extent.positions()),
                              static_cast<std::size_t>(out.extent.positions()));
  out.b.assign(weights.begin(), weights.end());
  if (operands.size() == 3) out.bias = operands[2].data<float>()[static_cast<std::size_t>(i[1])];
  return out;
}

// The index into an operand that broadcasts to the result: its own axes are the last ones.
std::vector<std::int64_t> broadcast_index(const ir::Shape& operand,
                                          std::span<const std::int64_t> index) {
  std::vector<std::int64_t> out;
  for (std::size_t axis = 0; axis < operand.rank(); ++axis) {
    const std::int64_t i = index[index.size() - operand.rank() + axis];
    out.push_back(operand[axis] == 1 ? 0 : i);
  }
  return out;
}

SumOperands matrix_operands(const ir::Node& node, std::span<const std::int64_t> i,
                            std::span<const ir::Tensor> operands) {
  const bool gemm = node.op == Op::kGemm;
  const bool trans_a = gemm && node.integer("trans_a") != 0,
             trans_b = gemm && node.integer("trans_b") != 0;
  const ir::Tensor &a = operands[0], &b = operands[1];
  const std::size_t rank_a = a.shape().rank(), rank_b = b.shape().rank();
  SumOperands out;
  out.extent.c = a.shape()[trans_a ? rank_a - 2 : rank_a - 1];
  std::vector<std::int64_t> ia(i.begin(), i.end()), ib = ia;
  ia = broadcast_index(a.shape(), ia);
  ib = broadcast_index(b.shape(), ib);
  const std::int64_t row = i[i.size() - 2], column = i[i.size() - 1];
  for (std::int64_t k = 0; k < out.extent.c; ++k) {
    ia[rank_a - 2] = trans_a ? k : row;
    ia[rank_a - 1] = trans_a ? row : k;
    ib[rank_b - 2] = trans_b ? column : k;
    ib[rank_b - 1] = trans_b ? k : column;
    out.a.push_back(a.data<float>()[offset(a.shape(), ia)]);
    out.b.push_back(b.data<float>()[offset(b.shape(), ib)]);
    out.padded.push_back(false);
  }
  if (gemm) {
    out.alpha = static_cast<float>(node.number("alpha"));
    out.beta = static_cast<float>(node.number("beta"));
    if (operands.size() == 3) {
      const std::vector<std::int64_t> ic = broadcast_index(operands[2].shape(), i);
      out.bias = operands[2].data<float>()[offset(operands[2].shape(), ic)];
    }
  }
  return out;
}

SumOperands pool_operands(const ir::Node& node, std::span<const std::int64_t> i,
                          std::span<const ir::Tensor> operands) {
  const ir::Shape& x = operands[0].shape();
  SumOperands out;
  out.products = false;
  if (node.op == Op::kGlobalAvgPool) {
    out.extent = {1, x[2], x[3]};
    add_window(out, operands[0], {i[0], i[1], 0, 0, 1, 1});
    out.count = static_cast<float>(x[2] * x[3]);
    return out;
  }
  const auto &kernel = node.ints("kernel"), &stride = node.ints("stride"), &pad = node.ints("pad");
  out.extent = {1, kernel[0], kernel[1]};
  const std::int64_t top = i[2] * stride[0] - pad[0], left = i[3] * stride[1] - pad[1];
  add_window(out, operands[0], {i[0], i[1], top, left, 1, 1});
  // The window clipped to the image, or to the image with its padding; ceil_mode's excess never
  // counts.
  const bool with_pad = node.integer("count_include_pad") != 0;
  auto clipped = [&](std::int64_t begin, std::int64_t length, std::int64_t extent,
                     std::int64_t before, std::int64_t after) {
    const std::int64_t low = with_pad ? -before : 0, high = extent + (with_pad ? after : 0);
    return std::max<std::int64_t>(0, std::min(begin + length, high) - std::max(begin, low));
  };
  out.count = static_cast<float>(clipped(top, kernel[0], x[2], pad[0], pad[2]) *
                                 clipped(left, kernel[1], x[3], pad[1], pad[3]));
  return out;
}

// One chain's running sum. T is the accumulator: float, or double for `.f64` orders.
template <class T>
class Chain {
 public:
  Chain(Arith arith, bool products, T start) : arith_(arith), products_(products), sum_(start) {}
  T sum() const { return sum_; }
  void add(T a, T b) {
    switch (arith_) {
      case Arith::kFma:
      case Arith::kF64:
        sum_ = products_ ? fma_rn(a, b, sum_) : add_rn(sum_, a);
        return;
      case Arith::kMulAdd:
      case Arith::kAdd:
        sum_ = add_rn(sum_, products_ ? mul_rn(a, b) : a);
        return;
      case Arith::kKahan: {
        const T y = sub_rn(products_ ? mul_rn(a, b) : a, error_);
        const T t = add_rn(sum_, y);
        error_ = sub_rn(sub_rn(t, sum_), y);
        sum_ = t;
        return;
      }
      case Arith::kMma:
        return;
    }
  }

 private:
  Arith arith_;
  bool products_;
  T sum_;
  T error_ = 0;
};

// The bias of gemm joins the sum only where alpha = beta = 1; elsewhere it is added after storing.
BiasPoint bias_point(const ir::ReductionOrder& order, const SumOperands& operands) {
  if (!operands.bias) return BiasPoint::kNone;
  const bool scaled = operands.alpha != 1 || operands.beta != 1;
  if (scaled || order.bias == BiasPoint::kNone) return BiasPoint::kStored;
  return order.bias;
}

// The leaves of a chain in blocks of the order's tensor core; `sum` is the running sum.
float run_blocks(const std::vector<std::int32_t>& leaves, const SumOperands& operands, float sum,
                 TreeStep step, SumTrace& out) {
  const ir::MmaSpec& mma = out.order.mma;
  const TensorCore core = *tensor_core(mma);
  const ir::Precision in = ir::operand_precision(mma);
  const auto taken = [&](float x) {
    switch (in) {
      case ir::Precision::kTf32Rna:
        return tf32_rna(x);
      case ir::Precision::kF16:
        return f16_to_f32(f32_to_f16_rne(x));
      case ir::Precision::kBF16:
        return bf16_to_f32(f32_to_bf16_rne(x));
      default:
        return tf32_trunc(x);
    }
  };
  const auto length = static_cast<std::size_t>(std::min(core.length, mma.k()));
  for (std::size_t first = 0; first < leaves.size(); first += length) {
    std::vector<float> a, b;
    for (std::size_t i = first; i < std::min(leaves.size(), first + length); ++i) {
      const bool zero = leaves[i] == SumProgram::kZeroLeaf;
      const auto p = static_cast<std::size_t>(leaves[i]);
      a.push_back(zero ? 0.0f : taken(operands.a[p]));
      b.push_back(zero ? 0.0f : taken(operands.b[p]));
      step.kind = TreeStep::Kind::kLeaf;
      step.position = leaves[i];
      step.a = a.back();
      step.b = b.back();
      step.partial = sum;
      out.steps.push_back(step);
    }
    sum = tensor_core_block(core, sum, a, b).value;
    step.kind = TreeStep::Kind::kBlock;
    step.position = static_cast<std::int32_t>(a.size());
    step.partial = sum;
    out.steps.push_back(step);
  }
  return sum;
}

template <class T>
void run(const SumProgram& program, const SumOperands& operands, BiasPoint bias, SumTrace& out) {
  std::vector<T> slots;
  for (std::size_t c = 0; c < program.chains.size(); ++c) {
    const SumProgram::Chain& chain = program.chains[c];
    const bool biased = chain.starts_with_bias && bias == BiasPoint::kFirst;
    Chain<T> running(out.order.arith, operands.products,
                     biased ? static_cast<T>(*operands.bias) : T{0});
    TreeStep step;
    step.chain = static_cast<std::int32_t>(c);
    step.kind = TreeStep::Kind::kStart;
    step.partial = running.sum();
    out.steps.push_back(step);
    out.chain_lengths.push_back(chain.leaves.size());
    if (out.order.arith == Arith::kMma) {
      slots.push_back(
          run_blocks(chain.leaves, operands, static_cast<float>(running.sum()), step, out));
      continue;
    }
    step.kind = TreeStep::Kind::kLeaf;
    for (std::int32_t position : chain.leaves) {
      const auto p = static_cast<std::size_t>(position);
      const bool zero = position == SumProgram::kZeroLeaf;
      step.position = position;
      step.a = zero ? 0.0f : operands.a[p];
      step.b = zero || !operands.products ? 0.0f : operands.b[p];
      running.add(step.a, step.b);
      step.partial = running.sum();
      out.steps.push_back(step);
    }
    slots.push_back(running.sum());
  }
  for (const SumProgram::Addition& addition : program.additions) {
    T& to = slots[static_cast<std::size_t>(addition.to)];
    to = add_rn(to, slots[static_cast<std::size_t>(addition.from)]);
    TreeStep step;
    step.kind = TreeStep::Kind::kAdd;
    step.chain = addition.to;
    step.from = addition.from;
    step.partial = to;
    out.steps.push_back(step);
  }
  auto finish = [&](std::string what, double value) {
    TreeStep step;
    step.kind = TreeStep::Kind::kFinish;
    step.what = std::move(what);
    step.partial = value;
    out.steps.push_back(step);
  };
  T sum = slots[0];
  if (bias == BiasPoint::kLast) {
    sum = add_rn(sum, static_cast<T>(*operands.bias));
    finish("+ bias", sum);
  }
  float value = static_cast<float>(sum);
  if (out.wide) finish("round to f32", value);
  if (operands.alpha != 1) finish("* alpha", value = mul_rn(operands.alpha, value));
  if (bias == BiasPoint::kStored) {
    const float addend =
        operands.beta == 1 ? *operands.bias : mul_rn(operands.beta, *operands.bias);
    finish(operands.beta == 1 ? "+ bias" : "+ beta * bias", value = add_rn(value, addend));
  }
  if (operands.count)
    finish(fmt::format("/ {}", *operands.count), value = div_rn(value, *operands.count));
  out.result = value;
}

}  // namespace

Result<SumOperands> sum_operands(const ir::Graph& graph, ir::NodeId id,
                                 std::span<const std::int64_t> index,
                                 std::span<const ir::Tensor> operands) {
  const ir::Node& node = graph.node(id);
  const std::string& name = graph.name_of(id);
  const ir::Shape& shape = graph.value(node.result).type.shape;
  bool fits = index.size() == shape.rank();
  for (std::size_t axis = 0; fits && axis < index.size(); ++axis)
    fits = index[axis] >= 0 && index[axis] < shape[axis];
  if (!fits)
    return input_error(
        fmt::format("the index does not fit '{}', which has shape {}", name, ir::to_string(shape)),
        "one index per axis, from 0, for example NODE[0,0,0,0]");
  for (const ir::Tensor& operand : operands)
    if (operand.dtype() != ir::DType::kF32)
      return input_error(fmt::format("'{}' has an operand that is not f32", name));
  if (node.op == Op::kConv2d || node.op == Op::kConv1x1Matmul)
    return conv_operands(node, index, operands);
  if (node.op == Op::kMatmul || node.op == Op::kGemm) return matrix_operands(node, index, operands);
  if (node.op == Op::kAvgPool || node.op == Op::kGlobalAvgPool)
    return pool_operands(node, index, operands);
  return input_error(fmt::format("'{}' is a {}: it has no sum", name, ir::info(node.op).name),
                     "a conv2d, matmul, gemm, avg_pool or global_avg_pool");
}

Result<SumTrace> trace_sum(const ir::ReductionOrder& order, const SumOperands& operands,
                           std::uint64_t atomic_seed) {
  if (order.arith == Arith::kMma && (!operands.products || !tensor_core(order.mma)))
    return input_error(fmt::format("'{}' fits sums of products on a tensor core that exists",
                                   ir::to_string(order)),
                       "an order of fma, muladd, kahan or f64");
  const auto flags = std::make_unique<bool[]>(operands.padded.size());
  std::copy(operands.padded.begin(), operands.padded.end(), flags.get());
  const SumProgram program =
      ir::denote(order, operands.extent, {flags.get(), operands.padded.size()}, atomic_seed);
  SumTrace out;
  out.order = order;
  out.wide = order.arith == Arith::kF64;
  const BiasPoint bias = bias_point(order, operands);
  if (out.wide)
    run<double>(program, operands, bias, out);
  else
    run<float>(program, operands, bias, out);
  return out;
}

std::optional<std::size_t> first_difference(const SumTrace& a, const SumTrace& b) {
  const std::size_t common = std::min(a.steps.size(), b.steps.size());
  for (std::size_t i = 0; i < common; ++i)
    if (a.steps[i].kind != b.steps[i].kind ||
        bits_of(a.steps[i].partial) != bits_of(b.steps[i].partial))
      return i;
  if (a.steps.size() != b.steps.size()) return common;
  return std::nullopt;
}

double sum_f64(const SumOperands& operands) {
  double sum = 0;
  for (std::size_t p = 0; p < operands.a.size(); ++p) {
    const double a = operands.a[p];
    sum = operands.products ? fma_rn(a, static_cast<double>(operands.b[p]), sum) : add_rn(sum, a);
  }
  sum = mul_rn(static_cast<double>(operands.alpha), sum);
  if (operands.bias)
    sum = fma_rn(static_cast<double>(operands.beta), static_cast<double>(*operands.bias), sum);
  return operands.count ? div_rn(sum, static_cast<double>(*operands.count)) : sum;
}

}  // namespace driftc::runtime::study
