// Field reports about tensor cores, Winograd, 16-bit types and what a tuner picks, as tests: each
// with its healthy twin, which must not be accused. (Other reports: cases_test.cpp,
// precision_cases_test.cpp.)
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ir/support/rng.h"
#include "runtime/study/judge.h"
#include "tests/support/services.h"

using namespace driftc;
using runtime::Hypothesis;
using runtime::compare::CauseKind;
using runtime::compare::Verdict;
namespace study = runtime::study;

namespace {

using Inputs = std::vector<study::NamedTensor>;

ir::Tensor drawn(ir::Shape shape, std::uint64_t seed, Distribution kind = Distribution::kRandom) {
  ir::Tensor t(ir::DType::kF32, std::move(shape));
  fill(kind, seed, "x", t.data_mut<float>());
  return t;
}

ir::Tensor made(const ir::Graph& graph, const Inputs& inputs, const study::PrecisionHypothesis& h,
                const char* order = "") {
  study::GivenValues given(graph.value_count());
  for (const auto& input : inputs) given[graph.find(input.name)->index] = input.tensor;
  std::vector<ir::ReductionOrder> orders;
  if (*order != 0) orders = *ir::parse_order_list(order);
  return study::healthy_twin(graph, given, graph.outputs(), h, orders, tests::thread_pool())[0];
}

study::JudgedFile judged(const ir::Graph& graph, const Inputs& inputs, const ir::Tensor& result) {
  auto files = study::judge_results(graph, inputs, {{{"", result}}}, {}, tests::services());
  REQUIRE_MESSAGE(files.ok(), (files.ok() ? "" : files.error().render()));
  return (*files)[0];
}

study::PrecisionHypothesis transformed(int m, Hypothesis operands = Hypothesis::kF32) {
  study::PrecisionHypothesis h;
  h.winograd = m;
  h.operands = operands;
  return h;
}

double rel_l2(const ir::Tensor& a, const ir::Tensor& exact) {
  double d = 0, size = 0;
  for (std::size_t i = 0; i < a.data<float>().size(); ++i) {
    const double e = exact.data<double>()[i], x = a.data<float>()[i] - e;
    d += x * x;
    size += e * e;
  }
  return std::sqrt(d / size);
}

study::PairSettings autocast(const char* precision, const std::string& passes,
                             const std::vector<std::string>& sets = {}) {
  passes::SelectionRequest request;
  request.passes = passes;
  request.sets = sets;
  request.precision_named = true;
  study::PairSettings s = tests::settings("", passes, sets);
  s.selection = passes::select_passes(request).value();
  s.precision = s.eager_precision = ir::parse_precision_plan(precision, "test").value();
  s.precision.mma_arch = s.eager_precision.mma_arch = s.device.mma_arch;
  return s;
}

}  // namespace

TEST_CASE("case: TF32 inside a transform is worse by orders of magnitude (MLX-4242)") {
  const ir::Graph graph = tests::parse(R"(gir 1
graph @g(%x: f32[1,64,16,16]) {
  %w = constant f32[16,64,3,3] random(seed=3, he)
  %y = conv2d %x, %w {pad=[1,1,1,1]}
  return %y
})");
  const Inputs inputs = {{"x", drawn({1, 64, 16, 16}, 4)}};
  study::GivenValues given(graph.value_count());
  given[graph.find("x")->index] = inputs[0].tensor;
  const ir::Tensor exact =
      study::expect(graph, given, graph.outputs(), {}, tests::thread_pool())[0].value;
  // Errors of the report's emulation, of other data and another measure: a factor of 10.
  const struct {
    int m;
    Hypothesis operands;
    double reported;
    const char* name;
  } rows[] = {{2, Hypothesis::kF32, 6.9e-7, ""},
              {2, Hypothesis::kTf32Rna, 1.3e-3, "winograd2, tf32:rna inside"},
              {4, Hypothesis::kF32, 1.2e-5, "winograd4"},
              {4, Hypothesis::kTf32Rna, 1.6e-2, "winograd4, tf32:rna inside"}};
  double last = 0;
  for (const auto& row : rows) {
    const ir::Tensor y = made(graph, inputs, transformed(row.m, row.operands));
    const double error = rel_l2(y, exact);
    CHECK_MESSAGE((error > row.reported / 10 && error < row.reported * 3),
                  row.m << " " << row.name << " " << error);
    if (row.operands != Hypothesis::kF32) CHECK(error > 300 * last);
    last = error;
    const auto file = judged(graph, inputs, y);
    CHECK(file.verdict != Verdict::kUnexplained);
    if (*row.name != 0) CHECK(file.precision == row.name);
  }
}

TEST_CASE("case: a transform makes zeros small numbers of either sign (PT-30934, TF-1299)") {
  // One live pixel per tile, positive weights: windows that miss it sum zeros.
  const ir::Graph graph = tests::parse(R"(gir 1
graph @g(%x: f32[1,8,32,32], %w: f32[8,8,3,3]) {
  %y = conv2d %x, %w
  return %y
})");
  ir::Tensor x(ir::DType::kF32, {1, 8, 32, 32}), w = drawn({8, 8, 3, 3}, 5, Distribution::kUniform);
  for (float& v : w.data_mut<float>()) v += 0x1p-10f;
  const ir::Tensor values = drawn({1, 8, 8, 8}, 6, Distribution::kUniform);
  for (std::size_t i = 0; i < 512; ++i)
    x.data_mut<float>()[i / 64 * 1024 + i / 8 % 8 * 128 + i % 8 * 4 + 33] =
        values.data<float>()[i] + 0.5f;
  const Inputs inputs = {{"x", x}, {"w", w}};
  const ir::Tensor right = made(graph, inputs, {});
  const auto zeros_lost = [&](int m, std::size_t& negative) {
    const ir::Tensor y = made(graph, inputs, transformed(m));
    std::size_t zeros = 0, lost = 0;
    negative = 0;
    for (std::size_t i = 0; i < y.data<float>().size(); ++i) {
      if (right.data<float>()[i] != 0) continue;
      ++zeros;
      lost += y.data<float>()[i] != 0;
      negative += y.data<float>()[i] < 0;
    }
    REQUIRE(zeros > 1000);
    CHECK(judged(graph, inputs, y).verdict != Verdict::kUnexplained);
    return static_cast<double>(lost) / static_cast<double>(zeros);
  };
  std::size_t negative = 0;
  CHECK(zeros_lost(4, negative) > 0.5);
  CHECK(negative > 100);
  CHECK(zeros_lost(2, negative) == 0);
  CHECK(negative == 0);
  // As a sum in f32 the same result is impossible: zeros have no rounding.
  const auto file = judged(graph, inputs, made(graph, inputs, transformed(4)));
  CHECK(file.precision == "winograd4");
  CHECK(file.verdict == Verdict::kAlgorithm);
  CHECK(!file.values[0].fits[0].accepted);
}

TEST_CASE("case: a failure rate between rounded and truncated TF32 (PT-156301)") {
  const ir::Graph graph = tests::parse(R"(gir 1
graph @g(%x: f32[1,128,6,6]) {
  %w = constant f32[16,128,3,3] random(seed=1, he)
  %y = conv2d %x, %w {pad=[1,1,1,1]}
  return %y
})");
  const Inputs inputs = {{"x", drawn({1, 128, 6, 6}, 2)}};
  for (const char* arch : {"", "sm_80", "sm_90"})
    for (Hypothesis h : {Hypothesis::kTf32Rna, Hypothesis::kTf32Trunc}) {
      const study::PrecisionHypothesis how{h, true, true, false, arch};
      const auto file = judged(graph, inputs, made(graph, inputs, how, "rsc.fma"));
      CHECK(file.verdict == Verdict::kPrecision);
      CHECK_MESSAGE(file.precision.starts_with(runtime::name_of(h)), file.precision);
    }
}

TEST_CASE("case: a batch in f16 is another order, not another precision (PT-134977)") {
  const ir::Graph graph = tests::parse(R"(gir 1
graph @g(%x: f32[2,64,9,9]) {
  %w = constant f32[24,64,3,3] random(seed=1, he)
  %y = conv2d %x, %w {pad=[1,1,1,1]}
  return %y
})");
  const Inputs inputs = {{"x", drawn({2, 64, 9, 9}, 3)}};
  const study::PrecisionHypothesis f16{Hypothesis::kF16, true, true, false, "sm_80"};
  const ir::Tensor a = made(graph, inputs, f16), b = made(graph, inputs, f16, "rsc.split4.fma");
  CHECK(!ir::same_bits(a, b));
  auto report = study::judge(graph, inputs, {{"", a}}, {{"", b}}, {}, tests::services());
  REQUIRE(report.ok());
  CHECK(report->files[0].precision.starts_with("f16"));
  CHECK(report->files[1].precision.starts_with("f16"));
  CHECK(report->pair->verdict != Verdict::kUnexplained);
}

TEST_SUITE("soak") {
  TEST_CASE("case: a rounding that fusion skips, and one it must not skip (PT-185676, PT-179572)" *
            doctest::skip()) {
    if (!tests::kernels_available("case")) return;
    const ir::Graph graph = tests::parse(R"(gir 1
graph @g(%x: f32[1,16,8,8]) {
  %w = constant f32[16,16,3,3] random(seed=1, he)
  %c = conv2d %x, %w {pad=[1,1,1,1]}
  %a = mul %c, %c
  %y = relu %a
  return %y
})");
    const Inputs inputs = {{"x", drawn({1, 16, 8, 8}, 3)}};
    const auto fused = tests::compare(graph, inputs, autocast("bf16", "none,+fuse-epilogue"));
    CHECK_MESSAGE(fused.verdict == Verdict::kOrder, tests::findings(fused));
    CHECK(std::ranges::any_of(fused.causes, [](const auto& cause) {
      return cause.kind == CauseKind::kIntermediateRounding;
    }));
    const auto emulated = tests::compare(
        graph, inputs, autocast("bf16", "none,+fuse-epilogue", {"fuse-epilogue.emulate-casts=on"}));
    CHECK_MESSAGE(emulated.verdict == Verdict::kIdentical, tests::findings(emulated));
    // A cast that the model asks for is an op like any other: no pass may drop it.
    const ir::Graph explicit_cast = tests::parse(R"(gir 1
graph @g(%x: f32[1,16,8,8]) {
  %w = constant f32[16,16,3,3] random(seed=1, he)
  %c = conv2d %x, %w {pad=[1,1,1,1]}
  %d = cast %c {to=bf16}
  %a = mul %d, %d
  %y = relu %a
  return %y
})");
    study::PairSettings s = tests::settings("", "none,+fuse-epilogue,+fuse-pointwise");
    s.on_value = [](const std::string& name, const ir::Tensor& eager, const ir::Tensor& compiled,
                    const ir::Tensor*) {
      if (name == "y") CHECK(ir::same_bits(eager, compiled));
    };
    CHECK(tests::compare(explicit_cast, inputs, s).verdict == Verdict::kIdentical);
  }

  TEST_CASE("case: batch norm of tiny variance folded under bf16 (PT-120545)" * doctest::skip()) {
    if (!tests::kernels_available("case")) return;
    const ir::Graph graph = tests::parse(R"(gir 1
graph @g(%x: f32[1,16,8,8]) {
  %w = constant f32[16,16,3,3] random(seed=1, he)
  %scale = constant f32[16] splat(0x1.4p0)
  %shift = constant f32[16] splat(0x1p-2)
  %mean = constant f32[16] splat(0x1p-4)
  %var = constant f32[16] splat(1e-6)
  %c = conv2d %x, %w {pad=[1,1,1,1]}
  %y = batch_norm %c, %scale, %shift, %mean, %var
  return %y
})");
    const Inputs inputs = {{"x", drawn({1, 16, 8, 8}, 13)}};
    const auto report = tests::compare(graph, inputs, autocast("bf16", "none,+fold-batchnorm"));
    // Rounding the folded weights is no rounding of the weights: another precision of operands.
    CHECK_MESSAGE(report.verdict != Verdict::kUnexplained, tests::findings(report));
    CHECK(std::ranges::any_of(
        report.causes, [](const auto& cause) { return cause.kind == CauseKind::kWeightFolding; }));
    CHECK(report.nodes.back().metrics.rel_l2 > 1e-4);  // a thousand times what it is in f32
  }
}
