#include "runtime/study/cost.h"

#include <algorithm>

#include "ir/kernel.h"
#include "ir/winograd.h"
#include "passes/tiling.h"
#include "runtime/study/compile.h"
#include "runtime/study/roofline.h"

namespace driftc::runtime::study {
namespace {

struct KernelWork {
  double products = 0, transforms = 0;
};

KernelWork kernel_work(const ir::Kernel& kernel, const passes::GemmExtent& e) {
  const auto m = static_cast<double>(e.m), n = static_cast<double>(e.n),
             k = static_cast<double>(e.k), batches = static_cast<double>(e.batches);
  KernelWork out{m * n * k * batches, 0};
  if (const int tile = ir::winograd_tile(kernel.algorithm); tile != 0) {
    const ir::WinogradMatrices& wm = ir::winograd_matrices(tile);
    const ir::Node& conv = *ir::reduction_node(kernel.body);
    const ir::Shape& y = kernel.body.value(conv.result).type.shape;
    const double tiles =
        static_cast<double>(y[0] * ((y[2] + tile - 1) / tile) * ((y[3] + tile - 1) / tile));
    const double channels = k / 9;
    out.products = static_cast<double>(wm.n() * wm.n()) * tiles * n * channels * batches;
    out.transforms = batches * (n * channels * sandwich_instructions(wm.g) +
                                tiles * channels * sandwich_instructions(wm.bt) +
                                tiles * n * sandwich_instructions(wm.at));
  }
  return out;
}

double ratio(double with, double without) { return without > 0 ? with / without : 1; }

}  // namespace

Work work_of(const ir::Graph& compiled) {
  Work work;
  for (const ir::Node& node : compiled.nodes()) {
    if (node.op != ir::Op::kKernel) continue;
    const ir::Kernel& kernel = *node.kernel;
    const auto extent = passes::gemm_extent(kernel.body);
    if (!extent) continue;
    if (kernel.algorithm == ir::Algorithm::kInterpreter) {
      work.interpreted += static_cast<double>(extent->m * extent->n * extent->batches) *
                          static_cast<double>(extent->k);
      continue;
    }
    const KernelWork k = kernel_work(kernel, *extent);
    const ir::Arith arith = kernel.contract.order->arith;
    const double sums = k.products * instructions_per_product(arith);
    work.operations += sums + k.transforms;
    if (arith == ir::Arith::kF64 || kernel.contract.acc == ir::Precision::kF64) work.f64 += sums;
  }
  return work;
}

Result<std::optional<TimeEstimate>> time_against_default(const ir::Graph& source,
                                                         const ir::Graph& compiled,
                                                         const PairSettings& settings,
                                                         const Services& services) {
  const passes::Mode mode = settings.selection.mode;
  if (mode != passes::Mode::kStrict && mode != passes::Mode::kMaxAutotune)
    return std::optional<TimeEstimate>();
  PairSettings standard = settings;
  standard.deterministic = false;
  standard.faults = nullptr;
  DRIFTC_TRY(selection, passes::select_passes({.mode = "default",
                                               .passes = {},
                                               .sets = {},
                                               .fallback_named = !settings.fallback.empty(),
                                               .precision_named = !settings.precision.plain()}));
  standard.selection = selection;
  DRIFTC_TRY(other, compile(source, standard, services));
  const GraphEstimate own = estimated_seconds(compiled, settings.device),
                      theirs = estimated_seconds(other.graph, settings.device);
  return std::optional(TimeEstimate{own.seconds, theirs.seconds, own.interpreted});
}

Result<std::vector<MitigationCost>> mitigation_costs(const ir::Graph& source,
                                                     const ir::Graph& compiled,
                                                     const PairSettings& settings,
                                                     const Services& services) {
  std::vector<MitigationCost> costs;
  if (settings.selection.mode == passes::Mode::kEager) return costs;
  std::vector<std::pair<std::string, PairSettings>> without;
  const auto off = [&](const std::string& name) -> PairSettings& {
    without.emplace_back(name, settings);
    without.back().second.deterministic = false;
    return without.back().second;
  };
  const passes::PassSelection& selection = settings.selection;
  if (selection.has("match-order")) std::erase(off("match-order").selection.enabled, "match-order");
  if (selection.has("fallback") && !settings.fallback.empty()) {
    PairSettings& s = off("fallback");
    s.fallback.clear();
    std::erase(s.selection.enabled, "fallback");
  }
  if (selection.has("precision"))
    for (const auto& [node, precision] : settings.precision.nodes) {
      if (precision != ir::Precision::kF64) continue;
      off("precision " + node + "=f64").precision.nodes.erase(node);
    }
  if (selection.has("choose-tiling")) {
    const std::string& how = selection.options.get("choose-tiling.accumulate");
    if (how != "f32")
      off("accumulate=" + how).selection.options.set("choose-tiling.accumulate", "f32");
    if (selection.options.on("choose-tiling.batch-invariant"))
      off("batch-invariant").selection.options.set("choose-tiling.batch-invariant", "off");
  }
  if (without.empty()) return costs;
  const Work with = work_of(compiled);
  const double seconds = estimated_seconds(compiled, settings.device).seconds;
  for (const auto& [name, other] : without) {
    DRIFTC_TRY(graph, compile(source, other, services));
    const Work base = work_of(graph.graph);
    MitigationCost cost;
    cost.name = name;
    cost.operations = ratio(with.operations, base.operations);
    cost.time = ratio(seconds, estimated_seconds(graph.graph, settings.device).seconds);
    cost.f64 = ratio(with.f64, with.operations > 0 ? with.operations : 1);
    if (with.operations == 0) cost.f64 = 0;
    double all = 0;
    for (const ir::Node& node : compiled.nodes())
      if (node.op == ir::Op::kKernel)
        if (const auto e = passes::gemm_extent(node.kernel->body))
          all += static_cast<double>(e->m * e->n * e->batches) * static_cast<double>(e->k);
    cost.interpreted = all > 0 ? with.interpreted / all : 0;
    costs.push_back(std::move(cost));
  }
  return costs;
}

}  // namespace driftc::runtime::study
