#include "runtime/study/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace driftc::runtime::study {
namespace {

// Tiles that differ in shape and in k step; every one satisfies what codegen asks of a block.
constexpr std::array<std::string_view, 7> kTiles = {"auto",    "32x32x8",  "32x64x8", "64x32x16",
                                                    "64x64x8", "64x64x16", "128x64x8"};

bool is_swept(const passes::PassInfo& pass) { return pass.on_in.all || pass.on_in.strict; }

SweepPoint point(const PairSettings& base, std::string setting,
                 const std::function<bool(std::string_view)>& enabled) {
  SweepPoint out{std::move(setting), base};
  out.settings.selection.enabled.clear();
  for (const passes::PassInfo& pass : passes::all_passes()) {
    const bool asked = pass.name == "fallback" && base.selection.has(pass.name);
    if (asked || enabled(pass.name)) out.settings.selection.enabled.emplace_back(pass.name);
  }
  // A sweep is about kernels: mode eager would run all of them in the interpreter.
  if (out.settings.selection.mode == passes::Mode::kEager)
    out.settings.selection.mode = passes::Mode::kDefault;
  return out;
}

std::string shortest(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 64> buffer;
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return std::string(buffer.data(), result.ptr);
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string out = "\"";
  for (char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

void keep_worst(std::optional<compare::Distance>& worst,
                const std::optional<compare::Distance>& d) {
  if (!d) return;
  if (!worst) worst = compare::Distance{};
  worst->max_abs = std::max(worst->max_abs, d->max_abs);
  worst->rel_l2 = std::max(worst->rel_l2, d->rel_l2);
}

}  // namespace

std::vector<SweepPoint> passes_sweep(const PairSettings& base) {
  std::vector<SweepPoint> out;
  out.push_back(point(base, "none", [](std::string_view) { return false; }));
  for (const passes::PassInfo& pass : passes::all_passes())
    if (is_swept(pass))
      out.push_back(point(base, std::string(pass.name),
                          [&](std::string_view name) { return name == pass.name; }));
  out.push_back(point(base, fmt::format("mode {}", passes::name_of(base.selection.mode)),
                      [&](std::string_view name) { return base.selection.has(name); }));
  return out;
}

std::vector<SweepPoint> pairs_sweep(const PairSettings& base) {
  std::vector<std::string_view> names;
  for (const passes::PassInfo& pass : passes::all_passes())
    if (pass.on_in.all) names.push_back(pass.name);
  std::vector<SweepPoint> out;
  for (const bool on : {true, false})
    for (std::size_t i = 0; i < names.size(); ++i)
      for (std::size_t j = i + 1; j < names.size(); ++j)
        out.push_back(point(
            base,
            fmt::format("{}{} {}{}", on ? "none +" : "all -", names[i], on ? "+" : "-", names[j]),
            [&](std::string_view name) {
              const bool named = name == names[i] || name == names[j];
              const bool known = std::find(names.begin(), names.end(), name) != names.end();
              return on ? named : known && !named;
            }));
  return out;
}

std::vector<SweepPoint> orders_sweep(const PairSettings& base,
                                     const std::vector<ir::ReductionOrder>& orders) {
  std::vector<SweepPoint> out;
  for (const ir::ReductionOrder& order : orders) {
    SweepPoint p{to_string(order), base};
    p.settings.eager_order = order;
    p.settings.declared = false;
    out.push_back(std::move(p));
  }
  return out;
}

std::vector<SweepPoint> tiles_sweep(const PairSettings& base) {
  std::vector<SweepPoint> out;
  for (std::string_view tile : kTiles) {
    SweepPoint p = point(base, std::string(tile), [&](std::string_view name) {
      return name == "choose-tiling" || base.selection.has(name);
    });
    p.settings.selection.options.set("choose-tiling.block", std::string(tile));
    out.push_back(std::move(p));
  }
  return out;
}

SweepRow summarise(std::string setting, const PairReport& report) {
  SweepRow row;
  row.setting = std::move(setting);
  row.verdict = report.verdict;
  row.evidence = report.evidence;
  for (const compare::Cause& cause : report.causes)
    if (std::find(row.causes.begin(), row.causes.end(), cause.kind) == row.causes.end())
      row.causes.push_back(cause.kind);
  row.values = report.values;
  row.values_differ = report.values_differ;
  row.max_ulp = report.max_ulp;
  row.coverage = report.coverage;
  row.classes = report.classes;
  for (const NodeReport& output : report.outputs) {
    row.outputs_differ += output.metrics.mismatched;
    keep_worst(row.eager, output.eager_to_reference);
    keep_worst(row.compiled, output.compiled_to_reference);
  }
  return row;
}

Result<std::vector<SweepRow>> run_sweep(const ir::Graph& source,
                                        const std::vector<NamedTensor>& inputs,
                                        const std::vector<SweepPoint>& points,
                                        const Services& services) {
  std::vector<SweepRow> rows;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const SweepPoint& p = points[i];
    Services inner{services.cache, services.pool, {}};
    const std::string label = fmt::format("{}/{} {}", i + 1, points.size(), p.setting);
    if (services.progress) {
      services.progress(label);
      inner.progress = [&](const std::string& step) { services.progress(label + ": " + step); };
    }
    Result<PairReport> report = pair_run(source, inputs, p.settings, inner);
    if (!report) {
      report.error().notes.push_back(fmt::format("in the sweep's row '{}'", p.setting));
      return report.error();
    }
    rows.push_back(summarise(p.setting, *report));
  }
  return rows;
}

std::string sweep_csv(const std::vector<SweepRow>& rows) {
  std::string out =
      "setting,verdict,evidence,causes,values,values_differ,max_ulp,output_elements_differ,"
      "eager_max_abs,eager_rel_l2,compiled_max_abs,compiled_rel_l2,multiply_adds_compiled,classes_"
      "changed\n";
  for (const SweepRow& row : rows) {
    std::string causes;
    for (const compare::CauseKind kind : row.causes)
      causes += (causes.empty() ? "" : " ") + std::string(compare::name_of(kind));
    auto cells = [](const std::optional<compare::Distance>& d) {
      return d ? shortest(d->max_abs) + "," + shortest(d->rel_l2) : std::string(",");
    };
    out += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{}\n", csv_cell(row.setting),
                       compare::name_of(row.verdict), compare::name_of(row.evidence), causes,
                       row.values, row.values_differ, row.max_ulp, row.outputs_differ,
                       cells(row.eager), cells(row.compiled), shortest(row.coverage.multiply_adds),
                       row.classes ? std::to_string(row.classes->changed) : "");
  }
  return out;
}

}  // namespace driftc::runtime::study
