// One comparison per setting, one row each: which setting changes bits, by how much, and whether it
// brings the compiled arm nearer to the truth or farther away. The rows share the kernel cache, so
// a kernel that several settings use is compiled once.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/study/pair_run.h"

namespace driftc::runtime::study {

struct SweepPoint {
  std::string setting;  // "none", "fuse-pointwise", "all -contract", "rsc.fma", "64x64x8"
  PairSettings settings;
};

struct SweepRow {
  std::string setting;
  compare::Verdict verdict = compare::Verdict::kIdentical;
  compare::Evidence evidence = compare::Evidence::kBits;
  std::vector<compare::CauseKind> causes;  // distinct
  std::int64_t values = 0, values_differ = 0;
  std::uint64_t max_ulp = 0;        // over all values
  std::int64_t outputs_differ = 0;  // elements of the outputs
  // The worst output; empty without a reference.
  std::optional<compare::Distance> eager, compiled;
  Coverage coverage;
  std::optional<compare::ClassChanges> classes;
};

// `none`, every pass alone (with the passes it needs to do anything), and the mode's own set as the
// last row.
std::vector<SweepPoint> passes_sweep(const PairSettings& base);
// Every pair of passes: on alone, and off from all passes.
std::vector<SweepPoint> pairs_sweep(const PairSettings& base);
// Eager orders, replayed on the eager side; what does not fit an op leaves it at its default.
std::vector<SweepPoint> orders_sweep(const PairSettings& base,
                                     const std::vector<ir::ReductionOrder>& orders);
// Block tiles for choose-tiling.block, and its own choice (`auto`).
std::vector<SweepPoint> tiles_sweep(const PairSettings& base);

Result<std::vector<SweepRow>> run_sweep(const ir::Graph& source,
                                        const std::vector<NamedTensor>& inputs,
                                        const std::vector<SweepPoint>& points,
                                        const Services& services);
SweepRow summarise(std::string setting, const PairReport& report);

// Header line and one line per row; shortest round-trip numbers, empty cells where there is none.
std::string sweep_csv(const std::vector<SweepRow>& rows);

}  // namespace driftc::runtime::study
