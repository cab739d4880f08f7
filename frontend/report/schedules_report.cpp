#include "frontend/report/schedules_report.h"

#include <fmt/format.h>

#include "frontend/report/version.h"

namespace driftc::frontend {
namespace {

using runtime::study::ScheduleChange;
using runtime::study::ScheduleReport;

constexpr std::size_t kRows =
    12;  // of a long list: the first ones, where changes begin, and outputs

}  // namespace

std::string schedules_text(const ScheduleReport& report, const TextStyle& style) {
  const std::int64_t others = report.schedules - 1;
  if (report.changed.empty())
    return fmt::format("\nschedules: the same bits under {} orders of blocks, warps and atomics\n",
                       report.schedules);
  Table table({{"value"},
               {"changes"},
               {"results", Table::Align::kRight},
               {"elements", Table::Align::kRight},
               {"max ulp", Table::Align::kRight},
               {"begins"}});
  std::size_t outputs = 0, left_out = 0;
  for (std::size_t i = 0; i < report.changed.size(); ++i) {
    const ScheduleChange& c = report.changed[i];
    if (i >= kRows && (!c.output || ++outputs > kRows)) {
      ++left_out;
      continue;
    }
    table.add({shortened(c.value, 24) + (c.output ? " (output)" : ""),
               fmt::format("under {} of {} seeds", c.schedules, others), std::to_string(c.distinct),
               fmt::format("{} of {}", c.mismatched, c.elements), brief_count(c.max_ulp),
               std::string(c.begins_here ? "here"
                           : c.atomics   ? "upstream and here"
                                         : "upstream") +
                   (c.begins_here || c.atomics
                        ? fmt::format(": {}{}", c.kernel, c.order.empty() ? "" : ", " + c.order)
                        : "")});
  }
  std::string out = "\n" + table.render(style);
  if (left_out > 0)
    out += fmt::format("  {}\n", plural(static_cast<std::int64_t>(left_out), "more value"));
  return out + fmt::format(
                   "schedules: {} of {} can change from run to run ({} orders of blocks, "
                   "warps and atomics tried)\n",
                   report.outputs_changed, plural(report.outputs_of, "output"), report.schedules);
}

Json schedules_json(const ScheduleReport& report) {
  Json changed = Json::array();
  for (const ScheduleChange& c : report.changed)
    changed.push_back({{"value", c.value},
                       {"kernel", text_or_null(c.kernel)},
                       {"order", text_or_null(c.order)},
                       {"output", c.output},
                       {"atomics", c.atomics},
                       {"begins_here", c.begins_here},
                       {"schedules", c.schedules},
                       {"distinct", c.distinct},
                       {"elements", c.elements},
                       {"mismatched", c.mismatched},
                       {"max_ulp", c.max_ulp},
                       {"max_abs", number(c.max_abs)}});
  return {{"run", report.schedules},
          {"outputs", Json::array({report.outputs_changed, report.outputs_of})},
          {"changed", changed}};
}

Json schedules_document(const ScheduleReport& report, const std::string& model) {
  Json json = {
      {"schema", "driftc.schedules/1"}, {"driftc", std::string(kVersion)}, {"model", model}};
  json.update(schedules_json(report));
  return json;
}

}  // namespace driftc::frontend
