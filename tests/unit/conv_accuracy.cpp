#include "tests/support/conv_accuracy.h"

#include <algorithm>
#include <cmath>

#include "ir/builder.h"
#include "ir/support/rng.h"
#include "runtime/eager/interpreter.h"
#include "tests/support/services.h"

namespace driftc::tests {
namespace {

// Uniform in [-1, 1) as C++'s uniform_real_distribution<float> draws it, two roundings: the anchors
// were measured so. The low bits of the data matter to F(2,3), whose data transform is differences:
// its single-tile figure is 6.5e-8 on multiples of 2^-23 (driftc's generator, differences mostly
// exact), 7.7e-8 here and 8.2e-8 on full significands.
void fill_uniform(std::uint64_t seed, std::string_view name, std::span<float> out) {
  const CounterRng rng(seed, name);
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<float>(static_cast<double>(rng.bits(i) >> 32) * 0x1p-32) * 2.0f - 1.0f;
}

ConvError measure(const ir::Shape& x_shape, const ir::Shape& w_shape, std::int64_t pad,
                  const ir::Transform& transform, const std::string& order, std::uint64_t seed) {
  ir::Graph graph("g");
  ir::Tensor x(ir::DType::kF32, x_shape), w(ir::DType::kF32, w_shape);
  fill_uniform(seed, "x", x.data_mut<float>());
  fill_uniform(seed, "w", w.data_mut<float>());
  ir::Builder builder(graph);
  const auto y = builder
                     .add(ir::Op::kConv2d,
                          {graph.add_input("x", {ir::DType::kF32, x_shape, {}}),
                           graph.add_input("w", {ir::DType::kF32, w_shape, {}})},
                          {{"pad", std::vector<std::int64_t>{pad, pad, pad, pad}}}, "y")
                     .value();
  const ir::NodeId node = *graph.value(y).producer;
  ir::NumericContract contract;
  contract.order = ir::parse_order(order).value();
  const runtime::EvalContext context{thread_pool()};
  const std::array wide = {x.converted(ir::DType::kF64), w.converted(ir::DType::kF64)};
  const ir::Tensor exact = runtime::evaluate(graph, node, wide, contract, context);
  contract.transform = transform;
  const std::array narrow = {x, w};
  const ir::Tensor got = runtime::evaluate(graph, node, narrow, contract, context);
  ConvError out;
  for (std::size_t i = 0; i < got.data<float>().size(); ++i) {
    const double error =
        std::abs(static_cast<double>(got.data<float>()[i]) - exact.data<double>()[i]);
    out.max = std::max(out.max, error);
    out.mean += error;
  }
  out.mean /= static_cast<double>(got.elements());
  return out;
}

}  // namespace

ConvError conv_error(const Layer& layer, const ir::Transform& transform, std::uint64_t seed,
                     const std::string& order) {
  return measure({1, layer.channels, layer.extent, layer.extent}, {8, layer.channels, 3, 3}, 1,
                 transform, order, seed);
}

double single_tile_error(int m, const ir::Transform& transform, std::uint64_t seed) {
  return measure({300, 1, m + 2, m + 2}, {200, 1, 3, 3}, 0, transform, "crs.muladd", seed).mean;
}

ErrorSummary summarise(const Layer& layer, const ir::Transform& transform, int seeds) {
  std::vector<double> maxima;
  ErrorSummary out;
  for (int seed = 0; seed < seeds; ++seed) {
    const ConvError error = conv_error(layer, transform, static_cast<std::uint64_t>(seed));
    maxima.push_back(error.max);
    out.mean += error.mean / seeds;
  }
  std::sort(maxima.begin(), maxima.end());
  const std::size_t half = maxima.size() / 2;
  out.max = maxima.size() % 2 == 1 ? maxima[half] : (maxima[half - 1] + maxima[half]) / 2;
  return out;
}

}  // namespace driftc::tests
