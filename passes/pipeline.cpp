#include "passes/pipeline.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/verifier.h"
#include "passes/fallback.h"
#include "passes/form_kernels.h"
#include "passes/rewrite.h"

namespace driftc::passes {
namespace {

class Run {
 public:
  Run(const ir::Graph& graph, const PipelineOptions& options) : options_(options) {
    result_.graph = graph;
  }

  Result<void> step(std::string_view name, NumericEffect effect, bool enabled,
                    const std::function<Result<ir::Graph>(const ir::Graph&)>& run) {
    PassTrace trace{std::string(name), enabled && !stopped_, false, effect};
    if (trace.enabled) {
      DRIFTC_TRY(next, run(result_.graph));
      trace.changed = !same_graph(next, result_.graph);
      if (trace.changed) {
        DRIFTC_CHECK(check(name, next));
        result_.graph = std::move(next);
      }
      if (options_.after_pass) options_.after_pass(trace, result_.graph);
    }
    result_.trace.push_back(std::move(trace));
    if (name == options_.stop_after) stopped_ = true;
    return {};
  }

  PipelineResult take() { return std::move(result_); }

 private:
  Result<void> check(std::string_view name, const ir::Graph& graph) const {
    auto verified = ir::verified(graph);
    if (verified.ok()) return {};
    Diagnostic fault = verified.error();
    fault.kind = ErrorKind::kInternal;
    fault.place = {};
    fault.message = fmt::format("pass {} made a graph that is not valid: {}", name, fault.message);
    fault.hint = fmt::format(
        "--passes=-{} goes around it; --print-after=all shows the last good graph", name);
    return fault;
  }

  const PipelineOptions& options_;
  PipelineResult result_;
  bool stopped_ = false;
};

Result<PipelineResult> run_steps(const ir::Graph& graph, const PassSelection& selection,
                                 const PassContext& given, const PipelineOptions& options,
                                 std::span<const PassInfo> table, bool with_kernels) {
  if (!options.stop_after.empty() && options.stop_after != kFormKernels &&
      find_pass(table, options.stop_after) == nullptr)
    return input_error(fmt::format("unknown pass '{}'", options.stop_after),
                       name_hint(options.stop_after, pass_names(table)));
  PassContext context = given;
  if (context.source == nullptr) context.source = &graph;
  context.match_order = selection.has("match-order");
  if (!selection.has("fallback")) context.fallback.clear();
  // Before any pass could remove a named node.
  DRIFTC_CHECK(check_fallback_names(*context.source, context.fallback));

  Run run(graph, options);
  bool formed = !with_kernels;
  const auto form = [&]() -> Result<void> {
    formed = true;
    return run.step(kFormKernels, NumericEffect::kBitExact, true, [&](const ir::Graph& g) {
      return Result<ir::Graph>(form_kernels(g, context));
    });
  };
  for (const PassInfo& pass : table) {
    if (pass.phase == Phase::kKernel && !formed) DRIFTC_CHECK(form());
    DRIFTC_CHECK(run.step(pass.name, pass.effect, selection.has(pass.name),
                          [&](const ir::Graph& g) { return pass.run(g, context); }));
  }
  if (!formed) DRIFTC_CHECK(form());
  return run.take();
}

}  // namespace

Result<PipelineResult> run_pipeline(const ir::Graph& graph, const PassSelection& selection,
                                    const PassContext& context, const PipelineOptions& options,
                                    std::span<const PassInfo> table) {
  PassContext with_options = context;
  with_options.options = selection.options;
  return run_steps(graph, selection, with_options, options, table, true);
}

Result<PipelineResult> run_listed(const ir::Graph& graph, const std::vector<std::string>& names,
                                  const PassContext& context, std::span<const PassInfo> table) {
  DRIFTC_TRY(selection, select_listed(names, table));
  const bool kernels = std::ranges::find(names, kFormKernels) != names.end() ||
                       std::ranges::any_of(selection.enabled, [&](const std::string& name) {
                         return find_pass(table, name)->phase == Phase::kKernel;
                       });
  return run_steps(graph, selection, context, {}, table, kernels);
}

}  // namespace driftc::passes
