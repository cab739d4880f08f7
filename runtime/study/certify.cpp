#include "runtime/study/certify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "passes/rewrite.h"
#include "passes/selection.h"
#include "runtime/compare/bounds.h"
#include "runtime/compare/emulated.h"
#include "runtime/eager/interpreter.h"
#include "runtime/study/faults.h"
#include "runtime/study/judge.h"
#include "runtime/study/propagate.h"

namespace driftc::runtime::study {
namespace {

using compare::Verdict;

struct Precision {
  std::string name;
  ir::Precision in;
  Hypothesis hypothesis;
};
const std::vector<Precision>& precisions() {
  static const std::vector<Precision> list = {
      {"f32", ir::Precision::kF32, Hypothesis::kF32},
      {"tf32:rna", ir::Precision::kTf32Rna, Hypothesis::kTf32Rna},
      {"tf32:trunc", ir::Precision::kTf32Trunc, Hypothesis::kTf32Trunc}};
  return list;
}

// Every order, layout, tile and contraction that the passes can choose on these models.
struct Variant {
  const char* passes;
  const char* set;
  const char* eager_order;  // with no passes, kernels take eager's order
  bool other_accumulator = false;
};
constexpr Variant kVariants[] = {
    {"none", "", ""},
    {"none", "", "rsc.fma"},
    {"none", "", "crs.split2.muladd"},
    {"none,+choose-tiling", "choose-tiling.block=32x32x18", ""},
    {"none,+choose-tiling", "choose-tiling.block=64x32x9", ""},
    {"none,+choose-tiling", "choose-tiling.accumulate=kahan", "", true},
    {"none,+choose-tiling", "choose-tiling.accumulate=f64", "", true},
    {"none,+layout-channels-last,+fuse-epilogue", "", ""},
    {"none,+fuse-epilogue,+contract", "", ""},
    {"none,+split-k,+bias-first", "", ""},
    {"all", "", ""},
    {"all,-layout-channels-last,-conv1x1-as-matmul", "", ""},
};
constexpr Variant kFaultBase = {"none,+choose-tiling,+fuse-epilogue", "", ""};

Result<PairSettings> pair_settings(const Variant& variant, const DeviceProfile& device) {
  passes::SelectionRequest request;
  request.passes = variant.passes;
  if (*variant.set != 0) request.sets = {variant.set};
  DRIFTC_TRY(selection, passes::select_passes(request));
  PairSettings s;
  s.selection = selection;
  s.device = device;
  s.reference = false;
  if (*variant.eager_order != 0) {
    DRIFTC_TRY(order, ir::parse_order(variant.eager_order));
    s.eager_order = order;
  }
  return s;
}

void set_precision(ir::Graph& graph, ir::Precision in) {
  if (in == ir::Precision::kF32) return;
  graph = passes::edit_kernels(graph, [&](const ir::Node&, ir::Kernel& kernel) {
    if (!kernel.contract.order) return false;
    kernel.contract.in = in;
    return true;
  });
}

// One run of both arms.
struct Run {
  bool failed = false;  // driftc's own run ended with an error: the executor refused the kernel
  Verdict verdict = Verdict::kIdentical;
  ir::Tensor eager, compiled;  // of the output
};

// What is known about one model, seed and precision.
struct Subject {
  CertifyModel model;
  std::vector<NamedTensor> nan_inputs;
  std::string output;
  ir::Tensor reference;       // f64
  std::vector<double> bound;  // accumulation bound of the output, precision matched
};

ir::Tensor with_nan(const ir::Tensor& tensor) {
  ir::Tensor copy = ir::Tensor::of<float>(tensor.shape(), tensor.data<float>());
  auto data = copy.data_mut<float>();
  data[data.size() / 3] = std::numeric_limits<float>::quiet_NaN();
  return copy;
}

// n u sum|terms| of every sum, carried through the pointwise ops (numerics.md 4.4).
std::vector<double> accumulation_bound(const ir::Graph& graph,
                                       const std::vector<NamedTensor>& inputs,
                                       Hypothesis hypothesis, ThreadPool& pool) {
  ErrorPropagation errors(graph, pool);
  std::vector<ir::Tensor> values(graph.value_count());
  for (const NamedTensor& input : inputs) values[graph.find(input.name)->index] = input.tensor;
  for (std::uint32_t i = 0; i < graph.node_count(); ++i) {
    const ir::NodeId id{i};
    const ir::Node& node = graph.node(id);
    std::vector<ir::Tensor> operands;
    for (ir::ValueId v : node.operands) operands.push_back(values[v.index]);
    const ir::NumericContract contract = eager_contract(node);
    ir::Tensor result = evaluate(graph, id, operands, contract, EvalContext{pool, 0});
    if (node.op != ir::Op::kConstant) {
      LocalError local;
      if (is_sum_node(node.op)) {
        SumProblem problem = compare::matched(sum_problem(graph, id, operands), hypothesis, pool);
        local.error.bound = compare::any_order_bound(problem, pool).value;
        local.error.variance = ir::Tensor(ir::DType::kF64, result.shape());
      } else {
        local = local_error(graph, id, operands, result, contract, pool);
      }
      errors.step(id, operands, result, local);
    }
    values[node.result.index] = std::move(result);
  }
  const auto bound = errors.at(graph.outputs()[0]).bound.data<double>();
  return {bound.begin(), bound.end()};
}

class Certifier {
 public:
  Certifier(const CertifySettings& settings, std::vector<const FaultKind*> kinds,
            const Services& services)
      : settings_(settings), kinds_(std::move(kinds)), services_(services) {
    auto add = [&](std::string name) {
      ComparerScore score;
      score.name = std::move(name);
      report_.comparers.push_back(std::move(score));
    };
    add("driftc");
    add("driftc-judge");
    for (const auto& tool : compare::emulated_comparers()) add(std::string(tool.name));
    report_.kinds = static_cast<int>(kinds_.size());
    report_.seeds = settings.seeds;
    report_.shapes = std::min(settings.shapes, kCertifyShapes);
  }

  Result<CertifyReport> run() {
    for (int shape = 0; shape < report_.shapes; ++shape)
      for (int seed = 0; seed < settings_.seeds; ++seed)
        for (int p = 0; p < std::min(settings_.precisions, 3); ++p) {
          const Precision& precision = precisions()[static_cast<std::size_t>(p)];
          if (services_.progress)
            services_.progress(fmt::format("shape {}/{} seed {}/{} {}", shape + 1, report_.shapes,
                                           seed + 1, settings_.seeds, precision.name));
          DRIFTC_CHECK(one(shape, static_cast<std::uint64_t>(seed), precision));
        }
    for (const FaultKind* kind : kinds_)
      if (!effective_.contains(kind->name)) report_.never_effective.push_back(kind->name);
    return std::move(report_);
  }

 private:
  // A result that waits for the judge, which takes all results of a subject at once.
  struct Pending {
    std::string what;
    bool fault = false;
    ir::Tensor result;
    double size = 0, bounds = 0;
  };

  Result<Run> run_pair(const Subject& subject, const std::vector<NamedTensor>& inputs,
                       const Variant& variant, const Faults& faults, bool check) {
    DRIFTC_TRY(settings, pair_settings(variant, settings_.device));
    settings.faults = &faults;
    settings.check = check;
    Run run;
    settings.on_value = [&](const std::string& name, const ir::Tensor& eager,
                            const ir::Tensor& compiled, const ir::Tensor*) {
      if (name != subject.output) return;
      run.eager = eager;
      run.compiled = compiled;
    };
    Services quiet{services_.cache, services_.pool, {}};
    auto report = pair_run(subject.model.graph, inputs, settings, quiet);
    if (!report.ok()) {
      if (report.error().kind != ErrorKind::kInternal) return std::move(report.error());
      run.failed = true;
      return run;
    }
    run.verdict = report->verdict;
    return run;
  }

  Result<void> one(int shape, std::uint64_t seed, const Precision& precision) {
    Subject subject{certify_model(shape, seed), {}, {}, {}, {}};
    const ir::Graph& graph = subject.model.graph;
    subject.output = graph.value(graph.outputs()[0]).name;
    subject.nan_inputs = subject.model.inputs;
    subject.nan_inputs[0].tensor = with_nan(subject.nan_inputs[0].tensor);
    DRIFTC_TRY(plain, pair_settings(kFaultBase, settings_.device));
    DRIFTC_TRY(reference, run_arm(graph, subject.model.inputs, Arm::kReference, plain, services_));
    subject.reference = reference[0].tensor;
    subject.bound =
        accumulation_bound(graph, subject.model.inputs, precision.hypothesis, services_.pool);

    std::vector<Pending> pending, pending_nan;
    Faults only_precision;
    only_precision.graph = [&](ir::Graph& g) { set_precision(g, precision.in); };
    for (const Variant& variant : kVariants) {
      const bool precise = precision.in == ir::Precision::kF32 && !variant.other_accumulator;
      const Verdict allowed = precise ? Verdict::kOrder : Verdict::kPrecision;
      DRIFTC_TRY(run, run_pair(subject, subject.model.inputs, variant, only_precision, false));
      const std::string what = fmt::format("{} {} {}, {}, {}", variant.passes, variant.set,
                                           variant.eager_order, precision.name, subject.model.name);
      if (run.failed) return internal_error("a healthy variant does not run: " + what);
      ++report_.healthy;
      count_healthy(report_.comparers[0], run.verdict > allowed, what, precision);
      others_healthy(run, subject, what, precision);
      pending.push_back({what, false, run.compiled});
    }
    // The base of all faults also has to pass checked mode, in which barrier faults are planted.
    DRIFTC_TRY(base, run_pair(subject, subject.model.inputs, kFaultBase, only_precision, true));
    if (base.failed) return internal_error("the healthy base does not pass checked mode");
    DRIFTC_TRY(base_nan, run_pair(subject, subject.nan_inputs, kFaultBase, only_precision, false));
    for (const FaultKind* kind : kinds_)
      DRIFTC_CHECK(plant(*kind, subject, precision, kind->nan_input ? base_nan : base,
                         kind->nan_input ? pending_nan : pending));
    DRIFTC_CHECK(ask_judge(subject, subject.model.inputs, pending, precision));
    DRIFTC_CHECK(ask_judge(subject, subject.nan_inputs, pending_nan, precision));
    return {};
  }

  Result<void> plant(const FaultKind& kind, const Subject& subject, const Precision& precision,
                     const Run& healthy, std::vector<Pending>& pending) {
    const auto applied = std::make_shared<bool>(false);
    Faults faults = kind.plant(applied);
    faults.graph = [&, own = faults.graph](ir::Graph& g) {
      set_precision(g, precision.in);
      if (own) own(g);
    };
    const auto& inputs = kind.nan_input ? subject.nan_inputs : subject.model.inputs;
    DRIFTC_TRY(run, run_pair(subject, inputs, kFaultBase, faults, kind.sanitizer));
    const bool hidden = kind.declaration;
    const bool changes = run.failed || !ir::same_bits(run.compiled, healthy.compiled);
    if (!*applied || (!hidden && !changes)) {
      ++report_.without_effect;
      return {};
    }
    effective_.insert(kind.name);
    Pending p{kind.name, true, run.compiled, 0, 0};
    if (!run.failed && !hidden) measure(subject, healthy.compiled, p);
    ++report_.faults;
    count_fault(report_.comparers[0], run.failed || run.verdict == Verdict::kUnexplained, p,
                subject, precision);
    if (hidden || run.failed) return {};  // outputs are those of a healthy run, or there are none
    for (std::size_t i = 0; i < compare::emulated_comparers().size(); ++i) {
      const bool passes =
          compare::emulated_comparers()[i].passes(run.eager, run.compiled, subject.reference);
      count_fault(report_.comparers[2 + i], !passes, p, subject, precision);
    }
    pending.push_back(std::move(p));
    return {};
  }

  static void measure(const Subject& subject, const ir::Tensor& healthy, Pending& p) {
    const auto a = healthy.data<float>(), b = p.result.data<float>();
    double squares = 0, largest = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (std::isnan(a[i]) || std::isnan(b[i])) {
        if (std::isnan(a[i]) != std::isnan(b[i]))
          largest = p.bounds = std::numeric_limits<double>::infinity();
        continue;
      }
      squares += static_cast<double>(a[i]) * a[i];
      const double change = std::fabs(static_cast<double>(a[i]) - b[i]);
      largest = std::max(largest, change);
      if (change > 0) p.bounds = std::max(p.bounds, change / subject.bound[i]);
    }
    p.size = largest / std::sqrt(squares / static_cast<double>(a.size()));
  }

  void others_healthy(const Run& run, const Subject& subject, const std::string& what,
                      const Precision& precision) {
    for (std::size_t i = 0; i < compare::emulated_comparers().size(); ++i)
      count_healthy(
          report_.comparers[2 + i],
          !compare::emulated_comparers()[i].passes(run.eager, run.compiled, subject.reference),
          what, precision);
  }

  // The judge is told the inputs and the outputs. A fault is found when no precision explains the
  // result, or another one than the system says it computes in.
  Result<void> ask_judge(const Subject& subject, const std::vector<NamedTensor>& inputs,
                         const std::vector<Pending>& pending, const Precision& precision) {
    if (pending.empty()) return {};
    std::vector<std::vector<NamedTensor>> results;
    for (const Pending& p : pending) results.push_back({{subject.output, p.result}});
    DRIFTC_TRY(judged, judge_results(subject.model.graph, inputs, results, {},
                                     Services{services_.cache, services_.pool, {}}));
    for (std::size_t i = 0; i < pending.size(); ++i) {
      const bool accused =
          judged[i].verdict == Verdict::kUnexplained || judged[i].precision != precision.name;
      if (pending[i].fault) {
        count_fault(report_.comparers[1], accused, pending[i], subject, precision);
      } else {
        count_healthy(
            report_.comparers[1], accused,
            accused ? pending[i].what + " judged " + judged[i].precision : pending[i].what,
            precision);
      }
    }
    return {};
  }

  static void count_healthy(ComparerScore& score, bool accused, const std::string& what,
                            const Precision& precision) {
    const bool f32 = precision.in == ir::Precision::kF32;
    ++score.healthy;
    score.healthy_f32 += f32;
    if (!accused) return;
    ++score.false_alarms;
    score.false_alarms_f32 += f32;
    score.accused.push_back(what);
  }
  static void count_fault(ComparerScore& score, bool found, const Pending& p,
                          const Subject& subject, const Precision& precision) {
    const bool f32 = precision.in == ir::Precision::kF32;
    ++score.faults;
    score.faults_f32 += f32;
    score.found += found;
    score.found_f32 += found && f32;
    if (!found)
      score.missed.push_back({p.what, precision.name, subject.model.name, p.size, p.bounds});
  }

  const CertifySettings& settings_;
  const std::vector<const FaultKind*> kinds_;
  const Services& services_;
  CertifyReport report_;
  std::set<std::string> effective_;  // names of kinds that changed something
};

}  // namespace

bool CertifyReport::holds() const {
  const ComparerScore &own = comparers[0], &judge = comparers[1];
  if (!own.missed.empty() || own.false_alarms > 0 || judge.false_alarms > 0) return false;
  return std::none_of(judge.missed.begin(), judge.missed.end(),
                      [](const MissedFault& m) { return m.precision == "f32" || m.bounds > 2; });
}

Result<CertifyReport> certify(const CertifySettings& settings, const Services& services) {
  DRIFTC_TRY(kinds, chosen_faults(settings.faults));
  return Certifier(settings, std::move(kinds), services).run();
}

}  // namespace driftc::runtime::study
