// From a source graph to the compiled graph: the pass pipeline with the study's settings.
#pragma once

#include "passes/pipeline.h"
#include "runtime/study/tune.h"

namespace driftc::runtime::study {

struct CompiledGraph {
  ir::Graph graph;
  std::vector<passes::PassTrace> traces;
  std::vector<TunedKernelReport> tuned;  // mode max-autotune
};

// `on_stage` (optional) sees the graph after each pass that ran, by pass name.
Result<CompiledGraph> compile(
    const ir::Graph& source, const PairSettings& settings, const Services& services,
    const std::function<void(std::string_view, const ir::Graph&)>& on_stage = {});

// The inputs in the order of the graph, checked for names, types and shapes.
Result<std::vector<NamedTensor>> bind_inputs(const ir::Graph& source,
                                             const std::vector<NamedTensor>& inputs);

}  // namespace driftc::runtime::study
