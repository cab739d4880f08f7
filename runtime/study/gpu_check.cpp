#include "runtime/study/gpu_check.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "runtime/compare/metrics.h"
#include "runtime/cuda/mma_vectors.h"
#include "runtime/study/compile.h"
#include "runtime/study/compiled_arm.h"

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

}  // namespace driftc::runtime::study
