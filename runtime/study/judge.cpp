#include "runtime/study/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "ir/printer.h"
#include "ir/support/hash.h"
#include "ir/support/round.h"
#include "runtime/study/fit.h"

namespace driftc::runtime::study {
namespace {

using compare::Cause;
using compare::CauseKind;
using compare::Evidence;
using compare::Verdict;

// Everything one hypothesis says about the wanted values; twins are made when asked for.
struct Prediction {
  PrecisionHypothesis hypothesis;
  std::vector<Expectation> expected;
  std::vector<std::vector<ir::Tensor>> twins;  // by twin, then by wanted value
};

// Orders whose results are held against a file and calibrate the limit: the three shapes of sums
// that libraries use.
using Orders = std::vector<ir::ReductionOrder>;
Orders parsed(const char* list) {
  if (*list == 0) return {};
  auto orders = ir::parse_order_list(list);
  DRIFTC_ASSERT(orders.ok(), "twin orders are orders");
  return *orders;
}
constexpr std::size_t kTwins = 3;
// On tensor cores what shifts a result is the length of its chains and what they start from.
const std::array<Orders, kTwins>& twin_orders(const PrecisionHypothesis& h) {
  static const std::array<Orders, kTwins> scalar = {
      parsed(""), parsed("rsc.fma,k.split4.fma,hw.lanes8.add"),
      parsed("rsc.lanes8.muladd,k.lanes8.muladd,hw.acc4.add")};
  static const std::array<Orders, kTwins> blocks = {
      parsed(""), parsed("rsc.fma+bias.first,k.fma+bias.first,hw.lanes8.add"),
      parsed("crs.split8.fma,k.split8.fma,hw.acc4.add")};
  return h.arch.empty() ? scalar : blocks;
}

std::string twin_name(const PrecisionHypothesis& h, std::size_t i) {
  if (i == 0) return "eager";
  std::string out;
  for (const ir::ReductionOrder& order : twin_orders(h)[i])
    out += (out.empty() ? "" : ", ") + to_string(order);
  return out;
}

Cause cause_of(const PrecisionHypothesis& h, const std::string& node) {
  if (h.winograd != 0)
    return {CauseKind::kAlgorithm, node,
            fmt::format("transforms of F({},3), {}", h.winograd, name_of(h))};
  if (h.operands == Hypothesis::kF32)
    return {CauseKind::kReductionOrder, node, "another order of the sums"};
  if (h.operands == Hypothesis::kFtz)
    return {CauseKind::kFlushToZero, node, "subnormals flushed to zero"};
  if (h.storage)
    return {CauseKind::kIntermediateRounding, node,
            fmt::format("values stored as {}", runtime::name_of(h.operands))};
  return {CauseKind::kInputRounding, node, "operands of products in " + name_of(h)};
}
Verdict rung_of(const PrecisionHypothesis& h) {
  if (h.winograd != 0) return Verdict::kAlgorithm;
  return h.operands == Hypothesis::kF32 ? Verdict::kOrder : Verdict::kPrecision;
}

class Judge {
 public:
  Judge(const ir::Graph& graph, const JudgeSettings& settings, const Services& services)
      : graph_(graph), settings_(settings), services_(services) {}

  Result<std::vector<JudgedFile>> run_all(const std::vector<NamedTensor>& inputs,
                                          const std::vector<std::vector<NamedTensor>>& results) {
    DRIFTC_CHECK(take_inputs(inputs));
    DRIFTC_CHECK(choose_values());
    std::vector<JudgedFile> out;
    for (const auto& list : results) {
      DRIFTC_TRY(tensors, take_results(list));
      out.push_back(judge_file("a", tensors));
    }
    return out;
  }

  Result<JudgeReport> run(const std::vector<NamedTensor>& inputs, const std::vector<NamedTensor>& a,
                          const std::vector<NamedTensor>& b) {
    DRIFTC_CHECK(take_inputs(inputs));
    DRIFTC_CHECK(choose_values());
    report_.graph_name = graph_.name();
    report_.graph_hash = hash64_hex(ir::print(graph_));
    report_.graph_nodes = static_cast<std::int64_t>(graph_.node_count());
    report_.node = settings_.node;
    std::vector<std::vector<ir::Tensor>> files;
    for (const auto* list : {&a, &b}) {
      if (list == &b && b.empty()) break;
      DRIFTC_TRY(tensors, take_results(*list));
      files.push_back(tensors);
    }
    for (std::size_t f = 0; f < files.size(); ++f) {
      report_.files.push_back(judge_file(f == 0 ? "a" : "b", files[f]));
    }
    report_.verdict = report_.files[0].verdict;
    report_.evidence = report_.files[0].evidence;
    report_.causes = report_.files[0].causes;
    if (files.size() == 2) {
      report_.pair = judge_pair(files[0], files[1]);
      report_.verdict = report_.pair->verdict;
      report_.evidence = report_.pair->evidence;
      report_.causes = report_.pair->causes;
    }
    return std::move(report_);
  }

 private:
  std::vector<std::string> value_names() const {
    std::vector<std::string> names;
    for (const ir::Value& value : graph_.values()) names.push_back(value.name);
    return names;
  }

  Result<void> take_inputs(const std::vector<NamedTensor>& inputs) {
    given_.resize(graph_.value_count());
    for (const NamedTensor& input : inputs) {
      const auto id = graph_.find(input.name);
      if (!id)
        return input_error("the model has no value '" + input.name + "'",
                           name_hint(input.name, value_names()));
      const ir::Value& value = graph_.value(*id);
      if (settings_.node.empty() && value.producer)
        return input_error(fmt::format("'{}' is no input of the model", input.name),
                           "--at NODE judges one node on given operands");
      if (input.tensor.shape() != value.type.shape)
        return input_error(fmt::format("'{}' has shape {}, the model needs {}", input.name,
                                       to_string(input.tensor.shape()),
                                       to_string(value.type.shape)));
      given_[id->index] = input.tensor.dtype() == ir::DType::kI64
                              ? input.tensor
                              : input.tensor.converted(ir::DType::kF32);
      report_.inputs.push_back(describe_input(input.name, given_[id->index]));
    }
    return {};
  }

  Result<void> choose_values() {
    if (settings_.node.empty()) {
      for (ir::ValueId output : graph_.outputs()) wanted_.push_back(output);
    } else {
      const auto id = graph_.find(settings_.node);
      if (!id)
        return input_error("the model has no node '" + settings_.node + "'",
                           name_hint(settings_.node, value_names()));
      wanted_.push_back(*id);
    }
    for (ir::ValueId v : wanted_)
      if (!graph_.value(v).producer || graph_.is_constant(v))
        return input_error(fmt::format("'{}' is no result of a node: there is nothing to judge",
                                       graph_.value(v).name));
    for (ir::NodeId id : cone_of(graph_, given_, wanted_))
      for (ir::ValueId v : graph_.node(id).operands)
        if (!given_[v.index].defined() && !graph_.value(v).producer)
          return input_error(fmt::format("input '{}' is not given", graph_.value(v).name),
                             fmt::format("--input {}=FILE.npy", graph_.value(v).name));
    return {};
  }

  Result<std::vector<ir::Tensor>> take_results(const std::vector<NamedTensor>& results) const {
    std::vector<ir::Tensor> out;
    for (ir::ValueId v : wanted_) {
      const ir::Value& value = graph_.value(v);
      const NamedTensor* found = nullptr;
      for (const NamedTensor& result : results)
        if (result.name == value.name || (result.name.empty() && wanted_.size() == 1))
          found = &result;
      if (found == nullptr)
        return input_error(fmt::format("no result for '{}' is given", value.name));
      if (found->tensor.shape() != value.type.shape)
        return input_error(
            fmt::format("the result for '{}' has shape {}, the model makes {}", value.name,
                        to_string(found->tensor.shape()), to_string(value.type.shape)),
            "the verdict is invalid: the two do not compute the same value");
      if ((found->tensor.dtype() == ir::DType::kI64) != (value.type.dtype == ir::DType::kI64))
        return input_error(fmt::format("the result for '{}' is {}, the model makes {}", value.name,
                                       ir::name_of(found->tensor.dtype()),
                                       ir::name_of(value.type.dtype)));
      out.push_back(found->tensor);
    }
    return out;
  }

  // The values that are floating point; others are compared by their bits alone.
  std::vector<ir::ValueId> floating() const {
    std::vector<ir::ValueId> out;
    for (ir::ValueId v : wanted_)
      if (graph_.value(v).type.dtype != ir::DType::kI64) out.push_back(v);
    return out;
  }

  bool direct() const {
    if (settings_.node.empty() && graph_.outputs().size() != 1) return false;
    const ir::Node& node = *graph_.producer(wanted_[0]);
    return std::all_of(node.operands.begin(), node.operands.end(), [&](ir::ValueId v) {
      return given_[v.index].defined() || graph_.is_constant(v);
    });
  }

  // Whether there is such a hypothesis.
  bool known(std::size_t index) {
    if (hypotheses_.empty())
      hypotheses_ = direct() ? node_hypotheses(graph_, *graph_.value(wanted_[0]).producer)
                             : graph_hypotheses(graph_);
    return index < hypotheses_.size();
  }
  // Makes predictions_[index].
  void expect_under(std::size_t index) {
    while (predictions_.size() <= index) {
      const PrecisionHypothesis& h = hypotheses_[predictions_.size()];
      if (services_.progress) services_.progress("expecting " + name_of(h));
      predictions_.push_back({h, expect(graph_, given_, floating(), h, services_.pool), {}});
    }
  }

  // Twins of a hypothesis for one wanted value, `count` of them.
  std::vector<ir::Tensor> twins(std::size_t index, std::size_t value, std::size_t count) {
    Prediction& p = predictions_[index];
    while (p.twins.size() < count) {
      if (services_.progress)
        services_.progress(fmt::format("running {} as {}", name_of(p.hypothesis),
                                       twin_name(p.hypothesis, p.twins.size())));
      p.twins.push_back(healthy_twin(graph_, given_, floating(), p.hypothesis,
                                     twin_orders(p.hypothesis)[p.twins.size()], services_.pool));
    }
    std::vector<ir::Tensor> out;
    for (std::size_t i = 0; i < count; ++i) out.push_back(p.twins[i][value]);
    return out;
  }

  JudgedFile judge_file(const std::string& label, const std::vector<ir::Tensor>& results) {
    JudgedFile file;
    file.label = label;
    const std::vector<ir::ValueId> values = floating();
    std::vector<ir::Tensor> observed;
    std::vector<std::vector<Fit>> fits;  // by hypothesis, by value
    for (std::size_t i = 0; i < wanted_.size(); ++i)
      if (graph_.value(wanted_[i]).type.dtype != ir::DType::kI64) observed.push_back(results[i]);
    for (std::size_t h = 0; known(h); ++h) {
      // Units and algorithms of their own are asked for what no chain of sums explains by its
      // statistics, tensor cores after transforms, all of a kind.
      const auto kind = [&](std::size_t i) {
        return !hypotheses_[i].arch.empty() ? 2 : hypotheses_[i].winograd != 0 ? 1 : 0;
      };
      if (h > 0 && kind(h) != kind(h - 1) && fits_statistically(fits[choose(fits).first])) break;
      // At a node all hypotheses are shown; a graph costs more, and nothing is asked once f32
      // explains it.
      if (h == 1 && !direct() && fits_statistically(fits[0])) break;
      expect_under(h);
      std::vector<Fit> row;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const TwinSource source = [&](std::size_t count) { return twins(h, i, count); };
        row.push_back(fit(observed[i], predictions_[h].expected[i], predictions_[h].hypothesis,
                          kTwins, source));
      }
      fits.push_back(std::move(row));
    }
    const auto [chosen, accepted] = choose(fits);
    const PrecisionHypothesis hypothesis =
        hypotheses_.empty() ? PrecisionHypothesis{} : hypotheses_[chosen];
    file.precision = name_of(hypothesis);
    bool all_identical = true, all_replayed = true;
    Evidence weakest = Evidence::kBits;
    for (std::size_t i = 0; i < values.size(); ++i) {
      JudgedValue value = describe(values[i], observed[i], chosen, fits, i);
      all_identical =
          all_identical && value.same_bits_as == "eager" && hypothesis == PrecisionHypothesis{};
      all_replayed = all_replayed && !value.same_bits_as.empty();
      weakest =
          std::max(weakest, value.accepted ? fits[chosen][i].summary.evidence : Evidence::kNone);
      file.values.push_back(std::move(value));
    }
    const bool integers_equal = integer_results_equal(results);
    if (!integers_equal || (!values.empty() && !accepted)) {
      file.verdict = Verdict::kUnexplained;
      file.evidence = Evidence::kNone;
      for (const JudgedValue& value : file.values)
        if (value.specials.accusing())
          file.causes.push_back({CauseKind::kSpecials, value.name, value.special_words[0]});
    } else if (all_identical) {
      file.verdict = Verdict::kIdentical;
      file.evidence = Evidence::kBits;
    } else {
      file.verdict = rung_of(hypothesis);
      file.evidence = all_replayed ? Evidence::kReplayed : weakest;
      file.causes.push_back(
          cause_of(hypothesis, values.size() == 1 ? graph_.value(values[0]).name : ""));
    }
    return file;
  }

  static bool fits_statistically(const std::vector<Fit>& row) {
    return std::all_of(row.begin(), row.end(), [](const Fit& f) {
      return f.summary.accepted && f.summary.evidence == Evidence::kStatistical;
    });
  }

  // What tensor cores do to a sum they do to all of them. Where the same operands summed in f32 fit
  // but for a group of elements (a channel, a row), blocks are no excuse for that group.
  static constexpr double kGroup = 0.5;  // standard deviations; truncation makes a third at most
  bool hides_a_group(std::size_t h, const std::vector<std::vector<Fit>>& fits) const {
    if (hypotheses_[h].arch.empty()) return false;
    PrecisionHypothesis chain = hypotheses_[h];
    chain.arch.clear();
    for (std::size_t b = 0; b < h; ++b) {
      if (hypotheses_[b] != chain) continue;
      return std::ranges::any_of(fits[b], [](const Fit& f) {
        return f.summary.beyond == 0 && !f.specials.accusing() &&
               std::ranges::any_of(f.structure,
                                   [](const compare::Structure& found) {
                                     return std::fabs(found.mean) > kGroup;
                                   }) &&
               std::ranges::none_of(f.structure, [](const compare::Structure& found) {
                 return found.words.starts_with("a constant ");
               });
      });
    }
    return false;
  }

  // f32 where it fits; else the nearest of those inside their statistical bounds; else the nearest
  // of all, which counts when it lies inside the bound for any order. (That bound alone would pass
  // TF32 as f32 from K of about 2,300 on.)
  std::pair<std::size_t, bool> choose(const std::vector<std::vector<Fit>>& fits) const {
    if (fits.empty() || fits_statistically(fits[0])) return {0, true};
    // A result whose specials do not match is at no distance.
    const auto largest = [&](std::size_t h, double HypothesisFit::*figure) {
      double d = 0;
      for (const Fit& f : fits[h])
        d = f.specials.accusing() ? std::numeric_limits<double>::infinity()
                                  : std::max(d, f.summary.*figure);
      return d;
    };
    const auto distance = [&](std::size_t h) { return largest(h, &HypothesisFit::typical); };
    const auto overall = [&](std::size_t h) { return largest(h, &HypothesisFit::rel_l2); };
    // Where several fit, the data may hardly tell them apart (tf32 and f16 operands differ in ties
    // and subnormals only). A later one replaces an earlier one when the likelihood ratio exceeds
    // 1 / kFalseAlarm; under the earlier one that has at most the probability kFalseAlarm (Markov).
    const auto surprise = [&](std::size_t h) {
      double sum = 0;
      for (const Fit& f : fits[h]) sum += f.surprise;
      return sum;
    };
    const double kDecisive = -2 * std::log(compare::kFalseAlarm);
    std::optional<std::size_t> fitting;
    const auto decisive = [&](std::size_t h) {
      return overall(h) < overall(*fitting) && surprise(*fitting) - surprise(h) > kDecisive;
    };
    std::size_t nearest = 0;
    for (std::size_t h = 1; h < fits.size(); ++h) {
      if (distance(h) < distance(nearest)) nearest = h;
      if (!fits_statistically(fits[h])) continue;
      if (hides_a_group(h, fits)) continue;
      if (!fitting || decisive(h)) fitting = h;
    }
    // A group that another chip's sums excuse as well is no reason to name the worse of two.
    if (fitting && !hypotheses_[*fitting].arch.empty())
      for (std::size_t h = 1; h < fits.size(); ++h)
        if (fits_statistically(fits[h]) && decisive(h)) fitting = h;
    // The same operands summed in another way are no other precision.
    const auto alike = [&](const PrecisionHypothesis& a, const PrecisionHypothesis& b) {
      return a.operands == b.operands && a.storage == b.storage && a.autocast == b.autocast &&
             a.winograd == b.winograd;
    };
    // Chips differ by that much in what they cut off.
    const double room = fitting && !hypotheses_[*fitting].arch.empty() ? 4 : 2;
    if (fitting && (distance(*fitting) <= room * distance(nearest) ||
                    alike(hypotheses_[*fitting], hypotheses_[nearest])))
      return {*fitting, true};
    // Another precision than f32 has to be clearly nearer to be named.
    if (distance(0) < 2 * distance(nearest)) nearest = 0;
    if (fits_statistically(fits[nearest])) return {nearest, true};
    return {nearest, std::all_of(fits[nearest].begin(), fits[nearest].end(),
                                 [](const Fit& f) { return f.summary.accepted; })};
  }

  // i64 results must be those of the interpreter.
  bool integer_results_equal(const std::vector<ir::Tensor>& results) {
    std::vector<ir::ValueId> integers;
    std::vector<ir::Tensor> observed;
    for (std::size_t i = 0; i < wanted_.size(); ++i)
      if (graph_.value(wanted_[i]).type.dtype == ir::DType::kI64) {
        integers.push_back(wanted_[i]);
        observed.push_back(results[i]);
      }
    if (integers.empty()) return true;
    const auto right = healthy_twin(graph_, given_, integers, {}, {}, services_.pool);
    for (std::size_t i = 0; i < right.size(); ++i)
      if (!ir::same_bits(right[i], observed[i])) return false;
    return true;
  }

  JudgedValue describe(ir::ValueId id, const ir::Tensor& observed, std::size_t chosen,
                       const std::vector<std::vector<Fit>>& fits, std::size_t index) {
    JudgedValue value;
    value.name = graph_.value(id).name;
    value.op = ir::info(graph_.producer(id)->op).name;
    value.type = {observed.dtype(), observed.shape(), ir::Layout::kNchw};
    value.chosen = chosen;
    for (std::size_t h = 0; h < fits.size(); ++h) {
      value.fits.push_back(fits[h][index].summary);
      value.fits.back().name = name_of(hypotheses_[h]);
    }
    const Fit& best = fits[chosen][index];
    value.accepted = best.summary.accepted;
    value.specials = best.specials;
    value.special_words = compare::explain(best.specials);
    value.structure = best.structure;
    value.visible = best.visible;
    const ir::Tensor narrow = observed.converted(ir::DType::kF32);
    const Expectation& expected = predictions_[chosen].expected[index];
    value.worst =
        compare::measure(narrow, expected.value.converted(ir::DType::kF32), &expected.value, 3)
            .worst;
    value.classes = compare::class_changes(expected.value.converted(ir::DType::kF32), narrow);
    const bool all_twins = predictions_[chosen].twins.size() >= kTwins;
    const auto known = twins(chosen, index, all_twins ? kTwins : 1);
    for (std::size_t i = 0; i < known.size() && value.same_bits_as.empty(); ++i)
      if (observed.dtype() == ir::DType::kF32 && ir::same_bits(known[i], observed))
        value.same_bits_as = twin_name(hypotheses_[chosen], i);
    return value;
  }

  JudgedPair judge_pair(const std::vector<ir::Tensor>& a, const std::vector<ir::Tensor>& b) {
    JudgedPair pair;
    bool equal = true;
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      if (graph_.value(wanted_[i]).type.dtype == ir::DType::kI64) {
        equal = equal && ir::same_bits(a[i], b[i]);
        continue;
      }
      const ir::Tensor x = a[i].converted(ir::DType::kF32), y = b[i].converted(ir::DType::kF32);
      equal = equal && ir::same_bits(x, y);
      pair.values.emplace_back(graph_.value(wanted_[i]).name, compare::measure(x, y, nullptr, 3));
      if (!pair.classes) pair.classes = compare::class_changes(x, y);
    }
    const JudgedFile &fa = report_.files[0], &fb = report_.files[1];
    const bool wrong_a = fa.verdict == Verdict::kUnexplained,
               wrong_b = fb.verdict == Verdict::kUnexplained;
    if (equal) {
      pair.words = wrong_a ? "the two files hold the same bits, and neither is a result of this "
                             "model on these inputs"
                           : "the two files hold the same bits";
      return pair;
    }
    if (wrong_a || wrong_b) {
      pair.verdict = Verdict::kUnexplained;
      pair.evidence = Evidence::kNone;
      pair.words = wrong_a && wrong_b ? "neither file is a correct result in any precision tried"
                   : wrong_a
                       ? "A is no correct result in any precision tried; B is, in " + fb.precision
                       : "B is no correct result in any precision tried; A is, in " + fa.precision;
      for (const JudgedFile* f : {&fa, &fb})
        pair.causes.insert(pair.causes.end(), f->causes.begin(), f->causes.end());
      if (!wrong_a || !wrong_b) pair.causes.clear();
      return pair;
    }
    pair.evidence = std::max(fa.evidence, fb.evidence);
    const std::string node = wanted_.size() == 1 ? graph_.value(wanted_[0]).name : "";
    if (fa.precision == fb.precision) {
      pair.verdict = Verdict::kOrder;
      pair.causes = {{CauseKind::kReductionOrder, node, "another order of the sums"}};
      pair.words = fmt::format(
          "both are {} results; they differ by the order of sums (another system, or a run that "
          "does not repeat)",
          fa.precision);
      return pair;
    }
    pair.verdict = Verdict::kPrecision;
    for (const JudgedFile* f : {&fa, &fb})
      for (const Cause& cause : f->causes)
        if (compare::rung_of(cause.kind) == Verdict::kPrecision ||
            cause.kind == CauseKind::kIntermediateRounding) {
          pair.causes.push_back(cause);
          pair.causes.back().detail = fmt::format("{}: {}", f == &fa ? "A" : "B", cause.detail);
        }
    pair.words = fmt::format("A is a {} result, B a {} result", fa.precision, fb.precision);
    return pair;
  }

  const ir::Graph& graph_;
  const JudgeSettings& settings_;
  const Services& services_;
  GivenValues given_;
  std::vector<ir::ValueId> wanted_;
  std::vector<PrecisionHypothesis> hypotheses_;
  std::vector<Prediction> predictions_;
  JudgeReport report_;
};

}  // namespace

Result<JudgeReport> judge(const ir::Graph& graph, const std::vector<NamedTensor>& inputs,
                          const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b,
                          const JudgeSettings& settings, const Services& services) {
  return Judge(graph, settings, services).run(inputs, a, b);
}

Result<std::vector<JudgedFile>> judge_results(const ir::Graph& graph,
                                              const std::vector<NamedTensor>& inputs,
                                              const std::vector<std::vector<NamedTensor>>& results,
                                              const JudgeSettings& settings,
                                              const Services& services) {
  return Judge(graph, settings, services).run_all(inputs, results);
}

}  // namespace driftc::runtime::study
