#include "frontend/zoo/zoo.h"

#include <doctest/doctest.h>

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
