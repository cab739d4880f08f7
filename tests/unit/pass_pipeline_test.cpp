#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "frontend/zoo/zoo.h"
#include "ir/builder.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "passes/pipeline.h"
#include "passes/rewrite.h"
#include "tests/unit/broken_passes.h"

using namespace driftc;

namespace {

ir::Graph parsed(const std::string& body) {
  auto graph = ir::parse_graph("gir 1\ngraph @g" + body, "test.gir");
  REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : graph.error().render()));
  return *graph;
}

// A residual block with everything the broken passes break; the addend is not the convolution's
// input.
ir::Graph residual_block() {
  return parsed(R"((%x: f32[1,2,4,4], %r: f32[1,2,2,2]) {
  %w = constant f32[2,2,1,1] {0x1p0, 0x1p1, 0x1p-1, 0x1p0}
  %scale = constant f32[2] {0x1p1, 0x1p1}
  %shift = constant f32[2] {0x0p0, 0x1p0}
  %mean = constant f32[2] {0x0p0, 0x0p0}
  %var = constant f32[2] {0x1p0, 0x1p0}
  %c = conv2d %x, %w {stride=[2,2]} : f32[1,2,2,2]
  %n = batch_norm %c, %scale, %shift, %mean, %var {epsilon=0x0p0} : f32[1,2,2,2]
  %d = conv2d %n, %w : f32[1,2,2,2]
  %s = add %d, %r : f32[1,2,2,2]
  %y = relu %s : f32[1,2,2,2]
  return %y
})");
}

std::vector<ir::Graph> models() {
  std::vector<ir::Graph> list = {residual_block()};
  for (const auto& entry : frontend::zoo::zoo_names()) {
    auto graph = frontend::zoo::zoo_graph(entry.name);
    REQUIRE(graph.ok());
    list.push_back(*graph);
  }
  return list;
}

passes::PipelineResult run(const ir::Graph& graph, const std::string& list,
                           const passes::PipelineOptions& options = {}) {
  passes::SelectionRequest request;
  request.passes = list;
  auto selection = passes::select_passes(request);
  REQUIRE_MESSAGE(selection.ok(), list);
  auto result = passes::run_pipeline(graph, *selection, {}, options);
  REQUIRE_MESSAGE(result.ok(), (result.ok() ? "" : result.error().render()));
  return *result;
}

// What proofs rely on: the graph verifies, its text parses to itself, inputs and outputs keep name,
// type and storage, `from` names compute nodes of the source in source order, and no source node is
// lost that an output needs.
void check_invariants(const ir::Graph& source, const ir::Graph& made) {
  CHECK(ir::verify(made).empty());
  REQUIRE(made.inputs().size() == source.inputs().size());
  for (std::size_t i = 0; i < source.inputs().size(); ++i) {
    CHECK(made.value(made.inputs()[i]).name == source.value(source.inputs()[i]).name);
    CHECK(made.value(made.inputs()[i]).type == source.value(source.inputs()[i]).type);
  }
  REQUIRE(made.outputs().size() == source.outputs().size());
  for (std::size_t i = 0; i < source.outputs().size(); ++i) {
    CHECK(made.value(made.outputs()[i]).name == source.value(source.outputs()[i]).name);
    CHECK(made.value(made.outputs()[i]).type == source.value(source.outputs()[i]).type);
  }
  std::set<std::string> covered;
  for (const ir::Node& node : made.nodes()) {
    if (node.op == ir::Op::kConstant) continue;
    CHECK(node.op == ir::Op::kKernel);
    REQUIRE(!node.from.empty());
    std::uint32_t last = 0;
    for (const std::string& name : node.from) {
      const auto value = source.find(name);
      REQUIRE_MESSAGE(value, name);
      CHECK(value->index >= last);
      last = value->index;
      covered.insert(name);
    }
    // A kernel's name is that of the last source node it does.
    CHECK(node.from.back() == made.value(node.result).name);
    CHECK(source.value(*source.find(node.from.back())).type.shape ==
          made.value(node.result).type.shape);
  }
  for (const ir::Node& node : source.nodes())
    if (node.op != ir::Op::kConstant) CHECK(covered.contains(source.value(node.result).name));
}

}  // namespace

TEST_CASE("every pass alone and every pair keeps the invariants of proofs on all models") {
  std::vector<std::string> names = passes::pass_names(passes::all_passes());
  std::erase(names, "fallback");
  for (const ir::Graph& model : models()) {
    CAPTURE(model.name());
    check_invariants(model, run(model, "none").graph);
    check_invariants(model, run(model, "all").graph);
    check_invariants(model, run(model, "all,+match-order").graph);
    for (std::size_t a = 0; a < names.size(); ++a) {
      const ir::Graph alone = run(model, "none,+" + names[a]).graph;
      check_invariants(model, alone);
      if (model.node_count() > 40) continue;
      for (std::size_t b = 0; b < a; ++b)
        check_invariants(model, run(model, "none,+" + names[a] + ",+" + names[b]).graph);
    }
  }
}

TEST_CASE("running a pass again changes nothing") {
  for (const ir::Graph& model : models())
    for (const passes::PassInfo& pass : passes::all_passes()) {
      if (pass.name == "fallback") continue;
      CAPTURE(model.name());
      CAPTURE(std::string(pass.name));
      passes::PassContext context;
      context.source = &model;
      auto once = passes::run_listed(model, {std::string(pass.name)}, context);
      REQUIRE(once.ok());
      auto twice = passes::run_listed(once->graph, {std::string(pass.name)}, context);
      REQUIRE(twice.ok());
      CHECK(passes::same_graph(once->graph, twice->graph));
    }
}

TEST_CASE("changed in the trace means that the text differs") {
  for (const ir::Graph& model : models()) {
    if (model.node_count() > 40) continue;
    std::string before = ir::print(model);
    run(model, "all", {.stop_after = "", .after_pass = [&](const auto& trace, const auto& graph) {
                         const std::string text = ir::print(graph);
                         CHECK_MESSAGE(trace.changed == (text != before), trace.name);
                         before = text;
                       }});
  }
}

TEST_CASE("every stage printed is valid input again") {
  run(residual_block(), "all",
      {.stop_after = "", .after_pass = [&](const auto& trace, const auto& graph) {
         const std::string text = ir::print(graph);
         auto again = ir::parse_graph(text, "stage.gir");
         REQUIRE_MESSAGE(again.ok(), trace.name);
         CHECK(ir::print(*again) == text);
       }});
}

TEST_CASE("the trace lists the whole table; stop-after ends the run there") {
  const auto all = run(residual_block(), "none,+dce,+fuse-epilogue");
  REQUIRE(all.trace.size() == passes::all_passes().size() + 1);
  for (const auto& trace : all.trace) {
    const bool ran =
        trace.name == "dce" || trace.name == "fuse-epilogue" || trace.name == "form-kernels";
    CHECK(trace.enabled == ran);
    CHECK(trace.changed == (ran && trace.name != "dce"));
  }
  const auto stopped =
      run(residual_block(), "all", {.stop_after = "fold-batchnorm", .after_pass = {}});
  CHECK(stopped.trace.size() == all.trace.size());
  for (const ir::Node& node : stopped.graph.nodes()) CHECK(node.op != ir::Op::kKernel);
  auto unknown = passes::run_pipeline(residual_block(), {}, {},
                                      {.stop_after = "fold-bachnorm", .after_pass = {}});
  REQUIRE(!unknown.ok());
  CHECK(unknown.error().hint == "did you mean 'fold-batchnorm'?");
}

TEST_CASE("a pass that makes an invalid graph is driftc's own fault and is named") {
  std::vector<passes::PassInfo> table(passes::all_passes().begin(), passes::all_passes().end());
  for (passes::PassInfo& pass : table)
    if (pass.name == "dce")
      pass.run = [](const ir::Graph& graph, const passes::PassContext&) {
        ir::Graph broken = graph;
        broken.set_outputs({});
        return Result<ir::Graph>(broken);
      };
  auto selection = passes::select_passes({}, table);
  REQUIRE(selection.ok());
  auto result = passes::run_pipeline(residual_block(), *selection, {}, {}, table);
  REQUIRE(!result.ok());
  CHECK(result.error().kind == ErrorKind::kInternal);
  CHECK(result.error().message.starts_with("pass dce made a graph that is not valid"));
}

TEST_CASE("fold-constants asks the evaluator, keeps names, and folds what became constant") {
  const ir::Graph graph = parsed(R"((%x: f32[2]) {
  %k = constant f32[2] {0x1p0, 0x1p1}
  %l = constant f32[2] {0x1p2, 0x1p3}
  %a = add %k, %l : f32[2]
  %b = add %a, %l : f32[2]
  %y = add %x, %b : f32[2]
  %z = add %k, %k : f32[2]
  return %y, %z
})");
  int asked = 0;
  passes::PassContext context;
  context.evaluate = [&](const ir::Graph&, ir::NodeId, std::span<const ir::Tensor> operands) {
    ++asked;
    ir::Tensor sum(ir::DType::kF32, operands[0].shape());
    for (std::size_t i = 0; i < 2; ++i)
      sum.data_mut<float>()[i] = operands[0].data<float>()[i] + operands[1].data<float>()[i];
    return Result<ir::Tensor>(sum);
  };
  auto result = passes::run_listed(graph, {"fold-constants"}, context);
  REQUIRE(result.ok());
  CHECK(asked == 2);
  CHECK(ir::print(result->graph) == R"(gir 1
graph @g(%x: f32[2]) {
  %k = constant f32[2] {0x1p0, 0x1p1}
  %b = constant f32[2] {0x1.2p3, 0x1.2p4}
  %y = add %x, %b : f32[2]
  %z = add %k, %k : f32[2]
  return %y, %z
}
)");
  context.fallback = {"b"};
  auto named = passes::run_listed(graph, {"fold-constants", "fallback"}, context);
  REQUIRE(named.ok());
  CHECK(ir::print(named->graph).find("kernel interpreter(%a, %l) from=[%b]") != std::string::npos);
}

TEST_CASE("broken passes make valid graphs that differ from the good ones") {
  const ir::Graph model = residual_block();
  CHECK(tests::broken_passes().size() == 4);
  for (const tests::BrokenPass& broken : tests::broken_passes()) {
    CAPTURE(std::string(broken.fault));
    const std::string list = "none,+" + std::string(broken.replaces);
    passes::SelectionRequest request;
    request.passes = list;
    const auto table = tests::table_with(broken);
    auto selection = passes::select_passes(request, table);
    REQUIRE(selection.ok());
    auto wrong = passes::run_pipeline(model, *selection, {}, {}, table);
    REQUIRE_MESSAGE(wrong.ok(), (wrong.ok() ? "" : wrong.error().render()));
    CHECK(!passes::same_graph(wrong->graph, run(model, list).graph));
    CHECK(ir::verify(wrong->graph).empty());
  }
}
