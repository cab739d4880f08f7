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

std::vector<std::string_view> groups_of(const CertifyReport& report) {
  std::vector<std::string_view> out;
  for (const CertifyFamily* family : report.families)
    if (std::ranges::find(out, family->group) == out.end()) out.push_back(family->group);
  return out;
}
CertifyCounts sum_of(const CertifyReport& report, const ComparerScore& score,
                     std::string_view group) {
  CertifyCounts sum;
  for (std::size_t i = 0; i < report.families.size(); ++i) {
    if (report.families[i]->group != group) continue;
    const CertifyCounts& c = score.by_family[i];
    sum.faults += c.faults;
    sum.found += c.found;
    sum.healthy += c.healthy;
    sum.false_alarms += c.false_alarms;
  }
  return sum;
}

}  // namespace

std::string certify_text(const CertifyReport& report, int exit_code, const TextStyle& style) {
  using Align = Table::Align;
  const std::vector<std::string_view> groups = groups_of(report);
  std::vector<Table::Column> columns = {{"comparer"}, {"faults found", Align::kRight}};
  for (std::string_view group : groups) columns.push_back({std::string(group), Align::kRight});
  columns.push_back({"largest miss of the RMS", Align::kRight});
  Table found(columns);
  columns[1].title = "healthy accused";
  columns.pop_back();
  Table accused(columns);
  for (std::size_t i = 0; i < report.comparers.size(); ++i) {
    const ComparerScore& s = report.comparers[i];
    double largest = 0;
    for (const MissedFault& m : s.missed) largest = std::max(largest, m.size);
    const bool perfect = s.all.found == s.all.faults && s.all.false_alarms == 0;
    std::vector<std::string> row = {s.name, fmt::format("{}/{}", s.all.found, s.all.faults)},
                             other = {s.name,
                                      fmt::format("{}/{}", s.all.false_alarms, s.all.healthy)};
    for (std::string_view group : groups) {
      const CertifyCounts c = sum_of(report, s, group);
      row.push_back(share(c.found, c.faults));
      other.push_back(share(c.false_alarms, c.healthy));
    }
    row.push_back(s.missed.empty() ? "" : brief(largest));
    found.add(row, 0, perfect ? Colour::kGreen : Colour::kNone);
    accused.add(other, 0, perfect ? Colour::kGreen : Colour::kNone);
    if (i == 1) {
      found.divider();
      accused.divider();
    }
  }
  std::string out = fmt::format(
      "{} kinds of faults in {} kinds of kernels, {} models, {} seeds: {} faults with an effect, "
      "{} healthy variants\n\n",
      report.kinds, report.families.size(), report.shapes, report.seeds, report.faults,
      report.healthy);
  out += found.render(style) + "\n" + accused.render(style) + "\n";
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
    Json families = Json::array();
    for (std::size_t i = 0; i < report.families.size(); ++i)
      families.push_back({{"name", std::string(report.families[i]->name)},
                          {"faults", s.by_family[i].faults},
                          {"found", s.by_family[i].found},
                          {"healthy", s.by_family[i].healthy},
                          {"false_alarms", s.by_family[i].false_alarms}});
    comparers.push_back({{"name", s.name},
                         {"faults", s.all.faults},
                         {"found", s.all.found},
                         {"healthy", s.all.healthy},
                         {"false_alarms", s.all.false_alarms},
                         {"families", families},
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
