// The derived bound on |eager - compiled| (exact_study.h) in every kind of kernels that certify
// knows: nothing healthy is beyond it, on random and on adversarial data, and a fault that a
// reviewer would see is.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>

#include "runtime/study/certify_families.h"
#include "runtime/study/faults.h"
#include "tests/support/services.h"

using namespace driftc;
namespace study = runtime::study;

namespace {

enum class Data { kPlain, kCancelling, kWide };

// The model's inputs, made hard: neighbours that cancel, or magnitudes from 2^-10 to 2^10 (f16
// holds what such products make).
std::vector<study::NamedTensor> hardened(const study::CertifyModel& model, Data data) {
  std::vector<study::NamedTensor> out;
  for (const study::NamedTensor& input : model.inputs) {
    ir::Tensor copy = ir::Tensor::of<float>(input.tensor.shape(), input.tensor.data<float>());
    const auto values = copy.data_mut<float>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (data == Data::kCancelling && i % 2 == 1) values[i] = -values[i - 1] * 1.0009765625f;
      if (data == Data::kWide) values[i] = std::ldexp(values[i], static_cast<int>(i * 7 % 21) - 10);
    }
    out.push_back({input.name, copy});
  }
  return out;
}

// What the tuner chose, for all cases: each problem is tuned once.
study::Tunings& tunings() {
  static study::Tunings all;
  return all;
}

struct Seen {
  std::size_t bounds = 0, values = 0;  // values that differ, and those with a bound
  double used = 0;
};

void within_bounds(const study::CertifyFamily& family, const study::CertifyVariant& variant,
                   const study::CertifyModel& model, Data data, Seen& seen) {
  auto settings = study::certify_settings(family, variant, tests::device(), tunings());
  REQUIRE(settings.ok());
  settings->exact = true;
  study::Faults operands;
  operands.graph = [&](ir::Graph& g) { study::round_operands(g, family); };
  settings->faults = &operands;
  const auto report = tests::compare(model.graph, hardened(model, data), *settings);
  for (const study::NodeReport& node : report.nodes) {
    if (!node.materialised || node.metrics.mismatched == 0) continue;
    ++seen.values;
    const std::string what =
        fmt::format("{}, {}, {} {}, data {}", family.name, study::to_string(variant), model.name,
                    node.name, static_cast<int>(data));
    REQUIRE_MESSAGE(node.exact, what);
    if (!node.exact->bound) {
      CHECK_MESSAGE(node.exact->bound.has_value(), what);
      continue;
    }
    ++seen.bounds;
    // A known difference that passes through a relu is its own bound.
    if (node.exact->bound->kind != runtime::compare::BoundKind::kPropagated)
      seen.used = std::max(seen.used, node.exact->bound->used);
    CHECK_MESSAGE(node.exact->bound->used <= 1, what << " uses " << node.exact->bound->used);
  }
}

// Faults that no precision excuses: beyond the bound of every kind of kernels.
constexpr const char* kPlain[] = {"last k dropped", "channels swapped", "wrong halo",
                                  "bias missing"};

void faults_are_beyond(const study::CertifyFamily& family, const study::CertifyModel& model,
                       std::size_t& planted) {
  for (const study::FaultKind& kind : study::fault_kinds()) {
    if (std::ranges::find(kPlain, kind.name) == std::end(kPlain)) continue;
    auto settings = study::certify_settings(family, family.base, tests::device(), tunings());
    REQUIRE(settings.ok());
    settings->exact = true;
    const auto applied = std::make_shared<bool>(false);
    study::Faults faults = kind.plant(applied);
    faults.graph = [&, own = faults.graph](ir::Graph& g) {
      study::round_operands(g, family);
      if (own) own(g);
    };
    settings->faults = &faults;
    const auto report = tests::compare(model.graph, model.inputs, *settings);
    if (!*applied) continue;
    ++planted;
    double used = 0;
    for (const study::NodeReport& node : report.nodes)
      if (node.exact && node.exact->bound) used = std::max(used, node.exact->bound->used);
    CHECK_MESSAGE(used > 1, family.name << ": " << kind.name << " uses " << used);
  }
}

}  // namespace

TEST_CASE("bounds: the orders of f32 kernels lie within theirs, plain faults do not") {
  if (!tests::kernels_available("bounds of variants")) return;
  // The kernels are those of certify's default case.
  const study::CertifyFamily& f32 = study::certify_families()[0];
  Seen seen;
  for (const study::CertifyVariant& variant : f32.variants)
    for (Data data : {Data::kPlain, Data::kCancelling, Data::kWide})
      within_bounds(f32, variant, study::certify_model(0, 0), data, seen);
  CHECK(seen.bounds == seen.values);
  CHECK(seen.bounds > 20);
  CHECK(seen.used > 0.05);
}

TEST_SUITE("soak") {
  TEST_CASE("bounds: every kind of kernels lies within its bound, plain faults do not" *
            doctest::skip()) {
    if (!tests::kernels_available("bounds of variants")) return;
    for (const study::CertifyFamily& family : study::certify_families()) {
      Seen seen;
      std::size_t planted = 0;
      for (int m : family.models)
        for (std::uint64_t seed = 0; seed < 3; ++seed) {
          const study::CertifyModel model = study::certify_model(m, seed);
          for (const study::CertifyVariant& variant : family.variants)
            for (Data data : {Data::kPlain, Data::kCancelling, Data::kWide})
              within_bounds(family, variant, model, data, seen);
          faults_are_beyond(family, model, planted);
        }
      CHECK(seen.bounds == seen.values);
      CHECK(planted > 0);
      CHECK(seen.used > 1e-3);  // no bound is a thousand times what was seen
      MESSAGE(family.name << ": " << seen.bounds << " bounds, at most " << seen.used << " used, "
                          << planted << " faults beyond");
    }
  }
  TEST_CASE("bounds: batch norm folded into the weights" * doctest::skip()) {
    if (!tests::kernels_available("bounds of folding")) return;
    Seen seen;
    for (const char* in : {"f64", "f32"})
      for (const char* more : {"", ",+choose-algorithm", ",+layout-channels-last,+fuse-epilogue"})
        for (std::uint64_t seed = 0; seed < 10; ++seed) {
          const ir::Graph graph = tests::parse(fmt::format(R"(gir 1
graph @g(%x: f32[2,6,9,8]) {{
  %w = constant f32[6,6,3,3] random(seed={0}, he)
  %b = constant f32[6] {{0.25, -0.5, 0.375, -0.125, 0.75, -0.3125}}
  %scale = constant f32[6] random(seed={1}, he)
  %shift = constant f32[6] {{0.1, -0.2, 0.3, -0.4, 0.5, -0.6}}
  %mean = constant f32[6] {{1, -2, 0.5, 4, -0.25, 3}}
  %var = constant f32[6] {{1e-6, 1, 0.01, 4, 100, 1e-4}}
  %c = conv2d %x, %w, %b {{pad=[1,1,1,1]}}
  %y = batch_norm %c, %scale, %shift, %mean, %var
  return %y
}})",
                                                           seed + 1, seed + 50));
          std::vector<std::string> sets = {fmt::format("fold-batchnorm.in={}", in)};
          if (std::string_view(more) == ",+choose-algorithm")
            sets.emplace_back("choose-algorithm.algorithm=winograd4");
          auto settings = tests::settings("", std::string("none,+fold-batchnorm") + more, sets);
          settings.exact = true;
          const auto report = tests::compare(graph, tests::random_inputs(graph, seed), settings);
          for (const study::NodeReport& node : report.nodes) {
            if (!node.materialised || node.metrics.mismatched == 0) continue;
            ++seen.values;
            REQUIRE(node.exact);
            REQUIRE(node.exact->bound);
            ++seen.bounds;
            seen.used = std::max(seen.used, node.exact->bound->used);
            CHECK_MESSAGE(node.exact->bound->used <= 1, node.name << " " << more << " " << in);
          }
        }
    CHECK(seen.bounds >= 50);
    CHECK(seen.used > 0.005);
    MESSAGE(seen.bounds << " bounds, at most " << seen.used << " used");
  }
}
