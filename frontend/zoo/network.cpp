#include "frontend/zoo/network.h"

#include "frontend/zoo/seeded.h"

namespace driftc::frontend::zoo {
namespace {

constexpr std::uint64_t kSeed = 0;
using Ints = std::vector<std::int64_t>;

std::string join(std::string_view name, const char* suffix) { return std::string(name) + suffix; }

}  // namespace

ir::ValueId Network::op(ir::Op op, std::vector<ir::ValueId> operands,
                        const ir::AttributeList& attributes, std::string_view name) {
  auto value = ir::Builder(graph_).add(op, std::move(operands), attributes, name,
                                       {"zoo:" + graph_.name(), std::string(name), 0});
  DRIFTC_ASSERT(value.ok(), value.ok() ? "" : value.error().message.c_str());
  return *value;
}

ir::ValueId Network::input(std::string name, ir::Shape shape) {
  return graph_.add_input(std::move(name), {ir::DType::kF32, std::move(shape), ir::Layout::kNchw});
}
ir::ValueId Network::weight(std::string name, ir::Shape shape) {
  auto literal = ir::Literal::random(std::move(shape), kSeed, name);
  return graph_.add_constant(std::move(name), std::move(literal));
}
ir::ValueId Network::shift(std::string name, std::int64_t count) {
  auto literal = seeded_shift(ir::Shape{count}, kSeed, name);
  return graph_.add_constant(std::move(name), std::move(literal));
}
ir::ValueId Network::scale(std::string name, std::int64_t count) {
  auto literal = seeded_scale(ir::Shape{count}, kSeed, name);
  return graph_.add_constant(std::move(name), std::move(literal));
}

ir::ValueId Network::conv(std::string_view name, ir::ValueId x, std::int64_t channels,
                          ConvOptions options) {
  const std::int64_t pad = options.pad < 0 ? options.kernel / 2 : options.pad;
  std::vector<ir::ValueId> operands = {
      x, weight(join(name, ".weight"),
                ir::Shape{channels, shape(x)[1] / options.groups, options.kernel, options.kernel})};
  if (options.bias) operands.push_back(shift(join(name, ".bias"), channels));
  return op(ir::Op::kConv2d, std::move(operands),
            {{"stride", Ints{options.stride, options.stride}},
             {"pad", Ints{pad, pad, pad, pad}},
             {"groups", options.groups}},
            name);
}
ir::ValueId Network::batch_norm(std::string_view name, ir::ValueId x) {
  const std::int64_t channels = shape(x)[1];
  const ir::ValueId weight_value = scale(join(name, ".weight"), channels);
  const ir::ValueId bias = shift(join(name, ".bias"), channels);
  const ir::ValueId mean = shift(join(name, ".running_mean"), channels);
  const ir::ValueId var = scale(join(name, ".running_var"), channels);
  return op(ir::Op::kBatchNorm, {x, weight_value, bias, mean, var}, {}, name);
}
ir::ValueId Network::relu(std::string_view name, ir::ValueId x) {
  return op(ir::Op::kRelu, {x}, {}, name);
}
ir::ValueId Network::relu6(std::string_view name, ir::ValueId x) {
  return op(ir::Op::kClip, {x}, {{"min", 0.0}, {"max", 6.0}}, name);
}
ir::ValueId Network::add(std::string_view name, ir::ValueId a, ir::ValueId b) {
  return op(ir::Op::kAdd, {a, b}, {}, name);
}
ir::ValueId Network::max_pool(std::string_view name, ir::ValueId x, std::int64_t kernel,
                              std::int64_t stride, std::int64_t pad) {
  return op(ir::Op::kMaxPool, {x},
            {{"kernel", Ints{kernel, kernel}},
             {"stride", Ints{stride, stride}},
             {"pad", Ints{pad, pad, pad, pad}}},
            name);
}
ir::ValueId Network::avg_pool(std::string_view name, ir::ValueId x, std::int64_t kernel,
                              std::int64_t stride) {
  return op(ir::Op::kAvgPool, {x},
            {{"kernel", Ints{kernel, kernel}}, {"stride", Ints{stride, stride}}}, name);
}
ir::ValueId Network::global_avg_pool(std::string_view name, ir::ValueId x) {
  return op(ir::Op::kGlobalAvgPool, {x}, {}, name);
}
ir::ValueId Network::flatten(std::string_view name, ir::ValueId x) {
  return op(ir::Op::kFlatten, {x}, {}, name);
}
ir::ValueId Network::linear(std::string_view name, ir::ValueId x, std::int64_t features) {
  const ir::ValueId w = weight(join(name, ".weight"), ir::Shape{features, shape(x)[1]});
  const ir::ValueId b = shift(join(name, ".bias"), features);
  return op(ir::Op::kGemm, {x, w, b}, {{"trans_b", std::int64_t{1}}}, name);
}
ir::ValueId Network::softmax(std::string_view name, ir::ValueId x) {
  return op(ir::Op::kSoftmax, {x}, {}, name);
}
ir::Graph Network::finish(ir::ValueId output) {
  graph_.set_outputs({output});
  return std::move(graph_);
}

}  // namespace driftc::frontend::zoo
