// Runs the selected passes in table order, `form-kernels` between graph and kernel passes, and
// keeps a trace. Every graph that a pass changed is verified; a fault is driftc's own (exit 4) and
// names the pass.
#pragma once

#include "passes/selection.h"

namespace driftc::passes {

struct PassTrace {
  std::string name;
  bool enabled = false, changed = false;
  NumericEffect effect = NumericEffect::kBitExact;
};

struct PipelineOptions {
  std::string stop_after;  // a pass of the table, or form-kernels; "": run all
  // Called after every step that ran, with the graph it left (--print-after, bisecting).
  std::function<void(const PassTrace&, const ir::Graph&)> after_pass;
};

struct PipelineResult {
  ir::Graph graph;
  std::vector<PassTrace> trace;  // the whole table and form-kernels, also what did not run
};

// `table` is all_passes() but in tests that plant faults. form-kernels always runs, unless stopped
// before.
Result<PipelineResult> run_pipeline(const ir::Graph& graph, const PassSelection& selection,
                                    const PassContext& context, const PipelineOptions& options = {},
                                    std::span<const PassInfo> table = all_passes());

// Exactly the named passes with context.options, for filetests; form-kernels runs only when it or a
// kernel pass is named.
Result<PipelineResult> run_listed(const ir::Graph& graph, const std::vector<std::string>& names,
                                  const PassContext& context,
                                  std::span<const PassInfo> table = all_passes());

}  // namespace driftc::passes
