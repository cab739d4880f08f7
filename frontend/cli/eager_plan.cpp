// driftc eager-plan MODEL --device D,...: which cuDNN engine PyTorch eager would run for each
// convolution on GPUs that need not be there.
#include "runtime/study/eager_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "frontend/cli/command.h"
#include "frontend/cli/model.h"
#include "frontend/cli/options.h"
#include "frontend/report/version.h"

namespace driftc::frontend {
namespace {

using runtime::study::Answer;
using runtime::study::DeviceAnswer;
using runtime::study::Difference;
using runtime::study::EagerPlan;
using runtime::study::EagerPlanSettings;
using runtime::study::PlanGroup;

constexpr std::array kPlanRows = {
    OptionRow{"--device", "NAME,...",
              "device profiles to ask about; default h200, `driftc devices` lists them"},
    OptionRow{"--allow-tf32", "on|off",
              "torch.backends.cudnn.allow_tf32; default on, as in PyTorch"},
    OptionRow{"--deterministic", "", "torch.backends.cudnn.deterministic"},
    OptionRow{"--layout", "nchw|nhwc",
              "memory format of the tensors; nhwc is channels_last; default nchw"}};
const OptionGroup kPlanOptions{"what is asked", kPlanRows};
constexpr std::array kPlanJsonRows = {OptionRow{
    "--json", "FILE",
    "the report as JSON (docs/schema/eager-plan-1.json); - is stdout, the table then goes "
    "to stderr"}};
const OptionGroup kPlanJson{"output", kPlanJsonRows};

struct Asked {
  std::string model;
  EagerPlanSettings settings;
};

std::string_view layout_name(ir::Layout layout) {
  return layout == ir::Layout::kNhwc ? "nhwc" : "nchw";
}
ir::Layout other(ir::Layout layout) {
  return layout == ir::Layout::kNhwc ? ir::Layout::kNchw : ir::Layout::kNhwc;
}

std::string window_text(const runtime::cuda::ConvProblem& p) {
  std::string out = fmt::format("{}x{}", p.w[2], p.w[3]);
  if (p.stride[0] != 1 || p.stride[1] != 1)
    out += p.stride[0] == p.stride[1] ? fmt::format(" /{}", p.stride[0])
                                      : fmt::format(" /{}x{}", p.stride[0], p.stride[1]);
  if (p.dilation[0] != 1 || p.dilation[1] != 1)
    out += fmt::format(" dilation {}x{}", p.dilation[0], p.dilation[1]);
  if (p.groups != 1) out += fmt::format(" groups {}", p.groups);
  return out;
}

std::string knobs_text(const Answer& a) {
  std::string out;
  for (const auto& [name, value] : a.choice.knobs)
    out += fmt::format("{}{}={}", out.empty() ? "" : " ", name, value);
  return out;
}

std::string notes_text(const Answer& a) {
  std::string out;
  for (const std::string& note : a.choice.notes) out += (out.empty() ? "" : " ") + note;
  return out;
}

std::string engine_text(const Answer& a) {
  return a.depthwise_kernel ? "-" : std::to_string(a.choice.engine);
}

// "f32 winograd"; the tile as cuDNN's note says it.
std::string class_text(const Answer& a) {
  std::string out = fmt::format("{} {}", a.choice.precision, name_of(a.choice.algorithm));
  for (const std::string& note : a.choice.notes)
    if (note.starts_with("WINOGRAD_TILE_")) out += " " + note.substr(14);
  return out;
}

// What would be another with a setting turned over; "=" when nothing.
std::string change_text(Difference difference, const std::optional<Answer>& answer) {
  if (!answer) return "no engine";
  switch (difference) {
    case Difference::kNone:
      return "=";
    case Difference::kKnobs:
      return "knobs";
    case Difference::kEngine:
      return "engine " + engine_text(*answer);
    case Difference::kClass:
      return class_text(*answer);
  }
  return "";
}

// "3 class, 10 engine, 40 same" over convolutions.
class Tally {
 public:
  void add(Difference difference, std::size_t n) { counts_[static_cast<int>(difference)] += n; }
  std::string text() const {
    static constexpr std::array kWords = {"the same", "other knobs", "another engine",
                                          "another precision or algorithm"};
    std::string out;
    for (int i = 3; i >= 0; --i)
      if (counts_[i] != 0)
        out += fmt::format("{}{} {}", out.empty() ? "" : ", ", counts_[i], kWords[i]);
    return out.empty() ? "no convolutions" : out;
  }

 private:
  std::array<std::size_t, 4> counts_{};
};

std::string groups_table(const EagerPlan& plan, const Asked& asked, const TextStyle& style) {
  using Align = Table::Align;
  Table table({{"convolution"},
               {"input"},
               {"window"},
               {"device"},
               {"engine", Align::kRight},
               {"precision and algorithm"},
               {"repeats"},
               {fmt::format("in {}", layout_name(other(asked.settings.layout)))},
               {asked.settings.flags.allow_tf32 ? "without TF32" : "with TF32"},
               {"notes; knobs"}});
  for (const PlanGroup& group : plan.groups) {
    std::string name = shortened(group.nodes[0], 24);
    if (group.nodes.size() > 1) name += fmt::format(" +{}", group.nodes.size() - 1);
    std::string input = ir::to_string(ir::Shape(group.problem.x)),
                window = window_text(group.problem);
    for (std::size_t d = 0; d < group.devices.size(); ++d) {
      const DeviceAnswer& at = group.devices[d];
      const Answer& a = at.answer;
      std::string detail =
          a.depthwise_kernel ? "PyTorch's own depthwise kernel, not cuDNN" : notes_text(a);
      if (const std::string knobs = knobs_text(a); !knobs.empty())
        detail += (detail.empty() ? "" : "; ") + knobs;
      table.add({name, input, window, asked.settings.devices[d].name, engine_text(a), class_text(a),
                 a.choice.deterministic ? "yes" : "no", change_text(at.by_layout, at.other_layout),
                 change_text(at.by_tf32, at.other_tf32), detail});
      name = input = window = "";
    }
  }
  return table.render(style);
}

std::string summary(const EagerPlan& plan, const Asked& asked) {
  std::string out;
  const EagerPlanSettings& s = asked.settings;
  for (std::size_t d = 0; d < s.devices.size(); ++d) {
    std::map<std::string, std::size_t> classes;
    Tally layout, tf32;
    for (const PlanGroup& group : plan.groups) {
      classes[class_text(group.devices[d].answer)] += group.nodes.size();
      layout.add(group.devices[d].by_layout, group.nodes.size());
      tf32.add(group.devices[d].by_tf32, group.nodes.size());
    }
    std::string kinds;
    for (const auto& [kind, count] : classes)
      kinds += fmt::format("{}{} {}", kinds.empty() ? "" : ", ", count, kind);
    out += fmt::format("{:<8} {}\n{:8} in {}: {}\n{:8} {} TF32: {}\n", s.devices[d].name, kinds, "",
                       layout_name(other(s.layout)), layout.text(), "",
                       s.flags.allow_tf32 ? "without" : "with", tf32.text());
  }
  for (std::size_t a = 0; a < s.devices.size(); ++a)
    for (std::size_t b = a + 1; b < s.devices.size(); ++b) {
      Tally tally;
      for (const PlanGroup& group : plan.groups)
        tally.add(difference(group.devices[a].answer, group.devices[b].answer), group.nodes.size());
      out += fmt::format("{} against {}: {}\n", s.devices[a].name, s.devices[b].name, tally.text());
    }
  return out;
}

std::string text(const EagerPlan& plan, const Asked& asked, const TextStyle& style) {
  const EagerPlanSettings& s = asked.settings;
  std::string out = fmt::format(
      "model  {}{}{}, {} different{}{}\ncuDNN  {} at {}\n"
      "asked  as PyTorch eager does: {}, TF32 {}, deterministic {}, benchmark off\n\n",
      printable(asked.model), separator(style),
      plural(static_cast<std::int64_t>(plan.convolutions), "convolution"), plan.groups.size(),
      separator(style), ir::name_of(s.dtype), plan.cudnn_version, printable(plan.cudnn_path),
      layout_name(s.layout), s.flags.allow_tf32 ? "on" : "off",
      s.flags.deterministic ? "on" : "off");
  if (plan.groups.empty()) return out + "no convolutions: cuDNN has nothing to decide\n";
  out += groups_table(plan, asked, style) + "\n" + summary(plan, asked);
  out +=
      "\nThe engine is what this cuDNN's heuristics rank first after PyTorch's filter; another "
      "cuDNN "
      "version may\nrank otherwise, and no GPU was asked. implicit_gemm: products summed directly "
      "(cuDNN does not say more);\nits order of summation is not known. repeats: the same bits "
      "from "
      "run to run.\n";
  if (std::any_of(plan.groups.begin(), plan.groups.end(),
                  [](const PlanGroup& group) { return group.padded_first; }))
    out += "Padding that differs on two sides is added to the tensor before the convolution.\n";
  return out;
}

Json answer_json(const Answer& a) {
  Json knobs = Json::object();
  for (const auto& [name, value] : a.choice.knobs) knobs[name] = value;
  return {{"runs", a.depthwise_kernel ? "pytorch-depthwise" : "cudnn"},
          {"engine", a.depthwise_kernel ? Json(nullptr) : Json(a.choice.engine)},
          {"notes", a.choice.notes},
          {"knobs", knobs},
          {"precision", a.choice.precision},
          {"algorithm", std::string(name_of(a.choice.algorithm))},
          {"deterministic", a.choice.deterministic},
          {"fallback_list", a.choice.fallback}};
}

Json turned_json(Difference difference, const std::optional<Answer>& answer) {
  return {{"differs", std::string(name_of(difference))},
          {"answer", answer ? answer_json(*answer) : Json(nullptr)}};
}

Json json(const EagerPlan& plan, const Asked& asked) {
  const EagerPlanSettings& s = asked.settings;
  Json names = Json::array(), nodes = Json::array(), by_device = Json::array();
  for (const runtime::DeviceProfile& device : s.devices) names.push_back(device.name);
  for (const PlanGroup& group : plan.groups)
    for (const std::string& node : group.nodes) {
      by_device.push_back({{"name", node}, {"differs", std::string(name_of(group.by_device))}});
      for (std::size_t d = 0; d < s.devices.size(); ++d) {
        const DeviceAnswer& at = group.devices[d];
        Json entry = {{"name", node}, {"device", s.devices[d].name}};
        entry.update(answer_json(at.answer));
        entry["same_as"] = group.nodes[0];
        entry["padded_first"] = group.padded_first;
        entry["other_layout"] = turned_json(at.by_layout, at.other_layout);
        entry["other_tf32"] = turned_json(at.by_tf32, at.other_tf32);
        nodes.push_back(std::move(entry));
      }
    }
  return {{"schema", "driftc.eager-plan/1"},
          {"driftc", std::string(kVersion)},
          {"cudnn", plan.cudnn_version},
          {"model", asked.model},
          {"settings",
           {{"devices", names},
            {"dtype", std::string(ir::name_of(s.dtype))},
            {"layout", std::string(layout_name(s.layout))},
            {"allow_tf32", s.flags.allow_tf32},
            {"deterministic", s.flags.deterministic},
            {"benchmark", false}}},
          {"convolutions", plan.convolutions},
          {"different", plan.groups.size()},
          {"between_devices", by_device},
          {"nodes", nodes}};
}

Result<int> run(const Arguments& arguments, const Context& context) {
  Asked asked;
  asked.model = arguments.value_or("MODEL", "");
  DRIFTC_TRY(profiles,
             runtime::device_list(arguments.value_or("--device", runtime::kDefaultDevice)));
  DRIFTC_TRY(tf32, arguments.word("--allow-tf32", {"on", "off"}, "on"));
  DRIFTC_TRY(layout, arguments.word("--layout", {"nchw", "nhwc"}, "nchw"));
  DRIFTC_CHECK(check_can_write(arguments.value_or("--json", "")));
  DRIFTC_TRY(model, load_model(arguments));
  asked.settings.devices = profiles;
  asked.settings.flags = {tf32 == "on", arguments.has("--deterministic")};
  asked.settings.layout = layout == "nhwc" ? ir::Layout::kNhwc : ir::Layout::kNchw;
  asked.settings.dtype = declared_type(model);
  Progress progress(context.terminal.stderr_is_terminal);
  asked.settings.progress = [&](std::size_t done, std::size_t of) {
    progress.show(fmt::format("asking cuDNN: {} of {}", done, of));
  };
  DRIFTC_TRY(plan, eager_plan(model.graph, asked.settings, context.settings));
  progress.clear();
  DRIFTC_CHECK(emit(
      arguments, context, [&](const TextStyle& style) { return text(plan, asked, style); },
      [&] { return json(plan, asked); }));
  return 0;
}

}  // namespace

Command eager_plan_command() {
  return {{"eager-plan",
           "the cuDNN engine that PyTorch eager would run per convolution, on GPUs not here",
           {{"MODEL", "an ONNX file, a .gir file, or zoo:NAME"}},
           {kPlanOptions, kInputOptions, kPlanJson},
           {"driftc eager-plan zoo:resnet50 --device a100,h200,t4",
            "driftc eager-plan model.onnx --allow-tf32 off --deterministic --json plan.json"},
           {"needs cuDNN 9.8 or newer (no GPU); exit: 0 fine, 2 bad usage or input, 3 no such "
            "cuDNN, or it fails"}},
          run};
}

}  // namespace driftc::frontend
