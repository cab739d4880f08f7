// The tuner of mode max-autotune. For each distinct convolution or matmul kernel of a graph it
// enumerates algorithm x tile x split candidates, ranks them by a roofline, compiles the best few,
// runs each on a cropped problem and drops what source replay does not reproduce bit for bit; the
// fastest of the rest is the choice. Time is an estimate (roofline.h) with the registers and shared
// memory that ptxas reports, or measured where the executor has a device (Executor::plan).
//
// Deterministic: the same problem, device and compiler give the same choice, for any number of
// threads. Times are compared in whole nanoseconds; of two equal ones the candidate that comes
// first counts: the kernel as the other passes left it, then algorithms in the order of
// ir::Algorithm, then smaller tiles and fewer slices.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "passes/kernel_choice.h"
#include "runtime/study/pair_run.h"

namespace driftc::runtime::study {

struct TunedCandidate {
  passes::KernelChoice choice;
  double microseconds = 0;
  double error = 0;     // rel_l2 to f64 on the cropped problem
  int registers = 0;    // of a thread of its main launch, as ptxas says; 0: guessed
  std::string dropped;  // why it was not considered further, or ""
  friend bool operator==(const TunedCandidate&, const TunedCandidate&) = default;
};

struct TunedProblem {
  bool measured = false;  // else times are estimated
  // The choice, then the others by time, then those that were dropped. Never empty.
  std::vector<TunedCandidate> candidates;
  const TunedCandidate& choice() const { return candidates.front(); }
  friend bool operator==(const TunedProblem&, const TunedProblem&) = default;
};

// By the text of the problem: operands, ops, attributes, layouts, contract and what may be chosen.
using TunedProblems = std::map<std::string, TunedProblem>;

// What is known so far, for one device. Shared by all compilations of a command.
struct Tuning {
  std::string device;
  TunedProblems problems;
  // Called when problems were added (writes the file); may be empty.
  std::function<Result<void>(TunedProblems&)> added = {};
  std::size_t tuned = 0;  // problems that were added
};

// A kernel of a graph and its problem.
struct TuningTask {
  ir::NodeId node;
  std::string value;    // that its convolution or matmul makes: the key of KernelChoices
  std::string problem;  // key of TunedProblems
};

struct TuningRequest {
  const ir::Graph& source;
  const ir::Graph& base;  // as the passes left it without choices
  const PairSettings& settings;
};

// In the order of the graph; kernels that stay in the interpreter and empty ones have none.
std::vector<TuningTask> tuning_tasks(const TuningRequest& request);

// Every candidate of a kernel of `base`, the kernel as it is first; unranked.
std::vector<passes::KernelChoice> candidates_of(const TuningRequest& request, ir::NodeId node);

// Tunes what `tuning` does not know yet and tells what to choose. `faults` (optional) are planted
// in candidates, on purpose.
Result<passes::KernelChoices> tuned_choices(const TuningRequest& request, Tuning& tuning,
                                            const Services& services,
                                            const Faults* faults = nullptr);

}  // namespace driftc::runtime::study
