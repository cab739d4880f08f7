// Winograd in the interpreter: against scalar loops, on data where it is exact, and within its
// bound. Kernels: tests/property/kernel_replay_test.cpp.
#include "ir/winograd.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>

#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/support/round.h"
#include "runtime/compare/bounds.h"
#include "runtime/eager/region.h"
#include "runtime/numeric/sum_problem.h"
#include "runtime/study/winograd_trace.h"
#include "tests/unit/emit_families.h"
#include "tests/unit/emit_reference.h"

using namespace driftc;
using namespace driftc::test;
using Ints = std::vector<std::int64_t>;

namespace {

runtime::ThreadPool& pool() {
  static runtime::ThreadPool instance(2);
  return instance;
}

ir::Tensor interpreted(const KernelCase& test, const std::vector<ir::Tensor>& operands) {
  runtime::Evaluator evaluator(
      test.kernel.body,
      std::vector<runtime::Recipe>(test.kernel.body.node_count(), {test.kernel.contract, 0}),
      {pool()});
  for (std::size_t i = 0; i < operands.size(); ++i)
    evaluator.know(test.kernel.body.inputs()[i], operands[i]);
  return evaluator.value(test.kernel.body.outputs()[0]);
}

// A convolution of one node under `contract`, evaluated in the type of `x`.
struct Conv {
  ir::Graph graph{"g"};
  ir::NodeId node;
  Conv(const ir::Shape& x, const ir::Shape& w, const Ints& pad, std::int64_t groups = 1) {
    const auto a = graph.add_input("x", {ir::DType::kF32, x, {}});
    const auto b = graph.add_input("w", {ir::DType::kF32, w, {}});
    ir::Builder builder(graph);
    const auto y =
        builder.add(ir::Op::kConv2d, {a, b}, {{"pad", pad}, {"groups", groups}}, "y").value();
    graph.set_outputs({y});
    node = *graph.value(y).producer;
  }
  ir::Tensor run(const std::vector<ir::Tensor>& operands, ir::Transform transform,
                 ir::Precision in = ir::Precision::kF32, const char* order = "crs.fma") const {
    return runtime::evaluate(graph, node, operands, contract(transform, in, order), {pool()});
  }
  static ir::NumericContract contract(ir::Transform transform, ir::Precision in,
                                      const char* order) {
    ir::NumericContract c;
    c.order = ir::parse_order(order).value();
    c.transform = transform;
    c.in = in;
    return c;
  }
};
ir::Tensor drawn(const ir::Shape& shape, std::uint64_t seed, Distribution distribution) {
  ir::Tensor t(ir::DType::kF32, shape);
  fill(distribution, seed, "t", t.data_mut<float>());
  return t;
}

}  // namespace

TEST_CASE("winograd: the interpreter against scalar loops, every arithmetic and form") {
  for (auto families : {algorithm_families(), all_algorithm_families()})
    for (const Family& family : families)
      for (std::uint64_t seed = 1; seed <= 2; ++seed) {
        Draw draw(seed);
        const KernelCase test = family.make(draw);
        const auto operands = test.operands(seed, Distribution::kRandom, seed == 2);
        const bool same =
            ir::same_bits(interpreted(test, operands), reference(test.kernel, operands));
        CHECK_MESSAGE(same, family.name << ", seed " << seed);
      }
}

TEST_CASE("winograd: the trace of an element ends in the interpreter's bits") {
  for (const Family& family : all_algorithm_families()) {
    Draw draw(3);
    const KernelCase test = family.make(draw);
    const ir::Node& node = *ir::reduction_node(test.kernel.body);
    if (test.kernel.contract.transform.m == 0 || test.kernel.body.node_count() > 1) continue;
    const auto operands = test.operands(7, Distribution::kRandom, false);
    const ir::Tensor y = interpreted(test, operands);
    for (std::int64_t i = 0; i < y.elements(); i += 1 + y.elements() / 23) {
      const ir::Shape& s = y.shape();
      const Ints index{i / (s[1] * s[2] * s[3]), i / (s[2] * s[3]) % s[1], i / s[3] % s[2],
                       i % s[3]};
      const auto trace = runtime::study::trace_winograd(
          test.kernel.body, *test.kernel.body.value(node.result).producer, index, operands,
          test.kernel.contract);
      const bool same =
          bits_of(trace.result) == bits_of(y.data<float>()[static_cast<std::size_t>(i)]);
      CHECK_MESSAGE(same, family.name << ", element " << i);
      CHECK(bits_of(trace.steps.back().partial) == bits_of(trace.result));
    }
  }
}

TEST_CASE("winograd: exact where every step is, whatever the tiling") {
  for (const Ints& pad : {Ints{1, 1, 1, 1}, Ints{0, 2, 1, 0}}) {
    const Conv conv({2, 6, 7, 9}, {8, 3, 3, 3}, pad, 2);
    const std::vector<ir::Tensor> integers = {drawn({2, 6, 7, 9}, 3, Distribution::kIntegers),
                                              drawn({8, 3, 3, 3}, 4, Distribution::kIntegers)};
    // F(2,3) has halves and quarters only; F(4,3) is exact on filters that its G divides.
    CHECK(ir::same_bits(conv.run(integers, {2}), conv.run(integers, {})));
    ir::Tensor filters(ir::DType::kF32, integers[1].shape());
    for (std::size_t i = 0; i < filters.data<float>().size(); ++i)
      filters.data_mut<float>()[i] = integers[1].data<float>()[i] * 576;
    const std::vector<ir::Tensor> divisible = {integers[0], filters};
    CHECK(ir::same_bits(conv.run(divisible, {4, ir::Precision::kF64}), conv.run(divisible, {})));
    CHECK(!ir::same_bits(conv.run(integers, {4}), conv.run(integers, {})));
  }
}

TEST_CASE("winograd: in f64 all forms agree to f64's accuracy") {
  const Conv conv({1, 5, 9, 6}, {4, 5, 3, 3}, {1, 1, 1, 1});
  const std::vector<ir::Tensor> operands = {
      drawn({1, 5, 9, 6}, 5, Distribution::kRandom).converted(ir::DType::kF64),
      drawn({4, 5, 3, 3}, 6, Distribution::kRandom).converted(ir::DType::kF64)};
  const ir::Tensor direct = conv.run(operands, {});
  for (int m : {2, 4}) {
    const ir::Tensor y = conv.run(operands, {m});
    for (std::int64_t i = 0; i < y.elements(); ++i) {
      // N roundings of 2^-53, times the amplification of F(4,3), over 45 products of at most 6 x 6.
      const auto at = static_cast<std::size_t>(i);
      CHECK(std::abs(y.data<double>()[at] - direct.data<double>()[at]) <
            40 * 0x1p-53 * 256 * 45 * 36);
    }
  }
}

TEST_CASE("winograd: results lie within the contract's bound, tf32 inside included") {
  const Conv conv({1, 12, 9, 10}, {6, 12, 3, 3}, {1, 1, 1, 1});
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const std::vector<ir::Tensor> operands = {
        drawn({1, 12, 9, 10}, seed, Distribution::kRandom),
        drawn({6, 12, 3, 3}, seed + 99, Distribution::kRandom)};
    std::vector<ir::Tensor> wide;
    for (const ir::Tensor& t : operands) wide.push_back(t.converted(ir::DType::kF64));
    const ir::Tensor exact = conv.run(wide, {});
    const runtime::SumProblem problem = runtime::sum_problem(conv.graph, conv.node, operands);
    for (int m : {2, 4})
      for (ir::Precision filters : {ir::Precision::kF32, ir::Precision::kF64})
        for (ir::Precision in :
             {ir::Precision::kF32, ir::Precision::kTf32Rna, ir::Precision::kTf32Trunc})
          for (const char* order : {"crs.fma", "crs.muladd", "crs.kahan", "crs.f64"}) {
            const ir::NumericContract contract = Conv::contract({m, filters}, in, order);
            const ir::Tensor y =
                runtime::evaluate(conv.graph, conv.node, operands, contract, {pool()});
            const auto settings = runtime::compare::winograd_settings(contract, 12);
            REQUIRE(settings.has_value());
            const auto bound = runtime::compare::winograd_bound(problem, ir::winograd_matrices(m),
                                                                *settings, pool());
            double most = 0;
            for (std::size_t i = 0; i < y.data<float>().size(); ++i)
              most = std::max(most, std::abs(static_cast<double>(y.data<float>()[i]) -
                                             exact.data<double>()[i]) /
                                        bound.value.data<double>()[i]);
            CAPTURE(to_string(contract));
            CHECK(most <= 1);
            CHECK(most > 1e-4);
          }
  }
}

TEST_CASE("winograd: what a kernel declares has to fit its algorithm and its convolution") {
  const auto fault = [](const std::string& algorithm, const std::string& transform,
                        const std::string& attributes, const std::string& order = "crs.fma") {
    const auto graph =
        ir::parse_graph(fmt::format(R"(gir 1
graph @g(%x: f32[1,4,8,8], %w: f32[4,4,3,3]) {{
  %y : f32[1,4,{4}] = kernel {0}(%x, %w) from=[%y]
      schedule={{block=[32,16,16], thread=[4,2], vector=1}}
      contract={{order={3}, in=f32, acc=f32, inner=f32, contract=off, ftz=off, fold=none{1}}} {{
    %y = conv2d %x, %w {2} : f32[1,4,{4}]
    yield %y
  }}
  return %y
}})",
                                    algorithm, transform, attributes, order,
                                    attributes.find("stride") == std::string::npos ? "6,6" : "3,3"),
                        "t.gir");
    if (!graph.ok()) return graph.error().message;
    const std::string text = ir::print(*graph);
    CHECK(ir::print(*ir::parse_graph(text, "t.gir")) == text);
    return std::string();
  };
  CHECK(fault("winograd4", ", transform=winograd4:f64", "") == "");
  CHECK(fault("winograd2_fused", ", transform=winograd2:f32", "") == "");
  CHECK(fault("interpreter", ", transform=winograd4:f64", "") == "");
  CHECK(
      fault("winograd4", "", "").find("algorithm winograd4 under a contract with transform none") !=
      std::string::npos);
  CHECK(fault("im2col", ", transform=winograd2:f32", "")
            .find("algorithm im2col under a contract with transform winograd2:f32") !=
        std::string::npos);
  CHECK(fault("winograd2", ", transform=winograd2:f32", "{stride=[2,2]}")
            .find("transform winograd2:f32: its stride is 2x2, not 1") != std::string::npos);
  CHECK(fault("winograd2", ", transform=winograd2:f32", "", "crs.split2.fma")
            .find("algorithm winograd2 has no order crs.split2.fma") != std::string::npos);
  CHECK(fault("winograd2", ", transform=winograd3:f32", "").find("unknown value 'winograd3:f32'") !=
        std::string::npos);
}
