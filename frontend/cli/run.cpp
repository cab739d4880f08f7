// driftc run: one arm alone, its outputs as .npy files.
#include <fmt/format.h>

#include <array>

#include "frontend/cli/eager_choice.h"
#include "frontend/cli/options.h"
#include "frontend/cli/pair_options.h"
#include "frontend/cli/repro.h"
#include "frontend/cli/session.h"
#include "frontend/npy/npy.h"
#include "frontend/report/schedules_report.h"
#include "runtime/study/schedules.h"

namespace driftc::frontend {
namespace {

using runtime::study::Arm;

constexpr std::array kRunRows = {
    OptionRow{"--arm", "ARM", "eager, compiled (default) or reference (f64)"},
    OptionRow{"--out", "DIR", "folder for OUTPUT.npy files; without it a summary is printed only"},
    OptionRow{"--raw-outputs", "", "f32 also where the model declares another type"}};
const OptionGroup kRunOptions{"what is run and written", kRunRows};

Result<int> run(const Arguments& arguments, const Context& context) {
  DRIFTC_TRY(word, arguments.word("--arm", {"eager", "compiled", "reference"}, "compiled"));
  const Arm arm = word == "eager"       ? Arm::kEager
                  : word == "reference" ? Arm::kReference
                                        : Arm::kCompiled;
  DRIFTC_TRY(settings, pair_settings(arguments, context.settings));
  DRIFTC_CHECK(check_eager(arguments, settings));
  settings.check = arguments.has("--check");
  DRIFTC_TRY(schedules, schedule_count(arguments));
  if (schedules > 0 && arm != Arm::kCompiled)
    return input_error(fmt::format("--schedules: the {} arm has no schedule", word),
                       "--arm compiled");
  if (arguments.has("--json") && schedules == 0)
    return input_error("--json writes what --schedules finds, and there is no --schedules",
                       "--schedules 8 --json FILE");
  DRIFTC_TRY(session, Session::open(arguments, context));
  DRIFTC_CHECK(check_against(session->graph(), settings));
  DRIFTC_TRY(eager, choose_eager(arguments, session->model(), context.settings));
  if (eager) apply(*eager, settings);
  DRIFTC_TRY(inputs, session->inputs());
  auto outputs = run_arm(session->graph(), *inputs, arm, settings, session->services());
  session->progress().clear();
  if (!outputs) return with_repro(outputs.error(), *session, settings, context);

  std::unique_ptr<OutputFolder> folder;
  if (const std::optional<std::string> path = arguments.value("--out")) {
    DRIFTC_TRY(opened, OutputFolder::create(*path));
    folder = std::move(opened);
  }
  const auto& declared = session->model().declared_outputs;
  FileNames names;
  std::string text;
  for (const auto& output : *outputs) {
    ir::Tensor tensor = output.tensor;
    const auto wanted = declared.find(output.name);
    // .npy has no bf16; integers stay as they are computed.
    const bool storable = wanted != declared.end() &&
                          (wanted->second == ir::DType::kF16 || wanted->second == ir::DType::kF64);
    if (storable && arm != Arm::kReference && !arguments.has("--raw-outputs"))
      tensor = tensor.converted(wanted->second);
    const std::string file = names.of(output.name) + ".npy";
    text += fmt::format("{} {}{}{}\n", printable(output.name), ir::name_of(tensor.dtype()),
                        ir::to_string(tensor.shape()),
                        folder ? " -> " + *arguments.value("--out") + "/" + file : "");
    if (folder) DRIFTC_CHECK(folder->add(file, npy::npy_bytes(tensor)));
  }
  if (folder) DRIFTC_CHECK(folder->commit());
  if (schedules == 0) {
    DRIFTC_CHECK(print(text));
    return 0;
  }
  auto changes = run_schedules(session->graph(), *inputs, schedules, settings, session->services());
  session->progress().clear();
  if (!changes) return with_repro(changes.error(), *session, settings, context);
  DRIFTC_CHECK(emit(
      arguments, context,
      [&](const TextStyle& style) { return text + schedules_text(*changes, style); },
      [&] { return schedules_document(*changes, arguments.value_or("MODEL", "")); }));
  return 0;
}

}  // namespace

Command run_command() {
  return {{"run",
           "runs one arm of MODEL and writes its outputs",
           {{"MODEL", "an ONNX file, a .gir file, or zoo:NAME"}},
           {kRunOptions, kInputOptions, kCompileOptions, kCheckOptions, kScheduleOptions,
            kEagerOptions, kJsonOption, kThreadOptions},
           {"driftc run zoo:lenet --arm eager --out outputs",
            "driftc run model.onnx --input image=images.npy --arm reference --out reference"},
           {}},
          run};
}

}  // namespace driftc::frontend
