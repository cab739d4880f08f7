// Verdict on outputs that some other system produced (product.md, `driftc judge`). The model gives
// what the values should be under every precision hypothesis and how far rounding may move them;
// order, algorithm and machine of the other system are unknown, so evidence is statistical or
// bounded, or replayed where the bits are those of an order.
//
// One file: is it a correct result of this model, and in which precision? Two files: is their
// difference explained?
//
// A value is accepted under a hypothesis when every element lies within z <= 6 standard deviations
// of rounding (more where healthy results on the same data go further) and, at a node whose
// operands are given, no structure shows; or when every element lies within the bound for any order
// of f32 operations and no structure shows. Specials must match. f32 names the precision where it
// accepts, else the nearest hypothesis that does; a loose one (stored 16-bit values, tf32 through
// many layers) only where no other is twice as near to most elements.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/compare/metrics.h"
#include "runtime/compare/specials.h"
#include "runtime/compare/structure.h"
#include "runtime/compare/verdict.h"
#include "runtime/study/expect.h"
#include "runtime/study/pair_run.h"

namespace driftc::runtime::study {

struct JudgeSettings {
  std::string node;  // --at: one value; "": the graph's outputs
};

// How a file's value lies to what one hypothesis expects.
struct HypothesisFit {
  std::string name;
  double max_abs = 0,
         rel_l2 =
             0;  // to the expected value, over finite elements; rel_l2 against the expected value
  double typical =
      0;  // RMS difference of the nearer three quarters of the elements that are not zero in both
  double z_rms = 0, z_max = 0;
  double limit = 6;         // of z
  std::int64_t beyond = 0;  // elements beyond it
  double bound_used = 0;    // largest |difference| / any-order bound; 0 without one
  bool accepted = false;
  compare::Evidence evidence = compare::Evidence::kNone;  // of the acceptance
};

// The smallest error of one element that is certain to be seen: twice the tolerance at that
// element.
struct Visible {
  double largest = 0, median = 0;  // at the element where the test is weakest; in the middle
  double rms = 0;                  // of the expected value
};

struct JudgedValue {
  std::string name, op;
  ir::TensorType type;              // as the file holds it
  std::vector<HypothesisFit> fits;  // of the hypotheses that were tried, in their order
  std::size_t chosen = 0;           // index into fits: that of the file
  std::string same_bits_as;         // "eager", an order, or ""
  compare::SpecialCounts specials;
  std::vector<std::string> special_words;
  std::vector<compare::Structure> structure;
  Visible visible;
  std::vector<compare::WorstElement> worst;  // eager: the file's value, reference: the expected one
  std::optional<compare::ClassChanges> classes;  // against the expected value
  bool accepted = false;
};

struct JudgedFile {
  std::string label;  // "a", "b"
  compare::Verdict verdict = compare::Verdict::kIdentical;
  compare::Evidence evidence = compare::Evidence::kNone;
  std::string precision;  // the hypothesis that explains it, or the nearest
  std::vector<compare::Cause> causes;
  std::vector<JudgedValue> values;
};

struct JudgedPair {
  compare::Verdict verdict = compare::Verdict::kIdentical;
  compare::Evidence evidence = compare::Evidence::kBits;
  std::vector<compare::Cause> causes;
  std::string words;  // one sentence
  std::vector<std::pair<std::string, compare::Metrics>> values;
  std::optional<compare::ClassChanges> classes;
};

struct JudgeReport {
  std::string graph_name, graph_hash, node;
  std::int64_t graph_nodes = 0;
  std::vector<InputReport> inputs;
  std::vector<JudgedFile> files;                            // one or two
  std::optional<JudgedPair> pair;                           // with two files
  compare::Verdict verdict = compare::Verdict::kIdentical;  // of the pair, else of the file
  compare::Evidence evidence = compare::Evidence::kNone;
  std::vector<compare::Cause> causes;
};

// `inputs`: graph inputs or, with `node`, any values; `a`, `b`: results by value name (f32, f16 or
// f64). `b` empty: one file. Errors (kInput): names that the graph does not have, shapes that do
// not fit, values that are missing.
Result<JudgeReport> judge(const ir::Graph& graph, const std::vector<NamedTensor>& inputs,
                          const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b,
                          const JudgeSettings& settings, const Services& services);

// Several results of the same values on the same inputs, each judged alone; what the model expects
// is computed once.
Result<std::vector<JudgedFile>> judge_results(const ir::Graph& graph,
                                              const std::vector<NamedTensor>& inputs,
                                              const std::vector<std::vector<NamedTensor>>& results,
                                              const JudgeSettings& settings,
                                              const Services& services);

}  // namespace driftc::runtime::study
