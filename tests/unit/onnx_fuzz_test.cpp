#include "tests/fuzz/onnx_fuzz.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/fuzz/mutate.h"
#include "tests/unit/onnx_writer.h"

using namespace driftc;
using namespace driftc::test;

namespace {

std::string file_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

// Small models that together reach every handler.
std::vector<std::string> seeds() {
  std::vector<std::string> out;
  const auto add = [&](OnnxWriter model) { out.push_back(model.output("y").bytes()); };
  add(OnnxWriter(13)
          .input("x", {-1, 2, 5, 5})
          .floats("w", {2, 1, 3, 3}, std::vector<float>(18, 0.5f))
          .floats("b", {2}, {1, 2})
          .node("Conv", {"x", "w", "b"}, {"c"},
                {attr("group", 2), attr_s("auto_pad", "SAME_UPPER"), attr("strides", Ints{2, 1})})
          .node("BatchNormalization", {"c", "b", "b", "b", "b"}, {"n"}, {attr_f("epsilon", 0.1f)})
          .node("Relu", {"n"}, {"r"})
          .node("MaxPool", {"r"}, {"m"},
                {attr("kernel_shape", Ints{2, 2}), attr("pads", Ints{1, 0, 0, 1})})
          .node("AveragePool", {"m"}, {"a"},
                {attr("kernel_shape", Ints{1, 2}), attr("ceil_mode", 1)})
          .node("GlobalAveragePool", {"a"}, {"g"})
          .node("Flatten", {"g"}, {"f"})
          .node("Gemm", {"f", "q", "b"}, {"y"}, {attr("transB", 1), attr_f("alpha", 2)})
          .floats("q", {2, 2}, {1, 2, 3, 4}));
  add(OnnxWriter(9)
          .input("x", {2, 3, 4})
          .node("Shape", {"x"}, {"s"})
          .node("Slice", {"s"}, {"n"}, {attr("starts", Ints{0}), attr("ends", Ints{1})})
          .node("Constant", {}, {"k"}, {attr_tensor("value", int_tensor("", {1}, {-1}))})
          .node("Concat", {"n", "k"}, {"t"}, {attr("axis", 0)})
          .node("Reshape", {"x", "t"}, {"z"})
          .node("Transpose", {"z"}, {"p"}, {attr("perm", Ints{1, 0})})
          .node("Softmax", {"p"}, {"y"}));
  add(OnnxWriter(18)
          .input("x", {2, 4})
          .ints("i", {0})
          .ints("j", {3})
          .ints("a", {1})
          .ints("pads", {1, 1})
          .floats("lo", {}, {0})
          .node("Slice", {"x", "i", "j", "a"}, {"s"})
          .node("Pad", {"s", "pads", "lo", "a"}, {"p"})
          .node("Clip", {"p", "lo"}, {"c"})
          .node("Unsqueeze", {"c", "i"}, {"u"})
          .node("Squeeze", {"u", "i"}, {"v"})
          .node("MatMul", {"x", "w"}, {"m"})
          .initializer(raw_tensor<std::uint16_t>("w", {4}, kOnnxHalf, {0x3C00, 0x4000, 0, 0x8000}))
          .node("Sum", {"v", "v", "v"}, {"t"})
          .node("Div", {"t", "lo"}, {"y"}));
  add(OnnxWriter(6)
          .input("x", {1, 2, 2})
          .floats("b", {2}, {1, 2})
          .node("Add", {"x", "b"}, {"s"}, {attr("broadcast", 1), attr("axis", 1)})
          .node("Cast", {"s"}, {"c"}, {attr("to", 1)})
          .node("Dropout", {"c"}, {"d"})
          .node("Identity", {"d"}, {"e"})
          .node("Pad", {"e"}, {"y"}, {attr("pads", Ints{0, 0, 1, 0, 0, -1})}));
  add(OnnxWriter(13)
          .input("x", {5, 2})
          .ints("one", {1})
          .floats("half", {}, {0.5f})
          .node("Size", {"x"}, {"w"})
          .node("Cast", {"w"}, {"f"}, {attr("to", 1)})
          .node("Mul", {"f", "half"}, {"h"})
          .node("Floor", {"h"}, {"g"})
          .node("Cast", {"g"}, {"n"}, {attr("to", 7)})
          .node("Range", {"one0", "n", "one0"}, {"r"})
          .initializer(int_tensor("one0", {}, {1}))
          .node("Gather", {"r", "one"}, {"q"})
          .node("Expand", {"q", "one"}, {"e"})
          .node("Equal", {"e", "one"}, {"eq"})
          .node("Where", {"eq", "one", "e"}, {"v"})
          .node("ReduceProd", {"v"}, {"rp"})
          .node("ConstantOfShape", {"v"}, {"cs"},
                {attr_tensor("value", float_tensor("", {1}, {2}))})
          .node("Sub", {"x", "cs"}, {"y"}));
  return out;
}

}  // namespace

TEST_CASE("onnx: the corpus of the fuzz target holds one model for each group of handlers") {
  const auto all = seeds();
  for (std::size_t i = 0; i < all.size(); ++i) {
    auto graph = frontend::onnx::import_onnx_bytes(all[i], "seed.onnx");
    CHECK_MESSAGE(graph.ok(), graph.error().render());
    const std::string path =
        DRIFTC_SOURCE_DIR "/tests/fuzz/corpus/onnx/seed-" + std::to_string(i) + ".onnx";
    if (std::getenv("DRIFTC_BLESS") != nullptr) std::ofstream(path, std::ios::binary) << all[i];
    CHECK_MESSAGE(file_bytes(path) == all[i], path, " is stale: DRIFTC_BLESS=1 rewrites it");
  }
}

TEST_CASE("onnx: a real model, truncated at every kilobyte and with 1,000 bytes flipped") {
  const std::string model = file_bytes(DRIFTC_SOURCE_DIR "/tests/models/digits-resnet.onnx");
  REQUIRE(model.size() > 100'000);
  for (std::size_t size = 0; size < model.size(); size += 1024)
    fuzz::onnx_file(std::string_view(model).substr(0, size));
  const CounterRng rng(3, "flip");
  for (std::uint64_t i = 0; i < 1000; ++i) {
    std::string damaged = model;
    // Weights are most of the file, so half of the flips go to the structure at its start.
    const std::size_t range = i % 2 == 0 ? model.size() : 8192;
    const auto at = static_cast<std::size_t>(rng.bits(2 * i) % range);
    damaged[at] = static_cast<char>(damaged[at] ^ (1 + rng.bits(2 * i + 1) % 255));
    fuzz::onnx_file(damaged);
  }
}
