// Real models: the one that ships, and those in ../shared (skipped with a message where the folder
// is missing).
#include <doctest/doctest.h>

#include <filesystem>

#include "frontend/onnx/onnx.h"
#include "ir/verifier.h"

using namespace driftc;
using frontend::onnx::import_onnx;

namespace {
const std::string kShipped = DRIFTC_SOURCE_DIR "/tests/models/digits-resnet.onnx";
const std::string kShared = DRIFTC_SOURCE_DIR "/../shared/models/";

int count(const ir::Graph& graph, ir::Op op) {
  int n = 0;
  for (const ir::Node& node : graph.nodes()) n += node.op == op;
  return n;
}
}  // namespace

TEST_CASE("onnx: the shipped network") {
  auto graph = import_onnx(kShipped);
  REQUIRE(graph.ok());
  CHECK(ir::verify(*graph).empty());
  CHECK(count(*graph, ir::Op::kConv2d) == 13);
  CHECK(count(*graph, ir::Op::kBatchNorm) == 13);
  CHECK(to_string(graph->value(graph->inputs()[0]).type) == "f32[1,1,8,8]");
  const auto conv = graph->find("block3.conv2");
  REQUIRE(conv);
  const ir::Node& node = *graph->producer(*conv);
  CHECK(node.location == ir::Location{"digits-resnet.onnx", "block3.conv2", 0});
  CHECK(node.from == std::vector<std::string>{"block3.conv2"});
  CHECK(node.ints("pad") == std::vector<std::int64_t>{1, 1, 1, 1});
  // Large weights stay linked to the file, small ones are written out.
  CHECK(graph->producer(node.operands[1])->literal->origin() == ir::Literal::Origin::kFile);

  auto batch =
      import_onnx(kShipped, {.input_shapes = {{"image", ir::Shape{32, 1, 8, 8}}}, .batch = {}});
  REQUIRE(batch.ok());
  CHECK(to_string(batch->value(batch->outputs()[0]).type) == "f32[32,10]");
}

TEST_CASE("onnx: inspect gives declared inputs and outputs") {
  auto info = frontend::onnx::inspect_onnx(kShipped);
  REQUIRE(info.ok());
  CHECK(info->ir_version == 7);
  CHECK(info->opset == 13);
  REQUIRE(info->inputs.size() == 1);
  CHECK(info->inputs[0].name == "image");
  CHECK(info->inputs[0].type_name == "float32");
  REQUIRE(info->inputs[0].dims.size() == 4);
  CHECK(info->inputs[0].dims[0].symbol == "N");
  CHECK(!info->inputs[0].dims[0].extent);
  CHECK(info->inputs[0].dims[3].extent == 8);
  REQUIRE(info->outputs.size() == 1);
  CHECK(info->outputs[0].name == "logits");
  CHECK(info->outputs[0].dtype == ir::DType::kF32);
}

TEST_CASE("onnx: every shared model") {
  if (!std::filesystem::exists(kShared)) {
    MESSAGE("skipped: ../shared/models is missing");
    return;
  }
  struct Row {
    const char* name;
    int convolutions;
    const char* output;
  };
  constexpr Row kModels[] = {{"resnet20-cifar10", 19, "f32[1,10]"},
                             {"resnet20-cifar10-dyn", 19, "f32[1,10]"},
                             {"resnet56-cifar10", 55, "f32[1,10]"},
                             {"resnet56-cifar10-dyn", 55, "f32[1,10]"},
                             {"resnet8-mlperf-tiny", 9, "f32[1,10]"},
                             {"squeezenet-fp16", 26, "f32[1,1000,1,1]"},
                             {"mnist", 2, "f32[1,10]"},
                             {"rfb-320-simplified", 52, "f32[1,4420,2]"},
                             {"rfb-320", 52, "f32[1,4420,2]"},
                             {"light_resnet50", 53, "f32[1,1000]"},
                             {"light_squeezenet", 26, "f32[1,1000,1,1]"},
                             {"light_densenet121", 121, "f32[1,1000,1,1]"},
                             {"light_shufflenet", 49, "f32[1,1000]"},
                             {"light_vgg19", 16, "f32[1,1000]"}};
  for (const Row& row : kModels) {
    CAPTURE(row.name);
    auto graph = import_onnx(kShared + row.name + ".onnx");
    REQUIRE_MESSAGE(graph.ok(), graph.error().render());
    CHECK(ir::verify(*graph).empty());
    CHECK(count(*graph, ir::Op::kConv2d) == row.convolutions);
    CHECK(to_string(graph->value(graph->outputs()[0]).type) == row.output);
  }
  auto four = import_onnx(kShared + "resnet20-cifar10-dyn.onnx", {.input_shapes = {}, .batch = 4});
  REQUIRE(four.ok());
  CHECK(to_string(four->value(four->outputs()[0]).type) == "f32[4,10]");
  auto fixed = import_onnx(kShared + "resnet20-cifar10.onnx", {.input_shapes = {}, .batch = 4});
  REQUIRE(!fixed.ok());
  CHECK(fixed.error().message == "batch 4 contradicts input 'input', whose first extent is 1");
}
