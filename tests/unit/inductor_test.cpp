// Inductor's settings: the table names passes, options and modes that exist, and `--inductor` does
// what it says.
#include "passes/inductor.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "frontend/report/json_text.h"
#include "tests/support/command_line.h"

using namespace driftc;
using passes::InductorAnswer;

namespace {

// What --inductor with these settings and the rest of the request selects, with its notes.
std::string selected(const std::vector<std::string>& texts, passes::SelectionRequest request = {}) {
  const auto settings = passes::parse_inductor(texts);
  if (!settings.ok()) return "error: " + settings.error().message + " | " + settings.error().hint;
  if (auto done = passes::add_inductor(*settings, request); !done.ok())
    return "error: " + done.error().message;
  auto selection = passes::select_passes(request);
  REQUIRE(selection.ok());
  REQUIRE(passes::finish_inductor(*settings, request, *selection).ok());
  std::vector<std::string> options;
  for (const auto& [key, value] : selection->options.values())
    options.push_back(fmt::format("{}={}", key, value));
  return fmt::format("{}; {}; {}", fmt::join(selection->enabled, " "), fmt::join(options, " "),
                     fmt::join(selection->notes, " / "));
}
std::string told(const std::string& text) {
  return passes::explain(passes::parse_inductor({text}).value()[0]);
}

}  // namespace

TEST_CASE("inductor: every row is complete, and every word of it is accepted") {
  std::set<std::string_view> names;
  for (const passes::InductorKnob& knob : passes::inductor_knobs()) {
    CAPTURE(knob.name);
    CHECK(names.insert(knob.name).second);
    if (!knob.environment.empty()) CHECK(names.insert(knob.environment).second);
    CHECK(!knob.what.empty());
    const bool boolean = knob.accepts == "BOOL";
    CHECK((boolean || (knob.on.empty() && knob.off.empty())));
    if (boolean) CHECK((knob.fallback == "True" || knob.fallback == "False"));
    // A value that asks for nothing says why.
    CHECK(knob.reason.empty() == (!knob.on.empty() && !knob.off.empty()));
    for (const char* value : {"True", "False"}) {
      if (!boolean) continue;
      const auto settings =
          passes::parse_inductor({fmt::format("{}={}", knob.name, value)}).value();
      passes::SelectionRequest request;
      REQUIRE(passes::add_inductor(settings, request).ok());
      auto selection = passes::select_passes(request);
      REQUIRE(selection.ok());
      CHECK(passes::finish_inductor(settings, request, *selection).ok());
    }
  }
  for (const char* name :
       {"conv_1x1_as_mm", "max_autotune", "max_autotune_gemm", "layout_optimization",
        "force_layout_optimization", "epilogue_fusion", "emulate_precision_casts", "freezing",
        "coordinate_descent_tuning", "shape_padding", "deterministic", "fallback_random"})
    CHECK(names.count(name) == 1);
}

TEST_CASE("inductor: settings become passes, options, a mode or a flag") {
  const std::string standard =
      "canonicalize dce fold-constants layout-channels-last fuse-pointwise contract choose-tiling; "
      "; ";
  CHECK(selected({}) == standard);
  CHECK(selected({"shape_padding=0", "fallback_random=True"}) == standard);
  CHECK(selected({"layout_optimization=False", "freezing=True"}) ==
        "canonicalize dce fold-constants fold-batchnorm fuse-pointwise contract choose-tiling; "
        "fold-batchnorm.in=f32; ");
  CHECK(selected({"torch._inductor.config.force_layout_optimization=1"}, {.passes = "none"}) ==
        "layout-channels-last; layout-channels-last.force=on; ");
  const auto tuned = passes::parse_inductor({"TORCHINDUCTOR_MAX_AUTOTUNE=1"}).value();
  passes::SelectionRequest request;
  REQUIRE(passes::add_inductor(tuned, request).ok());
  CHECK(request.mode == "max-autotune");
  CHECK(selected({"max_autotune=1", "max_autotune_gemm=1"}) ==
        selected({}, {.mode = "max-autotune"}));
  CHECK(selected({"fallback_by_default=True"}) == "; ; ");
  CHECK(passes::asks_for_deterministic(passes::parse_inductor({"deterministic=True"}).value()));
  CHECK(!passes::asks_for_deterministic(passes::parse_inductor({"deterministic=0"}).value()));
  // What is said explicitly has the last word, and that is noted.
  CHECK(selected({"conv_1x1_as_mm=True"}, {.passes = "-conv1x1-as-matmul"}) ==
        standard + "--inductor conv_1x1_as_mm=True: a later word overrules +conv1x1-as-matmul");
  CHECK(
      selected({"emulate_precision_casts=True"},
               {.passes = "none,+fuse-pointwise", .sets = {"fuse-pointwise.emulate-casts=off"}}) ==
      "fuse-pointwise; fuse-epilogue.emulate-casts=on fuse-pointwise.emulate-casts=off; "
      "--inductor emulate_precision_casts=True: --set overrules fuse-pointwise.emulate-casts=on "
      "/ --inductor emulate_precision_casts=True: fuse-epilogue.emulate-casts=on waits for "
      "fuse-epilogue, which is off");
}

TEST_CASE("inductor: what is said of a setting, and mistakes") {
  CHECK(told("conv_1x1_as_mm=1") ==
        "--inductor conv_1x1_as_mm=True is --passes=+conv1x1-as-matmul");
  CHECK(told("freezing=true") ==
        "--inductor freezing=True is --passes=+fold-batchnorm --set fold-batchnorm.in=f32");
  CHECK(told("deterministic=True") == "--inductor deterministic=True is --deterministic");
  CHECK(told("fallback_by_default=True") == "--inductor fallback_by_default=True is --mode eager");
  CHECK(told("deterministic=False") ==
        "--inductor deterministic=False changes nothing: the default");
  CHECK(told("shape_padding=False") ==
        "--inductor shape_padding=False has no effect on a convolution: it pads matrix products in "
        "a graph pass where a convolution is still one; the 1x1 rewrite comes later");
  CHECK(told("max_autotune_conv_backends=TRITON") ==
        "--inductor max_autotune_conv_backends=TRITON sets nothing here: the compiled arm has "
        "generated kernels only; --eager cudnn:DEVICE models cuDNN's");
  CHECK(selected({"conv_1x1_as_m=True"}) ==
        "error: --inductor: unknown setting 'conv_1x1_as_m' | did you mean 'conv_1x1_as_mm'?");
  CHECK(selected({"freezing=yes"}) ==
        "error: --inductor freezing: 'yes' is not accepted | accepted: True, False, 1, 0");
  CHECK(selected({"triton.num_decompose_k_splits=-3"}) ==
        "error: --inductor triton.num_decompose_k_splits: '-3' is not accepted | accepted: an "
        "integer from 0");
  CHECK(selected({"freezing"}) ==
        "error: --inductor freezing: not of the form KEY=VALUE | for example --inductor "
        "conv_1x1_as_mm=True");
  CHECK(selected({"=True"}).starts_with("error: --inductor =True: not of the form"));
  CHECK(selected({"freezing=1", "TORCHINDUCTOR_FREEZING=1"}) ==
        "error: --inductor freezing is given twice | ");
  CHECK(selected({"fallback_by_default=True"}, {.mode = "strict"}) ==
        "error: --inductor fallback_by_default=True is --mode eager, and strict is asked for too");
}

TEST_CASE("inductor: the command line says what a setting became, and the report keeps it") {
  const tests::TemporaryFolder folder;
  // The interpreter alone: nothing is compiled.
  const auto outcome = tests::run_command(
      "driftc compare docs/lessons/bias.gir --inductor fallback_by_default=1 --inductor freezing=1 "
      "--inductor shape_padding=0 --json -",
      folder);
  CHECK(outcome.code == 0);
  CHECK(outcome.err.find("driftc: --inductor freezing=True is --passes=+fold-batchnorm --set "
                         "fold-batchnorm.in=f32\n") != std::string::npos);
  CHECK(outcome.err.find("shape_padding=False has no effect on a convolution: ") !=
        std::string::npos);
  const auto settings = frontend::Json::parse(outcome.out)["settings"];
  CHECK(settings["mode"] == "eager");
  CHECK(settings["passes"] == frontend::Json{"fold-batchnorm"});
  CHECK(settings["options"]["fold-batchnorm.in"] == "f32");
  REQUIRE(settings["inductor"].size() == 3);
  CHECK(settings["inductor"][1]["answer"] == "mapped");
  CHECK(settings["inductor"][1]["is"] ==
        frontend::Json{"+fold-batchnorm", "fold-batchnorm.in=f32"});
  CHECK(settings["inductor"][2]["answer"] == "no-effect");
  const auto wrong =
      tests::run_command("driftc show zoo:conv3x3 --stage kernels --inductor freezin=1", folder);
  CHECK(wrong.code == 2);
  CHECK(wrong.err.find("did you mean 'freezing'?") != std::string::npos);
  const auto listed = tests::run_command("driftc passes --json -", folder);
  const auto passes = frontend::Json::parse(listed.out);
  CHECK(passes["passes"][3]["inductor"] ==
        frontend::Json{"freezing", "efficient_conv_bn_eval_fx_passes"});
  CHECK(passes["inductor"].size() == passes::inductor_knobs().size());
}
