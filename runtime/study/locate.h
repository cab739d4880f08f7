// Where a failed source replay comes from (architecture.md, "Kernel replay only locates").
// Every stage of the pipeline is run by the interpreter under its own contracts and held against
// the source graph under those same contracts: the first stage that differs names a wrong pass. If
// no stage differs, the graph is right and the fault lies in lowering, CUDA text or execution.
#pragma once

#include <map>
#include <string>

#include "runtime/study/pair_run.h"

namespace driftc::runtime::study {

struct FaultLocation {
  std::string first_wrong_pass;                 // "" when every stage replays
  std::map<std::string, std::string> by_value;  // value -> the first pass after which it is wrong
  std::string describe(const std::string& value) const;
};

Result<FaultLocation> locate(const ir::Graph& source, const std::vector<NamedTensor>& inputs,
                             const PairSettings& settings, const Services& services);

}  // namespace driftc::runtime::study
