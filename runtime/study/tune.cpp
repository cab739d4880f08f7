#include "runtime/study/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "codegen/lower.h"
#include "codegen/resources.h"
#include "ir/printer.h"
#include "ir/schedule.h"
#include "ir/support/rng.h"
#include "passes/bias_first.h"
#include "passes/tiling.h"
#include "runtime/compare/metrics.h"
#include "runtime/study/crop.h"
#include "runtime/study/roofline.h"

namespace driftc::runtime::study {
namespace {

using passes::KernelChoice;

// Candidates that are compiled and run: the best by the first estimate, and of every other
// algorithm the best unless it is this many times slower.
constexpr std::size_t kBest = 3;
constexpr double kHopeless = 4;
constexpr int kTimedRuns = 9;

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

double in_nanoseconds(double seconds) { return std::round(seconds * 1e9); }

struct Finalist {
  passes::KernelChoice choice;
  ir::Kernel kernel;  // of the whole problem
  std::vector<LaunchWork> works;
  TunedCandidate result;
  // Of the cropped problem.
  ir::Graph graph{""};
  std::optional<codegen::LoweredKernel> lowered;
  std::size_t first_request = 0;
};

struct Problem {
  const TuningTask* task;
  std::vector<Finalist> finalists;
  std::optional<CroppedKernel> cropped;
};

class Tuner {
 public:
  Tuner(const TuningRequest& request, const Services& services, const Faults* faults)
      : request_(request),
        services_(services),
        faults_(faults),
        freedom_(request.settings.selection),
        device_(request.settings.device),
        executor_(request.settings.executor) {
    if (executor_ == nullptr) executor_ = std::make_shared<PtxExecutor>(services.pool);
  }

  Result<TunedProblems> run(const std::vector<const TuningTask*>& tasks) {
    for (const TuningTask* task : tasks) problems_.push_back({task, rank(task->node), {}});
    DRIFTC_CHECK(prepare());
    TunedProblems out;
    std::size_t done = 0;
    for (Problem& problem : problems_) {
      if (services_.progress)
        services_.progress(fmt::format("tuning: kernel {}/{}", ++done, problems_.size()));
      DRIFTC_TRY(tuned, decide(problem));
      out.emplace(problem.task->problem, std::move(tuned));
    }
    return out;
  }

 private:
  const ir::Node& node(ir::NodeId id) const { return request_.base.node(id); }
  std::vector<ir::TensorType> operands(const ir::Node& node) const {
    std::vector<ir::TensorType> out;
    for (const ir::ValueId v : node.operands) out.push_back(request_.base.value(v).type);
    return out;
  }

  // The candidates worth compiling, best first; the kernel as it is always among them.
  std::vector<Finalist> rank(ir::NodeId id) const {
    const ir::Node& kernel_node = node(id);
    const std::vector<ir::TensorType> types = operands(kernel_node);
    const ir::TensorType& result = request_.base.value(kernel_node.result).type;
    const std::vector<KernelChoice> all = candidates_of(request_, id);
    ir::Kernel kernel = *kernel_node.kernel;
    std::vector<double> nanoseconds;
    for (const KernelChoice& choice : all) {
      passes::set_choice(kernel, *kernel_node.kernel, choice);
      nanoseconds.push_back(
          in_nanoseconds(estimated_seconds(launch_works(kernel, types, result, device_), device_)));
    }
    std::vector<std::size_t> order(all.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return nanoseconds[a] < nanoseconds[b]; });
    std::set<ir::Algorithm> seen;
    std::vector<bool> taken(all.size());
    taken[0] = true;
    std::size_t count = 0;
    const KernelChoice* best = nullptr;
    for (const std::size_t i : order) {
      // The bias point costs nothing that the estimate could see: a variant of the best alone.
      if (!std::isfinite(nanoseconds[i]) || all[i].bias_first != all[0].bias_first) continue;
      if (best == nullptr) best = &all[i];
      const bool first = seen.insert(all[i].algorithm).second;
      if (count < kBest || (first && nanoseconds[i] <= kHopeless * nanoseconds[order[0]])) {
        taken[i] = true;
        ++count;
      }
    }
    if (best != nullptr) {
      KernelChoice variant = *best;
      variant.bias_first = true;
      const auto found = std::ranges::find(all, variant);
      if (found != all.end()) taken[static_cast<std::size_t>(found - all.begin())] = true;
    }
    std::vector<Finalist> out;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!taken[i]) continue;
      Finalist f;
      f.choice = all[i];
      f.kernel = passes::with_choice(*kernel_node.kernel, all[i]);
      f.works = launch_works(f.kernel, types, result, device_);
      out.push_back(std::move(f));
    }
    return out;
  }

  // Crops, lowers and compiles, everything of all problems at once.
  Result<void> prepare() {
    std::vector<codegen::CompileRequest> requests;
    for (Problem& problem : problems_) {
      problem.cropped =
          crop(request_.base, node(problem.task->node), limits_for(problem), services_.pool);
      for (Finalist& f : problem.finalists) {
        f.result.choice = f.choice;
        if (const std::string why = why_not_whole(problem, f); !why.empty()) {
          f.result.dropped = why;
          continue;
        }
        f.graph = with_kernel(*problem.cropped, f.kernel);
        auto lowered = codegen::lower(f.graph, problem.cropped->node());
        if (!lowered.ok()) {
          f.result.dropped = lowered.error().message;
          continue;
        }
        if (faults_ != nullptr && faults_->lowered)
          faults_->lowered(f.graph.node(problem.cropped->node()), *lowered);
        auto wanted = compile_requests(*lowered, device_.ptx_target);
        for (codegen::CompileRequest& r : wanted) r.machine_code = services_.cache.has_compiler();
        if (const auto found = recorded(wanted); !found.ok()) {
          if (found.error().kind != ErrorKind::kUnavailable) return found.error();
          f.result.dropped = "no NVRTC, and its PTX is not recorded";
          continue;
        }
        f.first_request = requests.size();
        for (codegen::CompileRequest& r : wanted) requests.push_back(std::move(r));
        f.lowered = std::move(*lowered);
      }
    }
    if (services_.progress)
      services_.progress(fmt::format("tuning {} kernels: compiling", problems_.size()));
    DRIFTC_TRY(compiled, services_.cache.compile_all(requests, services_.pool.threads()));
    ptx_ = std::move(compiled);
    return {};
  }

  // Without a compiler only what is recorded can be tried.
  Result<void> recorded(const std::vector<codegen::CompileRequest>& requests) const {
    if (services_.cache.has_compiler()) return {};
    DRIFTC_CHECK(services_.cache.compile_all(requests, 1));
    return {};
  }

  static CropLimits limits_for(const Problem& problem) {
    CropLimits out;
    for (const Finalist& f : problem.finalists) {
      const ir::Schedule& s = f.choice.schedule;
      const std::int64_t tile = std::max(ir::winograd_tile(f.choice.algorithm), 1);
      out.rows = std::max(out.rows, std::min<std::int64_t>(s.block_m * tile * tile + 16, 320));
      out.columns = std::max<std::int64_t>(out.columns, s.block_n + 4);
    }
    return out;
  }

  // Whether the kernel of the whole problem can be launched.
  std::string why_not_whole(const Problem& problem, const Finalist& f) const {
    const ir::NodeId id = problem.task->node;
    ir::Graph whole = request_.base;
    whole.mutable_node(id).kernel = std::make_shared<const ir::Kernel>(f.kernel);
    const auto lowered = codegen::lower(whole, id);
    return lowered.ok() ? "" : lowered.error().message;
  }

  Result<TunedProblem> decide(Problem& problem) {
    TunedProblem out;
    std::vector<double> nanoseconds;
    for (Finalist& f : problem.finalists) {
      if (f.lowered) {
        DRIFTC_CHECK(try_out(problem, f));
      }
      nanoseconds.push_back(in_nanoseconds(estimated_seconds(f.works, device_)));
    }
    DRIFTC_TRY(measured, measure(problem));
    if (!measured.empty()) {
      out.measured = true;
      nanoseconds = measured;
    }
    std::vector<std::size_t> order(problem.finalists.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      const bool da = !problem.finalists[a].result.dropped.empty(),
                 db = !problem.finalists[b].result.dropped.empty();
      return da != db ? db : nanoseconds[a] < nanoseconds[b];
    });
    for (const std::size_t i : order) {
      out.candidates.push_back(problem.finalists[i].result);
      out.candidates.back().microseconds =
          std::isfinite(nanoseconds[i]) ? nanoseconds[i] / 1000 : 0;
    }
    // Nothing held: the kernel as the other passes left it, and the run itself will say so.
    if (!out.candidates[0].dropped.empty())
      std::stable_partition(
          out.candidates.begin(), out.candidates.end(), [&](const TunedCandidate& c) {
            return c.choice == passes::choice_of(*node(problem.task->node).kernel);
          });
    return out;
  }

  // Runs the candidate on the cropped problem and holds it against source replay.
  Result<void> try_out(const Problem& problem, Finalist& f) {
    const auto ptx = std::span(ptx_).subspan(f.first_request, f.lowered->launches.size());
    for (std::size_t i = 0; i < f.works.size() && f.works.size() == ptx.size(); ++i) {
      const auto resources = codegen::resources_of(ptx[i].log);
      if (!resources) continue;
      f.works[i].registers = resources->registers;
      f.works[i].shared_bytes = resources->shared_bytes;
      if (f.works[i].sums) f.result.registers = resources->registers;
      if (resources->spilled_bytes > 0)
        f.result.dropped = fmt::format("{} bytes of registers spill", resources->spilled_bytes);
    }
    if (!f.result.dropped.empty()) return {};
    if (!std::isfinite(estimated_seconds(f.works, device_))) {
      f.result.dropped = "no block of it fits on an SM";
      return {};
    }
    const CroppedKernel& cropped = *problem.cropped;
    DRIFTC_TRY(kernel, assemble(*f.lowered, ptx));
    const ir::Node& candidate = f.graph.node(cropped.node());
    std::vector<DeviceTensor> tensors;
    for (std::size_t i = 0; i < candidate.operands.size(); ++i)
      tensors.push_back(
          upload(cropped.inputs[i], f.graph.value(candidate.operands[i]).type.layout));
    DeviceTensor result(f.graph.value(candidate.result).type);
    if (const auto ran = executor_->run(kernel, tensors, {}, result, RunOptions{}); !ran.ok()) {
      f.result.dropped = "it does not run: " + ran.error().message;
      return {};
    }
    const ir::Tensor value = download(result), promised = replay(cropped, f.graph, services_.pool);
    f.result.error = compare::distance(value, cropped.reference).rel_l2;
    if (!ir::same_bits(value, promised)) f.result.dropped = "source replay differs from the kernel";
    return {};
  }

  // Nanoseconds of each finalist on the executor's device, the whole problem; empty without one.
  Result<std::vector<double>> measure(const Problem& problem) {
    std::vector<double> out;
    if (request_.settings.executor == nullptr) return out;
    for (const Finalist& f : problem.finalists) {
      if (!f.result.dropped.empty()) {
        out.push_back(0);
        continue;
      }
      DRIFTC_TRY(time, measure(problem, f));
      if (!time) return std::vector<double>();
      out.push_back(*time);
    }
    return out;
  }

  Result<std::optional<double>> measure(const Problem& problem, const Finalist& f) {
    const ir::Node& whole = node(problem.task->node);
    ir::Graph graph("tuned");
    ir::Node copy = whole;
    copy.kernel = std::make_shared<const ir::Kernel>(f.kernel);
    std::vector<ir::Tensor> inputs;
    for (ir::ValueId& operand : copy.operands) {
      const ir::Value& value = request_.base.value(operand);
      if (const auto known = graph.find(value.name)) {
        operand = *known;
      } else if (const ir::Node* producer = request_.base.producer(operand);
                 producer != nullptr && producer->op == ir::Op::kConstant) {
        operand = graph.add_constant(value.name, *producer->literal);
      } else {
        operand = graph.add_input(value.name, value.type);
        ir::Tensor tensor(ir::DType::kF32, value.type.shape);
        fill(Distribution::kSymmetric, 0, value.name, tensor.data_mut<float>());
        inputs.push_back(std::move(tensor));
      }
    }
    const ir::Value& result = request_.base.value(whole.result);
    const ir::NodeId id = graph.add_node(std::move(copy), result.name, result.type);
    graph.set_outputs({graph.node(id).result});
    DRIFTC_TRY(lowered, codegen::lower(graph, id));
    DRIFTC_TRY(kernel, compile(std::move(lowered), services_.cache, device_.ptx_target));
    std::vector<const CompiledKernel*> kernels(graph.node_count());
    kernels[id.index] = &kernel;
    DRIFTC_TRY(plan, executor_->plan(graph, kernels, false));
    if (plan == nullptr) return std::optional<double>();
    DRIFTC_CHECK(plan->run(inputs));
    DRIFTC_TRY(times, plan->time(kTimedRuns));
    std::sort(times.begin(), times.end());
    return std::optional<double>(std::round(times[times.size() / 2] * 1e6));
  }

  const TuningRequest& request_;
  const Services& services_;
  const Faults* faults_;
  Freedom freedom_;
  const DeviceProfile& device_;
  std::shared_ptr<Executor> executor_;
  std::vector<Problem> problems_;
  std::vector<codegen::CompiledPtx> ptx_;
};

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

std::vector<TunedKernelReport> tuned_kernels(const std::vector<TuningTask>& tasks,
                                             const Tuning& tuning) {
  std::vector<TunedKernelReport> out;
  for (const TuningTask& task : tasks) {
    auto found = std::ranges::find(out, task.problem, &TunedKernelReport::problem);
    if (found == out.end())
      found = out.insert(out.end(), {{}, task.problem, tuning.problems.at(task.problem)});
    found->values.push_back(task.value);
  }
  return out;
}

Result<passes::KernelChoices> tuned_choices(const TuningRequest& request, Tuning& tuning,
                                            const Services& services, const Faults* faults) {
  const std::vector<TuningTask> tasks = tuning_tasks(request);
  std::vector<const TuningTask*> missing;
  std::set<std::string> seen;
  for (const TuningTask& task : tasks) {
    const auto known = tuning.problems.find(task.problem);
    if (known == tuning.problems.end()) {
      if (seen.insert(task.problem).second) missing.push_back(&task);
      continue;
    }
    const KernelChoice& choice = known->second.choice().choice;
    if (const std::string why = why_not_chosen(request, task.node, choice); !why.empty())
      return input_error(fmt::format("{}: the kernel of '{}' cannot be {}: {}",
                                     tuning.file.empty() ? "tuning" : tuning.file, task.value,
                                     to_string(choice), why),
                         "take its entry out of the file: it is then tuned anew");
  }
  if (!missing.empty()) {
    DRIFTC_TRY(added, Tuner(request, services, faults).run(missing));
    tuning.tuned += added.size();
    tuning.problems.merge(added);
    if (tuning.added) DRIFTC_CHECK(tuning.added(tuning.problems));
  }
  passes::KernelChoices out;
  for (const TuningTask& task : tasks)
    out.emplace(task.value, tuning.problems.at(task.problem).choice().choice);
  return out;
}

}  // namespace driftc::runtime::study
