#include "runtime/study/certify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "runtime/compare/emulated.h"
#include "runtime/eager/interpreter.h"
#include "runtime/study/certify_families.h"
#include "runtime/study/expect.h"
#include "runtime/study/faults.h"
#include "runtime/study/judge.h"
#include "runtime/study/propagate.h"

namespace driftc::runtime::study {
namespace {

using compare::Verdict;

// One run of both arms.
struct Run {
  bool failed = false;  // driftc's own run ended with an error: the executor refused the kernel
  std::string error;    // what it said
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

double largest_of(const ir::Tensor& tensor) {
  double largest = 0;
  for (float v : tensor.data<float>())
    largest = std::max(largest, std::fabs(static_cast<double>(v)));
  return largest;
}

// Half a step of the type in which a 16-bit family stores `result`, twice: once for the value, once
// for the sum before a bias (of at most `bias`).
void add_storage(const ir::Tensor& result, Hypothesis type, double bias, ir::Tensor& bound) {
  const auto value = result.data<float>();
  const auto out = bound.data_mut<double>();
  const double step = type == Hypothesis::kF16 ? 0x1p-10 : 0x1p-7, tiny = 0x1p-24;
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] += step * (std::fabs(static_cast<double>(value[i])) + bias) + tiny;
}

// How far sums of the family's kind may be from the exact ones on matched operands (numerics.md
// 4.1, 1.8, 3.3), carried through the pointwise ops (4.4).
std::vector<double> accumulation_bound(const ir::Graph& graph,
                                       const std::vector<NamedTensor>& inputs,
                                       const CertifyFamily& family, const DeviceProfile& device,
                                       ThreadPool& pool) {
  ErrorPropagation errors(graph, pool);
  std::vector<ir::Tensor> values(graph.value_count());
  for (const NamedTensor& input : inputs) values[graph.find(input.name)->index] = input.tensor;
  PrecisionHypothesis h;
  h.operands = family.matched;
  h.winograd = family.winograd;
  if (*family.precision != 0) h.arch = device.mma_arch;
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
        GivenValues given(graph.value_count());
        for (ir::ValueId v : node.operands) given[v.index] = values[v.index];
        local.error.bound = hypothesis_bound(graph, given, id, h, pool);
        local.error.variance = ir::Tensor(ir::DType::kF64, result.shape());
      } else {
        local = local_error(graph, id, operands, result, contract, pool);
      }
      if (!local.error.bound.defined()) {
        local.error.bound = ir::Tensor(ir::DType::kF64, result.shape());
        local.error.variance = ir::Tensor(ir::DType::kF64, result.shape());
      }
      if (family.matched == Hypothesis::kF16 || family.matched == Hypothesis::kBf16)
        add_storage(result, family.matched,
                    is_sum_node(node.op) && operands.size() > 2 ? largest_of(operands[2]) : 0,
                    local.error.bound);
      errors.step(id, operands, result, local);
    }
    values[node.result.index] = std::move(result);
  }
  const auto bound = errors.at(graph.outputs()[0]).bound.data<double>();
  return {bound.begin(), bound.end()};
}

class Certifier {
 public:
  Certifier(const CertifySettings& settings, std::vector<const CertifyFamily*> families,
            std::vector<const FaultKind*> kinds, const Services& services)
      : settings_(settings), kinds_(std::move(kinds)), services_(services) {
    report_.families = std::move(families);
    auto add = [&](std::string name) {
      ComparerScore score;
      score.name = std::move(name);
      score.by_family.resize(report_.families.size());
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
    for (family_ = 0; family_ < report_.families.size(); ++family_)
      for (int model : family().models) {
        if (model >= report_.shapes) continue;
        silent_.clear();
        for (int seed = 0; seed < settings_.seeds; ++seed) {
          if (services_.progress)
            services_.progress(fmt::format("{}, model {}/{}, seed {}/{}", family().name, model + 1,
                                           report_.shapes, seed + 1, settings_.seeds));
          DRIFTC_CHECK(one(model, static_cast<std::uint64_t>(seed)));
        }
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
                       const CertifyVariant& variant, const Faults& faults, bool check) {
    DRIFTC_TRY(settings, certify_settings(family(), variant, settings_.device, tunings_));
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
      run.error = report.error().message;
      return run;
    }
    run.verdict = report->verdict;
    return run;
  }

  Result<void> one(int shape, std::uint64_t seed) {
    Subject subject{certify_model(shape, seed), {}, {}, {}, {}};
    const ir::Graph& graph = subject.model.graph;
    subject.output = graph.value(graph.outputs()[0]).name;
    subject.nan_inputs = subject.model.inputs;
    subject.nan_inputs[0].tensor = with_nan(subject.nan_inputs[0].tensor);
    DRIFTC_TRY(plain, certify_settings(family(), family().base, settings_.device, tunings_));
    DRIFTC_TRY(reference, run_arm(graph, subject.model.inputs, Arm::kReference, plain, services_));
    subject.reference = reference[0].tensor;
    subject.bound =
        accumulation_bound(graph, subject.model.inputs, family(), plain.device, services_.pool);

    std::vector<Pending> pending, pending_nan;
    Faults only_precision;
    only_precision.graph = [&](ir::Graph& g) { round_operands(g, family()); };
    for (const CertifyVariant& variant : family().variants) {
      const Verdict allowed = variant.other_accumulator
                                  ? std::max(family().allowed, Verdict::kPrecision)
                                  : family().allowed;
      DRIFTC_TRY(run, run_pair(subject, subject.model.inputs, variant, only_precision, false));
      const std::string what =
          fmt::format("{}, {}, {}", to_string(variant), family().name, subject.model.name);
      if (run.failed)
        return internal_error(
            fmt::format("a healthy variant does not run: {}: {}", what, run.error));
      ++report_.healthy;
      count_healthy(report_.comparers[0], run.verdict > allowed, what);
      others_healthy(run, subject, what);
      pending.push_back({what, false, run.compiled});
    }
    // The base of all faults also has to pass checked mode, in which barrier faults are planted.
    DRIFTC_TRY(base, run_pair(subject, subject.model.inputs, family().base, only_precision, true));
    if (base.failed)
      return internal_error(fmt::format("the healthy base does not pass checked mode: {}, {}: {}",
                                        family().name, subject.model.name, base.error));
    DRIFTC_TRY(base_nan,
               run_pair(subject, subject.nan_inputs, family().base, only_precision, false));
    for (const FaultKind* kind : kinds_)
      DRIFTC_CHECK(plant(*kind, subject, kind->nan_input ? base_nan : base,
                         kind->nan_input ? pending_nan : pending));
    DRIFTC_CHECK(ask_judge(subject, subject.model.inputs, pending));
    DRIFTC_CHECK(ask_judge(subject, subject.nan_inputs, pending_nan));
    return {};
  }

  Result<void> plant(const FaultKind& kind, const Subject& subject, const Run& healthy,
                     std::vector<Pending>& pending) {
    // What no kernel of a model has a place for is the same with every seed of its data.
    if (silent_.contains(&kind)) {
      ++report_.without_effect;
      return {};
    }
    const auto applied = std::make_shared<bool>(false);
    Faults faults = kind.plant(applied);
    faults.graph = [&, own = faults.graph](ir::Graph& g) {
      round_operands(g, family());
      if (own) own(g);
    };
    const auto& inputs = kind.nan_input ? subject.nan_inputs : subject.model.inputs;
    DRIFTC_TRY(run, run_pair(subject, inputs, family().base, faults, kind.sanitizer));
    const bool hidden = kind.declaration;
    bool changes = run.failed || !ir::same_bits(run.compiled, healthy.compiled);
    if (hidden && *applied && run.verdict != Verdict::kUnexplained) {
      // Nobody can object where kernels that do what is declared make the same bits (16-bit results
      // hide most orders).
      Faults obeyed;
      obeyed.graph = [&](ir::Graph& g) {
        round_operands(g, family());
        faults.declaration(g);
      };
      DRIFTC_TRY(other, run_pair(subject, inputs, family().base, obeyed, false));
      changes = other.failed || !ir::same_bits(other.compiled, healthy.compiled);
    } else if (hidden) {
      changes = true;
    }
    if (!*applied) silent_.insert(&kind);
    if (!*applied || !changes) {
      ++report_.without_effect;
      return {};
    }
    effective_.insert(kind.name);
    Pending p{kind.name, true, run.compiled, 0, 0};
    if (!run.failed && !hidden) measure(subject, healthy.compiled, p);
    ++report_.faults;
    count_fault(report_.comparers[0], run.failed || run.verdict == Verdict::kUnexplained, p,
                subject);
    if (hidden || run.failed) return {};  // outputs are those of a healthy run, or there are none
    for (std::size_t i = 0; i < compare::emulated_comparers().size(); ++i) {
      const bool passes =
          compare::emulated_comparers()[i].passes(run.eager, run.compiled, subject.reference);
      count_fault(report_.comparers[2 + i], !passes, p, subject);
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

  void others_healthy(const Run& run, const Subject& subject, const std::string& what) {
    for (std::size_t i = 0; i < compare::emulated_comparers().size(); ++i)
      count_healthy(
          report_.comparers[2 + i],
          !compare::emulated_comparers()[i].passes(run.eager, run.compiled, subject.reference),
          what);
  }

  // The judge is told the inputs and the outputs. A fault is found when no precision explains the
  // result, or another one than the system says it computes in.
  Result<void> ask_judge(const Subject& subject, const std::vector<NamedTensor>& inputs,
                         const std::vector<Pending>& pending) {
    if (pending.empty()) return {};
    std::vector<std::vector<NamedTensor>> results;
    for (const Pending& p : pending) results.push_back({{subject.output, p.result}});
    DRIFTC_TRY(judged, judge_results(subject.model.graph, inputs, results, {},
                                     Services{services_.cache, services_.pool, {}}));
    for (std::size_t i = 0; i < pending.size(); ++i) {
      const bool named = std::ranges::any_of(family().judged, [&](std::string_view name) {
        return judged[i].precision.starts_with(name);
      });
      const bool accused = judged[i].verdict == Verdict::kUnexplained || !named;
      if (pending[i].fault) {
        count_fault(report_.comparers[1], accused, pending[i], subject);
      } else {
        count_healthy(
            report_.comparers[1], accused,
            accused ? pending[i].what + " judged " + judged[i].precision : pending[i].what);
      }
    }
    return {};
  }

  void count_healthy(ComparerScore& score, bool accused, const std::string& what) const {
    for (CertifyCounts* counts : {&score.all, &score.by_family[family_]}) {
      ++counts->healthy;
      counts->false_alarms += accused;
    }
    if (accused) score.accused.push_back(what);
  }
  void count_fault(ComparerScore& score, bool found, const Pending& p,
                   const Subject& subject) const {
    for (CertifyCounts* counts : {&score.all, &score.by_family[family_]}) {
      ++counts->faults;
      counts->found += found;
    }
    if (!found)
      score.missed.push_back(
          {p.what, std::string(family().name), subject.model.name, p.size, p.bounds});
  }

  const CertifyFamily& family() const { return *report_.families[family_]; }

  const CertifySettings& settings_;
  const std::vector<const FaultKind*> kinds_;
  const Services& services_;
  CertifyReport report_;
  Tunings tunings_;
  std::size_t family_ = 0;
  std::set<const FaultKind*> silent_;  // have no place in the kernels of this family and model
  std::set<std::string> effective_;    // names of kinds that changed something
};

}  // namespace

bool CertifyReport::holds() const {
  const ComparerScore &own = comparers[0], &judge = comparers[1];
  if (!own.missed.empty() || own.all.false_alarms > 0 || judge.all.false_alarms > 0) return false;
  return std::ranges::none_of(judge.missed, [&](const MissedFault& m) {
    const auto family = std::ranges::find(
        families, m.precision, [](const CertifyFamily* f) { return std::string(f->name); });
    return (*family)->every_fault || m.bounds > 2;
  });
}

Result<CertifyReport> certify(const CertifySettings& settings, const Services& services) {
  DRIFTC_TRY(kinds, chosen_faults(settings.faults));
  DRIFTC_TRY(families, chosen_families(settings.families));
  return Certifier(settings, std::move(families), std::move(kinds), services).run();
}

}  // namespace driftc::runtime::study
