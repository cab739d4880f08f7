#include "frontend/report/sweep_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "frontend/report/version.h"

namespace driftc::frontend {
namespace {

using runtime::compare::Verdict;
using runtime::study::SweepRow;

std::string causes_cell(const SweepRow& row) {
  std::string out;
  for (const auto kind : row.causes)
    out += (out.empty() ? "" : ", ") + std::string(runtime::compare::name_of(kind));
  return out;
}

// "closer", "farther" or "": the compiled arm against the eager one, by distance to the reference.
std::string direction(const SweepRow& row) {
  if (!row.eager || !row.compiled || row.eager->rel_l2 == row.compiled->rel_l2) return "";
  return row.compiled->rel_l2 < row.eager->rel_l2 ? "closer" : "farther";
}

}  // namespace

std::string sweep_text(const std::vector<SweepRow>& rows, const std::string& model,
                       const std::string& what, const TextStyle& style) {
  using Align = Table::Align;
  Table table({{"setting"},
               {"verdict"},
               {"values differ", Align::kRight},
               {"max ulp", Align::kRight},
               {"err eager", Align::kRight},
               {"err comp.", Align::kRight},
               {"truth"},
               {"causes"}});
  std::int64_t identical = 0;
  Verdict worst = Verdict::kIdentical;
  for (const SweepRow& row : rows) {
    if (row.verdict == Verdict::kIdentical) ++identical;
    worst = runtime::compare::worse(worst, row.verdict);
    const Colour colour = row.verdict == Verdict::kIdentical     ? Colour::kGreen
                          : row.verdict == Verdict::kUnexplained ? Colour::kRed
                                                                 : Colour::kYellow;
    table.add({shortened(row.setting, 48), std::string(runtime::compare::name_of(row.verdict)),
               row.values_differ == 0 ? fmt::format("0/{}", row.values)
                                      : fmt::format("{}/{}", row.values_differ, row.values),
               row.values_differ == 0 ? "" : brief_count(row.max_ulp),
               row.eager ? brief(row.eager->rel_l2) : "",
               row.compiled ? brief(row.compiled->rel_l2) : "", direction(row), causes_cell(row)},
              1, colour);
  }
  std::string out =
      fmt::format("model  {}{}sweep {}\n\n", printable(model), separator(style), printable(what));
  out += table.render(style);
  out += "  " +
         coloured(
             "err: relative L2 distance of the outputs to the f64 reference; truth: the compiled "
             "arm is closer or farther",
             Colour::kDim, style) +
         "\n";
  out += fmt::format("\nworst verdict: {}{}{} of {} identical\n", runtime::compare::name_of(worst),
                     separator(style), identical,
                     plural(static_cast<std::int64_t>(rows.size()), "setting"));
  return out;
}

Json sweep_json(const std::vector<SweepRow>& rows, const std::string& model,
                const std::string& what, const std::vector<std::string>& allowed, int exit_code) {
  auto distance = [](const std::optional<runtime::compare::Distance>& d) {
    if (!d) return Json(nullptr);
    return Json{{"max_abs", number(d->max_abs)}, {"rel_l2", number(d->rel_l2)}};
  };
  Json list = Json::array(), allow = Json::array();
  for (const std::string& word : allowed) allow.push_back(word);
  for (const SweepRow& row : rows) {
    Json causes = Json::array();
    for (const auto kind : row.causes)
      causes.push_back(std::string(runtime::compare::name_of(kind)));
    list.push_back(
        {{"setting", row.setting},
         {"verdict", std::string(runtime::compare::name_of(row.verdict))},
         {"evidence", std::string(runtime::compare::name_of(row.evidence))},
         {"causes", causes},
         {"values", row.values},
         {"values_differ", row.values_differ},
         {"max_ulp", row.max_ulp},
         {"output_elements_differ", row.outputs_differ},
         {"to_reference", {{"eager", distance(row.eager)}, {"compiled", distance(row.compiled)}}},
         {"multiply_adds_compiled", number(row.coverage.multiply_adds)},
         {"classes_changed", row.classes ? Json(row.classes->changed) : Json(nullptr)}});
  }
  return {{"schema", "driftc.sweep/1"},
          {"driftc", std::string(kVersion)},
          {"model", model},
          {"sweep", what},
          {"allowed", allow},
          {"exit", exit_code},
          {"rows", list}};
}

}  // namespace driftc::frontend
