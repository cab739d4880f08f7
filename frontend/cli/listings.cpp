// driftc passes, devices: the tables of this build.
#include <fmt/format.h>

#include "frontend/cli/command.h"
#include "frontend/cli/options.h"
#include "frontend/report/version.h"
#include "passes/inductor.h"
#include "runtime/devices/profile.h"

namespace driftc::frontend {
namespace {

constexpr std::array kModes = {passes::Mode::kEager, passes::Mode::kStrict, passes::Mode::kDefault,
                               passes::Mode::kReduceOverhead, passes::Mode::kMaxAutotune};

std::string_view mark_in_max_autotune(const passes::PassInfo& pass) {
  if (!enabled_in(pass, passes::Mode::kMaxAutotune)) return "";
  return passes::is_tuned(pass) ? "tuned" : "on";
}

using passes::InductorAnswer;
using passes::InductorKnob;

std::string inductor_text() {
  Table passes({{"here"}, {"settings of Inductor that govern it"}});
  const auto governed = [&](const std::string& what, std::string_view word) {
    const std::vector<std::string> names = passes::inductor_names_of(word);
    if (!names.empty()) passes.add({what, fmt::format("{}", fmt::join(names, ", "))});
  };
  for (const passes::PassInfo& pass : passes::all_passes())
    governed(std::string(pass.name), pass.name);
  for (const std::string& mode : passes::mode_names()) governed("--mode " + mode, "mode=" + mode);
  governed("--deterministic", "--deterministic");
  Table mapped({{"setting"}, {"default"}, {"True is"}, {"False is"}}),
      other({{"setting"}, {"effect"}, {"why it sets nothing"}});
  for (const InductorKnob& knob : passes::inductor_knobs()) {
    const auto words = [&](std::string_view actions) {
      return std::string(actions.empty() ? knob.reason : actions);
    };
    const InductorAnswer answer = answer_of(knob);
    if (answer == InductorAnswer::kMapped)
      mapped.add(
          {std::string(knob.name), std::string(knob.fallback), words(knob.on), words(knob.off)});
    else
      other.add({std::string(knob.name),
                 answer == InductorAnswer::kNoEffect ? "none" : std::string(knob.effect),
                 std::string(knob.reason)});
  }
  return "\nSettings of PyTorch Inductor (--inductor SETTING=VALUE):\n\n" + mapped.render({}) +
         "\n" + passes.render({}) +
         "\nThose that change no convolution (none), or by what is not a setting here (P "
         "precision, O "
         "order, A algorithm,\nR rounding points):\n\n" +
         other.render({});
}

Json inductor_json() {
  Json list = Json::array();
  for (const InductorKnob& knob : passes::inductor_knobs())
    list.push_back({{"name", std::string(knob.name)},
                    {"environment", text_or_null(std::string(knob.environment))},
                    {"default", std::string(knob.fallback)},
                    {"effect", std::string(knob.effect)},
                    {"doc", std::string(knob.what)},
                    {"answer", std::string(name_of(answer_of(knob)))},
                    {"true", std::string(knob.on)},
                    {"false", std::string(knob.off)},
                    {"reason", text_or_null(std::string(knob.reason))}});
  return list;
}

std::string passes_text(const TextStyle&) {
  Table table(
      {{"pass"}, {"strict"}, {"default"}, {"max-autotune"}, {"effect on bits"}, {"what it does"}});
  for (const passes::PassInfo& pass : passes::all_passes())
    table.add({std::string(pass.name), enabled_in(pass, passes::Mode::kStrict) ? "on" : "",
               enabled_in(pass, passes::Mode::kDefault) ? "on" : "",
               std::string(mark_in_max_autotune(pass)), std::string(name_of(pass.effect)),
               std::string(pass.doc)});
  std::string out =
      "Passes in the order they run (mode eager runs none; reduce-overhead runs those of "
      "default):\n\n";
  out += table.render({}) +
         "tuned: the tuner chooses, kernel by kernel (--tuning FILE keeps its choices)\n\nOptions "
         "(--set PASS.OPTION=VALUE):\n\n";
  Table options({{"option"}, {"default"}, {"accepts"}, {"what it does"}});
  for (const passes::PassInfo& pass : passes::all_passes())
    for (const passes::OptionSpec& option : pass.options)
      options.add({fmt::format("{}.{}", pass.name, option.name), std::string(option.fallback),
                   std::string(option.accepts), std::string(option.doc)});
  return out + options.render({}) + inductor_text();
}

Json passes_json() {
  Json list = Json::array(), modes = Json::array();
  for (const passes::Mode mode : kModes) modes.push_back(std::string(name_of(mode)));
  for (const passes::PassInfo& pass : passes::all_passes()) {
    Json options = Json::array(), enabled = Json::object();
    for (const passes::Mode mode : kModes)
      enabled[std::string(name_of(mode))] = enabled_in(pass, mode);
    for (const passes::OptionSpec& option : pass.options)
      options.push_back({{"name", std::string(option.name)},
                         {"default", std::string(option.fallback)},
                         {"accepts", std::string(option.accepts)},
                         {"doc", std::string(option.doc)}});
    list.push_back({{"name", std::string(pass.name)},
                    {"doc", std::string(pass.doc)},
                    {"effect", std::string(name_of(pass.effect))},
                    {"effect_note", std::string(pass.effect_note)},
                    {"mirrors", std::string(pass.mirrors)},
                    {"inductor", passes::inductor_names_of(pass.name)},
                    {"modes", enabled},
                    {"options", options}});
  }
  return {{"schema", "driftc.passes/1"},
          {"driftc", std::string(kVersion)},
          {"modes", modes},
          {"passes", list},
          {"inductor", inductor_json()}};
}

// At the boost clock, two operations a product.
double peak_tflops(const runtime::DeviceProfile& device, int products_per_clock) {
  return 2e-6 * device.sm_count * device.sm_clock_mhz * products_per_clock;
}

std::string devices_text(const TextStyle&) {
  using Align = Table::Align;
  Table table({{"device"},
               {"name"},
               {"capability", Align::kRight},
               {"SMs", Align::kRight},
               {"MHz", Align::kRight},
               {"memory", Align::kRight},
               {"GB/s", Align::kRight},
               {"L2", Align::kRight},
               {"shared/block", Align::kRight},
               {"f32 TFLOPS", Align::kRight},
               {"f16 tensor", Align::kRight},
               {"PTX target"},
               {"also called"}});
  for (const runtime::DeviceProfile& device : runtime::device_profiles()) {
    std::string aliases;
    for (const std::string& alias : device.aliases)
      aliases += (aliases.empty() ? "" : ", ") + alias;
    table.add({device.name, device.title,
               fmt::format("{}.{}", device.compute_major, device.compute_minor),
               std::to_string(device.sm_count), std::to_string(device.sm_clock_mhz),
               fmt::format("{} GiB", device.memory_gib), std::to_string(device.bandwidth_gbps),
               fmt::format("{:.4g} MiB", device.l2_kib / 1024.0),
               fmt::format("{} KiB", device.shared_block_kib),
               fmt::format("{:.1f}", peak_tflops(device, device.f32_per_clock)),
               device.tensor_f16 == 0
                   ? "-"
                   : fmt::format("{:.0f}", peak_tflops(device, device.tensor_f16)),
               device.ptx_target, aliases});
  }
  return table.render({}) + fmt::format(
                                "\nA profile is data: no such GPU is needed. Default: {}\n"
                                "MHz: boost clock of the SMs; shared/block: with opt-in; "
                                "TFLOPS: peaks at that clock, of fma and of tensor cores. "
                                "--json has every figure.\n",
                                runtime::kDefaultDevice);
}

Json devices_json() {
  Json list = Json::array();
  for (const runtime::DeviceProfile& device : runtime::device_profiles())
    list.push_back(
        {{"name", device.name},
         {"title", device.title},
         {"aliases", device.aliases},
         {"compute_capability", fmt::format("{}.{}", device.compute_major, device.compute_minor)},
         {"sm_count", device.sm_count},
         {"ptx_target", device.ptx_target},
         {"mma_arch", device.mma_arch},
         {"sm_clock_mhz", device.sm_clock_mhz},
         {"memory_clock_mhz", device.memory_clock_mhz},
         {"memory_gib", device.memory_gib},
         {"bandwidth_gb_per_s", device.bandwidth_gbps},
         {"l2_kib", device.l2_kib},
         {"f32_fma_per_clock_and_sm", device.f32_per_clock},
         {"f64_fma_per_clock_and_sm", device.f64_per_clock},
         {"tensor_f16_products_per_clock_and_sm", device.tensor_f16},
         {"tensor_tf32_products_per_clock_and_sm", device.tensor_tf32},
         {"registers_per_block", runtime::kRegisters},
         {"threads_per_block", runtime::kThreadsPerBlock},
         {"threads_per_sm", device.threads_per_sm},
         {"blocks_per_sm", device.blocks_per_sm},
         {"shared_per_block_kib", runtime::kSharedBlockDefaultKib},
         {"shared_per_block_optin_kib", device.shared_block_kib},
         {"shared_per_sm_kib", device.shared_sm_kib},
         {"shared_reserved_per_block_kib", device.shared_reserved_kib},
         {"shared_unit_bytes", device.shared_unit},
         {"registers_unit_per_warp", runtime::kRegisterUnit},
         {"registers_per_thread", runtime::kThreadRegisters}});
  return {{"schema", "driftc.devices/1"},
          {"driftc", std::string(kVersion)},
          {"default", std::string(runtime::kDefaultDevice)},
          {"devices", list}};
}

template <std::string (*Text)(const TextStyle&), Json (*AsJson)()>
Result<int> list(const Arguments& arguments, const Context& context) {
  DRIFTC_CHECK(emit(arguments, context, Text, AsJson));
  return 0;
}

}  // namespace

Command passes_command() {
  return {{"passes",
           "the optimisation passes: what each does, to which bits, in which mode",
           {},
           {kJsonOption},
           {"driftc passes", "driftc passes --json -"},
           {}},
          list<passes_text, passes_json>};
}

Command devices_command() {
  return {{"devices",
           "the device profiles that --device accepts",
           {},
           {kJsonOption},
           {"driftc devices", "driftc devices --json -"},
           {}},
          list<devices_text, devices_json>};
}

}  // namespace driftc::frontend
