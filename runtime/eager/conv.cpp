// conv2d and conv1x1_matmul: t = store(sum x*w); y = add_rn(t, bias), or the bias point of the
// order.
#include "runtime/eager/conv_sink.h"

namespace driftc::runtime {
namespace {

template <class T, class S>
ir::Tensor convolve(const OpCall& call, const SumSettings& settings) {
  const ir::Node& node = call.node;
  const ir::Shape &x = call.operand(0).shape(), &w = call.operand(1).shape(),
                  &y = call.result_shape();
  ThreadPool& pool = call.context.pool;
  const SumOperand<T> input(call.operand(0), settings.in, pool);
  const SumOperand<T> weights(call.operand(1), settings.in, pool);

  WindowSums<T> sums;
  Window& window = sums.window;
  window = {x[0], x[1], x[2], x[3]};
  window.kernel_h = w[2];
  window.kernel_w = w[3];
  window.out_h = y[2];
  window.out_w = y[3];
  if (node.op == ir::Op::kConv2d) {
    window.stride_h = node.ints("stride")[0];
    window.stride_w = node.ints("stride")[1];
    window.pad_top = node.ints("pad")[0];
    window.pad_left = node.ints("pad")[1];
    window.dilation_h = node.ints("dilation")[0];
    window.dilation_w = node.ints("dilation")[1];
    sums.groups = node.integer("groups");
  }
  sums.channels_out = w[0];
  sums.input = input.data();
  sums.weights = weights.data();

  const S* bias = call.operands.size() == 3 ? call.operand(2).template data<S>().data() : nullptr;
  SumOperand<T> start;
  if (bias != nullptr && settings.bias == ir::BiasPoint::kFirst) {
    start = SumOperand<T>(call.operand(2), ir::Precision::kF32, pool);
    sums.bias = start.data();
  }
  ir::Tensor result(call.operand(0).dtype(), y);
  const auto out = result.data_mut<S>();
  if (settings.flush) {
    ConvSink<T, S, true> sink(out, y[1], y[2] * y[3], bias, settings.bias);
    window_sums(sums, settings, call.context, sink);
  } else {
    ConvSink<T, S, false> sink(out, y[1], y[2] * y[3], bias, settings.bias);
    window_sums(sums, settings, call.context, sink);
  }
  return result;
}

}  // namespace

bool stores_before_bias(const OpCall& call, const SumSettings& settings) {
  return call.contract.store != ir::Precision::kF32 && call.operands.size() == 3 &&
         settings.bias == ir::BiasPoint::kStored && call.operand(0).dtype() == ir::DType::kF32;
}

ir::Tensor add_stored_bias(const ir::Tensor& sum, const OpCall& call) {
  const ir::Precision store = call.contract.store;
  ir::Tensor out = rounded_to(sum, store, call.context.pool);
  const ir::Tensor addend = rounded_to(call.operand(2), store, call.context.pool);
  const auto values = out.data_mut<float>();
  const std::int64_t channels = out.shape()[1], pixels = out.shape()[2] * out.shape()[3];
  for (std::int64_t i = 0; i < out.elements(); ++i) {
    float& v = values[static_cast<std::size_t>(i)];
    v = canonical(add_rn(v, addend.data<float>()[static_cast<std::size_t>(i / pixels % channels)]));
  }
  return out;
}

ir::Tensor evaluate_conv(const OpCall& call) {
  const SumSettings settings = sum_settings(call);
  if (stores_before_bias(call, settings)) {  // of a sum or of what a transform makes
    const OpCall sum{call.graph, call.node, call.operands.first(2), call.contract, call.context};
    return add_stored_bias(evaluate_conv(sum), call);
  }
  if (call.contract.transform.m != 0) return evaluate_winograd(call);
  if (call.operand(0).dtype() == ir::DType::kF64) return convolve<double, double>(call, settings);
  return settings.wide ? convolve<double, float>(call, settings)
                       : convolve<float, float>(call, settings);
}

}  // namespace driftc::runtime
