// Element types of weights, and how inputs get their shapes.
#include "tests/unit/onnx_writer.h"

using namespace driftc;
using namespace driftc::test;
using Floats = std::vector<float>;

namespace {
Floats weight(const std::string& tensor) {
  return values_of(run(OnnxWriter(13).initializer(tensor).node("Relu", {"w"}, {"y"}).output("y")));
}
OnnxWriter symbolic() {
  return OnnxWriter(13)
      .input("a", {-1, 3})
      .input("b", {-1, -2})
      .node("Relu", {"a"}, {"y"})
      .node("Relu", {"b"}, {"z"})
      .output("y")
      .output("z");
}
}  // namespace

TEST_CASE("onnx data: raw and typed fields of every float type become f32") {
  CHECK(weight(raw_tensor<float>("w", {2}, kOnnxFloat, {1.5f, 2})) == Floats{1.5f, 2});
  CHECK(weight(raw_tensor<std::uint16_t>("w", {3}, kOnnxHalf, {0x3C00, 0x0001, 0x7BFF})) ==
        Floats{1, 0x1p-24f, 65504});
  CHECK(weight(raw_tensor<std::uint16_t>("w", {1}, 16, {0x3F80})) == Floats{1});
  // 0.1 in f64 is rounded to f32 once.
  CHECK(weight(raw_tensor<double>("w", {1}, kOnnxDouble, {0.1})) == Floats{0.1f});
  CHECK(weight(tensor_proto("w", {2}, kOnnxFloat, [](auto& w) {
          w.add_float(4, 3);
          w.add_float(4, 4);
        })) == Floats{3, 4});
  const Floats packed = {5, 6};
  CHECK(weight(tensor_proto("w", {2}, kOnnxFloat, [&](auto& w) {
          w.add_packed_float(4, packed.begin(), packed.end());
        })) == packed);
  CHECK(weight(tensor_proto("w", {1}, kOnnxDouble, [](auto& w) { w.add_double(10, 7); })) ==
        Floats{7});
  const Ints halves = {0x3C00, 0x4000};
  CHECK(weight(tensor_proto("w", {2}, kOnnxHalf, [&](auto& w) {
          w.add_packed_int32(5, halves.begin(), halves.end());
        })) == Floats{1, 2});
  CHECK(weight(tensor_proto("w", {0}, kOnnxFloat, [](auto&) {})).empty());
}

TEST_CASE("onnx data: integer types serve as shapes") {
  const auto reshaped = [](const std::string& tensor) {
    return run(OnnxWriter(13)
                   .input("x", {6})
                   .initializer(tensor)
                   .node("Reshape", {"x", "s"}, {"y"})
                   .output("y"))
        .shape();
  };
  CHECK(reshaped(raw_tensor<std::int64_t>("s", {2}, kOnnxInt64, {2, -1})) == ir::Shape{2, 3});
  CHECK(reshaped(raw_tensor<std::int32_t>("s", {2}, kOnnxInt32, {-1, 2})) == ir::Shape{3, 2});
  CHECK(reshaped(raw_tensor<std::uint8_t>("s", {2}, 2, {3, 2})) == ir::Shape{3, 2});
  CHECK(reshaped(raw_tensor<std::int8_t>("s", {2}, 3, {3, -1})) == ir::Shape{3, 2});
  CHECK(reshaped(tensor_proto("s", {2}, kOnnxInt64, [](auto& w) {
          w.add_int64(7, 6);
          w.add_int64(7, -1);
        })) == ir::Shape{6, 1});
  CHECK(reshaped(tensor_proto("s", {1}, kOnnxInt32, [](auto& w) { w.add_int32(5, -1); })) ==
        ir::Shape{6});
}

TEST_CASE("onnx data: initializers that are also inputs are constants") {
  auto model = OnnxWriter(9, 3)
                   .input("x", {2})
                   .input("w", {2})
                   .floats("w", {2}, {10, 20})
                   .node("Add", {"x", "w"}, {"y"})
                   .output("y");
  auto graph = import(model);
  REQUIRE(graph.ok());
  CHECK(graph->inputs().size() == 1);
  CHECK(values_of(run(model)) == Floats{10, 21});
  auto info = frontend::onnx::inspect_onnx_bytes(model.bytes(), "net.onnx");
  REQUIRE(info.ok());
  CHECK(info->inputs.size() == 1);
}

TEST_CASE("onnx data: small constants are written out, unread ones left out") {
  auto graph = import(OnnxWriter(13)
                          .input("x", {1})
                          .floats("unread", {1}, {1})
                          .floats("w", {1}, {2})
                          .node("Mul", {"x", "w"}, {"y"})
                          .output("y"));
  REQUIRE(graph.ok());
  CHECK(!graph->find("unread"));
  REQUIRE(graph->find("w"));
  CHECK(graph->producer(*graph->find("w"))->literal->origin() == ir::Literal::Origin::kDense);
}

TEST_CASE("onnx data: a returned constant and a returned input keep their names") {
  auto graph = import(OnnxWriter(13).input("x", {1}).floats("w", {1}, {2}).output("w").output("x"));
  REQUIRE(graph.ok());
  CHECK(graph->value(graph->outputs()[0]).name == "w");
  CHECK(graph->value(graph->outputs()[1]).name == "x");
}

TEST_CASE("onnx data: helper values do not take a name the file uses later") {
  auto graph = import(OnnxWriter(9)
                          .input("x", {1, 2, 2})
                          .node("Softmax", {"x"}, {"s"})
                          .node("Relu", {"s"}, {"s.flat"})
                          .node("Relu", {"s.flat"}, {"y"})
                          .output("y"));
  REQUIRE(graph.ok());
  CHECK(graph->producer(*graph->find("s.flat"))->op == ir::Op::kRelu);
  CHECK(graph->find("s.flat.1").has_value());
}

TEST_CASE(
    "onnx data: symbolic extents are bound by files, then by the batch, and never contradict") {
  auto given = import(symbolic(), {.input_shapes = {{"b", ir::Shape{4, 5}}}, .batch = {}});
  REQUIRE_MESSAGE(given.ok(), given.error().render());
  CHECK(to_string(given->value(*given->find("a")).type) == "f32[4,3]");
  CHECK(to_string(given->value(*given->find("z")).type) == "f32[4,5]");

  const auto error = [](const frontend::onnx::ImportOptions& options) {
    return error_of(symbolic(), options);
  };
  CHECK(error({}) ==
        "net.onnx: error: input 'b' has shape [S1,S2]: axis 1 is open\n"
        "  hint: give the input: --input b=FILE.npy\n");
  CHECK(error({.input_shapes = {{"b", ir::Shape{4, 5}}}, .batch = 2}) ==
        "net.onnx: error: batch 2 contradicts input 'a', whose first extent is 4\n  hint: the "
        "model or the file of another input fixes it\n");
  CHECK(error({.input_shapes = {{"a", ir::Shape{2, 3}}, {"b", ir::Shape{4, 5}}}, .batch = {}}) ==
        "net.onnx: error: input 'b' is [S1,S2] in the model, [4,5] was given: 'S1' is 2 in 'a'\n");
  CHECK(error({.input_shapes = {{"a", ir::Shape{2, 4}}}, .batch = {}}) ==
        "net.onnx: error: input 'a' is [S1,3] in the model, [2,4] was given: axis 1 must be 3\n");
  CHECK(error({.input_shapes = {{"a", ir::Shape{2}}}, .batch = {}}) ==
        "net.onnx: error: input 'a' is [S1,3] in the model, [2] was given\n");
  CHECK(error({.input_shapes = {{"c", ir::Shape{2}}}, .batch = {}}) ==
        "net.onnx: error: the model has no input 'c'\n  hint: did you mean 'a'?\n");
  CHECK(error({.input_shapes = {}, .batch = 0}).find("batch 0 is out of range") !=
        std::string::npos);

  auto batch = import(OnnxWriter(13).input("x", {-1, 2}).node("Relu", {"x"}, {"y"}).output("y"),
                      {.input_shapes = {}, .batch = 7});
  REQUIRE(batch.ok());
  CHECK(to_string(batch->value(batch->inputs()[0]).type) == "f32[7,2]");
  CHECK(error_of(OnnxWriter(13).input("x", {1}, kOnnxInt64).output("x")) ==
        "net.onnx: error: input 'x' is int64\n  hint: inputs must be float32, float16 or bfloat16 "
        "tensors\n");
}
