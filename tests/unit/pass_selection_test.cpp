#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "passes/docs.h"
#include "passes/pipeline.h"

using namespace driftc;
using passes::SelectionRequest;

namespace {

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : " ") + name;
  return out;
}

std::string selected(const SelectionRequest& request) {
  auto selection = passes::select_passes(request);
  if (!selection.ok())
    return "error: " + selection.error().message + " | " + selection.error().hint;
  return joined(selection->enabled);
}

}  // namespace

TEST_CASE("modes are presets over the pass table") {
  CHECK(selected({.mode = "eager"}) == "");
  CHECK(selected({.mode = "strict"}) ==
        "canonicalize dce fold-constants fuse-pointwise fuse-epilogue choose-tiling match-order");
  CHECK(
      selected({}) ==
      "canonicalize dce fold-constants layout-channels-last fuse-pointwise contract choose-tiling");
  CHECK(selected({.mode = "default"}) == selected({}));
  CHECK(selected({.mode = "reduce-overhead"}) == selected({}));
  CHECK(selected({.mode = "max-autotune"}) ==
        "canonicalize dce fold-constants layout-channels-last conv1x1-as-matmul choose-algorithm "
        "split-k fuse-pointwise fuse-epilogue bias-first contract choose-tiling");
  auto tuned = passes::select_passes(
      {.mode = "max-autotune", .sets = {"choose-algorithm.algorithm=direct"}});
  REQUIRE(tuned.ok());
  CHECK(tuned->options.get("split-k.slices") == "tuned");
  CHECK(tuned->options.get("choose-algorithm.algorithm") == "direct");
  CHECK(selected({.mode = "default", .sets = {"choose-tiling.block=tuned"}}) ==
        "error: --set choose-tiling.block=tuned: only mode max-autotune has a tuner | --mode "
        "max-autotune");
  auto strict = passes::select_passes({.mode = "strict"});
  REQUIRE(strict.ok());
  CHECK(strict->options.on("fuse-epilogue.f32-only"));
  CHECK(strict->options.on("fuse-pointwise.emulate-casts"));
}

TEST_CASE("--passes starts from the mode, from none or from all") {
  CHECK(selected({.passes = "none"}) == "");
  CHECK(selected({.passes = "all"}) ==
        "canonicalize dce fold-constants fold-batchnorm layout-channels-last conv1x1-as-matmul "
        "choose-algorithm split-k fuse-pointwise fuse-epilogue bias-first contract choose-tiling");
  CHECK(selected({.passes = "none,+fuse-epilogue"}) == "fuse-epilogue");
  CHECK(selected({.passes = "+bias-first,-contract,-layout-channels-last"}) ==
        "canonicalize dce fold-constants fuse-pointwise bias-first choose-tiling");
  CHECK(selected({.mode = "eager", .passes = "+dce,-dce,+dce"}) == "dce");
  CHECK(selected({.passes = "none", .fallback_named = true}) == "fallback");
  CHECK(selected({.passes = "none,+dce,-fallback", .fallback_named = true}) == "dce");
}

TEST_CASE("selection mistakes name what is wrong and what would be accepted") {
  CHECK(selected({.mode = "strictt"}) ==
        "error: unknown mode 'strictt' | modes: eager, strict, default, reduce-overhead, "
        "max-autotune");
  CHECK(selected({.passes = "+fuse-epilog"}) ==
        "error: unknown pass 'fuse-epilog' | did you mean 'fuse-epilogue'?");
  CHECK(selected({.passes = "dce"}) ==
        "error: --passes: 'dce' needs a sign | +dce switches it on, -dce off; none,+dce runs it "
        "alone");
  CHECK(selected({.passes = "+dce,all"}) ==
        "error: --passes: 'all' must come first | for example --passes none,+fuse-epilogue");
  CHECK(selected({.passes = "+dce,,+split-k"}).starts_with("error: --passes: an empty name"));
  CHECK(selected({.passes = "-form-kernels"}).starts_with("error: 'form-kernels' is no switch"));
  CHECK(
      selected({.passes = "+fallback"}) ==
      "error: --passes: 'fallback' needs to know for which nodes | name them: --fallback NODE,...");
  CHECK(selected({.sets = {"choose-tiling"}})
            .starts_with("error: --set choose-tiling: not of the form"));
  CHECK(selected({.sets = {"chose-tiling.block=1x1x1"}}) ==
        "error: --set: unknown pass 'chose-tiling' | did you mean 'choose-tiling'?");
  CHECK(selected({.sets = {"split-k.slice=2"}}) ==
        "error: --set: pass 'split-k' has no option 'slice' | did you mean 'slices'?");
  CHECK(selected({.sets = {"dce.x=2"}}) ==
        "error: --set: pass 'dce' has no option 'x' | it takes none");
  CHECK(
      selected({.sets = {"split-k.combine=atomics"}}) ==
      "error: --set split-k.combine: 'atomics' is not accepted | accepted: serial|pairwise|atomic");
  for (const char* bad : {"0", "-1", "1048577", "4x", "", "1e3", " 4"})
    CHECK(selected({.sets = {std::string("split-k.slices=") + bad}}).starts_with("error: "));
  for (const char* bad : {"64x64", "64x64x8x1", "0x64x8", "64X64X8", "ax1x1"})
    CHECK(selected({.sets = {std::string("choose-tiling.block=") + bad}}).starts_with("error: "));
}

TEST_CASE("options have defaults and take what they accept") {
  passes::Options options;
  CHECK(options.get("choose-tiling.accumulate") == "f32");
  CHECK(!options.on("choose-tiling.batch-invariant"));
  CHECK(!options.count("split-k.slices"));
  CHECK(options.count("split-k.min-k") == 512);
  REQUIRE(passes::set_option(options, "split-k.slices=4").ok());
  REQUIRE(passes::set_option(options, "choose-tiling.block=64x32x8").ok());
  CHECK(options.count("split-k.slices") == 4);
  CHECK(options.get("choose-tiling.block") == "64x32x8");
}

TEST_CASE("a setting of a pass that is off is noted") {
  SelectionRequest request;
  request.sets = {"split-k.slices=4", "choose-tiling.block=64x64x8"};
  auto selection = passes::select_passes(request);
  REQUIRE(selection.ok());
  REQUIRE(selection->notes.size() == 1);
  CHECK(selection->notes[0] == "--set split-k.slices=4 has no effect: split-k is off");
}

TEST_CASE("docs/passes.md is the rendered pass table") {
  const std::string path = std::string(DRIFTC_SOURCE_DIR) + "/docs/passes.md";
  const std::string text = passes::render_pass_docs();
  if (std::getenv("DRIFTC_BLESS") != nullptr) std::ofstream(path, std::ios::binary) << text;
  std::ostringstream file;
  file << std::ifstream(path, std::ios::binary).rdbuf();
  CHECK_MESSAGE(file.str() == text, "docs/passes.md is stale; DRIFTC_BLESS=1 rewrites it");
}
