#include "runtime/study/candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/printer.h"
#include "passes/bias_first.h"
#include "passes/tiling.h"

namespace driftc::runtime::study {
namespace {

using passes::KernelChoice;

// What the passes that are on, and their options, leave open.
struct Freedom {
  bool algorithm = false, tiles = false, split = false, bias = false;
  ir::SplitCombine combine = ir::SplitCombine::kSerial;
  ir::Precision filters = ir::Precision::kF32;

  explicit Freedom(const passes::PassSelection& selection) {
    const passes::Options& options = selection.options;
    const auto open = [&](std::string_view pass, const char* option) {
      return selection.has(pass) && options.get(option) == "tuned";
    };
    if (selection.has("match-order")) return;
    tiles = open("choose-tiling", "choose-tiling.block");
    // One order for all batch sizes: nothing that a batch size may decide changes bits.
    if (options.on("choose-tiling.batch-invariant")) return;
    algorithm = open("choose-algorithm", "choose-algorithm.algorithm");
    split = open("split-k", "split-k.slices");
    bias = open("bias-first", "bias-first.when");
    const std::string& how = options.get("split-k.combine");
    combine = how == "pairwise" ? ir::SplitCombine::kPairwise
              : how == "atomic" ? ir::SplitCombine::kAtomic
                                : ir::SplitCombine::kSerial;
    if (options.get("choose-algorithm.filters") == "f64") filters = ir::Precision::kF64;
  }
  bool any() const { return algorithm || tiles || split || bias; }
  std::string text() const {
    std::string out;
    const auto add = [&](bool on, std::string word) {
      if (on) out += (out.empty() ? "" : ",") + std::move(word);
    };
    add(algorithm, filters == ir::Precision::kF64 ? "algorithm:f64" : "algorithm");
    add(tiles, "tiles");
    add(split, combine == ir::SplitCombine::kPairwise ? "split:p"
               : combine == ir::SplitCombine::kAtomic ? "split:a"
                                                      : "split");
    add(bias, "bias");
    return out;
  }
};

bool may_start_with_bias(const TuningRequest& request, const ir::Kernel& kernel) {
  passes::PassContext context;
  context.source = &request.source;
  return passes::can_start_with_bias(kernel, context);
}

// The body with names that do not depend on the model: %a, %b, ... for operands, %0, %1, ...
std::string problem_text(const TuningRequest& request, const ir::Node& node,
                         const Freedom& freedom) {
  const ir::Kernel& kernel = *node.kernel;
  ir::Graph body("problem");
  std::vector<ir::ValueId> made(kernel.body.value_count());
  std::string out;
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    const ir::ValueId inner = kernel.body.inputs()[i];
    const ir::TensorType& type = request.base.value(node.operands[i]).type;
    const std::string name =
        i < 26 ? std::string(1, static_cast<char>('a' + i)) : fmt::format("a{}", i);
    made[inner.index] = body.add_input(name, type);
    out += fmt::format("{}%{}: {}", i == 0 ? "" : ", ", name, to_string(type));
  }
  for (const ir::Node& inner : kernel.body.nodes()) {
    ir::Node copy = inner;
    for (ir::ValueId& operand : copy.operands) operand = made[operand.index];
    copy.location = {};
    const std::string name = std::to_string(body.node_count());
    copy.from = {name};
    ir::TensorType type = kernel.body.value(inner.result).type;
    if (inner.result == kernel.body.outputs()[0])
      type.layout = request.base.value(node.result).type.layout;
    const ir::NodeId id = body.add_node(std::move(copy), name, type);
    made[inner.result.index] = body.node(id).result;
    out += "; " + ir::print_node(body, id);
  }
  const bool bias = freedom.bias && may_start_with_bias(request, kernel);
  Freedom open = freedom;
  open.bias = bias;
  return fmt::format("{}; {} {}; open: {}", out, name_of(kernel.algorithm),
                     to_string(kernel.contract), open.text());
}

std::vector<ir::Algorithm> algorithms_for(const ir::Kernel& kernel, const Freedom& freedom) {
  std::vector<ir::Algorithm> out = {kernel.algorithm};
  if (!freedom.algorithm || ir::reduction_node(kernel.body)->op != ir::Op::kConv2d) return out;
  for (const ir::Algorithm a :
       {ir::Algorithm::kDirect, ir::Algorithm::kImplicitGemm, ir::Algorithm::kIm2col,
        ir::Algorithm::kWinograd2, ir::Algorithm::kWinograd4, ir::Algorithm::kWinograd2Fused,
        ir::Algorithm::kWinograd4Fused})
    if (a != kernel.algorithm) out.push_back(a);
  return out;
}

void add_blocks(std::vector<ir::Schedule>& out, std::initializer_list<int> ms,
                std::initializer_list<int> ns, std::initializer_list<int> ks,
                std::initializer_list<int> tms, std::initializer_list<int> tns) {
  for (const int m : ms)
    for (const int n : ns)
      for (const int k : ks)
        for (const int tm : tms)
          for (const int tn : tns) out.push_back({m, n, k, tm, tn, n % 4 == 0 ? 4 : 1});
}

// Tiles to try for a kernel, legal or not, its default first.
std::vector<ir::Schedule> schedules_for(const ir::Kernel& kernel, int sm_count,
                                        const Freedom& freedom) {
  std::vector<ir::Schedule> out = {passes::schedule_for(kernel, sm_count)};
  if (out[0] == ir::Schedule{} || !freedom.tiles) return out;
  const bool fused = kernel.algorithm == ir::Algorithm::kWinograd2Fused ||
                     kernel.algorithm == ir::Algorithm::kWinograd4Fused;
  const ir::ReductionOrder& order = *kernel.contract.order;
  if (fused) {
    add_blocks(out, {16, 32}, {8, 16, 32}, {4, 8}, {1}, {1});
    for (ir::Schedule& s : out) s.vector = 1;
  } else if (order.arith == ir::Arith::kMma) {
    const int unit = order.mma.dtype == "tf32" ? 1 : 2;
    add_blocks(out, {32, 64, 128}, {16, 32, 64, 128}, {16 * unit, 32 * unit}, {2, 4, 8},
               {4, 8, 16});
    for (ir::Schedule& s : out) s.vector = 1;
  } else {
    add_blocks(out, {16, 32, 64, 128}, {16, 32, 64, 128}, {8, 16, 32}, {2, 4, 8}, {2, 4, 8});
    // Whole channels per step, where the walk has all taps of a channel together.
    const ir::ReductionExtent e =
        ir::reduction_extent(kernel.body, *ir::reduction_node(kernel.body));
    const int taps = static_cast<int>(std::min<std::int64_t>(e.r * e.s, 64));
    if (kernel.algorithm == ir::Algorithm::kImplicitGemm && order.walk == ir::Walk::kCrs &&
        taps > 1 && taps <= 25)
      add_blocks(out, {32, 64, 128}, {32, 64, 128}, {taps, 2 * taps, 4 * taps}, {4, 8}, {4, 8});
  }
  return out;
}

std::vector<int> splits_for(const ir::Kernel& kernel, int sm_count, const Freedom& freedom) {
  std::vector<int> out = {kernel.contract.order->split};
  if (!freedom.split || ir::winograd_tile(kernel.algorithm) != 0 ||
      kernel.algorithm == ir::Algorithm::kDirect)
    return out;
  const passes::GemmExtent e = *passes::gemm_extent(kernel.body);
  // Slices shorter than that are not worth their combination.
  const std::int64_t least = kernel.algorithm == ir::Algorithm::kMatmul ? 32 : 64;
  for (const int s : {1, 2, 4, 8, 16}) {
    const bool useful = s == 1 || (e.k >= least * s && passes::grid_blocks(e, kernel.schedule) <
                                                           std::int64_t{4} * sm_count);
    if (useful && s != out[0]) out.push_back(s);
  }
  return out;
}

bool is_tunable(const ir::Node& node) {
  if (node.op != ir::Op::kKernel || node.kernel->algorithm == ir::Algorithm::kInterpreter ||
      !node.kernel->contract.order)
    return false;
  const auto extent = passes::gemm_extent(node.kernel->body);
  return extent && extent->m * extent->n * extent->batches > 0 && extent->k > 0;
}

}  // namespace

std::vector<TuningTask> tuning_tasks(const TuningRequest& request) {
  const Freedom freedom(request.settings.selection);
  std::vector<TuningTask> out;
  if (!freedom.any()) return out;
  for (std::uint32_t i = 0; i < request.base.node_count(); ++i) {
    const ir::Node& node = request.base.node({i});
    if (!is_tunable(node)) continue;
    const ir::Graph& body = node.kernel->body;
    out.push_back({{i},
                   body.value(ir::reduction_node(body)->result).name,
                   problem_text(request, node, freedom)});
  }
  return out;
}

std::vector<KernelChoice> candidates_of(const TuningRequest& request, ir::NodeId node) {
  const ir::Kernel& base = *request.base.node(node).kernel;
  const Freedom freedom(request.settings.selection);
  const int sm_count = request.settings.device.sm_count;
  std::vector<KernelChoice> out = {passes::choice_of(base)};
  const auto add = [&](const KernelChoice& choice) {
    if (choice != out[0] && passes::why_not(base, choice).empty()) out.push_back(choice);
  };
  for (const ir::Algorithm algorithm : algorithms_for(base, freedom)) {
    if (algorithm != base.algorithm &&
        !ir::why_not(algorithm, base.body, *ir::reduction_node(base.body)).empty())
      continue;
    ir::Kernel kernel = base;
    if (algorithm != base.algorithm) passes::set_algorithm(kernel, algorithm, freedom.filters);
    std::vector<ir::Schedule> schedules = schedules_for(kernel, sm_count, freedom);
    std::set<std::string> seen;
    for (const ir::Schedule& schedule : schedules) {
      if (!seen.insert(to_string(schedule)).second) continue;
      kernel.schedule = schedule;
      for (const int split : splits_for(kernel, sm_count, freedom)) {
        KernelChoice choice = passes::choice_of(kernel);
        choice.split = split;
        choice.combine = split > 1 ? (split == base.contract.order->split && !freedom.split
                                          ? base.contract.order->combine
                                          : freedom.combine)
                                   : ir::SplitCombine::kSerial;
        choice.bias_first = base.contract.order->bias == ir::BiasPoint::kFirst;
        add(choice);
        if (freedom.bias && !choice.bias_first && may_start_with_bias(request, kernel)) {
          choice.bias_first = true;
          add(choice);
        }
      }
    }
  }
  return out;
}

std::string why_not_chosen(const TuningRequest& request, ir::NodeId node,
                           const KernelChoice& choice) {
  const ir::Kernel& base = *request.base.node(node).kernel;
  const Freedom freedom(request.settings.selection);
  const KernelChoice own = passes::choice_of(base);
  if (choice == own) return "";
  if (!freedom.algorithm && choice.algorithm != own.algorithm) return "choose-algorithm is off";
  if (!freedom.tiles && choice.schedule != own.schedule) return "choose-tiling is off";
  if (!freedom.split && choice.split != own.split) return "split-k is off";
  if (choice.split > 1 && choice.split != own.split && choice.combine != freedom.combine)
    return "split-k.combine is another";
  if (choice.bias_first && !own.bias_first &&
      (!freedom.bias || !may_start_with_bias(request, base)))
    return "the bias cannot start its sums";
  if (own.bias_first && !choice.bias_first) return "the bias starts its sums";
  return passes::why_not(base, choice);
}

}  // namespace driftc::runtime::study
