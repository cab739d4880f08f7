// driftc certify: the checker tested by planted faults.
#include "runtime/study/certify.h"

#include <array>

#include "frontend/cli/options.h"
#include "frontend/cli/session.h"
#include "frontend/report/certify_report.h"

namespace driftc::frontend {
namespace {

constexpr std::array kCertifyRows = {
    OptionRow{"--seeds", "N", "seeds of weights and inputs per model; default 10"},
    OptionRow{"--shapes", "N", "models, 1 to 6; default 6"},
    OptionRow{"--kernels", "TEXT",
              "only kinds of kernels with TEXT in their name, like 'winograd', "
              "'tensor cores' or 'tuned' (what max-autotune chose); repeatable",
              true},
    OptionRow{"--fault", "TEXT",
              "only faults with TEXT in their name or level, like 'halo' or "
              "'launch arguments'; repeatable",
              true},
    OptionRow{"--device", "NAME", "device profile of kernels without tensor cores; default h200"}};
const OptionGroup kCertifyOptions{"size", kCertifyRows};

Result<int> run(const Arguments& arguments, const Context& context) {
  DRIFTC_CHECK(check_can_write(arguments.value_or("--json", "")));
  DRIFTC_TRY(seeds, arguments.integer("--seeds", 1, 1000));
  DRIFTC_TRY(shapes, arguments.integer("--shapes", 1, 6));
  DRIFTC_TRY(threads, arguments.integer("--threads", 1, 1024));
  DRIFTC_TRY(device,
             runtime::device_profile(arguments.value_or("--device", runtime::kDefaultDevice)));
  runtime::study::CertifySettings settings;
  settings.seeds = static_cast<int>(seeds.value_or(settings.seeds));
  settings.shapes = static_cast<int>(shapes.value_or(settings.shapes));
  settings.families = arguments.all("--kernels");
  settings.faults = arguments.all("--fault");
  settings.device = device;
  const auto cache = open_kernel_cache(context.settings);
  runtime::ThreadPool pool(static_cast<int>(threads.value_or(0)));
  Progress progress(context.terminal.stderr_is_terminal);
  auto report = runtime::study::certify(
      settings, {*cache, pool, [&](const std::string& line) { progress.show(line); }});
  progress.clear();
  if (!report) return report.error();
  const int code = report->holds() ? 0 : 1;
  DRIFTC_CHECK(emit(
      arguments, context,
      [&](const TextStyle& style) { return certify_text(*report, code, style); },
      [&] { return certify_json(*report, code); }));
  return code;
}

}  // namespace

Command certify_command() {
  return {{"certify",
           "plants faults and harmless changes; says what each comparer finds and whom it accuses",
           {},
           {kCertifyOptions, kJsonOption, kThreadOptions},
           {"driftc certify", "driftc certify --seeds 1 --shapes 2 --json certify.json",
            "driftc certify --fault halo --fault 'memory plan'",
            "driftc certify --kernels winograd --seeds 5"},
           {"exit: 1 when driftc misses a fault or accuses a healthy result, when driftc-judge "
            "accuses one, misses",
            "a fault of a sum in f32, or elsewhere one of more than twice the accumulation bound"}},
          run};
}

}  // namespace driftc::frontend
