// Passes against the interpreter, without code generation: every kernel's value, computed from its
// rewritten body under its contract, must equal the source nodes evaluated under that contract
// (source replay) bit for bit; and a pass declared BitExact may change no bit.
#include <doctest/doctest.h>

#include "frontend/zoo/zoo.h"
#include "ir/parser.h"
#include "tests/unit/broken_passes.h"
#include "tests/unit/pass_study.h"

using namespace driftc;
using tests::joined;
using tests::Setting;
using tests::Study;
using tests::Values;

namespace {

ir::Graph parsed(const std::string& text) {
  auto graph = ir::parse_graph(text, "test.gir");
  REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : graph.error().render()));
  return *graph;
}

// What canonicalize removes between nodes that later passes join; shared weights; aliased
// residuals.
ir::Graph awkward() {
  return parsed(R"(gir 1
graph @awkward(%x: f32[2,8,6,6], %r: f32[2,8,6,6]) {
  %one = constant f32[] splat(0x1p0)
  %k = constant f32[1,8,1,1] random(seed=3, he)
  %l = constant f32[8,1,1] random(seed=4, he)
  %w = constant f32[8,8,3,3] random(seed=1, he)
  %p1 = constant f32[8,8,1,1] random(seed=2, he)
  %b = constant f32[8] random(seed=5, he)
  %scale = constant f32[8] splat(0x1.8p0)
  %var = constant f32[8] splat(0x1.4p0)
  %m = mul %x, %r : f32[2,8,6,6]
  %m1 = clip %m : f32[2,8,6,6]
  %s0 = add %m1, %x : f32[2,8,6,6]
  %m2 = mul %s0, %k : f32[2,8,6,6]
  %m3 = identity %m2 : f32[2,8,6,6]
  %m4 = mul %m3, %one : f32[2,8,6,6]
  %s1 = sub %r, %m4 : f32[2,8,6,6]
  %pad = pad %s1 {before=[0,0,1,1], after=[0,0,1,1]} : f32[2,8,8,8]
  %c = conv2d %pad, %w : f32[2,8,6,6]
  %ci = identity %c : f32[2,8,6,6]
  %n = batch_norm %ci, %scale, %b, %b, %var : f32[2,8,6,6]
  %n1 = relu %n : f32[2,8,6,6]
  %n2 = relu %n1 : f32[2,8,6,6]
  %d = conv2d %n2, %p1 : f32[2,8,6,6]
  %da = add %d, %l : f32[2,8,6,6]
  %dn = batch_norm %da, %scale, %b, %b, %var : f32[2,8,6,6]
  %e = conv2d %dn, %w, %b {pad=[1,1,1,1]} : f32[2,8,6,6]
  %er = reshape %e {shape=[2,8,6,6]} : f32[2,8,6,6]
  %en = batch_norm %er, %scale, %b, %b, %var : f32[2,8,6,6]
  %f = add %en, %dn : f32[2,8,6,6]
  %g = conv2d %f, %p1, %b : f32[2,8,6,6]
  %gm = mul %g, %k : f32[2,8,6,6]
  %h = add %gm, %f : f32[2,8,6,6]
  %y = relu %h : f32[2,8,6,6]
  return %y
})");
}

std::vector<ir::Graph> models() {
  std::vector<ir::Graph> list = {awkward()};
  for (const char* name : {"residual-block", "downsample-block", "bottleneck-block",
                           "depthwise-block", "vgg-block", "lenet", "mlp"})
    list.push_back(
        *frontend::zoo::zoo_graph(name, name == std::string("bottleneck-block") ? 2 : 1));
  return list;
}

std::vector<Setting> settings() {
  std::vector<Setting> list = {
      {.passes = "none"},
      {.passes = "all"},
      {.passes = "all,-fold-batchnorm,-canonicalize"},
      {.passes = "all",
       .sets = {"fold-batchnorm.in=f32", "split-k.slices=3", "split-k.combine=atomic"}},
      {.passes = "all", .sets = {"choose-tiling.accumulate=kahan"}},
      {.passes = "all",
       .sets = {"choose-algorithm.algorithm=winograd4", "choose-algorithm.filters=f64",
                "choose-algorithm.form=fused", "choose-tiling.accumulate=f64"}},
      {.passes = "all,-layout-channels-last",
       .sets = {"choose-algorithm.algorithm=im2col", "split-k.slices=2"},
       .order = "crs.split2p.muladd+bias.last"},
      {.passes = "all",
       .sets = {"choose-algorithm.algorithm=winograd4"},
       .order = "crs.muladd+bias.last"},
      {.passes = "all", .sets = {"choose-algorithm.algorithm=direct"}, .order = "crs.split4.fma"},
      {.passes = "all",
       .sets = {"choose-tiling.accumulate=f64", "choose-tiling.batch-invariant=on"}},
      {.passes = "all", .order = "crs.split2p.muladd+bias.last"},
      {.passes = "all", .order = "k.split4.muladd"},
      {.passes = "all", .fallback = {"c"}}};
  for (const passes::PassInfo& pass : passes::all_passes())
    if (pass.name != "fallback") list.push_back({.passes = "none,+" + std::string(pass.name)});
  return list;
}

}  // namespace

TEST_CASE("source replay holds for every pass alone and for all of them") {
  std::uint64_t seed = 0;
  for (const ir::Graph& model : models()) {
    Study study(model, seed++);
    for (Setting setting : settings()) {
      if (!setting.fallback.empty() && !model.find("c")) continue;
      CAPTURE(model.name());
      CAPTURE(setting.passes);
      CAPTURE(joined(setting.sets));
      CAPTURE(setting.order);
      const ir::Graph graph = study.compile(setting);
      CHECK(tests::refused_by_codegen(graph) == "");
      const Values values = study.run(graph);
      CHECK(joined(study.unexplained(graph, values, setting)) == "");
    }
  }
}

TEST_CASE("passes declared BitExact, none, and everything under match-order change no bit") {
  std::uint64_t seed = 0;
  for (const ir::Graph& model : models()) {
    Study study(model, seed++);
    for (const char* order :
         {"", "crs.split2.muladd+bias.first", "rsc.lanes4.fma", "crs.skip.fma", "k.acc2.muladd"}) {
      Setting setting{.order = order};
      const Values eager = study.eager(setting);
      std::vector<std::string> lists = {"none,+fuse-pointwise,+fuse-epilogue,+match-order",
                                        "all,+match-order"};
      for (const passes::PassInfo& pass : passes::all_passes())
        if (pass.effect == passes::NumericEffect::kBitExact || pass.name.starts_with("fuse-"))
          lists.push_back("none,+match-order,+" + std::string(pass.name));
      if (setting.order.empty()) lists.push_back("none,+canonicalize,+dce,+fold-constants");
      for (const std::string& list : lists) {
        setting.passes = list;
        CAPTURE(model.name());
        CAPTURE(list);
        CAPTURE(setting.order);
        const Values compiled = study.run(study.compile(setting));
        std::string differing;
        for (const auto& [name, tensor] : compiled)
          if (eager.contains(name) && !ir::same_bits(eager.at(name), tensor))
            differing += name + " ";
        CHECK(differing == "");
      }
    }
  }
}

// The other direction of NumericEffect: a pass that may change bits does, on the model named here.
// The fusions change nothing in f32; fallback undoes what others did.
TEST_CASE("every pass that is not BitExact changes bits on the model named for it") {
  const std::map<std::string, std::pair<std::string, std::string>> models = {
      {"fold-batchnorm", {"residual-block", "none"}},
      {"layout-channels-last", {"residual-block", "none"}},
      {"conv1x1-as-matmul", {"bottleneck-block", "none"}},
      {"choose-algorithm", {"conv3x3", "none"}},
      {"split-k", {"downsample-block", "none"}},
      {"bias-first", {"vgg-block", "none"}},
      {"contract", {"residual-block", "none"}},
      {"precision", {"residual-block", "none"}},
      {"choose-tiling", {"mlp", "none"}},
      {"match-order", {"residual-block", "all"}}};
  for (const passes::PassInfo& pass : passes::all_passes()) {
    const std::string name(pass.name);
    const bool silent = pass.effect == passes::NumericEffect::kBitExact ||
                        name.starts_with("fuse-") || name == "fallback";
    CHECK(models.contains(name) == !silent);
    if (silent) continue;
    const std::string &model = models.at(name).first, &base = models.at(name).second;
    Study study(*frontend::zoo::zoo_graph(model), 0);
    const Values without = study.run(study.compile({.passes = base}));
    const Values with = study.run(study.compile(
        {.passes = base + ",+" + name, .precision = name == "precision" ? "tf32" : ""}));
    bool changed = false;
    for (const auto& [value, tensor] : with)
      changed = changed || (without.contains(value) && !ir::same_bits(without.at(value), tensor));
    CHECK_MESSAGE(changed, name << " on " << model);
  }
}

TEST_CASE("broken passes are unexplained under source replay") {
  Study study(parsed(R"(gir 1
graph @g(%x: f32[1,8,8,8], %r: f32[1,8,4,4]) {
  %w = constant f32[8,8,1,1] random(seed=2, he)
  %scale = constant f32[8] splat(0x1.8p0)
  %mean = constant f32[8] splat(0x1p-2)
  %var = constant f32[8] splat(0x1.4p0)
  %c = conv2d %x, %w {stride=[2,2]} : f32[1,8,4,4]
  %n = batch_norm %c, %scale, %mean, %mean, %var : f32[1,8,4,4]
  %d = conv2d %n, %w : f32[1,8,4,4]
  %s = add %d, %r : f32[1,8,4,4]
  %y = relu %s : f32[1,8,4,4]
  return %y
})"),
              0);
  for (const tests::BrokenPass& broken : tests::broken_passes()) {
    CAPTURE(std::string(broken.fault));
    const Setting setting{.passes = "none,+" + std::string(broken.replaces)};
    const auto table = tests::table_with(broken);
    const ir::Graph wrong = study.compile(setting, table);
    CHECK(joined(study.unexplained(wrong, study.run(wrong), setting)) != "");
    const ir::Graph right = study.compile(setting);
    CHECK(joined(study.unexplained(right, study.run(right), setting)) == "");
  }
}
