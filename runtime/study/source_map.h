// How a compiled graph relates to the source graph it came from: which source values it
// materialises, which kernel covers which source node, and under which contract each source node is
// computed in either arm. This is all that source replay needs (architecture.md, "What a proof
// proves").
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "ir/kernel.h"
#include "runtime/eager/region.h"

namespace driftc::runtime::study {

struct Materialised {
  ir::ValueId source;   // the value in the source graph
  ir::NodeId producer;  // the node of the compiled graph that makes it
  // Source values (graph inputs or materialised ones) at which replay of this value stops.
  std::vector<ir::ValueId> boundary;
};

struct SourceMap {
  std::vector<Materialised> values;                   // in the order of the compiled graph
  std::vector<Recipe> eager_recipes;                  // by source node
  std::vector<Recipe> compiled_recipes;               // by source node
  std::vector<std::optional<ir::NodeId>> covered_by;  // by source node: node of the compiled graph
  std::vector<std::vector<ir::NodeId>> covers;  // by compiled node: the source nodes it covers
  // By source value: the last index in `values` that reads it (as boundary or as itself), if any.
  std::vector<std::optional<std::size_t>> last_use;
};

// `compiled` may be any stage of the pipeline, before or after kernels are formed. `eager` gives
// the contract of a source node run eagerly.
SourceMap map_to_source(const ir::Graph& source, const ir::Graph& compiled,
                        std::span<const ir::NumericContract> eager_contracts);

// The contract under which a node of a stage is computed: a kernel's own, or what an op node before
// form-kernels stands for (the op's default order, its fold attribute).
ir::NumericContract stage_contract(const ir::Node& node);

// Eager's contract of every node: the one that `given` has for its value, else the op's default
// order, or `chosen` where it fits.
std::vector<ir::NumericContract> eager_contracts(
    const ir::Graph& source, const std::optional<ir::ReductionOrder>& chosen,
    const std::map<std::string, ir::NumericContract>& given = {});

// `kernel`'s contract as it applies to the source node `node`: an order only for a reduction, a
// matmul's walk `k` read as `crs` for the 1x1 convolution it came from, no bias point without a
// bias.
ir::NumericContract contract_for(const ir::Graph& source, const ir::Node& node,
                                 const ir::NumericContract& kernel,
                                 const ir::NumericContract& eager);

}  // namespace driftc::runtime::study
