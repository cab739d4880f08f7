#include "frontend/report/certify_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "frontend/report/version.h"

namespace driftc::frontend {
namespace {

using namespace runtime::study;

// Misses of one kind of fault in one precision, largest first.
struct MissGroup {
  std::string fault, precision;
  std::int64_t count = 0;
  double size = 0, bounds = 0;
};
std::vector<MissGroup> grouped(const ComparerScore& score) {
  std::map<std::pair<std::string, std::string>, MissGroup> groups;
  for (const MissedFault& m : score.missed) {
    MissGroup& g = groups[{m.fault, m.precision}];
    g.fault = m.fault;
    g.precision = m.precision;
    ++g.count;
    g.size = std::max(g.size, m.size);
    g.bounds = std::max(g.bounds, m.bounds);
  }
  std::vector<MissGroup> out;
  for (auto& [key, group] : groups) out.push_back(group);
  std::stable_sort(out.begin(), out.end(),
                   [](const MissGroup& a, const MissGroup& b) { return a.size > b.size; });
  return out;
}

}  // namespace

std::string certify_text(const CertifyReport& report, int exit_code, const TextStyle& style) {
  using Align = Table::Align;
  Table table({{"comparer"},
               {"faults found", Align::kRight},
               {"f32", Align::kRight},
               {"tf32", Align::kRight},
               {"healthy accused", Align::kRight},
               {"f32", Align::kRight},
               {"tf32", Align::kRight},
               {"largest miss of the RMS", Align::kRight}});
  for (std::size_t i = 0; i < report.comparers.size(); ++i) {
    const ComparerScore& s = report.comparers[i];
    double largest = 0;
    for (const MissedFault& m : s.missed) largest = std::max(largest, m.size);
    const bool perfect = s.found == s.faults && s.false_alarms == 0;
    table.add(
        {s.name, fmt::format("{}/{}", s.found, s.faults), share(s.found_f32, s.faults_f32),
         share(s.found - s.found_f32, s.faults - s.faults_f32),
         fmt::format("{}/{}", s.false_alarms, s.healthy), share(s.false_alarms_f32, s.healthy_f32),
         share(s.false_alarms - s.false_alarms_f32, s.healthy - s.healthy_f32),
         s.missed.empty() ? "" : brief(largest)},
        0, perfect ? Colour::kGreen : Colour::kNone);
    if (i == 1) table.divider();
  }
  std::string out = fmt::format(
      "{} kinds of faults, {} models, {} seeds, f32 and TF32 (rounded, truncated): {} faults with "
      "an effect, {} "
      "healthy variants\n\n",
      report.kinds, report.shapes, report.seeds, report.faults, report.healthy);
  out += table.render(style);
  out += "\n";
  for (std::size_t i = 0; i < 2 && i < report.comparers.size(); ++i) {
    const ComparerScore& s = report.comparers[i];
    for (const std::string& who : s.accused)
      out += fmt::format("{} accused a healthy result: {}\n", s.name, who);
    for (const MissGroup& g : grouped(s))
      out += fmt::format(
          "{} missed: {} ({}), {}, changes of at most {} of the RMS, {} accumulation bounds\n",
          s.name, g.fault, g.precision, plural(g.count, "time"), brief(g.size), brief(g.bounds));
  }
  for (const std::string& kind : report.never_effective)
    out += fmt::format("not tested: {} (changed no bit on this executor)\n", kind);
  return out + fmt::format("{}{}exit {}\n",
                           exit_code == 0 ? "the checker holds" : "the checker does not hold",
                           separator(style), exit_code);
}

Json certify_json(const CertifyReport& report, int exit_code) {
  Json comparers = Json::array();
  for (const ComparerScore& s : report.comparers) {
    Json missed = Json::array(), accused = Json::array();
    for (const MissedFault& m : s.missed)
      missed.push_back({{"fault", m.fault},
                        {"precision", m.precision},
                        {"shape", m.shape},
                        {"size", number(m.size)},
                        {"bounds", number(m.bounds)}});
    for (const std::string& who : s.accused) accused.push_back(who);
    comparers.push_back({{"name", s.name},
                         {"faults", s.faults},
                         {"found", s.found},
                         {"healthy", s.healthy},
                         {"false_alarms", s.false_alarms},
                         {"missed", missed},
                         {"accused", accused}});
  }
  return {{"schema", "driftc.certify/1"},
          {"driftc", std::string(kVersion)},
          {"kinds", report.kinds},
          {"seeds", report.seeds},
          {"shapes", report.shapes},
          {"faults", report.faults},
          {"healthy", report.healthy},
          {"without_effect", report.without_effect},
          {"never_effective", report.never_effective},
          {"comparers", comparers},
          {"exit", exit_code}};
}

}  // namespace driftc::frontend
