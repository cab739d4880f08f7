// What a comparison of two arms found: numbers and names only; frontend/report renders it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/compare/metrics.h"
#include "runtime/compare/specials.h"
#include "runtime/compare/verdict.h"
#include "runtime/study/exact_study.h"
#include "runtime/study/tuning.h"

namespace driftc::runtime::study {

struct KernelReport {
  std::string name;               // entry point
  std::string value;              // the value it makes
  std::vector<std::string> from;  // source nodes
  std::string order, contract, algorithm, schedule;
  std::string source_hash, ptx_hash, nvrtc;
};
struct FallbackReport {
  std::string node, reason;
};
struct PassReport {
  std::string name;
  bool enabled = false, changed = false;
};

struct NodeReport {
  std::string name;                       // of the value
  std::string op;                         // source op that makes it
  std::string kernel;                     // entry point, or "" when interpreted
  std::vector<std::string> source_nodes;  // names
  bool materialised = true;               // false: lives only inside a fused kernel, no metrics
  ir::TensorType type;                    // shape and dtype; layout: the compiled arm's
  std::string eager_contract, compiled_contract;
  compare::Verdict verdict = compare::Verdict::kIdentical;
  compare::Evidence evidence = compare::Evidence::kBits;
  std::vector<compare::Cause> causes;
  std::string pattern;  // unexplained only: where in the value the wrong elements lie, or ""
  std::string fault;  // unexplained only: where the replay first fails ("pass fuse-epilogue: ...")
  compare::Metrics metrics;
  compare::SpecialCounts specials;  // of the compiled value, against eager's
  // Largest |difference| that came with the inputs, that was made here, and the first divided by
  // the largest difference of an input (0 when no input differs).
  double inherited = 0, local = 0, amplification = 0;
  std::optional<compare::Distance> eager_to_reference, compiled_to_reference;
  std::optional<ExactFigures> exact;  // with PairSettings::exact, and where replay proves nothing
};

struct InputReport {
  std::string name, hash, source;
  ir::TensorType type;
  double min = 0, max = 0;  // over finite elements
  std::int64_t zeros = 0, subnormals = 0, nan = 0, inf = 0;
  // Finite non-zero values that become 0 or Inf in that type.
  std::int64_t not_f16 = 0, not_bf16 = 0, not_tf32 = 0;
};
InputReport describe_input(const std::string& name, const ir::Tensor& tensor);

struct Coverage {
  std::int64_t convolutions = 0, convolutions_of = 0;  // compiled, of all
  std::int64_t nodes = 0, nodes_of = 0;
  double multiply_adds = 1;  // compiled share of all multiply-adds, 0..1
};

// A value whose bits depend on the schedule; figures against seed 0, the largest over the others.
struct ScheduleChange {
  std::string value, kernel, order;  // kernel: entry point; order: of its reduction, or ""
  bool output = false;               // of the graph
  bool atomics = false;              // its own sums are added by atomics
  bool begins_here = false;          // its operands were the same under every seed
  int schedules = 0;                 // seeds whose bits are not those of seed 0
  int distinct = 0;                  // different results, that of seed 0 included
  std::int64_t elements = 0, mismatched = 0;
  std::uint64_t max_ulp = 0;
  double max_abs = 0;
};
struct ScheduleReport {
  int schedules = 0;                    // that ran, seeds 0 .. schedules - 1
  std::vector<ScheduleChange> changed;  // in the order of the compiled graph
  std::int64_t outputs_changed = 0, outputs_of = 0;
};

// One flag turned over, everything else as it is set; against the compiled arm as it is set.
enum class AuditEffect : std::uint8_t { kPlacebo, kText, kBits, kRefused };
std::string_view name_of(AuditEffect effect);  // "placebo", "text", "bits", "refused"
struct ArmHashes {
  std::string ir, source, ptx, bits;  // compiled graph, CUDA text and PTX of its kernels, outputs
};
struct AuditRow {
  std::string flag;      // a pass, or an option as "pass.option"
  std::string from, to;  // "on" and "off", or values of the option
  ArmHashes hashes;      // flipped
  std::string refused;   // why the flipped settings do not compile; the rest is empty then
  AuditEffect effect = AuditEffect::kPlacebo;
  std::int64_t values = 0, values_changed = 0;  // source values that both arms materialise
  std::int64_t elements = 0, mismatched = 0;    // of the graph's outputs
  std::uint64_t max_ulp = 0;                    // over the outputs, as the next two
  double max_abs = 0, rel_l2 = 0;
};
struct KnobAudit {
  bool repeatable = true;      // the same settings twice gave the same IR, source, PTX and bits
  std::string first_change;    // otherwise: the first value whose bits differ, "" when a text does
  ArmHashes hashes;            // of the arm as it is set
  std::int64_t values = 0;     // source values that were compared between the two runs
  std::vector<AuditRow> rows;  // none unless repeatable
};

// What a mitigation costs against the same settings without it. Estimated (study/cost.h).
struct MitigationCost {
  std::string name;        // match-order, fallback, accumulate=kahan, ...
  double operations = 1;   // of compiled sums and transforms: with / without
  double time = 1;         // of the compiled kernels on the device: with / without
  double f64 = 0;          // share of the operations that are in f64
  double interpreted = 0;  // share of all multiply-adds that run in the interpreter
};

// Time of the compiled kernels on the device, from a model (roofline.h): estimated.
struct TimeEstimate {
  double seconds = 0, default_seconds = 0;  // of the settings, and of mode default
  int interpreted = 0;                      // nodes that run in the interpreter: not counted
};

struct PairReport {
  std::string graph_name, graph_hash;
  std::int64_t graph_nodes = 0;
  std::vector<InputReport> inputs;
  std::vector<PassReport> passes;
  std::vector<KernelReport> kernels;
  std::vector<FallbackReport> fallbacks;
  std::vector<FallbackReport> refusals;  // kernels that are not computed as choose-algorithm asked
  Coverage coverage;
  compare::Verdict verdict = compare::Verdict::kIdentical;
  compare::Evidence evidence = compare::Evidence::kBits;
  std::vector<compare::Cause> causes;  // of all nodes, merged, without `upstream`
  std::string fault_pass;  // unexplained: the first pass whose graph no longer replays, or ""
  std::optional<compare::ClassChanges> classes;
  std::optional<ScheduleReport> schedules;     // --schedules
  std::optional<KnobAudit> audit;              // --audit
  std::vector<MitigationCost> mitigations;     // that are on
  std::optional<TimeEstimate> time;            // modes strict and max-autotune
  std::vector<TunedKernelReport> tuned;        // mode max-autotune
  std::vector<NodeReport> nodes;               // in source order, materialised or not; no constants
  std::vector<NodeReport> outputs;             // of the graph, in their order
  std::string eager_order;                     // "default", an order, or "declared"
  std::int64_t values = 0, values_differ = 0;  // materialised values, and those that differ
  std::uint64_t max_ulp = 0;                   // over them
  std::size_t kernels_compiled = 0;            // by NVRTC in this run
  double seconds_compile = 0, seconds_run = 0;  // wall time, shown only with --timings
};

}  // namespace driftc::runtime::study
