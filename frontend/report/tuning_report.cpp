#include "frontend/report/tuning_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "frontend/tuning/tuning_file.h"

namespace driftc::frontend {
namespace {

using passes::KernelChoice;
using runtime::study::TimeEstimate;
using runtime::study::TunedCandidate;
using runtime::study::TunedKernelReport;

std::string micro(double us) {
  return us < 100 ? fmt::format("{:.3g}", us) : fmt::format("{:.0f}", us);
}

std::string values_of(const TunedKernelReport& kernel) {
  std::string out = shortened(kernel.values[0], 24);
  if (kernel.values.size() > 1) out += fmt::format(" +{}", kernel.values.size() - 1);
  return out;
}

double total(const TunedKernelReport& kernel) {
  return kernel.tuned.choice().microseconds * static_cast<double>(kernel.values.size());
}

}  // namespace

std::string tuning_table(const std::vector<TunedKernelReport>& tuned, const std::string& device,
                         std::size_t kernels, std::size_t others, const TextStyle& style) {
  using Align = Table::Align;
  if (tuned.empty()) return "";
  std::vector<const TunedKernelReport*> order;
  bool measured = false, estimated = false;
  for (const TunedKernelReport& kernel : tuned) {
    order.push_back(&kernel);
    (kernel.tuned.measured ? measured : estimated) = true;
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto* a, const auto* b) { return total(*a) > total(*b); });
  Table table({{"tuned kernel"},
               {""},
               {"candidate"},
               {"us", Align::kRight},
               {"error", Align::kRight},
               {""}});
  for (std::size_t i = 0; i < std::min(kernels, order.size()); ++i) {
    const TunedKernelReport& kernel = *order[i];
    std::size_t shown = 0;
    std::vector<KernelChoice> orders;  // what was shown, without tiles
    for (const TunedCandidate& c : kernel.tuned.candidates) {
      const bool choice = &c == &kernel.tuned.choice();
      if (others != kAllRunnersUp) {
        // Of runners-up that differ in their tiles only the first.
        KernelChoice without = c.choice;
        without.schedule = {};
        if (std::ranges::find(orders, without) != orders.end()) continue;
        orders.push_back(without);
      }
      if (!choice && shown == others) break;
      if (!choice) ++shown;
      const std::string marks = kernel.tuned.measured && estimated ? "measured" : "";
      if (c.dropped.empty()) {
        table.add({choice ? values_of(kernel) : "", choice ? "*" : "", to_string(c.choice),
                   micro(c.microseconds), brief(c.error), marks},
                  2, choice ? Colour::kBold : Colour::kNone);
      } else {
        table.add({choice ? values_of(kernel) : "", choice ? "*" : "", to_string(c.choice), "", "",
                   "dropped: " + shortened(c.dropped, 60)},
                  2, Colour::kDim);
      }
    }
  }
  std::string out = fmt::format(
      "\ntuned for {}: * is the choice, of the kernels that replay the fastest\n", device);
  out += table.render(style);
  if (order.size() > kernels)
    out += fmt::format("  {} more; driftc bench --mode max-autotune shows all\n",
                       plural(static_cast<std::int64_t>(order.size() - kernels), "kernel"));
  out += fmt::format("  us: {}; error: relative L2 distance to f64 on a cropped problem\n",
                     measured && estimated ? "estimated (a roofline), or measured where it says so"
                     : measured            ? "measured on the GPU"
                                           : "estimated (a roofline; nothing was measured)");
  return out;
}

Json tuning_json(const std::vector<TunedKernelReport>& tuned, const std::string& device) {
  if (tuned.empty()) return nullptr;
  Json kernels = Json::array();
  for (const TunedKernelReport& kernel : tuned) {
    Json candidates = Json::array();
    for (const TunedCandidate& c : kernel.tuned.candidates) candidates.push_back(candidate_json(c));
    kernels.push_back({{"values", kernel.values},
                       {"problem", kernel.problem},
                       {"time", kernel.tuned.measured ? "measured" : "estimated"},
                       {"candidates", candidates}});
  }
  return {{"device", device}, {"kernels", kernels}};
}

std::string time_line(const TimeEstimate& time, const std::string& device) {
  std::string out =
      fmt::format("estimated time: {} us against {} us of default on {} (estimated",
                  micro(1e6 * time.seconds), micro(1e6 * time.default_seconds), device);
  if (time.interpreted > 0)
    out += fmt::format("; {} in the interpreter not counted", plural(time.interpreted, "node"));
  return out + ")\n";
}

Json time_json(const std::optional<TimeEstimate>& time, const std::string& device) {
  if (!time) return nullptr;
  return {{"device", device},
          {"us", number(1e6 * time->seconds)},
          {"default_us", number(1e6 * time->default_seconds)},
          {"interpreted", time->interpreted}};
}

}  // namespace driftc::frontend
