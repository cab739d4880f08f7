#include "frontend/report/audit_report.h"

#include <fmt/format.h>

namespace driftc::frontend {
namespace {

using runtime::study::ArmHashes;
using runtime::study::AuditEffect;
using runtime::study::AuditRow;
using runtime::study::KnobAudit;

std::string_view changed(const std::string& a, const std::string& b) {
  return a == b ? "same" : "changed";
}

// What a row says, from what changed.
std::string_view verdict_of(const AuditRow& row, const ArmHashes& as_set) {
  switch (row.effect) {
    case AuditEffect::kPlacebo:
      return "placebo";
    case AuditEffect::kText:
      return row.hashes.ptx != as_set.ptx         ? "other kernels, same bits"
             : row.hashes.source != as_set.source ? "other source, same PTX and bits"
                                                  : "IR only, same bits";
    case AuditEffect::kBits:
      return row.mismatched > 0 ? "bits of the outputs" : "bits inside, not of the outputs";
    case AuditEffect::kRefused:
      return "refused";
  }
  return "";
}

Colour colour_of(AuditEffect effect) {
  switch (effect) {
    case AuditEffect::kPlacebo:
      return Colour::kDim;
    case AuditEffect::kText:
      return Colour::kNone;
    case AuditEffect::kBits:
      return Colour::kYellow;
    case AuditEffect::kRefused:
      return Colour::kRed;
  }
  return Colour::kNone;
}

Json hashes_json(const ArmHashes& hashes) {
  return {{"ir", hashes.ir}, {"source", hashes.source}, {"ptx", hashes.ptx}, {"bits", hashes.bits}};
}

}  // namespace

std::string audit_text(const KnobAudit& audit, const TextStyle& style) {
  if (!audit.repeatable)
    return fmt::format(
        "\naudit: the same settings twice are not the same {}: no effect can be told from chance, "
        "so no flag was tried\n  --deterministic refuses kernels that change from run to run, "
        "--schedules N lists the values\n",
        audit.first_change.empty() ? std::string("program")
                                   : fmt::format("bits (first {})", printable(audit.first_change)));
  std::string out =
      fmt::format("\naudit: the same settings twice are the same in IR, source, PTX and {}\n\n",
                  plural(audit.values, "value"));
  using Align = Table::Align;
  Table table({{"flag"},
               {"as set"},
               {"tried"},
               {"IR"},
               {"source"},
               {"PTX"},
               {"values differ", Align::kRight},
               {"max ulp", Align::kRight},
               {"rel L2", Align::kRight},
               {"changes"}});
  std::int64_t bits = 0, text = 0, placebos = 0;
  std::string refused;
  for (const AuditRow& row : audit.rows) {
    const std::string verdict(verdict_of(row, audit.hashes));
    if (row.effect == AuditEffect::kRefused) {
      table.add({row.flag, row.from, row.to, "", "", "", "", "", "", verdict}, 9,
                colour_of(row.effect));
      refused += fmt::format("  {} {} is refused: {}\n", row.flag, row.to, row.refused);
      continue;
    }
    (row.effect == AuditEffect::kBits   ? bits
     : row.effect == AuditEffect::kText ? text
                                        : placebos)++;
    const bool differs = row.mismatched > 0;
    table.add({row.flag, row.from, row.to, std::string(changed(row.hashes.ir, audit.hashes.ir)),
               std::string(changed(row.hashes.source, audit.hashes.source)),
               std::string(changed(row.hashes.ptx, audit.hashes.ptx)),
               fmt::format("{}/{}", row.values_changed, row.values),
               differs ? brief_count(row.max_ulp) : "", differs ? brief(row.rel_l2) : "", verdict},
              9, colour_of(row.effect));
  }
  out += table.render(style);
  out += "  " +
         coloured(
             "values: those of the model that both arms keep; ulp and L2: of the outputs, against "
             "the arm as set",
             Colour::kDim, style) +
         "\n";
  return out + refused +
         fmt::format(
             "audit: {}: other bits {}, another program with the same bits {}, placebo {}\n",
             plural(static_cast<std::int64_t>(audit.rows.size()), "flag"), bits, text, placebos);
}

Json audit_json(const KnobAudit& audit) {
  Json rows = Json::array();
  for (const AuditRow& row : audit.rows) {
    const bool refused = row.effect == AuditEffect::kRefused;
    rows.push_back({{"flag", row.flag},
                    {"from", row.from},
                    {"to", row.to},
                    {"effect", std::string(name_of(row.effect))},
                    {"refused", text_or_null(row.refused)},
                    {"hashes", refused ? Json(nullptr) : hashes_json(row.hashes)},
                    {"values", Json::array({row.values_changed, row.values})},
                    {"output_elements", Json::array({row.mismatched, row.elements})},
                    {"max_ulp", row.max_ulp},
                    {"max_abs", number(row.max_abs)},
                    {"rel_l2", number(row.rel_l2)}});
  }
  return {{"repeatable", audit.repeatable},
          {"first_change", text_or_null(audit.first_change)},
          {"hashes", hashes_json(audit.hashes)},
          {"values", audit.values},
          {"rows", rows}};
}

}  // namespace driftc::frontend
