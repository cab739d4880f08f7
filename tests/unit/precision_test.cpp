// --precision: the plan's grammar, what autocast stores, what the pass makes of kernels, and both
// arms in every precision: declared is identical, a difference is on the rung "precision", and a
// 1x1 convolution written as a matmul moves from one flag to the other.
#include "ir/precision.h"

#include <doctest/doctest.h>

#include "passes/pipeline.h"
#include "tests/support/services.h"

namespace driftc::test {
namespace {

using runtime::compare::CauseKind;
using runtime::compare::Verdict;
using runtime::study::PairReport;
using runtime::study::PairSettings;

// Two 1x1 convolutions with a 3x3 between them.
const char* const kBottleneck = R"(gir 1
graph @bottleneck(%x: f32[2,32,9,9]) {
  %w1 = constant f32[40,32,1,1] random(seed=1, he)
  %a = conv2d %x, %w1 {stride=[1,1], pad=[0,0,0,0]} : f32[2,40,9,9]
  %r = relu %a : f32[2,40,9,9]
  %w2 = constant f32[32,40,3,3] random(seed=2, he)
  %b = conv2d %r, %w2 {stride=[1,1], pad=[1,1,1,1]} : f32[2,32,9,9]
  %s = add %b, %x : f32[2,32,9,9]
  return %s
}
)";

struct How {
  std::string precision, eager = "", passes = "", device = "h200", mode = "";
  bool declared = false;
};

PairReport run(const ir::Graph& graph, const How& how) {
  PairSettings s;
  passes::SelectionRequest request;
  request.passes = how.passes;
  request.mode = how.mode;
  request.precision_named = true;
  s.selection = passes::select_passes(request).value();
  s.device = runtime::device_profile(how.device).value();
  s.precision = ir::parse_precision_plan(how.precision, "--precision").value();
  s.eager_precision =
      how.eager.empty() ? s.precision : ir::parse_precision_plan(how.eager, "eager").value();
  if (how.eager.empty()) s.eager_precision.nodes.clear();
  s.precision.mma_arch = s.eager_precision.mma_arch = s.device.mma_arch;
  s.declared = how.declared;
  return tests::compare(graph, tests::random_inputs(graph, 3), s);
}

bool has_cause(const PairReport& report, CauseKind kind) {
  return std::any_of(report.causes.begin(), report.causes.end(),
                     [&](const auto& cause) { return cause.kind == kind; });
}

TEST_CASE("precision: the grammar of a plan, and its errors") {
  const auto text = [](const char* given) {
    auto plan = ir::parse_precision_plan(given, "--precision");
    return plan.ok() ? ir::to_string(*plan) : plan.error().message;
  };
  CHECK(text("tf32") == "conv=tf32:rna,matmul=tf32:rna");
  CHECK(text("pytorch") == "conv=tf32:rna,matmul=f32");
  CHECK(text("conv=bf16,matmul=tf32:trunc,a/b=c=f64") == "conv=bf16,matmul=tf32:trunc,a/b=c=f64");
  CHECK(text("fp16") == "--precision fp16: 'fp16' is no precision and names none");
  CHECK(text("conv=half") == "--precision conv=half: unknown precision 'half'");
  CHECK(text("") == "--precision: empty");
}

TEST_CASE("precision: what autocast stores") {
  const ir::Graph graph = tests::parse(R"(gir 1
graph @g(%x: f32[1,8,4,4]) {
  %w = constant f32[8,8,1,1] random(seed=1, he)
  %half = constant f32[] {0x1p-1}
  %c = conv2d %x, %w {stride=[1,1], pad=[0,0,0,0]} : f32[1,8,4,4]
  %r = relu %c : f32[1,8,4,4]
  %m = mul %r, %half : f32[1,8,4,4]
  %s = add %m, %x : f32[1,8,4,4]
  %e = exp %m : f32[1,8,4,4]
  %p = max_pool %m {kernel=[2,2], stride=[2,2]} : f32[1,8,2,2]
  return %s, %e, %p
}
)");
  const auto of = [&](const char* plan) {
    std::string out;
    const auto stored =
        ir::stored_precisions(graph, ir::parse_precision_plan(plan, "--precision").value());
    for (std::size_t i = 0; i < stored.size(); ++i)
      if (graph.nodes()[i].op != ir::Op::kConstant)
        out += graph.value(graph.nodes()[i].result).name + ":" +
               std::string(ir::name_of(stored[i])) + " ";
    return out;
  };
  CHECK(of("f16") == "c:f16 r:f16 m:f16 s:f32 e:f32 p:f16 ");
  CHECK(of("bf16") == "c:bf16 r:bf16 m:bf16 s:f32 e:f32 p:bf16 ");
  CHECK(of("tf32") == "c:f32 r:f32 m:f32 s:f32 e:f32 p:f32 ");
  CHECK(of("conv=f32,matmul=f16") == "c:f32 r:f32 m:f32 s:f32 e:f32 p:f32 ");
}

TEST_CASE("precision: tf32 where there are such tensor cores, the shapes of each architecture") {
  const ir::Graph graph = tests::parse(kBottleneck);
  const ir::Node& conv = *graph.producer(*graph.find("b"));
  const auto order = [&](const char* precision, const char* arch) {
    ir::NumericContract contract;
    contract.order = ir::parse_order("rsc.fma").value();
    ir::set_precision(contract, graph, conv, *ir::parse_precision(precision), arch);
    return ir::to_string(*contract.order) + " in " + std::string(ir::name_of(contract.in));
  };
  CHECK(order("tf32", "sm_90") == "rsc.mma(sm_90,tf32,m16n8k8,rna) in tf32:rna");
  CHECK(order("tf32:trunc", "sm_80") == "rsc.mma(sm_80,tf32,m16n8k8,trunc) in tf32:trunc");
  CHECK(order("tf32", "sm_75") == "rsc.fma in f32");
  CHECK(order("f16", "sm_75") == "rsc.mma(sm_75,f16,m16n8k8) in f16");
  CHECK(order("f16", "sm_100") == "rsc.mma(sm_100,f16,m16n8k16) in f16");
  CHECK(order("bf16", "sm_75") == "rsc.fma in bf16");
  CHECK(order("f16", "sm_70") == "rsc.fma in f16");
  CHECK(order("f64", "sm_90") == "rsc.f64 in f32");
}

TEST_CASE("precision: declared is identical, differences are precision or order") {
  if (!tests::kernels_available("precision")) return;
  const ir::Graph graph = tests::parse(kBottleneck);
  CHECK(run(graph, {.precision = "f16", .declared = true}).verdict == Verdict::kIdentical);
  const PairReport tf32 = run(graph, {.precision = "tf32"});
  CHECK(tf32.verdict == Verdict::kOrder);  // the same tensor cores, another walk
  const PairReport other = run(graph, {.precision = "tf32", .eager = "f32"});
  CHECK(other.verdict == Verdict::kPrecision);
  CHECK(has_cause(other, CauseKind::kInputRounding));
  CHECK(has_cause(other, CauseKind::kAccumulator));
}

TEST_CASE("precision: an mma order of another device is eager's alone") {
  const ir::Graph graph = tests::parse(kBottleneck);
  passes::PassContext context;
  context.eager_order = ir::parse_order("crs.mma(sm_80,f16,m16n8k16)").value();
  const auto orders = [&](const char* arch, const char* passes) {
    context.precision.mma_arch = arch;
    passes::SelectionRequest request;
    request.passes = passes;
    const auto result =
        passes::run_pipeline(graph, passes::select_passes(request).value(), context).value();
    std::string out;
    for (const ir::Node& node : result.graph.nodes())
      if (node.op == ir::Op::kKernel && node.kernel->contract.order)
        out += std::string(ir::name_of(node.kernel->algorithm)) + " " +
               ir::to_string(*node.kernel->contract.order) + " ";
    return out;
  };
  const std::string mma = "crs.mma(sm_80,f16,m16n8k16) ";
  CHECK(orders("sm_80", "none") == "implicit_gemm " + mma + "implicit_gemm " + mma);
  CHECK(orders("sm_90", "none") == "implicit_gemm crs.fma implicit_gemm crs.fma ");
  CHECK(orders("sm_90", "none,+match-order") == "interpreter " + mma + "interpreter " + mma);
}

// The lesson of docs/lessons/tf32-flags.md.
TEST_CASE(
    "precision: conv1x1-as-matmul under PyTorch's flags is closer to the truth and more "
    "different") {
  if (!tests::kernels_available("precision flags")) return;
  const ir::Graph graph = tests::parse(kBottleneck);
  const PairReport plain = run(graph, {.precision = "pytorch"});
  const PairReport moved = run(graph, {.precision = "pytorch", .passes = "+conv1x1-as-matmul"});
  CHECK(plain.verdict == Verdict::kOrder);
  CHECK(moved.verdict == Verdict::kPrecision);
  CHECK(has_cause(moved, CauseKind::kInputRounding));
  const auto& before = plain.nodes.back();
  const auto& after = moved.nodes.back();
  REQUIRE(before.name == "s");
  CHECK(after.metrics.rel_l2 > 2 * before.metrics.rel_l2);
  CHECK(after.compiled_to_reference->rel_l2 < before.compiled_to_reference->rel_l2);
  CHECK(after.compiled_to_reference->rel_l2 < after.eager_to_reference->rel_l2);
  // The first convolution, alone, is f32 again.
  CHECK(moved.nodes.front().compiled_to_reference->rel_l2 <
        0.01 * moved.nodes.front().eager_to_reference->rel_l2);
}

}  // namespace

TEST_SUITE("soak") {
  TEST_CASE("precision: every precision, device and set of passes on a bottleneck: declared" *
            doctest::skip()) {
    if (!tests::kernels_available("precision")) return;
    const ir::Graph graph = tests::parse(kBottleneck);
    for (const char* device : {"v100", "t4", "a100", "l40s", "h100", "h200", "b200"})
      for (const char* precision :
           {"f32", "tf32", "tf32:trunc", "f16", "bf16", "f64", "pytorch", "conv=f16,matmul=bf16"})
        for (const char* passes : {"none", "all", ""}) {
          INFO(device, " ", precision, " ", passes);
          if (*passes == 0)
            CHECK(
                run(graph, {.precision = precision, .device = device, .mode = "strict"}).verdict ==
                Verdict::kIdentical);
          CHECK(run(graph,
                    {.precision = precision, .passes = passes, .device = device, .declared = true})
                    .verdict == Verdict::kIdentical);
        }
  }
}

}  // namespace driftc::test
