#include "frontend/zoo/zoo.h"

#include <doctest/doctest.h>

#include "frontend/zoo/reseed.h"
#include "ir/builder.h"

using namespace driftc;
using frontend::zoo::zoo_graph;

TEST_CASE("zoo: every entry builds, also at another batch") {
  for (const auto& entry : frontend::zoo::zoo_names()) {
    CAPTURE(entry.name);
    CHECK(!entry.description.empty());
    for (std::int64_t batch : {1, 3}) {
      auto graph = zoo_graph(entry.name, batch);
      REQUIRE(graph.ok());
      REQUIRE(graph->inputs().size() == 1);
      CHECK(graph->value(graph->inputs()[0]).type.shape[0] == batch);
      CHECK(graph->value(graph->outputs()[0]).type.shape[0] == batch);
    }
  }
}

TEST_CASE("zoo: resnet50 has 53 convolutions, the stride in the 3x3, and 1000 classes") {
  auto graph = zoo_graph("resnet50", 1);
  REQUIRE(graph.ok());
  int convolutions = 0;
  for (const ir::Node& node : graph->nodes()) convolutions += node.op == ir::Op::kConv2d;
  CHECK(convolutions == 53);
  CHECK(to_string(graph->value(graph->outputs()[0]).type) == "f32[1,1000]");
  const auto conv2 = graph->find("layer2.0.conv2");
  REQUIRE(conv2);
  CHECK(graph->producer(*conv2)->ints("stride") == std::vector<std::int64_t>{2, 2});
  CHECK(to_string(graph->value(*conv2).type) == "f32[1,128,28,28]");
}

TEST_CASE("zoo: parameters lie in their ranges and do not depend on the batch") {
  auto one = zoo_graph("residual-block", 1), two = zoo_graph("residual-block", 2);
  REQUIRE(one.ok());
  REQUIRE(two.ok());
  for (const ir::Node& node : one->nodes()) {
    if (node.op != ir::Op::kConstant) continue;
    const std::string& name = one->value(node.result).name;
    const ir::Tensor& tensor = node.literal->tensor();
    const auto twin = two->find(name);
    REQUIRE(twin);
    CHECK(node.literal->hash() == two->producer(*twin)->literal->hash());
    const bool scale = name == "bn1.weight" || name == "bn1.running_var";
    const bool shift = name == "bn1.bias" || name == "bn1.running_mean";
    for (float v : tensor.data<float>()) {
      if (scale) CHECK((v >= 0.5f && v <= 1.5f));
      if (shift) CHECK((v >= -0.1f && v <= 0.1f));
    }
  }
}

TEST_CASE("zoo: unknown names get a hint") {
  auto graph = zoo_graph("resnet5O", 1);
  REQUIRE(!graph.ok());
  CHECK(graph.error().message == "unknown zoo model 'resnet5O'");
  CHECK(graph.error().hint.find("did you mean 'resnet50'?") == 0);
  CHECK(!zoo_graph("mlp", 0).ok());
}

TEST_CASE("reseed: constant fills become weights, everything else stays") {
  ir::Graph graph("net");
  const auto constant = [&](const char* name, ir::Shape shape, double value) {
    return graph.add_constant(
        name, ir::Literal::splat({ir::DType::kF32, std::move(shape), ir::Layout::kNchw}, value));
  };
  const ir::ValueId x = graph.add_input("x", {ir::DType::kF32, ir::Shape{1, 2, 4, 4}, {}});
  const ir::ValueId w = constant("w", ir::Shape{2, 2, 1, 1}, 0.02);
  const ir::ValueId s = constant("s", ir::Shape{2}, 0.02), b = constant("b", ir::Shape{2}, 0.02);
  const ir::ValueId k = constant("k", ir::Shape{2, 1, 1}, 0.02);
  const float kept_values[] = {1, 2};
  const ir::ValueId kept = graph.add_constant(
      "kept", ir::Literal::dense(ir::Tensor::of<float>(ir::Shape{2}, kept_values)));
  ir::Builder builder(graph);
  const ir::ValueId c = *builder.add(ir::Op::kConv2d, {x, w, kept}, {}, "c");
  const ir::ValueId n = *builder.add(ir::Op::kBatchNorm, {c, s, b, b, s}, {}, "n");
  graph.set_outputs({*builder.add(ir::Op::kMul, {n, k}, {}, "y")});

  const ir::Graph reseeded = frontend::zoo::reseed_weights(graph, 1);
  const auto values = [&](const char* name) {
    return reseeded.producer(*reseeded.find(name))->literal->tensor().data<float>();
  };
  CHECK(values("w")[0] != values("w")[1]);
  CHECK((values("s")[0] >= 0.5f && values("s")[1] >= 0.5f));
  CHECK((values("b")[0] <= 0.1f && values("b")[1] >= -0.1f && values("b")[0] != 0.02f));
  CHECK(values("k")[0] == 0.02f);
  CHECK(values("kept")[1] == 2);
  CHECK(reseeded.node_count() == graph.node_count());
}
