// Field reports about precision, order and amplification as tests: each with its healthy twin,
// which must not be accused. (Cases with a value that can be worked out by hand are in
// cases_test.cpp.)
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "ir/support/rng.h"
#include "passes/rewrite.h"
#include "runtime/study/judge.h"
#include "tests/support/orders_apart.h"
#include "tests/support/services.h"

using namespace driftc;
using runtime::Hypothesis;
using runtime::compare::CauseKind;
using runtime::compare::Verdict;
namespace study = runtime::study;

namespace {

ir::Tensor random(ir::Shape shape, std::uint64_t seed, float scale = 1) {
  ir::Tensor t(ir::DType::kF32, std::move(shape));
  fill(Distribution::kRandom, seed, "x", t.data_mut<float>());
  for (float& v : t.data_mut<float>()) v *= scale;
  return t;
}

// Operands of the compiled arm's products in `in`, everywhere or in the kernels of one source node.
study::Faults operands_in(ir::Precision in, const std::string& node = "") {
  study::Faults faults;
  faults.graph = [=](ir::Graph& graph) {
    graph = passes::edit_kernels(graph, [&](const ir::Node& kernel_node, ir::Kernel& kernel) {
      const auto& from = kernel_node.from;
      if (!kernel.contract.order ||
          (!node.empty() && std::find(from.begin(), from.end(), node) == from.end()))
        return false;
      kernel.contract.in = in;
      return true;
    });
  };
  return faults;
}

study::PairReport run(const ir::Graph& graph, const std::vector<study::NamedTensor>& inputs,
                      const std::string& passes, const study::Faults* faults = nullptr) {
  study::PairSettings s = tests::settings("", passes);
  s.faults = faults;
  return tests::compare(graph, inputs, s);
}

const study::NodeReport& at(const study::PairReport& report, const std::string& name) {
  for (const study::NodeReport& node : report.nodes)
    if (node.name == name) return node;
  FAIL("no value " << name);
  return report.nodes[0];
}

bool has_cause(const std::vector<runtime::compare::Cause>& causes, CauseKind kind,
               const std::string& node = "") {
  return std::any_of(causes.begin(), causes.end(), [&](const auto& cause) {
    return cause.kind == kind && (node.empty() || cause.node == node);
  });
}

ir::Tensor made(const ir::Graph& graph, const std::vector<study::NamedTensor>& inputs,
                const study::PrecisionHypothesis& h, const char* order) {
  study::GivenValues given(graph.value_count());
  for (const auto& input : inputs) given[graph.find(input.name)->index] = input.tensor;
  std::vector<ir::ReductionOrder> orders;
  if (*order != 0) orders = *ir::parse_order_list(order);
  return study::healthy_twin(graph, given, graph.outputs(), h, orders, tests::thread_pool())[0];
}

study::JudgeReport judged(const ir::Graph& graph, const std::vector<study::NamedTensor>& inputs,
                          const ir::Tensor& a, const ir::Tensor& b) {
  auto report = study::judge(graph, inputs, {{"", a}}, {{"", b}}, {}, tests::services());
  REQUIRE_MESSAGE(report.ok(), (report.ok() ? "" : report.error().render()));
  return std::move(*report);
}

const char* const kTf32Passes = "none,+choose-tiling";

}  // namespace

TEST_CASE("case: a 1x1 convolution whose precision flag changed (PT-175854)") {
  if (!tests::kernels_available("case")) return;
  const ir::Graph graph = tests::parse(R"(gir 1
graph @g(%x: f32[2,32,28,28]) {
  %w = constant f32[64,32,1,1] random(seed=1, he)
  %y = conv2d %x, %w
  return %y
})");
  const std::vector<study::NamedTensor> inputs = {{"x", random({2, 32, 28, 28}, 0)}};
  const study::Faults tf32 = operands_in(ir::Precision::kTf32Rna);
  const auto changed = run(graph, inputs, kTf32Passes, &tf32);
  CHECK_MESSAGE(changed.verdict == Verdict::kPrecision, tests::findings(changed));
  CHECK(has_cause(changed.causes, CauseKind::kInputRounding, "y"));
  // The fingerprint of TF32 on zero-mean data, whatever K is.
  CHECK(at(changed, "y").metrics.rel_l2 > 2e-4);
  CHECK(at(changed, "y").metrics.rel_l2 < 5e-4);
  // Both flags equal: as a matmul it is another order at most.
  CHECK(run(graph, inputs, "none,+layout-channels-last,+conv1x1-as-matmul").verdict <=
        Verdict::kOrder);
}

TEST_CASE("case: f32 against f32, TF32 and f16 (PT-173902)") {
  const ir::Graph graph = tests::parse(R"(gir 1
graph @g(%x: f32[1,24,14,14]) {
  %w = constant f32[16,24,3,3] random(seed=2, he)
  %y = conv2d %x, %w {pad=[1,1,1,1]}
  return %y
})");
  const std::vector<study::NamedTensor> inputs = {{"x", random({1, 24, 14, 14}, 3)}};
  const ir::Tensor f32 = made(graph, inputs, {}, "");
  auto report = judged(graph, inputs, f32, made(graph, inputs, {}, "rsc.fma"));
  CHECK(report.verdict == Verdict::kOrder);
  report = judged(graph, inputs, f32, made(graph, inputs, {Hypothesis::kTf32Rna}, "rsc.fma"));
  CHECK(report.verdict == Verdict::kPrecision);
  CHECK(report.files[1].precision == "tf32:rna");
  report = judged(graph, inputs, f32, made(graph, inputs, {Hypothesis::kF16}, "rsc.fma"));
  CHECK(report.verdict == Verdict::kPrecision);
  CHECK(report.files[1].precision == "f16");
}

TEST_CASE("case: the range of the input explains it (PT-191089)") {
  const ir::Graph graph = tests::parse(R"(gir 1
graph @g(%x: f32[1,3,32,32]) {
  %w = constant f32[96,3,3,3] random(seed=4, he)
  %b = constant f32[96] splat(0.125)
  %y = conv2d %x, %w, %b {stride=[2,2], pad=[1,1,1,1]}
  return %y
})");
  ir::Tensor x(ir::DType::kF32, {1, 3, 32, 32});
  auto data = x.data_mut<float>();
  fill(Distribution::kUniform, 5, "x", data);
  std::int64_t vanish = 0;
  for (float& v : data) {
    v = static_cast<float>(std::exp(std::log(1.2e-38) + v * (std::log(10.0) - std::log(1.2e-38))));
    vanish += v <= 0x1p-25f;  // half the smallest f16 subnormal, ties to even
  }
  const std::vector<study::NamedTensor> inputs = {{"x", x}};
  const auto input = study::describe_input("x", x);
  CHECK(input.not_f16 == vanish);
  CHECK(static_cast<double>(vanish) / 3072 > 0.74);
  CHECK(static_cast<double>(vanish) / 3072 < 0.82);
  CHECK(input.not_tf32 == 0);
  const auto report = judged(graph, inputs, made(graph, inputs, {}, "rsc.fma"),
                             made(graph, inputs, {Hypothesis::kF16}, ""));
  CHECK(report.files[0].verdict <= Verdict::kOrder);
  CHECK(report.files[1].precision == "f16");
  CHECK(report.verdict == Verdict::kPrecision);
}

TEST_CASE("case: the fingerprint of TF32 through three blocks (PT-175952)") {
  if (!tests::kernels_available("case")) return;
  const ir::Graph graph = tests::parse(R"(gir 1
graph @g(%x: f32[1,8,16,16]) {
  %w1 = constant f32[16,8,3,3] random(seed=1, he)
  %w2 = constant f32[16,16,3,3] random(seed=2, he)
  %w3 = constant f32[16,16,3,3] random(seed=3, he)
  %scale = constant f32[16] splat(0x1.2p0)
  %shift = constant f32[16] splat(0x1p-3)
  %mean = constant f32[16] splat(0)
  %var = constant f32[16] splat(1)
  %c1 = conv2d %x, %w1 {pad=[1,1,1,1]}
  %n1 = batch_norm %c1, %scale, %shift, %mean, %var
  %r1 = relu %n1
  %c2 = conv2d %r1, %w2 {pad=[1,1,1,1]}
  %n2 = batch_norm %c2, %scale, %shift, %mean, %var
  %r2 = relu %n2
  %c3 = conv2d %r2, %w3 {pad=[1,1,1,1]}
  %n3 = batch_norm %c3, %scale, %shift, %mean, %var
  %r3 = relu %n3
  return %r3
})");
  const std::vector<study::NamedTensor> inputs = {{"x", random({1, 8, 16, 16}, 1)}};
  const study::Faults tf32 = operands_in(ir::Precision::kTf32Rna);
  const auto report = run(graph, inputs, kTf32Passes, &tf32);
  CHECK(report.verdict == Verdict::kPrecision);
  double last = 0;
  for (const char* name : {"c1", "c2", "c3"}) {
    const double rel = at(report, name).metrics.rel_l2;
    CHECK_MESSAGE((rel > 1.5e-4 && rel < 1e-3), name << " " << rel);
    CHECK(rel > last * 0.8);  // grows slowly
    last = rel;
  }
  CHECK(run(graph, inputs, kTf32Passes).verdict == Verdict::kIdentical);
}

TEST_CASE("case: eager is as far from f64 as compiled (PT-158530)") {
  const ir::Graph graph = tests::parse(R"(gir 1
graph @g(%x: f32[1,3,32,32]) {
  %w1 = constant f32[64,3,3,3] random(seed=1, he)
  %w2 = constant f32[64,64,3,3] random(seed=2, he)
  %c = conv2d %x, %w1 {pad=[1,1,1,1]}
  %y = conv2d %c, %w2 {pad=[1,1,1,1]}
  return %y
})");
  const std::vector<study::NamedTensor> inputs = {{"x", random({1, 3, 32, 32}, 2)}};
  const ir::Tensor a = made(graph, inputs, {Hypothesis::kTf32Rna}, ""),
                   b = made(graph, inputs, {Hypothesis::kTf32Rna}, "rsc.fma");
  const auto report = judged(graph, inputs, a, b);
  CHECK(report.files[0].precision == "tf32:rna");
  CHECK(report.files[1].precision == "tf32:rna");
  CHECK(report.verdict == Verdict::kOrder);
  const double ratio =
      report.files[1].values[0].fits[0].rel_l2 / report.files[0].values[0].fits[0].rel_l2;
  CHECK(ratio > 0.9);
  CHECK(ratio < 1.1);
}

TEST_CASE("case: integers show which TF32 rounding was used (PT-153698)") {
  if (!tests::kernels_available("case")) return;
  const ir::Graph graph = tests::parse(R"(gir 1
graph @g(%x: f32[1,1,1,2]) {
  %w = constant f32[1,1,1,1] {1}
  %b = constant f32[1] {0}
  %y = conv2d %x, %w, %b
  return %y
})");
  const std::vector<float> values = {2077, 2047};
  const std::vector<study::NamedTensor> inputs = {
      {"x", ir::Tensor::of<float>({1, 1, 1, 2}, values)}};
  for (const auto& [in, right] :
       {std::pair{ir::Precision::kTf32Rna, 2078.0f}, {ir::Precision::kTf32Trunc, 2076.0f}}) {
    const study::Faults tf32 = operands_in(in);
    study::PairSettings s = tests::settings("", "none");
    s.faults = &tf32;
    s.on_value = [&, want = right](const std::string&, const ir::Tensor& eager,
                                   const ir::Tensor& compiled, const ir::Tensor*) {
      CHECK(eager.data<float>()[0] == 2077);
      CHECK(compiled.data<float>()[0] == want);
      CHECK(compiled.data<float>()[1] == 2047);
    };
    CHECK(tests::compare(graph, inputs, s).verdict == Verdict::kPrecision);
  }
}

TEST_CASE("case: exact on integers, 3e-4 on random data: a precision, not a bug (modular-6248)") {
  if (!tests::kernels_available("case")) return;
  for (int channels : {2, 8, 33}) {
    const ir::Graph graph = tests::parse(fmt::format(R"(gir 1
graph @g(%x: f32[1,{0},9,9]) {{
  %w = constant f32[8,{0},3,3] splat(3)
  %v = constant f32[8,8,3,3] random(seed=1, he)
  %c = conv2d %x, %w
  %y = conv2d %c, %v
  return %y
}})",
                                                     channels));
    ir::Tensor x(ir::DType::kF32, {1, channels, 9, 9});
    fill(Distribution::kIntegers, 1, "x", x.data_mut<float>());
    const study::Faults tf32 = operands_in(ir::Precision::kTf32Rna);
    const auto integers = run(graph, {{"x", x}}, kTf32Passes, &tf32);
    CHECK(at(integers, "c").verdict == Verdict::kIdentical);
    const std::vector<study::NamedTensor> inputs = {{"x", random({1, channels, 9, 9}, 1)}};
    const auto real = run(graph, inputs, kTf32Passes, &tf32);
    CHECK(at(real, "c").verdict == Verdict::kPrecision);
    // No more than this rounding of operands and an order make.
    CHECK(at(real, "c").metrics.max_abs > 0);
    CHECK(at(real, "c").metrics.max_abs <=
          tests::orders_apart(graph, "c", inputs, runtime::Hypothesis::kTf32Rna).most);
  }
}

TEST_CASE("case: layouts change the order; equal layouts are identical (PT-141561, PT-127375)") {
  if (!tests::kernels_available("case")) return;
  const ir::Graph graph = tests::parse(R"(gir 1
graph @g(%x: f32[1,4,32,32]) {
  %w = constant f32[8,4,3,3] random(seed=1, he)
  %y = conv2d %x, %w {pad=[1,1,1,1]}
  return %y
})");
  const std::vector<study::NamedTensor> inputs = {{"x", random({1, 4, 32, 32}, 7)}};
  const auto last = run(graph, inputs, "none,+layout-channels-last");
  CHECK(last.verdict == Verdict::kOrder);
  CHECK(has_cause(last.causes, CauseKind::kReductionOrder, "y"));
  CHECK(run(graph, inputs, "none").verdict == Verdict::kIdentical);
  const study::Faults tf32 = operands_in(ir::Precision::kTf32Trunc);
  const auto reduced = run(graph, inputs, "none,+layout-channels-last", &tf32);
  CHECK(reduced.verdict == Verdict::kPrecision);
  CHECK(has_cause(reduced.causes, CauseKind::kInputRounding, "y"));
}

TEST_CASE("case: huge inputs differ by 2^20 and by nothing but the order (PT-173921)") {
  if (!tests::kernels_available("case")) return;
  const ir::Graph graph = tests::parse(R"(gir 1
graph @g(%x: f32[1,3,32,32]) {
  %w = constant f32[32,3,3,3] random(seed=1, he)
  %y = conv2d %x, %w {stride=[2,2], pad=[1,1,1,1]}
  return %y
})");
  for (float scale : {1e11f, 1.0f, 0x1p40f, 0x1p-40f}) {
    const std::vector<study::NamedTensor> inputs = {{"x", random({1, 3, 32, 32}, 8, scale)}};
    const auto report = run(graph, inputs, "none,+layout-channels-last");
    CHECK_MESSAGE(report.verdict == Verdict::kOrder, scale);
    if (scale == 1e11f) {
      // Beyond any absolute tolerance, and no more than orders are apart on these operands.
      CHECK(at(report, "y").metrics.max_abs > 1e4);
      CHECK(at(report, "y").metrics.max_abs <= tests::orders_apart(graph, "y", inputs).most);
    }
    // The same results from a system whose order nobody knows.
    const auto outside =
        judged(graph, inputs, made(graph, inputs, {}, ""), made(graph, inputs, {}, "rsc.fma"));
    CHECK(outside.verdict == Verdict::kOrder);
  }
}

TEST_CASE("case: a division amplifies what the convolution changed harmlessly (PT-178879)") {
  if (!tests::kernels_available("case")) return;
  const ir::Graph graph = tests::parse(R"(gir 1
graph @g(%x: f32[4,3,32,32]) {
  %w = constant f32[64,3,3,3] random(seed=1, he)
  %e = constant f32[1] {1e-8}
  %c = conv2d %x, %w {pad=[1,1,1,1]}
  %a = slice %c {starts=[0,0,0,0], steps=[1,1,1,1], sizes=[4,1,32,32]}
  %d = slice %c {starts=[0,1,0,0], steps=[1,1,1,1], sizes=[4,1,32,32]}
  %n = add %d, %e
  %q = div %a, %n
  %r = relu %c
  return %q, %r
})");
  const std::vector<study::NamedTensor> inputs = {{"x", random({4, 3, 32, 32}, 9)}};
  const auto report = run(graph, inputs, "none,+layout-channels-last");
  CHECK_MESSAGE(report.verdict == Verdict::kOrder, tests::findings(report));
  CHECK(at(report, "c").metrics.max_abs > 0);
  CHECK(at(report, "c").metrics.max_abs <= tests::orders_apart(graph, "c", inputs).most);
  const study::NodeReport& q = at(report, "q");
  CHECK(has_cause(q.causes, CauseKind::kUpstream));
  CHECK(q.local == 0);  // the division itself is the same in both arms
  CHECK(q.amplification > 100);
  CHECK(at(report, "r").amplification <= 1);  // a relu amplifies nothing
}

TEST_CASE("case: one layer of three sums in another order (PT-196886)") {
  if (!tests::kernels_available("case")) return;
  const ir::Graph graph = tests::parse(R"(gir 1
graph @g(%x: f32[1,8,10,10]) {
  %w1 = constant f32[8,8,3,3] random(seed=1, he)
  %w2 = constant f32[8,8,3,3] random(seed=2, he)
  %w3 = constant f32[8,8,3,3] random(seed=3, he)
  %c1 = conv2d %x, %w1 {pad=[1,1,1,1]}
  %c2 = conv2d %c1, %w2 {pad=[1,1,1,1]}
  %c3 = conv2d %c2, %w3 {pad=[1,1,1,1]}
  return %c3
})");
  const std::vector<study::NamedTensor> inputs = {{"x", random({1, 8, 10, 10}, 10)}};
  study::Faults swap;
  swap.graph = [](ir::Graph& g) {
    g = passes::edit_kernels(g, [](const ir::Node& node, ir::Kernel& kernel) {
      if (node.from != std::vector<std::string>{"c2"}) return false;
      kernel.contract.order = *ir::parse_order("rsc.fma");
      return true;
    });
  };
  const auto report = run(graph, inputs, "none", &swap);
  CHECK_MESSAGE(report.verdict == Verdict::kOrder, tests::findings(report));
  CHECK(at(report, "c1").verdict == Verdict::kIdentical);
  CHECK(has_cause(at(report, "c2").causes, CauseKind::kReductionOrder, "c2"));
  CHECK(has_cause(at(report, "c3").causes, CauseKind::kUpstream));
  REQUIRE(report.causes.size() == 1);
  CHECK(report.causes[0].detail == "crs.fma -> rsc.fma");
}

TEST_CASE("case: bias inside the sum or after it, through three 1x1 layers (PT-179567)") {
  if (!tests::kernels_available("case")) return;
  const ir::Graph graph = tests::parse(R"(gir 1
graph @g(%x: f32[2,16,7,7]) {
  %w1 = constant f32[16,16,1,1] random(seed=1, he)
  %w2 = constant f32[16,16,1,1] random(seed=2, he)
  %w3 = constant f32[16,16,1,1] random(seed=3, he)
  %b = constant f32[16] splat(0x1.99999ap-2)
  %c1 = conv2d %x, %w1, %b
  %c2 = conv2d %c1, %w2, %b
  %c3 = conv2d %c2, %w3, %b
  return %c3
})");
  const std::vector<study::NamedTensor> inputs = {{"x", random({2, 16, 7, 7}, 11)}};
  const auto report =
      run(graph, inputs, "none,+layout-channels-last,+conv1x1-as-matmul,+bias-first");
  CHECK_MESSAGE(report.verdict == Verdict::kOrder, tests::findings(report));
  CHECK(at(report, "c3").metrics.max_rel > 1.3e-6);  // beyond assert_close
  for (const char* name : {"c1", "c2", "c3"})
    CHECK(has_cause(at(report, name).causes, CauseKind::kReductionOrder, name));
}

TEST_CASE("case: scale and shift as one fma (PT-115435)") {
  if (!tests::kernels_available("case")) return;
  const ir::Graph graph = tests::parse(R"(gir 1
graph @g(%x: f32[1,4,6,6]) {
  %s = constant f32[1] {1e6}
  %t = constant f32[1] {-0.333e6}
  %m = mul %x, %s
  %y = add %m, %t
  return %y
})");
  const std::vector<study::NamedTensor> inputs = {{"x", random({1, 4, 6, 6}, 12)}};
  const auto fused = run(graph, inputs, "none,+fuse-pointwise,+contract");
  CHECK(fused.verdict == Verdict::kOrder);
  CHECK(has_cause(fused.causes, CauseKind::kContraction));
  CHECK(run(graph, inputs, "none,+fuse-pointwise").verdict == Verdict::kIdentical);
}

TEST_CASE("case: batch norm of tiny variance folded into weights (PT-120545)") {
  if (!tests::kernels_available("case")) return;
  const ir::Graph graph = tests::parse(R"(gir 1
graph @g(%x: f32[1,4,8,8]) {
  %w = constant f32[8,4,3,3] random(seed=1, he)
  %scale = constant f32[8] splat(0x1.4p0)
  %shift = constant f32[8] splat(0x1p-2)
  %mean = constant f32[8] splat(0x1p-4)
  %var = constant f32[8] splat(1e-6)
  %c = conv2d %x, %w {pad=[1,1,1,1]}
  %y = batch_norm %c, %scale, %shift, %mean, %var
  return %y
})");
  const std::vector<study::NamedTensor> inputs = {{"x", random({1, 4, 8, 8}, 13)}};
  study::PairSettings settings = tests::settings("", "none,+fold-batchnorm");
  settings.exact = true;
  const auto report = tests::compare(graph, inputs, settings);
  CHECK_MESSAGE(report.verdict == Verdict::kOrder, tests::findings(report));
  CHECK(has_cause(report.causes, CauseKind::kWeightFolding));
  const study::NodeReport& y = at(report, "y");
  REQUIRE(y.exact);
  REQUIRE(y.exact->bound);
  CHECK(y.exact->bound->used > 0);
  CHECK(y.exact->bound->used <= 1);
}
