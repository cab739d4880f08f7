#include "frontend/report/judge_report.h"

#include <fmt/format.h>

#include "frontend/report/json.h"
#include "frontend/report/version.h"
#include "ir/support/round.h"

namespace driftc::frontend {
namespace {

using namespace runtime::study;
using runtime::compare::Evidence;
using runtime::compare::Verdict;

Json words(const std::vector<std::string>& list) {
  Json out = Json::array();
  for (const std::string& word : list) out.push_back(word);
  return out;
}
Json causes_json(const std::vector<runtime::compare::Cause>& causes) {
  Json out = Json::array();
  for (const auto& cause : causes)
    out.push_back({{"cause", std::string(runtime::compare::name_of(cause.kind))},
                   {"node", cause.node},
                   {"detail", cause.detail}});
  return out;
}
Json dims(const ir::Shape& shape) {
  Json out = Json::array();
  for (std::int64_t extent : shape.dims()) out.push_back(extent);
  return out;
}
Json classes_json(const std::optional<runtime::compare::ClassChanges>& classes) {
  if (!classes) return nullptr;
  Json samples = Json::array();
  for (std::int64_t s : classes->samples) samples.push_back(s);
  return {{"changed", classes->changed}, {"of", classes->of}, {"samples", samples}};
}
Json evidence_json(Evidence evidence) { return std::string(runtime::compare::name_of(evidence)); }
Json verdict_json(Verdict verdict) { return std::string(runtime::compare::name_of(verdict)); }

Json value_json(const JudgedValue& value) {
  Json fits = Json::array(), structure = Json::array(), worst = Json::array();
  for (const HypothesisFit& fit : value.fits)
    fits.push_back({{"precision", fit.name},
                    {"max_abs", number(fit.max_abs)},
                    {"rel_l2", number(fit.rel_l2)},
                    {"z_rms", number(fit.z_rms)},
                    {"z_max", number(fit.z_max)},
                    {"z_limit", number(fit.limit)},
                    {"beyond", fit.beyond},
                    {"bound_used", number(fit.bound_used)},
                    {"accepted", fit.accepted}});
  for (const auto& s : value.structure)
    structure.push_back(
        {{"words", s.words}, {"chance", number(s.chance)}, {"share", number(s.share)}});
  for (const auto& w : value.worst) {
    Json index = Json::array();
    for (std::int64_t i : w.index) index.push_back(i);
    worst.push_back({{"index", index},
                     {"observed", number(w.eager)},
                     {"expected", w.reference ? number(*w.reference) : Json(nullptr)},
                     {"observed_bits", fmt::format("0x{:08x}", bits_of(w.eager))}});
  }
  return {{"name", value.name},
          {"op", value.op},
          {"shape", dims(value.type.shape)},
          {"dtype", std::string(ir::name_of(value.type.dtype))},
          {"accepted", value.accepted},
          {"precision", value.fits.empty() ? Json(nullptr) : Json(value.fits[value.chosen].name)},
          {"same_bits_as", value.same_bits_as.empty() ? Json(nullptr) : Json(value.same_bits_as)},
          {"hypotheses", fits},
          {"specials", specials_json(value.specials)},
          {"structure", structure},
          {"detectable",
           {{"largest", number(value.visible.largest)},
            {"median", number(value.visible.median)},
            {"rms", number(value.visible.rms)}}},
          {"classes", classes_json(value.classes)},
          {"worst", worst}};
}

Colour colour_of(Verdict verdict) {
  return verdict == Verdict::kIdentical     ? Colour::kGreen
         : verdict == Verdict::kUnexplained ? Colour::kRed
                                            : Colour::kYellow;
}

std::string file_text(const JudgedFile& file, const std::string& path, const TextStyle& style) {
  std::string out = fmt::format("{}  {}\n", file.label == "a" ? "A" : "B", printable(path));
  for (const JudgedValue& value : file.values) {
    out += fmt::format("  %{}  {} {}\n", printable(value.name), ir::name_of(value.type.dtype),
                       ir::to_string(value.type.shape));
    using Align = Table::Align;
    Table table({{"precision"},
                 {"max |diff|", Align::kRight},
                 {"rel. L2", Align::kRight},
                 {"z max", Align::kRight},
                 {"limit", Align::kRight},
                 {"beyond", Align::kRight},
                 {"of bound", Align::kRight},
                 {""}});
    for (std::size_t i = 0; i < value.fits.size(); ++i) {
      const HypothesisFit& fit = value.fits[i];
      table.add(
          {fit.name, brief(fit.max_abs), brief(fit.rel_l2), brief(fit.z_max), brief(fit.limit),
           brief_count(static_cast<std::uint64_t>(fit.beyond)),
           fit.bound_used > 0 ? brief(fit.bound_used) : "",
           i != value.chosen ? (fit.accepted ? "also fits" : "")
                             : (fit.accepted ? "<- explains it" : "<- nearest, not explained")},
          7, i != value.chosen ? Colour::kNone : (fit.accepted ? Colour::kGreen : Colour::kRed));
    }
    out += table.render(style, 4);
    if (!value.same_bits_as.empty())
      out += fmt::format("    the bits are those of {}\n",
                         value.same_bits_as == "eager" ? "driftc's eager arm" : value.same_bits_as);
    for (const std::string& line : value.special_words) out += "    specials: " + line + "\n";
    for (const auto& s : value.structure)
      out += fmt::format("    structure: {} (chance {})\n", s.words, brief(s.chance));
    if (!value.accepted)
      for (const auto& w : value.worst) {
        std::string index;
        for (std::int64_t i : w.index) index += (index.empty() ? "" : ",") + std::to_string(i);
        out += fmt::format("    worst [{}]: {} where {} is expected\n", index, w.eager,
                           w.reference ? fmt::format("{}", *w.reference) : "?");
      }
    if (value.classes && value.classes->changed > 0)
      out += fmt::format("    class changed in {} of {} samples\n", value.classes->changed,
                         value.classes->of);
    out += coloured(fmt::format("    an error of one element is certain to show from {} on (at the "
                                "worst element {}; "
                                "RMS of the value {})",
                                brief(value.visible.median), brief(value.visible.largest),
                                brief(value.visible.rms)),
                    Colour::kDim, style) +
           "\n";
  }
  return out;
}

}  // namespace

std::string judge_text(const JudgeReport& report, const JudgeView& view, const TextStyle& style) {
  std::string out =
      fmt::format("model  {}{}\n\n", printable(view.model),
                  report.node.empty() ? "" : separator(style) + "at %" + printable(report.node));
  for (const JudgedFile& file : report.files)
    out += file_text(file, file.label == "a" ? view.a : view.b, style) + "\n";
  if (report.pair) {
    for (const auto& [name, m] : report.pair->values)
      out +=
          fmt::format("A - B  %{}: {} of {} elements differ, max |diff| {}, rel. L2 {}\n",
                      printable(name), m.mismatched, m.elements, brief(m.max_abs), brief(m.rel_l2));
    out += report.pair->words + "\n";
    if (report.pair->classes && report.pair->classes->changed > 0)
      out += fmt::format("class differs in {} of {} samples\n", report.pair->classes->changed,
                         report.pair->classes->of);
    out += "\n";
  } else {
    const JudgedFile& file = report.files[0];
    out += file.verdict == Verdict::kUnexplained
               ? fmt::format(
                     "no correct result of this model on these inputs in any precision tried; "
                     "nearest: {}\n",
                     file.precision)
               : fmt::format("a correct result of this model, computed in {}\n", file.precision);
  }
  for (const auto& cause : report.causes)
    out += fmt::format("  cause: {}{} ({})\n", runtime::compare::name_of(cause.kind),
                       cause.node.empty() ? "" : " at %" + printable(cause.node), cause.detail);
  out += fmt::format(
      "verdict: {} ({}){}exit {}\n",
      coloured(runtime::compare::name_of(report.verdict), colour_of(report.verdict), style),
      runtime::compare::name_of(report.evidence), separator(style), view.exit_code);
  return out;
}

Json judge_json(const JudgeReport& report, const JudgeView& view) {
  Json inputs = Json::array(), files = Json::array();
  for (const InputReport& input : report.inputs)
    inputs.push_back(
        {{"name", input.name},
         {"source", input.source},
         {"shape", dims(input.type.shape)},
         {"dtype", std::string(ir::name_of(input.type.dtype))},
         {"hash", input.hash},
         {"min", number(input.min)},
         {"max", number(input.max)},
         {"not_representable",
          {{"f16", input.not_f16}, {"bf16", input.not_bf16}, {"tf32", input.not_tf32}}}});
  for (const JudgedFile& file : report.files) {
    Json values = Json::array();
    for (const JudgedValue& value : file.values) values.push_back(value_json(value));
    files.push_back({{"label", file.label},
                     {"source", file.label == "a" ? view.a : view.b},
                     {"verdict", verdict_json(file.verdict)},
                     {"evidence", evidence_json(file.evidence)},
                     {"precision", file.precision},
                     {"causes", causes_json(file.causes)},
                     {"values", values}});
  }
  Json pair = nullptr;
  if (report.pair) {
    Json values = Json::array();
    for (const auto& [name, m] : report.pair->values)
      values.push_back({{"name", name},
                        {"mismatched", m.mismatched},
                        {"max_abs", number(m.max_abs)},
                        {"max_rel", number(m.max_rel)},
                        {"max_ulp", m.max_ulp},
                        {"rel_l2", number(m.rel_l2)},
                        {"nan_mismatch", m.nan_mismatch},
                        {"inf_mismatch", m.inf_mismatch}});
    pair = {{"verdict", verdict_json(report.pair->verdict)},
            {"evidence", evidence_json(report.pair->evidence)},
            {"causes", causes_json(report.pair->causes)},
            {"words", report.pair->words},
            {"values", values},
            {"classes", classes_json(report.pair->classes)}};
  }
  return {{"schema", "driftc.judge/1"},
          {"driftc", std::string(kVersion)},
          {"model",
           {{"source", view.model}, {"nodes", report.graph_nodes}, {"hash", report.graph_hash}}},
          {"node", report.node.empty() ? Json(nullptr) : Json(report.node)},
          {"inputs", inputs},
          {"files", files},
          {"pair", pair},
          {"verdict", verdict_json(report.verdict)},
          {"evidence", evidence_json(report.evidence)},
          {"causes", causes_json(report.causes)},
          {"allowed", words(view.allowed)},
          {"exit", view.exit_code}};
}

}  // namespace driftc::frontend
