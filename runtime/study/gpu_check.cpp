#include "runtime/study/gpu_check.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "ir/parser.h"
#include "ir/support/rng.h"
#include "runtime/compare/metrics.h"
#include "runtime/cuda/mma_vectors.h"
#include "runtime/study/compile.h"
#include "runtime/study/compiled_arm.h"
#include "runtime/study/judge.h"

namespace driftc::runtime::study {
namespace {

Result<std::vector<double>> run_plan(CompiledArm& arm, bool as_graph,
                                     const std::vector<ir::Tensor>& inputs,
                                     const std::vector<ir::Tensor>& wanted, int timed_runs,
                                     NetworkCheck& out) {
  DRIFTC_TRY(plan, arm.plan(as_graph));
  if (plan == nullptr) return std::vector<double>{};
  out.planned = true;
  out.launches = plan->launches();
  DRIFTC_TRY(outputs, plan->run(inputs));
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i].defined() && wanted[i].defined() && !ir::same_bits(outputs[i], wanted[i]))
      ++out.plan_outputs_wrong;
  return plan->time(timed_runs);
}

std::int64_t count_different(const ir::Tensor& a, const ir::Tensor& b) {
  if (a.dtype() == ir::DType::kF32 && b.dtype() == ir::DType::kF32)
    return compare::measure(a, b, nullptr, 0).mismatched;
  return ir::same_bits(a, b) ? 0 : a.shape().elements();
}

std::string hex(std::uint32_t bits) { return fmt::format("0x{:08X}", bits); }

bool is_nan(std::uint32_t bits) { return std::isnan(std::bit_cast<float>(bits)); }

}  // namespace

Result<NetworkCheck> check_network(const ir::Graph& source, const std::vector<NamedTensor>& inputs,
                                   const PairSettings& settings,
                                   std::shared_ptr<cuda::CudaExecutor> gpu,
                                   const Services& services, int timed_runs) {
  DRIFTC_TRY(bound, bind_inputs(source, inputs));
  PairSettings here = settings, there = settings;
  here.executor = nullptr;
  there.executor = gpu;
  DRIFTC_TRY(compiled, compile(source, settings, services));
  const ir::Graph& graph = compiled.graph;
  DRIFTC_TRY(on_cpu, CompiledArm::prepare(graph, here, services));
  DRIFTC_TRY(on_gpu, CompiledArm::prepare(graph, there, services));
  std::vector<ir::Tensor> given;
  for (std::size_t i = 0; i < bound.size(); ++i) {
    given.push_back(bound[i].tensor);
    on_cpu->set_input(graph.inputs()[i], bound[i].tensor);
    on_gpu->set_input(graph.inputs()[i], bound[i].tensor);
  }
  NetworkCheck out;
  std::vector<ir::Tensor> outputs(graph.outputs().size());
  for (std::size_t i = 0; i < graph.node_count(); ++i) {
    const ir::NodeId id{static_cast<std::uint32_t>(i)};
    const ir::Node& node = graph.node(id);
    if (node.op == ir::Op::kConstant) continue;
    DRIFTC_TRY(expected, on_cpu->run(id));
    DRIFTC_TRY(made, on_gpu->run(id));
    on_gpu->set_value(node.result, expected);
    for (std::size_t o = 0; o < outputs.size(); ++o)
      if (graph.outputs()[o] == node.result) outputs[o] = expected;
    if (!on_gpu->is_compiled(id)) continue;
    ++out.kernels;
    out.elements += expected.shape().elements();
    const std::int64_t wrong = count_different(expected, made);
    out.mismatched += wrong;
    if (wrong != 0 && out.first_wrong.empty())
      out.first_wrong = fmt::format("%{} of {}: {} of {} elements", graph.name_of(id),
                                    on_gpu->kernel_name(id), wrong, expected.shape().elements());
  }
  DRIFTC_TRY(plan_ms, run_plan(*on_gpu, false, given, outputs, timed_runs, out));
  DRIFTC_TRY(graph_ms, run_plan(*on_gpu, true, given, outputs, timed_runs, out));
  out.plan_ms = plan_ms;
  out.graph_ms = graph_ms;
  return out;
}

Result<VectorCheck> check_vectors(const TcVectors& group, cuda::Gpu& gpu) {
  VectorCheck out;
  out.what = fmt::format("{}, {} accumulator, k = {}", group.source,
                         group.accumulator == TcAccumulator::kF32 ? "f32" : "f16", group.k);
  DRIFTC_TRY(made, cuda::run_vectors(gpu, group));
  for (std::size_t i = 0; i < made.size(); ++i) {
    const TcVector& v = group.vectors[i];
    if (v.open) {
      out.recorded.push_back(
          fmt::format("{}: {}, the model says {}", v.name, hex(made[i]), hex(v.expected)));
      continue;
    }
    ++out.vectors;
    if (made[i] == v.expected || (is_nan(made[i]) && is_nan(v.expected))) continue;
    ++out.mismatched;
    if (out.first_wrong.empty())
      out.first_wrong = fmt::format("{}: {} instead of {}", v.name, hex(made[i]), hex(v.expected));
  }
  return out;
}

Result<ir::Graph> convolution_graph(const cuda::ConvProblem& p) {
  const std::string text = fmt::format(
      "gir 1\ngraph @convolution(%x: f32{}) {{\n  %w = constant f32{} random(seed=1, he)\n"
      "  %y = conv2d %x, %w {{stride=[{},{}], pad=[{},{},{},{}], dilation=[{},{}], groups={}}} : "
      "f32{}\n  return %y\n}}\n",
      ir::to_string(ir::Shape(p.x)), ir::to_string(ir::Shape(p.w)), p.stride[0], p.stride[1],
      p.pad[0], p.pad[1], p.pad[0], p.pad[1], p.dilation[0], p.dilation[1], p.groups,
      ir::to_string(ir::Shape(p.y)));
  return ir::parse_graph(text, "convolution.gir");
}

Result<SumTree> reveal_convolution(const cuda::ConvProblem& p,
                                   cuda::CudnnConvolution& convolution) {
  const std::int64_t row = p.y[2] / 2, column = p.y[3] / 2;
  const std::int64_t top = row * p.stride[0] - p.pad[0], left = column * p.stride[1] - p.pad[1];
  if (top < 0 || left < 0 || top + (p.w[2] - 1) * p.dilation[0] >= p.x[2] ||
      left + (p.w[3] - 1) * p.dilation[1] >= p.x[3])
    return input_error("no output whose window lies inside the input");
  const std::int64_t taps = p.w[2] * p.w[3], n = p.w[1] * taps;
  ir::Tensor x(ir::DType::kF32, ir::Shape(p.x)), w(ir::DType::kF32, ir::Shape(p.w));
  for (float& v : w.data_mut<float>()) v = 1;
  // Summand i is channel, tap row, tap column of output channel 0, image 0.
  auto at = [&](std::int64_t i) -> float& {
    const std::int64_t h = top + i % taps / p.w[3] * p.dilation[0];
    const std::int64_t v = left + i % p.w[3] * p.dilation[1];
    return x.data_mut<float>()[static_cast<std::size_t>((i / taps * p.x[2] + h) * p.x[3] + v)];
  };
  for (std::int64_t i = 0; i < n; ++i) at(i) = 1;
  constexpr int kMostRuns = 20000;  // a reversed chain takes n^2 / 2
  int ran = 0;
  return reveal_tree(n, [&](std::int64_t i, std::int64_t j) -> Result<double> {
    if (++ran > kMostRuns) return input_error(fmt::format("not found in {} runs", kMostRuns));
    at(i) = 0x1p127f;
    at(j) = -0x1p127f;
    auto y = convolution.run(x, w);
    at(i) = at(j) = 1;
    if (!y) return y.error();
    return static_cast<double>(y->data<float>()[static_cast<std::size_t>(row * p.y[3] + column)]);
  });
}

Result<ConvolutionCheck> check_convolution(const cuda::ConvProblem& problem,
                                           cuda::CudnnExecutor& cudnn, const PairSettings& settings,
                                           std::shared_ptr<cuda::CudaExecutor> gpu,
                                           const Services& services, int timed_runs) {
  DRIFTC_TRY(graph, convolution_graph(problem));
  DRIFTC_TRY(convolution, cudnn.convolution(problem, {}));
  ir::Tensor x(ir::DType::kF32, ir::Shape(problem.x));
  fill(Distribution::kRandom, 1, "x", x.data_mut<float>());
  const ir::Tensor& w =
      graph.producer(graph.producer(graph.outputs()[0])->operands[1])->literal->tensor();
  ConvolutionCheck out;
  out.choice = convolution.choice();
  DRIFTC_TRY(theirs, convolution.run(x, w));
  DRIFTC_TRY(theirs_ms, convolution.time(timed_runs));
  out.cudnn_ms = theirs_ms;
  PairSettings there = settings;
  there.executor = gpu;
  DRIFTC_TRY(compiled, compile(graph, there, services));
  DRIFTC_TRY(arm, CompiledArm::prepare(compiled.graph, there, services));
  DRIFTC_TRY(plan, arm->plan(false));
  DRIFTC_ASSERT(plan != nullptr, "a convolution with constant weights has a plan");
  DRIFTC_TRY(ours, plan->run(std::span(&x, 1)));
  DRIFTC_TRY(ours_ms, plan->time(timed_runs));
  out.ours_ms = ours_ms;
  DRIFTC_TRY(judged, judge(graph, {{"x", x}}, {{"y", theirs}}, {{"y", ours[0]}}, {}, services));
  out.verdict = judged.verdict;
  out.evidence = judged.evidence;
  out.precision = judged.files[0].precision;
  if (judged.pair) out.words = judged.pair->words;
  const auto tree = reveal_convolution(problem, convolution);
  out.order = tree.ok() ? shape_of(*tree) : tree.error().message;
  return out;
}

}  // namespace driftc::runtime::study
