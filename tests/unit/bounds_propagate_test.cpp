// Errors through graphs: whatever perturbation within E the inputs get, every value stays within
// its bound of the real-number graph; larger inputs' errors give larger bounds.
#include <algorithm>

#include "runtime/eager/region.h"
#include "runtime/study/propagate.h"
#include "tests/unit/exact_support.h"
#include "tests/unit/random_graph.h"

namespace driftc::test {
namespace {

using runtime::study::ErrorPropagation;
using runtime::study::ErrorTensors;
using runtime::study::NodeErrors;

struct Run {
  std::vector<ir::Tensor> values;    // by value id
  std::vector<ErrorTensors> errors;  // by value id: inherited + local
  std::vector<NodeErrors> nodes;     // by node id
};

// f32 values of the graph, and the errors that inputs' errors become.
Run propagate(const ir::Graph& graph, const std::vector<ir::Tensor>& inputs,
              const std::vector<ErrorTensors>& input_errors, runtime::ThreadPool& pool) {
  Run out;
  out.values.resize(graph.value_count());
  out.errors.resize(graph.value_count());
  out.nodes.resize(graph.node_count());
  ErrorPropagation errors(graph, pool);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    out.values[graph.inputs()[i].index] = inputs[i];
    errors.set(graph.inputs()[i], input_errors[i]);
  }
  for (std::uint32_t n = 0; n < graph.node_count(); ++n) {
    const ir::Node& node = graph.node({n});
    std::vector<ir::Tensor> operands;
    for (ir::ValueId v : node.operands) operands.push_back(out.values[v.index]);
    const ir::NumericContract contract = runtime::eager_contract(node);
    ir::Tensor& result = out.values[node.result.index];
    result = runtime::evaluate(graph, {n}, operands, contract, {pool});
    if (node.op == ir::Op::kConstant) continue;
    const auto local = runtime::study::local_error(graph, {n}, operands, result, contract, pool);
    out.nodes[n] = errors.step({n}, operands, result, local);
    out.errors[node.result.index] = errors.at(node.result);
  }
  return out;
}

ir::Tensor perturbed(const ir::Tensor& value, const ir::Tensor& bound, Chooser& pick) {
  ir::Tensor out = value.converted(ir::DType::kF64);
  ir::Tensor copy = ir::Tensor::of<double>(out.shape(), out.data<double>());
  const auto to = copy.data_mut<double>();
  for (std::size_t i = 0; i < to.size(); ++i) {
    // Mostly to one end of the interval.
    const double part = pick.chance(3) ? double{pick.symmetric()} : pick.chance(2) ? 1.0 : -1.0;
    to[i] += part * bound.data<double>()[i] * (1 - 0x1p-40);
  }
  return copy;
}

ErrorTensors constant_error(const ir::Shape& shape, double bound) {
  ErrorTensors out{ir::Tensor(ir::DType::kF64, shape), ir::Tensor(ir::DType::kF64, shape)};
  for (double& v : out.bound.data_mut<double>()) v = bound;
  for (double& v : out.variance.data_mut<double>()) v = bound * bound / 3;
  return out;
}

// |f32 value - f64 value of the perturbed graph| within the bound; the f64 arm's own errors are
// 2^-29 of what the bound counts for the f32 arm.
struct Contained {
  std::int64_t bounded = 0;
  double used = 0;  // largest part of a finite bound
};
Contained check_contained(const ir::Graph& graph, const Run& run,
                          const std::vector<ir::Tensor>& wide) {
  Contained out;
  for (std::uint32_t n = 0; n < graph.node_count(); ++n) {
    const ir::Node& node = graph.node({n});
    if (node.op == ir::Op::kConstant) continue;
    const ir::Tensor &value = run.values[node.result.index], &real = wide[node.result.index];
    const ir::Tensor& bound = run.errors[node.result.index].bound;
    for (std::size_t i = 0; i < value.data<float>().size(); ++i) {
      const double difference = std::abs(double{value.data<float>()[i]} - real.data<double>()[i]);
      if (std::isnan(difference)) continue;  // outside of what bounds promise
      const double limit = bound.defined() ? bound.data<double>()[i] : 0.0;
      INFO("node ", graph.name_of({n}), " ", ir::info(node.op).name, " element ", i, " difference ",
           difference, " bound ", limit);
      REQUIRE(difference <= limit * (1 + 0x1p-20) + 1e-300);
      if (!std::isfinite(limit)) continue;
      ++out.bounded;
      if (limit > 0) out.used = std::max(out.used, difference / limit);
    }
  }
  return out;
}

std::vector<ir::Tensor> run_wide(const ir::Graph& graph, const std::vector<ir::Tensor>& inputs,
                                 runtime::ThreadPool& pool) {
  std::vector<ir::Tensor> values(graph.value_count());
  for (std::size_t i = 0; i < inputs.size(); ++i) values[graph.inputs()[i].index] = inputs[i];
  for (std::uint32_t n = 0; n < graph.node_count(); ++n) {
    const ir::Node& node = graph.node({n});
    std::vector<ir::Tensor> operands;
    for (ir::ValueId v : node.operands) operands.push_back(values[v.index]);
    ir::Tensor result =
        runtime::evaluate(graph, {n}, operands, runtime::eager_contract(node), {pool});
    values[node.result.index] = result.converted(ir::DType::kF64);
  }
  return values;
}

TEST_CASE(
    "bounds: perturbed random graphs stay within the propagated errors, which grow with the "
    "inputs'") {
  runtime::ThreadPool pool(1);
  std::int64_t bounded = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    const ir::Graph graph = tests::random_graph(seed);
    Chooser pick(seed, "propagate");
    INFO("seed ", seed);
    std::vector<ir::Tensor> inputs;
    std::vector<ErrorTensors> errors, larger;
    const double size = std::ldexp(1.0, static_cast<int>(-pick.pick(3, 30)));
    for (ir::ValueId id : graph.inputs()) {
      const ir::Shape& shape = graph.value(id).type.shape;
      inputs.push_back(pick.tensor(shape, 0));
      errors.push_back(constant_error(shape, size));
      larger.push_back(constant_error(shape, size * 1.5));
    }
    const Run run = propagate(graph, inputs, errors, pool);
    for (int repeat = 0; repeat < 4; ++repeat) {
      std::vector<ir::Tensor> moved;
      for (std::size_t i = 0; i < inputs.size(); ++i)
        moved.push_back(perturbed(inputs[i], errors[i].bound, pick));
      bounded += check_contained(graph, run, run_wide(graph, moved, pool)).bounded;
    }
    const Run more = propagate(graph, inputs, larger, pool);
    for (std::size_t v = 0; v < graph.value_count(); ++v) {
      if (!run.errors[v].bound.defined()) continue;
      for (std::size_t i = 0; i < run.errors[v].bound.data<double>().size(); ++i) {
        REQUIRE(run.errors[v].bound.data<double>()[i] <= more.errors[v].bound.data<double>()[i]);
        REQUIRE(run.errors[v].variance.data<double>()[i] <=
                more.errors[v].variance.data<double>()[i] * (1 + 0x1p-30));
      }
    }
  }
  CHECK(bounded > 100000);
}

TEST_CASE(
    "bounds: errors of every operand of reductions, softmax, batch_norm and flatten are carried") {
  runtime::ThreadPool pool(1);
  double most = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    Chooser pick(seed, "operands");
    NodeCase c;
    const std::int64_t n = pick.pick(1, 12);
    switch (seed % 6) {
      case 0:
        c = make_node(ir::Op::kSoftmax, {pick.tensor({3, n, 2}, 0)}, {{"axis", std::int64_t{1}}});
        break;
      case 1: {
        ir::Tensor variance = pick.tensor({n}, 0);
        ir::Tensor positive(ir::DType::kF32, {n});
        for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i)
          positive.data_mut<float>()[i] = std::abs(variance.data<float>()[i]) + 0.25f;
        c = make_node(ir::Op::kBatchNorm, {pick.tensor({2, n, 3}, 0), pick.tensor({n}, 0),
                                           pick.tensor({n}, 0), pick.tensor({n}, 0), positive});
        break;
      }
      case 2:
        c = make_node(ir::Op::kFlatten, {pick.tensor({2, n, 3}, 0)});
        break;
      default:
        c = random_sum_node(pick, 0);
    }
    INFO("seed ", seed, " ", c.text);
    std::vector<ErrorTensors> errors;
    const double size = std::ldexp(1.0, static_cast<int>(-pick.pick(3, 30)));
    for (const ir::Tensor& t : c.operands)
      errors.push_back(pick.chance(3) ? constant_error(t.shape(), 0)
                                      : constant_error(t.shape(), size));
    const Run run = propagate(c.graph, c.operands, errors, pool);
    for (int repeat = 0; repeat < 6; ++repeat) {
      std::vector<ir::Tensor> moved;
      for (std::size_t i = 0; i < c.operands.size(); ++i)
        moved.push_back(perturbed(c.operands[i], errors[i].bound, pick));
      most = std::max(most, check_contained(c.graph, run, run_wide(c.graph, moved, pool)).used);
    }
  }
  CHECK(most > 0.9);
}

TEST_CASE("bounds: the variance form predicts the spread of perturbed convolutions") {
  runtime::ThreadPool pool(1);
  Chooser pick(6, "spread");
  const ir::Tensor x = pick.tensor({1, 6, 9, 9}, 0), w = pick.tensor({5, 6, 3, 3}, 0);
  const NodeCase c = make_node(ir::Op::kConv2d, {x, w});
  const double size = 0x1p-10;
  const std::vector<ErrorTensors> errors = {constant_error(x.shape(), size), ErrorTensors{}};
  const Run run = propagate(c.graph, c.operands, errors, pool);
  const ErrorTensors& predicted = run.errors[c.graph.node(c.node).result.index];
  const ir::Tensor& value = run.values[c.graph.node(c.node).result.index];
  double squares = 0;
  const auto n = static_cast<std::size_t>(value.elements());
  constexpr int kRuns = 60;
  for (int repeat = 0; repeat < kRuns; ++repeat) {
    ir::Tensor moved =
        ir::Tensor::of<double>(x.shape(), x.converted(ir::DType::kF64).data<double>());
    for (double& v : moved.data_mut<double>()) v += size * double{pick.symmetric()};
    const auto real = run_wide(c.graph, {moved, w.converted(ir::DType::kF64)},
                               pool)[c.graph.node(c.node).result.index];
    for (std::size_t i = 0; i < n; ++i) {
      const double difference = double{value.data<float>()[i]} - real.data<double>()[i];
      squares += difference * difference / predicted.variance.data<double>()[i];
    }
  }
  CHECK(std::sqrt(squares / static_cast<double>(n * kRuns)) == doctest::Approx(1).epsilon(0.05));
}

TEST_CASE("bounds: what a node inherits and makes, by hand") {
  runtime::ThreadPool pool(1);
  const auto one = [](float v) { return ir::Tensor::of<float>({1}, std::array{v}); };
  const auto step = [&](ir::Op op, const std::vector<ir::Tensor>& operands,
                        const std::vector<double>& bounds) {
    const NodeCase c = make_node(op, operands);
    std::vector<ErrorTensors> errors;
    for (double b : bounds) errors.push_back(constant_error({1}, b));
    return propagate(c.graph, c.operands, errors, pool).nodes[c.node.index];
  };
  const NodeErrors sum = step(ir::Op::kAdd, {one(1), one(2)}, {0.25, 0.5});
  CHECK(sum.inherited_max == doctest::Approx(0.75));
  CHECK(sum.local_max == 0x1p-23);
  CHECK(sum.amplification == doctest::Approx(1.5));
  CHECK(sum.inherited_sigma == doctest::Approx(std::sqrt((0.0625 + 0.25) / 3)));
  CHECK(step(ir::Op::kMul, {one(3), one(-2)}, {0.25, 0.5}).inherited_max ==
        doctest::Approx(3 * 0.5 + 2 * 0.25 + 0.125));
  CHECK(step(ir::Op::kDiv, {one(3), one(-2)}, {0.25, 0.5}).inherited_max ==
        doctest::Approx((0.25 + 0.75) / 1.5));
  CHECK(std::isinf(step(ir::Op::kDiv, {one(3), one(0.25)}, {0, 0.5}).inherited_max));
  CHECK(step(ir::Op::kRelu, {one(-1)}, {1}).inherited_max == 0);
  CHECK(step(ir::Op::kRelu, {one(-1)}, {0.5}).inherited_max == 0);
  CHECK(step(ir::Op::kRelu, {one(-1)}, {1.5}).inherited_max == doctest::Approx(1.5));
  CHECK(step(ir::Op::kRelu, {one(2)}, {0.5}).inherited_max == doctest::Approx(0.5));
  const NodeErrors exact = step(ir::Op::kRelu, {one(2)}, {0});
  CHECK(exact.inherited_max == 0);
  CHECK(exact.amplification == 0);
}

TEST_CASE(
    "bounds: local errors of elementwise ops, batch_norm and softmax hold against the f64 arm") {
  runtime::ThreadPool pool(1);
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Chooser pick(seed, "local");
    const int law = seed % 4 == 3 ? 3 : 0;
    ir::Tensor positive(ir::DType::kF32, {4});
    for (float& v : positive.data_mut<float>()) v = std::abs(pick.symmetric()) + 0.01f;
    ir::Tensor spread(ir::DType::kF32, {3, 50});
    for (float& v : spread.data_mut<float>())
      v = pick.symmetric() * (seed % 2 == 0 ? 3.0f : 120.0f);
    const NodeCase cases[] = {
        make_node(ir::Op::kMul, {pick.tensor({2, 30}, law), pick.tensor({2, 30}, 0)}),
        make_node(ir::Op::kDiv, {pick.tensor({2, 30}, law), pick.tensor({2, 30}, 0)}),
        make_node(ir::Op::kSub, {pick.tensor({2, 30}, law), pick.tensor({30}, law)}),
        make_node(ir::Op::kBatchNorm, {pick.tensor({2, 4, 6}, law), pick.tensor({4}, 0),
                                       pick.tensor({4}, law), pick.tensor({4}, law), positive}),
        make_node(ir::Op::kSoftmax, {spread}),
    };
    for (const NodeCase& c : cases) {
      INFO("seed ", seed, " ", c.text);
      const std::vector<ErrorTensors> exact(c.operands.size());
      const Run run = propagate(c.graph, c.operands, exact, pool);
      std::vector<ir::Tensor> wide;
      for (const ir::Tensor& t : c.operands) wide.push_back(t.converted(ir::DType::kF64));
      check_contained(c.graph, run, run_wide(c.graph, wide, pool));
    }
  }
}

}  // namespace
}  // namespace driftc::test
