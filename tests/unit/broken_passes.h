// Passes that are wrong on purpose: each takes the place of a good one in a table for run_pipeline.
// Every study that claims to find bugs is held against them. The graphs they make are valid; only
// the values are wrong.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "passes/pass.h"

namespace driftc::tests {

struct BrokenPass {
  std::string_view fault;     // "stride dropped in conv1x1-as-matmul"
  std::string_view replaces;  // the name of the row
  Result<ir::Graph> (*run)(const ir::Graph&, const passes::PassContext&);
};
std::span<const BrokenPass> broken_passes();
// all_passes() with one row replaced.
std::vector<passes::PassInfo> table_with(const BrokenPass& broken);

}  // namespace driftc::tests
