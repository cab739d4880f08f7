#include "runtime/study/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "codegen/lower.h"
#include "codegen/resources.h"
#include "ir/support/rng.h"
#include "runtime/compare/metrics.h"
#include "runtime/study/crop.h"
#include "runtime/study/roofline.h"

namespace driftc::runtime::study {
namespace {

using passes::KernelChoice;

// Candidates that are compiled and run: the best by the first estimate, the best that does not
// split its sums, and of every other algorithm the best unless it is this many times slower.
constexpr std::size_t kBest = 3;
constexpr double kHopeless = 4;
constexpr int kTimedRuns = 9;

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
        device_(request.settings.device),
        executor_(request.settings.executor) {
    if (executor_ == nullptr) executor_ = std::make_shared<PtxExecutor>(services.pool);
  }

  // Problem by problem, each handed to `decided` before the next one is run.
  Result<void> run(const std::vector<const TuningTask*>& tasks,
                   const std::function<Result<void>(const std::string&, TunedProblem)>& decided) {
    for (const TuningTask* task : tasks) problems_.push_back({task, rank(task->node), {}});
    DRIFTC_CHECK(prepare());
    std::size_t done = 0;
    for (Problem& problem : problems_) {
      if (services_.progress)
        services_.progress(fmt::format("tuning: kernel {}/{}", ++done, problems_.size()));
      DRIFTC_TRY(tuned, decide(problem));
      DRIFTC_CHECK(decided(problem.task->problem, std::move(tuned)));
    }
    return {};
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
    bool whole = false;
    const KernelChoice* best = nullptr;
    for (const std::size_t i : order) {
      // The bias point costs nothing that the estimate could see: a variant of the best alone.
      if (!std::isfinite(nanoseconds[i]) || all[i].bias_first != all[0].bias_first) continue;
      if (best == nullptr) best = &all[i];
      // What it would cost to leave the sums in one piece is worth knowing.
      const bool piece = !whole && all[i].split == 1 && ir::winograd_tile(all[i].algorithm) == 0;
      whole = whole || piece;
      const bool first = seen.insert(all[i].algorithm).second;
      if (count < kBest || piece ||
          (first && nanoseconds[i] <= kHopeless * nanoseconds[order[0]])) {
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
  const DeviceProfile& device_;
  std::shared_ptr<Executor> executor_;
  std::vector<Problem> problems_;
  std::vector<codegen::CompiledPtx> ptx_;
};

}  // namespace

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
    const std::size_t before = tuning.tuned;
    const auto keep = [&](const std::string& problem, TunedProblem tuned) -> Result<void> {
      tuning.problems.emplace(problem, std::move(tuned));
      if (tuning.added) DRIFTC_CHECK(tuning.added(tuning.problems));
      ++tuning.tuned;
      return {};
    };
    const Result<void> ran = Tuner(request, services, faults).run(missing, keep);
    if (tuning.tuned > before && tuning.finished) tuning.finished(tuning.tuned - before);
    DRIFTC_CHECK(ran);
  }
  passes::KernelChoices out;
  for (const TuningTask& task : tasks)
    out.emplace(task.value, tuning.problems.at(task.problem).choice().choice);
  return out;
}

}  // namespace driftc::runtime::study
