#include "frontend/report/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "frontend/report/advice.h"
#include "frontend/report/audit_report.h"
#include "frontend/report/schedules_report.h"
#include "frontend/report/tuning_report.h"
#include "ir/support/round.h"
#include "passes/form_kernels.h"

namespace driftc::frontend {
namespace {

using runtime::compare::CauseKind;
using runtime::compare::Evidence;
using runtime::compare::Verdict;
using runtime::study::NodeReport;
using runtime::study::PairReport;

// Tables up to this many rows are shown whole.
constexpr std::size_t kWholeTable = 28;
constexpr std::size_t kWorstShown = 10;
constexpr std::size_t kNameWidth = 26;
constexpr std::size_t kNamesShown = 4;
// Tuned kernels and runners-up of each: enough to see what chose; bench shows all.
constexpr std::size_t kTunedShown = 6, kRunnersUpShown = 2;

Colour colour_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kIdentical:
      return Colour::kGreen;
    case Verdict::kOrder:
    case Verdict::kPrecision:
    case Verdict::kAlgorithm:
      return Colour::kYellow;
    case Verdict::kUnexplained:
    case Verdict::kInvalid:
      return Colour::kRed;
    case Verdict::kNotCompiled:
      return Colour::kDim;
  }
  return Colour::kNone;
}

// One word per cause: the table is narrow, and the section on causes has the full names.
std::string_view short_name(CauseKind kind) {
  switch (kind) {
    case CauseKind::kReductionOrder:
      return "order";
    case CauseKind::kContraction:
      return "contraction";
    case CauseKind::kWeightFolding:
      return "folding";
    case CauseKind::kIntermediateRounding:
      return "rounding";
    case CauseKind::kAccumulator:
      return "accumulator";
    case CauseKind::kInputRounding:
      return "input";
    case CauseKind::kFlushToZero:
      return "ftz";
    case CauseKind::kAlgorithm:
      return "algorithm";
    case CauseKind::kSpecials:
      return "specials";
    case CauseKind::kUpstream:
      return "upstream";
  }
  return "";
}

// "order +1": the first own cause, else upstream; +N for N more.
std::string cause_cell(const NodeReport& node) {
  std::vector<CauseKind> kinds;
  for (const auto& cause : node.causes)
    if (std::find(kinds.begin(), kinds.end(), cause.kind) == kinds.end())
      kinds.push_back(cause.kind);
  std::stable_partition(kinds.begin(), kinds.end(),
                        [](CauseKind k) { return k != CauseKind::kUpstream; });
  if (kinds.empty()) return "";
  std::string text(short_name(kinds[0]));
  if (kinds.size() > 1) text += fmt::format(" +{}", kinds.size() - 1);
  return text;
}

std::string error_cell(const std::optional<runtime::compare::Distance>& d) {
  return d ? brief(d->rel_l2) : "";
}

void add_row(Table& table, const NodeReport& node) {
  const auto& m = node.metrics;
  std::vector<std::string> cells = {shortened(node.name, kNameWidth), shortened(node.op, 12),
                                    std::string(runtime::compare::name_of(node.verdict)),
                                    cause_cell(node)};
  if (!node.materialised) {
    cells.push_back("inside");
  } else {
    cells.push_back(share(m.mismatched, m.elements));
    const bool same = m.mismatched == 0;
    cells.push_back(same ? "" : brief_count(m.max_ulp));
    cells.push_back(same ? "" : brief(m.max_abs));
    cells.push_back(same ? "" : brief(m.rel_l2));
    cells.push_back(error_cell(node.eager_to_reference));
    cells.push_back(error_cell(node.compiled_to_reference));
  }
  table.add(std::move(cells), 2, colour_of(node.verdict));
}

Table value_table(bool with_reference) {
  constexpr auto kRight = Table::Align::kRight;
  return Table({{"value"},
                {"op"},
                {"verdict"},
                {"cause"},
                {"differ", kRight},
                {"max ulp", kRight, 1},
                {"max abs", kRight, 1},
                {"rel L2", kRight, 1},
                {with_reference ? "err eager" : "", kRight},
                {with_reference ? "compiled" : "", kRight, 1}});
}

// Rows of a long table: the first that differs, the worst by rel L2, and all that are not
// explained.
std::set<std::size_t> chosen_rows(const std::vector<const NodeReport*>& nodes) {
  std::set<std::size_t> chosen;
  std::vector<std::size_t> differing;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i]->verdict == Verdict::kUnexplained && chosen.size() < kWholeTable) chosen.insert(i);
    if (nodes[i]->metrics.mismatched > 0) differing.push_back(i);
  }
  if (!differing.empty()) chosen.insert(differing.front());
  std::stable_sort(differing.begin(), differing.end(), [&](std::size_t a, std::size_t b) {
    return nodes[a]->metrics.rel_l2 > nodes[b]->metrics.rel_l2;
  });
  for (std::size_t i = 0; i < std::min(kWorstShown, differing.size()); ++i)
    chosen.insert(differing[i]);
  return chosen;
}

// "51 more: 30 identical, 21 order"
std::string folded_line(const std::vector<const NodeReport*>& nodes,
                        const std::set<std::size_t>& shown, std::int64_t inside) {
  std::vector<std::pair<Verdict, std::int64_t>> counts;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (shown.count(i) != 0) continue;
    auto at = std::find_if(counts.begin(), counts.end(),
                           [&](const auto& c) { return c.first == nodes[i]->verdict; });
    if (at == counts.end())
      counts.emplace_back(nodes[i]->verdict, 1);
    else
      ++at->second;
  }
  std::sort(counts.begin(), counts.end());
  std::string list;
  for (const auto& [verdict, count] : counts)
    list +=
        fmt::format("{}{} {}", list.empty() ? "" : ", ", count, runtime::compare::name_of(verdict));
  std::string line;
  if (!list.empty()) line = fmt::format("{} more: {}", nodes.size() - shown.size(), list);
  if (inside > 0)
    line +=
        fmt::format("{}{} inside fused kernels", line.empty() ? "" : "; ", plural(inside, "value"));
  return line;
}

std::string values_section(const PairReport& report, const TextStyle& style) {
  std::vector<const NodeReport*> inner;
  std::int64_t inside = 0;
  std::set<std::string> output_names;
  for (const NodeReport& node : report.outputs) output_names.insert(node.name);
  bool with_reference = false;
  for (const NodeReport& node : report.nodes) {
    if (output_names.count(node.name) != 0) continue;
    if (!node.materialised) {
      ++inside;
      continue;
    }
    inner.push_back(&node);
  }
  for (const NodeReport& node : report.outputs)
    with_reference = with_reference || node.eager_to_reference.has_value();
  Table table = value_table(with_reference);
  std::set<std::size_t> shown;
  if (inner.size() <= kWholeTable)
    for (std::size_t i = 0; i < inner.size(); ++i) shown.insert(i);
  else
    shown = chosen_rows(inner);
  for (std::size_t i : shown) add_row(table, *inner[i]);
  const std::string folded = folded_line(inner, shown, inside);
  if (!folded.empty()) table.line(coloured(folded, Colour::kDim, style));
  if (!inner.empty() || inside > 0) table.divider();
  for (const NodeReport& node : report.outputs) add_row(table, node);
  return table.render(style);
}

// How far each arm is from exact on its own inputs, and what the bound says of their difference:
// the values that use most of it.
std::string exact_section(const PairReport& report, const TextStyle& style) {
  std::vector<const NodeReport*> nodes;
  for (const NodeReport& node : report.nodes)
    if (node.exact && (node.exact->eager.max_abs > 0 || node.exact->compiled.max_abs > 0))
      nodes.push_back(&node);
  if (nodes.empty()) return "";
  const auto used = [](const NodeReport* node) {
    return node->exact->bound ? node->exact->bound->used : -1;
  };
  const std::size_t all = nodes.size();
  if (all > kWholeTable) {
    std::ranges::stable_sort(nodes, std::greater<>(), used);
    nodes.resize(kWorstShown);
  }
  constexpr auto kRight = Table::Align::kRight;
  Table table({{"exact"},
               {"err eager", kRight},
               {"compiled", kRight, 1},
               {"condition", kRight},
               {"bound", kRight},
               {"used", kRight, 1},
               {"z", kRight, 1},
               {"inherited", kRight},
               {"local", kRight, 1},
               {"kind"}});
  for (const NodeReport* node : nodes) {
    const auto& e = *node->exact;
    std::vector<std::string> cells = {shortened(node->name, kNameWidth), brief(e.eager.rel_l2),
                                      brief(e.compiled.rel_l2),
                                      e.condition_max ? brief(*e.condition_max) : ""};
    if (e.bound)
      for (const std::string& cell :
           {brief(e.bound->value), brief(e.bound->used), brief(e.bound->z_max),
            brief(e.bound->inherited), brief(e.bound->local),
            std::string(runtime::compare::name_of(e.bound->kind))})
        cells.push_back(cell);
    table.add(std::move(cells), 2);
  }
  if (all > nodes.size())
    table.line(coloured(fmt::format("{} more", all - nodes.size()), Colour::kDim, style));
  return "\n" + table.render(style) + "  " +
         coloured(
             "err: relative L2 distance to the exact value on the arm's own inputs; bound: on "
             "|eager - compiled|",
             Colour::kDim, style) +
         "\n";
}

std::string index_text(const std::vector<std::int64_t>& index) {
  std::string out = "[";
  for (std::size_t i = 0; i < index.size(); ++i) out += (i ? "," : "") + std::to_string(index[i]);
  return out + "]";
}

// The largest difference of the outputs, with its bits.
std::string worst_section(const PairReport& report) {
  std::string out;
  for (const NodeReport& node : report.outputs) {
    if (node.metrics.worst.empty()) continue;
    const auto& w = node.metrics.worst.front();
    out += fmt::format("\nworst element {}{}\n", shortened(node.name, kNameWidth),
                       index_text(w.index));
    out += fmt::format("  eager     {:<16} 0x{:08x}\n  compiled  {:<16} 0x{:08x}  {}\n",
                       fmt::format("{}", w.eager), bits_of(w.eager), fmt::format("{}", w.compiled),
                       bits_of(w.compiled),
                       w.ulp == 0 ? "" : fmt::format("{} ulp apart", brief_count(w.ulp)));
    if (w.reference) out += fmt::format("  f64       {}\n", *w.reference);
  }
  return out;
}

std::string causes_section(const PairReport& report, const TextStyle& style) {
  const std::vector<CauseGroup> groups = group_causes(report);
  if (groups.empty()) return "";
  Table table({{"cause"}, {"where"}, {"governed by"}, {"first: eager -> compiled"}});
  for (const CauseGroup& group : groups) {
    std::string passes;
    for (const std::string& name : group.governed_by) passes += (passes.empty() ? "" : ", ") + name;
    const std::string where = plural(static_cast<std::int64_t>(group.nodes.size()), "value");
    table.add({std::string(runtime::compare::name_of(group.kind)), where, passes,
               group.nodes.empty() ? ""
                                   : fmt::format("{}: {}", shortened(group.nodes[0], 16),
                                                 shortened(group.detail, 80))});
  }
  return "\n" + table.render(style);
}

// Nodes by reason: a reason that holds for many nodes is said once.
std::string reasons_section(const std::string& title,
                            const std::vector<runtime::study::FallbackReport>& nodes_with_reasons) {
  if (nodes_with_reasons.empty()) return "";
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;
  for (const auto& fallback : nodes_with_reasons) {
    auto at = std::find_if(reasons.begin(), reasons.end(),
                           [&](const auto& r) { return r.first == fallback.reason; });
    if (at == reasons.end()) at = reasons.insert(reasons.end(), {fallback.reason, {}});
    at->second.push_back(fallback.node);
  }
  std::string out = "\n" + title + "\n";
  for (const auto& [reason, nodes] : reasons) {
    std::string list;
    for (std::size_t i = 0; i < std::min(nodes.size(), kNamesShown); ++i)
      list += (i ? ", " : "") + shortened(nodes[i], kNameWidth);
    if (nodes.size() > kNamesShown) list += ", ...";
    out += fmt::format("  {} ({}): {}\n", plural(static_cast<std::int64_t>(nodes.size()), "node"),
                       list, printable(reason));
  }
  return out;
}

// One line per mitigation that is on.
std::string mitigations_section(const PairReport& report) {
  std::string out;
  for (const auto& m : report.mitigations) {
    out += fmt::format("mitigation {}: {} x operations, {} x time (estimated)", m.name,
                       brief(m.operations), brief(m.time));
    if (m.f64 > 0) out += fmt::format(", {:.0f} % of them in f64", m.f64 * 100);
    if (m.interpreted > 0)
      out += fmt::format(", {:.0f} % of multiply-adds interpreted", m.interpreted * 100);
    out += "\n";
  }
  return out;
}

// Where source replay first fails, for values that nothing explains.
std::string faults_section(const PairReport& report) {
  std::string out;
  std::size_t shown = 0, all = 0;
  for (const NodeReport& node : report.nodes) {
    if (node.fault.empty()) continue;
    ++all;
    if (shown == kNamesShown) continue;
    ++shown;
    out += fmt::format("  {}: {}\n", shortened(node.name, kNameWidth), printable(node.fault));
    if (!node.pattern.empty())
      out += fmt::format(
          "  {}  {}\n",
          std::string(node.name.size() > kNameWidth ? kNameWidth : node.name.size(), ' '),
          node.pattern);
  }
  if (all > shown) out += fmt::format("  {} more\n", all - shown);
  return out.empty() ? "" : "\nunexplained\n" + out;
}

// NaN, Inf and flushed subnormals that only one arm has: norms do not show them.
std::string specials_section(const PairReport& report) {
  std::string out;
  std::size_t shown = 0, all = 0;
  for (const NodeReport& node : report.nodes) {
    if (!node.specials.accusing() && node.specials.flushed == 0) continue;
    if (++all > kNamesShown) continue;
    ++shown;
    for (const std::string& words : runtime::compare::explain(node.specials))
      out += fmt::format("  {}: {}\n", shortened(node.name, kNameWidth), words);
  }
  if (all > shown)
    out += fmt::format("  {} more\n", plural(static_cast<std::int64_t>(all - shown), "value"));
  return out.empty() ? "" : "\nspecials\n" + out;
}

// "eager     cuDNN 9.19.0 on a100, modelled · 15 tf32 implicit_gemm, 4 f32 winograd", what of it is
// assumed, and what the model leaves out.
std::string cudnn_lines(const runtime::study::CudnnModel& model, const std::string& dot) {
  std::map<std::string, std::size_t> classes, gaps;
  for (const auto& c : model.convolutions) {
    ++classes[fmt::format("{} {}", c.answer.choice.precision, name_of(c.answer.choice.algorithm))];
    if (!c.gap.empty()) ++gaps[c.gap];
  }
  std::string kinds, without;
  for (const auto& [kind, count] : classes)
    kinds += fmt::format("{}{} {}", kinds.empty() ? "" : ", ", count, kind);
  for (const auto& [gap, count] : gaps)
    without += fmt::format("{}{} of {}", without.empty() ? "" : ", ", gap, count);
  std::string out =
      fmt::format("eager     cuDNN {} on {}{}{}{}\n", model.cudnn_version, model.device,
                  model.ran ? "" : ", modelled", dot, kinds.empty() ? "no convolutions" : kinds);
  if (model.ran)
    return out +
           "          its results are judged, not replayed: its order of summation is not known\n";
  const bool transformed = std::ranges::any_of(
      model.convolutions, [](const auto& c) { return c.contract.transform.m != 0; });
  out += fmt::format(
      "          known: engine, precision, algorithm; assumed: the order of summation{}\n",
      transformed ? ", Winograd tile 4x4 = F(2,3), 6x6 = F(4,3)" : "");
  if (!without.empty())
    out += fmt::format("          no model, computed directly in that precision: {}\n", without);
  return out;
}

std::string heading(const PairReport& report, const CompareView& view, const TextStyle& style) {
  const std::string dot = separator(style);
  std::string passes;
  for (const auto& pass : report.passes)
    if (pass.enabled && pass.changed && pass.name != passes::kFormKernels)
      passes += (passes.empty() ? "" : ", ") + pass.name;
  std::string out = fmt::format("model     {}{}{}\n", printable(view.model), dot,
                                plural(report.coverage.nodes_of, "node"));
  for (const auto& input : report.inputs)
    out += fmt::format("input     {} {} from {}\n", shortened(input.name, kNameWidth),
                       ir::to_string(input.type), printable(input.source));
  out += view.cudnn
             ? cudnn_lines(*view.cudnn, dot)
             : fmt::format("eager     interpreter, op by op{}order {}\n", dot, report.eager_order);
  const bool plain = view.conv_precision == "f32" && view.matmul_precision == "f32" &&
                     view.node_precision.empty() && view.eager_precision == "f32";
  if (!plain)
    out += fmt::format("precision conv {}, matmul {}{}{}{}eager {}\n", view.conv_precision,
                       view.matmul_precision, view.node_precision.empty() ? "" : ", ",
                       printable(view.node_precision), dot, view.eager_precision);
  if (view.executor == "interpreter") {
    out += "compiled  interpreter (mode eager)\n\n";
    return out;
  }
  out += fmt::format("compiled  {} on {} for {}{}mode {}\n",
                     plural(static_cast<std::int64_t>(report.kernels.size()), "kernel"),
                     view.executor == "ptx" ? "the PTX executor" : "the GPU", view.device, dot,
                     view.mode);
  out += fmt::format("passes    {}\n", passes.empty() ? "none changed anything" : passes);
  return out + "\n";
}

}  // namespace

std::string verdict_line(const PairReport& report, const TextStyle& style) {
  const std::string dot = separator(style);
  std::string line = "verdict: " + coloured(runtime::compare::name_of(report.verdict),
                                            colour_of(report.verdict), style);
  line += fmt::format(" ({})", report.evidence == Evidence::kBits
                                   ? "same bits"
                                   : runtime::compare::name_of(report.evidence));
  const auto& c = report.coverage;
  std::string coverage;
  if (c.convolutions_of > 0)
    coverage = fmt::format("{}/{} convolutions, ", c.convolutions, c.convolutions_of);
  // Rounded down: 100 % is said only when nothing is left out.
  const double percent =
      static_cast<double>(static_cast<std::int64_t>(c.multiply_adds * 1000)) / 10;
  line += fmt::format("{}{}{}/{} nodes, {} % of multiply-adds compiled", dot, coverage, c.nodes,
                      c.nodes_of, percent);
  if (report.values_differ == 0)
    line += fmt::format("{}{} of {} differ", dot, 0, plural(report.values, "value"));
  else
    line += fmt::format("{}{} of {} differ, max {} ulp", dot, report.values_differ,
                        plural(report.values, "value"), brief_count(report.max_ulp));
  if (report.classes) {
    const auto& k = *report.classes;
    line += k.changed == 0 ? fmt::format("{}class unchanged {}/{}", dot, k.of, k.of)
                           : fmt::format("{}class changed {}/{}", dot, k.changed, k.of);
  }
  return line;
}

std::string compare_text(const PairReport& report, const CompareView& view,
                         const TextStyle& style) {
  std::string out = heading(report, view, style);
  out += values_section(report, style);
  if (!view.reference.empty())
    out += "  " +
           coloured("err: relative L2 distance of each arm to the f64 reference", Colour::kDim,
                    style) +
           "\n";
  out += exact_section(report, style);
  out += worst_section(report);
  out += causes_section(report, style);
  out += specials_section(report);
  out += faults_section(report);
  out += reasons_section("not compiled", report.fallbacks) +
         reasons_section("not the algorithm asked for", report.refusals);
  out += tuning_table(report.tuned, view.device, kTunedShown, kRunnersUpShown, style);
  if (report.schedules) out += schedules_text(*report.schedules, style);
  if (report.audit) out += audit_text(*report.audit, style);
  out += "\n" + verdict_line(report, style) + "\n";
  out += mitigations_section(report);
  if (report.time) out += time_line(*report.time, view.device);
  for (const std::string& failure : view.failures)
    out += coloured("failed: " + failure, Colour::kRed, style) + "\n";
  if (view.timings)
    out += fmt::format(
        "time: compile {:.3f} s ({} by NVRTC), run {:.3f} s\n", report.seconds_compile,
        plural(static_cast<std::int64_t>(report.kernels_compiled), "kernel"), report.seconds_run);
  Table next({{""}, {""}});
  for (const NextStep& step : next_steps(report, view)) next.add({step.options, step.shows});
  if (!next.empty()) out += "next:\n" + next.render(style);
  return out;
}

}  // namespace driftc::frontend
