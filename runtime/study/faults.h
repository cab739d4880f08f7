// The catalogue of faults that certify plants, one row per kind and level, and the small models
// they are planted in.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/study/pair_run.h"

namespace driftc::runtime::study {

// Models of one level of sums (their accumulation bounds need no propagation through a second
// rounding of operands), with tails in every extent, batch above 1, bias, residual and rectifier.
constexpr int kCertifyShapes = 6;
struct CertifyModel {
  std::string name;
  ir::Graph graph;
  std::vector<NamedTensor> inputs;
};
CertifyModel certify_model(int shape, std::uint64_t seed);

struct FaultKind {
  std::string name;   // "last k dropped"
  std::string level;  // "CUDA text"
  // Hooks that plant it once, in the first kernel it applies to, and then set `*applied`. A kind
  // may apply to no kernel of a model, or change nothing there: such runs do not count.
  std::function<Faults(std::shared_ptr<bool> applied)> plant;
  bool nan_input = false;    // the input holds a NaN
  bool sanitizer = false;    // run in the executor's sanitizer mode; may change no bits
  bool declaration = false;  // what runs is right: only source replay can object
};
const std::vector<FaultKind>& fault_kinds();
// Kinds whose name or level contains one of `parts`; all of them when there are no parts.
Result<std::vector<const FaultKind*>> chosen_faults(const std::vector<std::string>& parts);

}  // namespace driftc::runtime::study
