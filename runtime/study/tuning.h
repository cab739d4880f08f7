// What the tuner (tune.h) knows: problems, their candidates, the choice among them. Data only.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/support/result.h"
#include "passes/kernel_choice.h"

namespace driftc::runtime::study {

// Changes when a problem's text or the meaning of a choice does: older files are then refused.
inline constexpr int kTuningKeyVersion = 1;

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
  // Called after every problem that was added, with all that are known (writes the file, so that an
  // interrupt loses no choice that was made); may be empty. Its error ends the tuning.
  std::function<Result<void>(TunedProblems&)> added = {};
  // Called once by every tuned_choices (tune.h) that added some, with their number, also when an
  // error ended it; may be empty.
  std::function<void(std::size_t)> finished = {};
  std::size_t tuned = 0;  // problems that were added
  std::string file = {};  // where they came from, for messages
};

// The kernels of a graph that have one problem.
struct TunedKernelReport {
  std::vector<std::string> values;  // that their convolutions or matmuls make, in graph order
  std::string problem;
  TunedProblem tuned;
};

// A kernel of a graph and its problem.
struct TuningTask {
  ir::NodeId node;
  std::string value;    // that its convolution or matmul makes: the key of KernelChoices
  std::string problem;  // key of TunedProblems
};

}  // namespace driftc::runtime::study
