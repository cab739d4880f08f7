// What certify puts to the test: kinds of kernels (precision, unit, algorithm), each with the
// passes whose result faults are planted in and the harmless variants that nobody may accuse.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/compare/verdict.h"
#include "runtime/numeric/hypothesis.h"
#include "runtime/study/pair_run.h"

namespace driftc::runtime::study {

struct CertifyVariant {
  const char* passes;
  const char* sets = "";         // --set, separated by spaces
  const char* eager_order = "";  // with no passes, kernels take eager's order
  bool other_accumulator = false;
  std::uint64_t schedule_seed = 0;  // order of atomics
  const char* mode = "";            // "max-autotune": what its tuner chooses
  const char* device = "";          // "": that of the family
  // The tuner's choice is the candidate in this place among those that hold (the last where there
  // are fewer), as a stopwatch might have it that measures otherwise.
  int place = 0;
};

// "max-autotune -choose-algorithm, t4, place 1": what it has set, for messages.
std::string to_string(const CertifyVariant& variant);

struct CertifyFamily {
  std::string_view name;   // "tf32:rna, tensor cores"
  std::string_view group;  // column of the table: "f32", "tf32", "tensor cores", ...
  // Operands rounded by integer operations and summed by chains in f32; kF32: none.
  ir::Precision operands = ir::Precision::kF32;
  const char* precision = "";                           // --precision of the compiled arm
  const char* device = "";                              // "": that of the settings
  compare::Verdict allowed = compare::Verdict::kOrder;  // of harmless variants, at worst
  Hypothesis matched = Hypothesis::kF32;  // of the reference that `bounds` of a miss count from
  int winograd = 0;
  // Beginnings of the names under which the judge may accept a harmless result.
  std::vector<std::string_view> judged;
  // The judge has to find every fault; else those of more than twice the accumulation bound.
  bool every_fault = false;
  CertifyVariant base;
  std::vector<CertifyVariant> variants;
  std::vector<int> models;  // of certify_model
};
std::span<const CertifyFamily> certify_families();
// Those called like one of `parts`, or whose name or group contains it where none is called so; all
// of them when there are no parts.
Result<std::vector<const CertifyFamily*>> chosen_families(const std::vector<std::string>& parts);

// What tuners know, by device and place: a problem is tuned once for all variants, models and
// faults, and always before a fault is planted.
using Tunings = std::map<std::pair<std::string, int>, std::shared_ptr<Tuning>>;

// Settings of one variant: passes, orders, precision and device; no faults yet.
Result<PairSettings> certify_settings(const CertifyFamily& family, const CertifyVariant& variant,
                                      const DeviceProfile& device, Tunings& tunings);
// Rounds operands of the kernels of a graph after the passes, as the family says.
void round_operands(ir::Graph& graph, const CertifyFamily& family);

}  // namespace driftc::runtime::study
