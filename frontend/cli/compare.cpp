// driftc compare: the main study, one setting or a sweep of them.
#include <fmt/format.h>

#include <algorithm>

#include "frontend/cli/eager_choice.h"
#include "frontend/cli/options.h"
#include "frontend/cli/pair_options.h"
#include "frontend/cli/print_after.h"
#include "frontend/cli/repro.h"
#include "frontend/cli/session.h"
#include "frontend/cli/verdict_rules.h"
#include "frontend/npy/npy.h"
#include "frontend/report/json.h"
#include "frontend/report/sweep_report.h"
#include "frontend/report/text.h"
#include "runtime/study/knob_audit.h"
#include "runtime/study/schedules.h"

namespace driftc::frontend {
namespace {

using runtime::study::PairReport;
using runtime::study::PairSettings;
using runtime::study::SweepPoint;
using runtime::study::SweepRow;

Result<void> check_combinations(const Arguments& arguments) {
  if (arguments.has("--csv") && !arguments.has("--sweep"))
    return input_error("--csv writes the rows of a sweep, and there is no --sweep",
                       "--sweep passes --csv FILE");
  if (!arguments.has("--sweep")) return {};
  for (const char* flag :
       {"--save-dir", "--print-after", "--timings", "--require-compiled", "--schedules", "--audit"})
    if (arguments.has(flag))
      return input_error(fmt::format("{} does not go with --sweep", flag),
                         "it is for one comparison at a time");
  return {};
}

// Writes every compared value; keeps the first error, since a callback cannot return one.
class ValueWriter {
 public:
  explicit ValueWriter(OutputFolder& folder) : folder_(folder) {}
  void write(const std::string& name, const ir::Tensor& eager, const ir::Tensor& compiled,
             const ir::Tensor* reference) {
    const std::string file = names_.of(name) + ".npy";
    add("eager/" + file, eager);
    add("compiled/" + file, compiled);
    if (reference != nullptr) add("reference/" + file, *reference);
  }
  Result<void> status() const {
    if (error_) return *error_;
    return {};
  }

 private:
  void add(const std::string& path, const ir::Tensor& tensor) {
    if (error_) return;
    if (auto done = folder_.add(path, npy::npy_bytes(tensor)); !done) error_ = done.error();
  }
  OutputFolder& folder_;
  FileNames names_;
  std::optional<Diagnostic> error_;
};

CompareView make_view(const Arguments& arguments, const PairSettings& settings,
                      const VerdictRules& rules) {
  CompareView view;
  view.model = arguments.value_or("MODEL", "");
  view.mode = passes::name_of(settings.selection.mode);
  view.passes_given = arguments.value_or("--passes", "");
  for (const auto& [key, value] : settings.selection.options.values())
    view.pass_options.emplace_back(key, value);
  if (auto inductor = passes::parse_inductor(arguments.all("--inductor")))
    view.inductor = std::move(*inductor);
  view.fallback = settings.fallback;
  const ir::PrecisionPlan &plan = settings.precision, &eager = settings.eager_precision;
  view.conv_precision = ir::name_of(plan.conv);
  view.matmul_precision = ir::name_of(plan.matmul);
  for (const auto& [node, precision] : plan.nodes)
    view.node_precision += fmt::format("{}{}={}", view.node_precision.empty() ? "" : ",", node,
                                       ir::name_of(precision));
  if (!eager.plain())
    view.eager_precision =
        eager.conv == eager.matmul ? std::string(ir::name_of(eager.conv)) : ir::to_string(eager);
  view.device = settings.device.name;
  view.executor = settings.selection.mode == passes::Mode::kEager ? "interpreter"
                  : settings.executor != nullptr                  ? settings.executor->name()
                                                                  : "ptx";
  view.allowed = rules.allowed;
  view.timings = arguments.has("--timings");
  return view;
}

Result<int> compare_once(const Arguments& arguments, const Context& context, Session& session,
                         PairSettings settings, const VerdictRules& rules,
                         const std::optional<runtime::study::CudnnModel>& cudnn) {
  DRIFTC_TRY(inputs, session.inputs());
  std::unique_ptr<OutputFolder> folder;
  std::optional<ValueWriter> writer;
  if (const std::optional<std::string> path = arguments.value("--save-dir")) {
    DRIFTC_TRY(opened, OutputFolder::create(*path));
    folder = std::move(opened);
    writer.emplace(*folder);
    settings.on_value = [&](const std::string& name, const ir::Tensor& eager,
                            const ir::Tensor& compiled, const ir::Tensor* reference) {
      writer->write(name, eager, compiled, reference);
    };
  }
  if (const std::optional<std::string> pass = arguments.value("--print-after"))
    DRIFTC_CHECK(print_after(*pass, session, settings));
  Result<PairReport> run = pair_run(session.graph(), *inputs, settings, session.services());
  session.progress().clear();
  if (!run) return with_repro(run.error(), session, settings, context);
  PairReport& report = *run;
  DRIFTC_TRY(schedules, schedule_count(arguments));
  if (schedules > 0) {
    PairSettings varied = settings;
    varied.on_value = {};
    auto changes = run_schedules(session.graph(), *inputs, schedules, varied, session.services());
    session.progress().clear();
    if (!changes) return with_repro(changes.error(), session, settings, context);
    report.schedules = std::move(*changes);
  }
  if (arguments.has("--audit")) {
    PairSettings audited = settings;
    audited.on_value = {};
    auto audit = audit_knobs(session.graph(), *inputs, audited, session.services());
    session.progress().clear();
    if (!audit) return with_repro(audit.error(), session, settings, context);
    report.audit = std::move(*audit);
  }
  for (auto& input : report.inputs)
    for (const ResolvedInput& resolved : session.model().inputs)
      if (resolved.declaration.name == input.name) input.source = resolved.source.text;

  CompareView view = make_view(arguments, settings, rules);
  view.weight_seed = session.model().weight_seed;
  view.cudnn = cudnn;
  view.failures = broken_rules(rules, report.verdict, report.coverage, report.classes);
  view.exit_code = exit_code(report.verdict, view.failures);
  if (folder) {
    DRIFTC_CHECK(writer->status());
    DRIFTC_CHECK(folder->commit());
  }
  DRIFTC_CHECK(emit(
      arguments, context, [&](const TextStyle& style) { return compare_text(report, view, style); },
      [&] { return compare_json(report, view); }));
  return view.exit_code;
}

Result<std::vector<SweepPoint>> sweep_points(const std::string& what,
                                             const PairSettings& settings) {
  if (what == "passes") return passes_sweep(settings);
  if (what == "pairs") return pairs_sweep(settings);
  if (what == "tiles") return tiles_sweep(settings);
  if (what.starts_with("orders=")) {
    DRIFTC_TRY(orders, ir::parse_order_list(what.substr(7)));
    return orders_sweep(settings, orders);
  }
  return input_error(fmt::format("unknown sweep '{}'", what),
                     name_hint(what, {"passes", "pairs", "orders=LIST", "tiles"}));
}

Result<int> compare_sweep(const Arguments& arguments, const Context& context, Session& session,
                          const std::vector<SweepPoint>& points, const VerdictRules& rules) {
  DRIFTC_TRY(inputs, session.inputs());
  Result<std::vector<SweepRow>> run =
      run_sweep(session.graph(), *inputs, points, session.services());
  session.progress().clear();
  if (!run) return with_repro(run.error(), session, points[0].settings, context);
  const std::vector<SweepRow>& rows = *run;
  int code = 0;
  for (const SweepRow& row : rows)
    code = std::max(
        code, exit_code(row.verdict, broken_rules(rules, row.verdict, row.coverage, row.classes)));
  const std::string model = arguments.value_or("MODEL", ""),
                    what = arguments.value_or("--sweep", "");
  if (const std::optional<std::string> file = arguments.value("--csv"))
    DRIFTC_CHECK(write_file(*file, sweep_csv(rows)));
  DRIFTC_CHECK(emit(
      arguments, context,
      [&](const TextStyle& style) { return sweep_text(rows, model, what, style); },
      [&] { return sweep_json(rows, model, what, rules.allowed, code); }));
  return code;
}

Result<int> run(const Arguments& arguments, const Context& context) {
  DRIFTC_CHECK(check_combinations(arguments));
  DRIFTC_CHECK(schedule_count(arguments));
  for (const char* flag : {"--json", "--csv"})
    DRIFTC_CHECK(check_can_write(arguments.value_or(flag, "")));
  DRIFTC_TRY(rules, verdict_rules(arguments));
  DRIFTC_TRY(settings, pair_settings(arguments, context.settings));
  DRIFTC_CHECK(check_eager(arguments, settings));
  settings.check = arguments.has("--check");
  DRIFTC_TRY(reference, arguments.word("--reference", {"f64", "exact"}, "f64"));
  settings.exact = reference == "exact";
  std::vector<SweepPoint> points;
  const std::optional<std::string> sweep = arguments.value("--sweep");
  if (sweep) {
    DRIFTC_TRY(made, sweep_points(*sweep, settings));
    points = made;
  }
  if (const std::optional<std::string> pass = arguments.value("--print-after"))
    DRIFTC_CHECK(check_print_after(*pass, settings));
  DRIFTC_TRY(session, Session::open(arguments, context));
  DRIFTC_CHECK(check_against(session->graph(), settings));
  DRIFTC_TRY(eager, choose_eager(arguments, session->model(), context.settings));
  if (eager) {
    apply(*eager, settings);
    for (SweepPoint& point : points) apply(*eager, point.settings);
  }
  if (sweep) return compare_sweep(arguments, context, *session, points, rules);
  return compare_once(arguments, context, *session, settings, rules,
                      eager ? std::optional(eager->model) : std::nullopt);
}

}  // namespace

Command compare_command() {
  return {{"compare",
           "runs MODEL eagerly and compiled; says how and why each value differs",
           {{"MODEL", "an ONNX file, a .gir file, or zoo:NAME"}},
           {kInputOptions, kCompileOptions, kCheckOptions, kScheduleOptions, kEagerOptions,
            kCompareOptions, kReportOptions, kThreadOptions},
           {"driftc compare zoo:residual-block --mode strict --allow identical",
            "driftc compare model.onnx --input image=images.npy --passes=-layout-channels-last "
            "--json report.json"},
           {"exit: 0 the verdict is allowed, 1 it is not (or too little is compiled, or a class "
            "changed)"}},
          run};
}

}  // namespace driftc::frontend
