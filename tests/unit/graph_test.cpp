#include <doctest/doctest.h>

#include "ir/builder.h"
#include "ir/printer.h"

using namespace driftc;
using namespace driftc::ir;

static Graph with_constant(float last) {
  Graph graph("g");
  const ValueId x = graph.add_input("x", {DType::kF32, {1000}, Layout::kNchw});
  Tensor t(DType::kF32, {1000});
  t.data_mut<float>()[999] = last;
  const ValueId w = graph.add_constant("w", Literal::dense(std::move(t)));
  graph.set_outputs({*Builder(graph).add(Op::kAdd, {x, w}, {}, "y")});
  return graph;
}

TEST_CASE("graph: an outline is short and still tells constants apart") {
  const std::string one = print_outline(with_constant(1)), other = print_outline(with_constant(2));
  CHECK(one != other);
  CHECK(one == print_outline(with_constant(1)));
  CHECK(one.size() < 400);
  CHECK(with_constant(1) == with_constant(1));
  CHECK(!(with_constant(1) == with_constant(2)));
}

TEST_CASE("graph: a rewriter keeps names, maps outputs and makes fresh names") {
  const Graph graph = with_constant(1);
  Rewriter rewriter(graph);
  for (std::uint32_t i = 0; i < graph.node_count(); ++i) rewriter.copy({i});
  CHECK(rewriter.graph().fresh_name("y") == "y.1");
  CHECK(rewriter.graph().fresh_name("z") == "z");
  CHECK(rewriter.finish() == graph);
}
