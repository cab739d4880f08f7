// What a pass is: a row of the table in registry.cpp, a function from graph to graph, and what it
// may do to bits. Passes keep no state; everything they read is in the graph, in PassContext and in
// their options.
//
// The invariant that proofs rest on: a value of the rewritten graph that has the name of a value of
// the source graph denotes the same mathematical value. New values get fresh names. Every node
// lists in `from` the source nodes whose work it does. Graph inputs and outputs keep their names,
// types and NCHW storage.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "ir/kernel.h"
#include "ir/precision.h"
#include "passes/kernel_choice.h"

namespace driftc::passes {

// What a pass may do to bits, its output graph compared with its input graph. BitExact: nothing.
enum class NumericEffect : std::uint8_t {
  kBitExact,
  kReassociates,
  kContracts,
  kChangesPrecision,
  kChangesAlgorithm,
  kChangesRounding,
  kChangesSpecials,
};
std::string_view name_of(NumericEffect effect);  // "BitExact", "Reassociates", ...

// Graph passes see plain op nodes; then `form-kernels` wraps them; kernel passes see kernel nodes.
enum class Phase : std::uint8_t { kGraph, kKernel };

// An option of a pass. `accepts` lists alternatives separated by '|': words, or the placeholders
// COUNT (an integer from 1 to 1048576), MxNxK (three of them) and "NODE,..." (names of source nodes
// with commas between; the pass checks them).
struct OptionSpec {
  std::string_view name, fallback, accepts, doc;
};

// Values of options by "pass.option"; what is not set has its default. Asking for an unknown key
// asserts.
class Options {
 public:
  const std::string& get(const std::string& key) const;
  bool on(const std::string& key) const { return get(key) == "on"; }
  std::optional<int> count(const std::string& key) const;  // empty: not a number ("auto")
  void set(std::string key, std::string value) { values_[std::move(key)] = std::move(value); }
  const std::map<std::string, std::string>& values() const { return values_; }

 private:
  std::map<std::string, std::string> values_;
};

// Computes one node from the values of its operands exactly as eager would (the interpreter).
using Evaluator =
    std::function<Result<ir::Tensor>(const ir::Graph&, ir::NodeId, std::span<const ir::Tensor>)>;

struct PassContext {
  const ir::Graph* source = nullptr;  // the graph as imported; run_pipeline sets it when null
  Evaluator evaluate;                 // empty: fold-constants does nothing
  int sm_count = 132;                 // of the device profile
  std::optional<ir::ReductionOrder> eager_order;  // --eager-order; empty: each op's default
  ir::PrecisionPlan precision;                    // --precision: of the compiled arm
  ir::PrecisionPlan eager_precision;              // of the eager arm
  std::vector<std::string> fallback;              // --fallback: source nodes that stay eager
  bool match_order = false;                       // match-order will run; set by run_pipeline
  // What a tuner chose, for options that say `tuned`; null: nothing, such options change nothing.
  const KernelChoices* tuned = nullptr;
  Options options;
};

// Where a pass is on without being named: in a mode's preset, in `--passes=all`.
struct Presets {
  // standard: default and reduce-overhead; tuned: max-autotune
  bool strict = false, standard = false, tuned = false, all = false;
};

struct PassInfo {
  std::string_view name, doc;
  Phase phase;
  NumericEffect effect;
  std::string_view effect_note;  // the condition, where the effect has one
  std::string_view mirrors;      // what it stands for in PyTorch, beside the names of inductor.def
  Presets on_in;
  std::span<const OptionSpec> options;
  Result<ir::Graph> (*run)(const ir::Graph&, const PassContext&);
};

}  // namespace driftc::passes
