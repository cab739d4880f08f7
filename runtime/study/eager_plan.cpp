#include "runtime/study/eager_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace driftc::runtime::study {
namespace {

using cuda::ConvProblem;
using cuda::EngineChoice;

struct Found {
  ConvProblem problem;
  bool padded_first = false;
};

Found problem_of(const ir::Graph& graph, const ir::Node& node, const EagerPlanSettings& settings) {
  Found out;
  ConvProblem& p = out.problem;
  p.dtype = settings.dtype;
  p.layout = settings.layout;
  p.x = graph.value(node.operands[0]).type.shape.dims();
  p.w = graph.value(node.operands[1]).type.shape.dims();
  p.y = graph.value(node.result).type.shape.dims();
  p.stride = node.ints("stride");
  p.dilation = node.ints("dilation");
  p.groups = node.integer("groups");
  const std::vector<std::int64_t>& pad = node.ints("pad");
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::int64_t both = std::min(pad[axis], pad[axis + 2]);
    const std::int64_t extra = std::max(pad[axis], pad[axis + 2]) - both;
    p.pad.push_back(both);
    p.x[axis + 2] += extra;
    out.padded_first |= extra != 0;
  }
  return out;
}

std::string text(const ConvProblem& p) {
  return fmt::format("x {}, w {}, stride {}x{}, pad {}x{}, dilation {}x{}, groups {}, {}, {}",
                     ir::to_string(ir::Shape(p.x)), ir::to_string(ir::Shape(p.w)), p.stride[0],
                     p.stride[1], p.pad[0], p.pad[1], p.dilation[0], p.dilation[1], p.groups,
                     ir::name_of(p.dtype), p.layout == ir::Layout::kNhwc ? "nhwc" : "nchw");
}

// Answers with TF32 allowed as asked, and turned over.
struct Pair {
  std::optional<Answer> asked, other_tf32;
};

Result<Pair> ask(const cuda::CudnnHeuristics& heuristics, const ConvProblem& problem,
                 const cuda::PytorchFlags& flags) {
  if (uses_depthwise_kernel(problem)) {
    const Answer answer = depthwise_answer(problem.dtype);
    return Pair{answer, answer};
  }
  DRIFTC_TRY(ranked, heuristics.ranked(problem));
  auto take = [&](const cuda::PytorchFlags& with) -> std::optional<Answer> {
    const auto index = pytorch_choice(ranked, problem.dtype, with);
    if (!index) return std::nullopt;
    return Answer{false, ranked[*index]};
  };
  cuda::PytorchFlags over = flags;
  over.allow_tf32 = !over.allow_tf32;
  return Pair{take(flags), take(over)};
}

Result<DeviceAnswer> ask_both_layouts(const cuda::CudnnHeuristics& heuristics,
                                      const ConvProblem& problem, const cuda::PytorchFlags& flags) {
  DRIFTC_TRY(asked, ask(heuristics, problem, flags));
  if (!asked.asked)
    return unavailable("cuDNN has no engine that PyTorch would take with these settings");
  ConvProblem turned = problem;
  turned.layout = problem.layout == ir::Layout::kNchw ? ir::Layout::kNhwc : ir::Layout::kNchw;
  DRIFTC_TRY(other, ask(heuristics, turned, flags));
  DeviceAnswer out;
  out.answer = std::move(*asked.asked);
  out.other_layout = std::move(other.asked);
  out.other_tf32 = std::move(asked.other_tf32);
  auto against = [&](const std::optional<Answer>& turned_over) {
    return turned_over ? difference(out.answer, *turned_over) : Difference::kClass;
  };
  out.by_layout = against(out.other_layout);
  out.by_tf32 = against(out.other_tf32);
  return out;
}

// What decides the kind of numbers: Winograd tiles and reduced-precision reductions do, NaN
// handling and determinism do not.
std::vector<std::string> class_notes(const EngineChoice& choice) {
  std::vector<std::string> out;
  for (const std::string& note : choice.notes)
    if (note.starts_with("WINOGRAD") || note.starts_with("REDUCED")) out.push_back(note);
  return out;
}

}  // namespace

std::string_view name_of(Difference difference) {
  switch (difference) {
    case Difference::kNone:
      return "none";
    case Difference::kKnobs:
      return "knobs";
    case Difference::kEngine:
      return "engine";
    case Difference::kClass:
      return "class";
  }
  return "";
}

Difference difference(const Answer& a, const Answer& b) {
  const EngineChoice &x = a.choice, &y = b.choice;
  if (x.precision != y.precision || x.algorithm != y.algorithm || class_notes(x) != class_notes(y))
    return Difference::kClass;
  if (x.engine != y.engine || a.depthwise_kernel != b.depthwise_kernel) return Difference::kEngine;
  return x.knobs == y.knobs ? Difference::kNone : Difference::kKnobs;
}

Answer depthwise_answer(ir::DType dtype) {
  Answer out;
  out.depthwise_kernel = true;
  out.choice.engine = -1;
  out.choice.precision = std::string(ir::name_of(dtype));
  out.choice.algorithm = cuda::Algorithm::kDirect;
  return out;
}

// PyTorch's own rule (use_cudnn_depthwise), without its table of f16 workloads that are faster on
// its own kernel: those are reported as cuDNN's.
bool uses_depthwise_kernel(const ConvProblem& p) {
  const bool depthwise = p.groups > 1 && p.x[1] == p.groups && p.w[0] % p.x[1] == 0;
  if (!depthwise || p.layout == ir::Layout::kNhwc) return false;
  const bool dilated = p.dilation[0] != 1 || p.dilation[1] != 1;
  const bool square = p.stride[0] == p.stride[1] || p.x[2] == 1;
  return !(p.dtype == ir::DType::kF16 && !dilated && square && p.x[1] >= 32);
}

std::vector<PlanGroup> convolution_groups(const ir::Graph& graph,
                                          const EagerPlanSettings& settings) {
  std::vector<PlanGroup> out;
  std::map<ConvProblem, std::size_t> known;
  for (const ir::Node& node : graph.nodes()) {
    if (node.op != ir::Op::kConv2d) continue;
    Found found = problem_of(graph, node, settings);
    const auto [at, fresh] = known.try_emplace(found.problem, out.size());
    if (fresh) out.push_back({std::move(found.problem), {}, false, {}, Difference::kNone});
    PlanGroup& group = out[at->second];
    group.nodes.push_back(graph.value(node.result).name);
    group.padded_first |= found.padded_first;
  }
  return out;
}

Result<EagerPlan> eager_plan(const ir::Graph& graph, const EagerPlanSettings& settings,
                             const Settings& environment) {
  EagerPlan out;
  out.groups = convolution_groups(graph, settings);
  for (const PlanGroup& group : out.groups) out.convolutions += group.nodes.size();
  DRIFTC_TRY(api, cuda::load_cudnn(environment));
  out.cudnn_version = api->version_text();
  out.cudnn_path = api->library.path();
  const std::size_t total = out.groups.size() * settings.devices.size();
  std::size_t done = 0;
  for (const DeviceProfile& device : settings.devices) {
    DRIFTC_TRY(heuristics, cuda::CudnnHeuristics::create(api, device));
    for (PlanGroup& group : out.groups) {
      Result<DeviceAnswer> answer = ask_both_layouts(heuristics, group.problem, settings.flags);
      if (!answer) {
        Diagnostic d = answer.error();
        d.notes.push_back(fmt::format("asked about {} on {}: {}", group.nodes[0], device.name,
                                      text(group.problem)));
        return d;
      }
      for (const DeviceAnswer& earlier : group.devices)
        group.by_device = std::max(group.by_device, difference(earlier.answer, answer->answer));
      group.devices.push_back(std::move(*answer));
      if (settings.progress) settings.progress(++done, total);
    }
  }
  return out;
}

}  // namespace driftc::runtime::study
