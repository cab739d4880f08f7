#include "frontend/report/advice.h"

#include <algorithm>
#include <array>

namespace driftc::frontend {
namespace {

using runtime::compare::Cause;
using runtime::compare::CauseKind;
using runtime::compare::Verdict;
using runtime::study::PairReport;

// Which passes can bring a cause about. `mark` narrows a reduction-order cause by the order that
// was declared: it has to occur in the text after "->".
struct Governor {
  CauseKind kind;
  std::string_view mark;
  std::string_view pass;
  std::string_view name;  // as it is shown: the pass, or an option of it
};
constexpr std::array kGovernors = {
    Governor{CauseKind::kReductionOrder, "rsc", "layout-channels-last", "layout-channels-last"},
    Governor{CauseKind::kReductionOrder, " k.", "conv1x1-as-matmul", "conv1x1-as-matmul"},
    Governor{CauseKind::kReductionOrder, ".split", "split-k", "split-k"},
    Governor{CauseKind::kReductionOrder, ".split", "choose-tiling", "choose-tiling"},
    Governor{CauseKind::kReductionOrder, ".tile", "choose-tiling", "choose-tiling"},
    Governor{CauseKind::kReductionOrder, ".acc", "choose-tiling", "choose-tiling"},
    Governor{CauseKind::kReductionOrder, "rs.", "choose-tiling", "choose-tiling"},
    Governor{CauseKind::kReductionOrder, "+bias.first", "bias-first", "bias-first"},
    Governor{CauseKind::kReductionOrder, "+bias.first", "fold-batchnorm", "fold-batchnorm"},
    Governor{CauseKind::kReductionOrder, "+bias.last", "fuse-epilogue", "fuse-epilogue"},
    Governor{CauseKind::kContraction, "", "contract", "contract"},
    Governor{CauseKind::kWeightFolding, "", "fold-batchnorm", "fold-batchnorm"},
    Governor{CauseKind::kIntermediateRounding, "", "fuse-pointwise", "fuse-pointwise"},
    Governor{CauseKind::kIntermediateRounding, "", "fuse-epilogue", "fuse-epilogue"},
    Governor{CauseKind::kAlgorithm, "", "choose-algorithm", "choose-algorithm"},
    Governor{CauseKind::kIntermediateRounding, "", "precision", "--precision"},
    Governor{CauseKind::kInputRounding, "", "precision", "--precision"},
    Governor{CauseKind::kAccumulator, "f64", "choose-tiling", "choose-tiling.accumulate"},
    Governor{CauseKind::kAccumulator, "kahan", "choose-tiling", "choose-tiling.accumulate"},
    Governor{CauseKind::kAccumulator, "", "precision", "--precision"}};

constexpr std::size_t kPassesNamed = 3;  // a longer list is no advice

std::string_view after_arrow(std::string_view detail) {
  const std::size_t arrow = detail.rfind("->");
  return arrow == std::string_view::npos ? detail : detail.substr(arrow + 2);
}

// Nothing is blamed without an effect: a pass that changed no graph governs nothing here.
bool had_effect(const PairReport& report, std::string_view pass) {
  return std::any_of(report.passes.begin(), report.passes.end(),
                     [&](const auto& p) { return p.name == pass && p.enabled && p.changed; });
}

void add_once(std::vector<std::string>& list, std::string_view text) {
  if (std::find(list.begin(), list.end(), text) == list.end()) list.emplace_back(text);
}

void add_governors(const PairReport& report, const Cause& cause, std::vector<std::string>& out) {
  const std::string_view is = after_arrow(cause.detail);
  for (const Governor& g : kGovernors)
    if (g.kind == cause.kind && is.find(g.mark) != std::string_view::npos &&
        had_effect(report, g.pass))
      add_once(out, g.name);
}

}  // namespace

std::vector<CauseGroup> group_causes(const PairReport& report) {
  std::vector<CauseGroup> groups;
  for (const Cause& cause : report.causes) {
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const CauseGroup& g) { return g.kind == cause.kind; });
    if (group == groups.end()) {
      groups.push_back({cause.kind, {}, cause.detail, {}});
      group = groups.end() - 1;
    }
    add_once(group->nodes, cause.node);
    add_governors(report, cause, group->governed_by);
  }
  // The report may merge the causes of many nodes into one: every node that has the cause counts.
  for (CauseGroup& group : groups)
    for (const auto& node : report.nodes)
      for (const Cause& cause : node.causes)
        if (cause.kind == group.kind) {
          add_once(group.nodes, cause.node.empty() ? node.name : cause.node);
          add_governors(report, cause, group.governed_by);
        }
  return groups;
}

std::vector<NextStep> next_steps(const PairReport& report, const CompareView& view) {
  std::vector<NextStep> steps;
  const bool differs = report.values_differ > 0;
  if (report.verdict == Verdict::kUnexplained) {
    steps.push_back({"--passes none", "whether code generation alone is at fault"});
    steps.push_back({"--sweep passes", "which pass alone brings it"});
    steps.push_back({"--print-after changed", "the graph after every pass that changed it"});
    return steps;
  }
  if (differs) {
    std::vector<std::string> passes;
    for (const CauseGroup& group : group_causes(report))
      for (const std::string& name : group.governed_by)
        if (had_effect(report, name)) add_once(passes, name);
    if (!passes.empty() && passes.size() <= kPassesNamed) {
      std::string list = view.passes_given;
      for (const std::string& pass : passes) list += (list.empty() ? "-" : ",-") + pass;
      steps.push_back({"--passes=" + list, passes.size() == 1 ? "the same without its cause"
                                                              : "the same without its causes"});
    }
    if (view.cudnn)  // its order is not known, so that nothing can be made identical to it
      steps.push_back({"--eager interpreter", "eager's order known: what the passes alone do"});
    else if (view.mode != "strict")
      steps.push_back({"--mode strict", "compiled and fused, yet in eager's order: identical"});
    if (!view.cudnn && report.eager_order != "declared")
      steps.push_back({"--eager-order declared", "the proof over the whole graph: identical"});
    steps.push_back({"--sweep passes", "what each pass does alone"});
    return steps;
  }
  if (view.mode == "strict")
    steps.push_back({"--mode default", "what a compiler does without being asked"});
  else if (view.mode == "eager")
    steps.push_back({"--mode default", "the compiled arm as generated CUDA"});
  else
    steps.push_back({"--passes all", "every pass at once"});
  steps.push_back({"--sweep pairs", "every pair of passes"});
  return steps;
}

}  // namespace driftc::frontend
