// driftc judge: a verdict on outputs that some other system produced.
#include "runtime/study/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "frontend/cli/options.h"
#include "frontend/cli/session.h"
#include "frontend/cli/verdict_rules.h"
#include "frontend/npy/npy.h"
#include "frontend/report/judge_report.h"

namespace driftc::frontend {
namespace {

namespace fs = std::filesystem;
using runtime::study::NamedTensor;

constexpr std::array kJudgeRows = {
    OptionRow{"--a", "FILE",
              "the result: FILE.npy, or a folder with one NAME.npy per output (named as `driftc "
              "run --out` does)"},
    OptionRow{"--b", "FILE", "a second result: is the difference of the two explained?"},
    OptionRow{"--at", "NODE", "judge one value of the graph; --input may then name any value"},
    OptionRow{
        "--allow", "LIST",
        "verdicts that exit with 0; default identical,order,precision,algorithm; any allows all"}};
const OptionGroup kJudgeOptions{"what is judged", kJudgeRows};

// The name in NAME=WHAT: the longest name that fits; empty when none does.
std::string name_in(const std::string& text, const std::vector<std::string>& names) {
  std::string best;
  for (const std::string& name : names)
    if (text.size() > name.size() && text.starts_with(name) && text[name.size()] == '=' &&
        name.size() >= best.size())
      best = name;
  return best;
}

// `--at` lets --input name any value: what names no graph input is an operand, and is kept apart
// from the arguments that load the model. A batch that the model leaves open then comes from the
// first operand.
struct Split {
  Arguments arguments;
  std::vector<std::pair<std::string, std::string>> operands;  // value name, file
};
Result<Split> split_inputs(const Arguments& given) {
  Split split{given, {}};
  if (!given.has("--at") || !given.has("--input")) return split;
  Arguments bare;
  bare.add("MODEL", given.value_or("MODEL", ""));
  DRIFTC_TRY(model, load_model(bare));
  std::vector<std::string> inputs, values;
  for (const ir::Value& value : model.graph.values())
    (value.producer ? values : inputs).push_back(value.name);
  std::vector<std::string> kept;
  for (const std::string& text : given.all("--input")) {
    const std::string value = name_in(text, values);
    if (value.empty() || name_in(text, inputs).size() > value.size()) {
      kept.push_back(text);
    } else {
      split.operands.emplace_back(value, text.substr(value.size() + 1));
    }
  }
  split.arguments = Arguments();
  for (const char* flag : {"MODEL", "--batch", "--threads"})
    if (given.has(flag)) split.arguments.add(flag, given.value_or(flag, ""));
  for (const std::string& text : kept) split.arguments.add("--input", text);
  if (kept.empty() && !split.operands.empty() && !given.has("--batch") && !model.inputs.empty() &&
      !model.inputs[0].declaration.extents.empty() && model.inputs[0].declaration.extents[0] < 0) {
    DRIFTC_TRY(header, npy::read_npy_header(split.operands[0].second));
    if (header.shape.rank() > 0) split.arguments.add("--batch", std::to_string(header.shape[0]));
  }
  return split;
}

// The files of one side, by value name.
Result<std::vector<NamedTensor>> read_results(const std::string& path,
                                              const std::vector<std::string>& names) {
  std::vector<NamedTensor> out;
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    if (names.size() > 1)
      return input_error(
          fmt::format("the model has {} outputs, and '{}' is one file", names.size(), path),
          "give a folder with one NAME.npy per output");
    DRIFTC_TRY(tensor, npy::read_npy(path));
    out.push_back({names[0], tensor});
    return out;
  }
  FileNames files;
  for (const std::string& name : names) {
    const std::string file = (fs::path(path) / (files.of(name) + ".npy")).string();
    DRIFTC_TRY(tensor, npy::read_npy(file));
    out.push_back({name, tensor});
  }
  return out;
}

Result<int> run(const Arguments& given, const Context& context) {
  DRIFTC_CHECK(check_can_write(given.value_or("--json", "")));
  if (!given.has("--a"))
    return input_error("nothing to judge: --a is missing",
                       "--a FILE.npy, or --a FOLDER with one NAME.npy per output");
  DRIFTC_TRY(rules, verdict_rules(given));
  DRIFTC_TRY(split, split_inputs(given));
  DRIFTC_TRY(session, Session::open(split.arguments, context));
  const ir::Graph& graph = session->graph();
  std::vector<NamedTensor> inputs;
  // Inputs that nobody names are generated only when no input is named at all: a judge of a file
  // must not guess half.
  std::vector<std::string> named;
  for (const ResolvedInput& input : session->model().inputs)
    named.push_back(input.declaration.name);
  std::vector<std::string> wanted_inputs;
  for (const std::string& text : split.arguments.all("--input")) {
    const std::string name = name_in(text, named);
    wanted_inputs.push_back(name.empty() && named.size() == 1 ? named[0] : name);
  }
  if (!given.has("--input")) wanted_inputs = named;
  if (!wanted_inputs.empty()) {
    DRIFTC_TRY(all, session->inputs());
    for (const NamedTensor& input : *all)
      if (std::find(wanted_inputs.begin(), wanted_inputs.end(), input.name) != wanted_inputs.end())
        inputs.push_back(input);
  }
  for (const auto& [name, file] : split.operands) {
    DRIFTC_TRY(tensor, npy::read_npy(file));
    inputs.push_back({name, tensor});
  }
  runtime::study::JudgeSettings settings;
  settings.node = given.value_or("--at", "");
  std::vector<std::string> names;
  if (settings.node.empty()) {
    for (ir::ValueId output : graph.outputs()) names.push_back(graph.value(output).name);
  } else {
    std::vector<std::string> known;
    for (const ir::Value& value : graph.values()) known.push_back(value.name);
    if (!graph.find(settings.node))
      return input_error(fmt::format("the model has no node '{}'", settings.node),
                         name_hint(settings.node, known));
    names.push_back(settings.node);
  }
  DRIFTC_TRY(a, read_results(given.value_or("--a", ""), names));
  std::vector<NamedTensor> b;
  if (given.has("--b")) {
    DRIFTC_TRY(second, read_results(given.value_or("--b", ""), names));
    b = second;
  }
  auto judged = judge(graph, inputs, a, b, settings, session->services());
  session->progress().clear();
  if (!judged) return judged.error();
  for (auto& input : judged->inputs) {
    for (const ResolvedInput& resolved : session->model().inputs)
      if (resolved.declaration.name == input.name) input.source = resolved.source.text;
    for (const auto& [name, file] : split.operands)
      if (name == input.name) input.source = file;
  }
  JudgeView view;
  view.model = given.value_or("MODEL", "");
  view.a = given.value_or("--a", "");
  view.b = given.value_or("--b", "");
  view.allowed = rules.allowed;
  view.exit_code = rules.allows(judged->verdict) ? 0 : 1;
  DRIFTC_CHECK(emit(
      given, context, [&](const TextStyle& style) { return judge_text(*judged, view, style); },
      [&] { return judge_json(*judged, view); }));
  return view.exit_code;
}

}  // namespace

Command judge_command() {
  return {
      {"judge",
       "verdict on outputs that another system produced from MODEL",
       {{"MODEL", "an ONNX file, a .gir file, or zoo:NAME"}},
       {kJudgeOptions, kInputOptions, kJsonOption, kThreadOptions},
       {"driftc judge model.onnx --input image=images.npy --a outputs.npy",
        "driftc judge model.onnx --input image=images.npy --a eager.npy --b compiled.npy --json -"},
       {"exit: 0 the verdict is allowed, 1 it is not; 2 also when shapes do not fit"}},
      run};
}

}  // namespace driftc::frontend
