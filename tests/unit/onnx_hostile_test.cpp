// What a file may get wrong: one message with the place, no crash, no memory beyond what its bytes
// justify.
#include <filesystem>
#include <fstream>

#include "tests/unit/onnx_writer.h"

using namespace driftc;
using namespace driftc::test;
using frontend::onnx::import_onnx;
using frontend::onnx::import_onnx_bytes;

namespace {

bool says(const std::string& text, const std::string& part) {
  const bool found = text.find(part) != std::string::npos;
  if (!found) MESSAGE("got: " << text);
  return found;
}
OnnxWriter relu(std::int64_t opset = 13, std::int64_t ir_version = 8) {
  return OnnxWriter(opset, ir_version).input("x", {1}).node("Relu", {"x"}, {"y"}).output("y");
}

// A folder that is removed again.
class TempFolder {
 public:
  TempFolder() : path_(std::filesystem::temp_directory_path() / "driftc_onnx_test") {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_ / "model");
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return (path_ / name).string();
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::string external(const std::string& location, const std::string& offset = "",
                     const std::string& length = "") {
  return tensor_proto("w", {64}, kOnnxFloat, [&](auto& w) {
    const auto entry = [&](const char* key, const std::string& value) {
      std::string e;
      protozero::pbf_writer(e).add_string(1, key);
      protozero::pbf_writer(e).add_string(2, value);
      w.add_message(13, e);
    };
    entry("location", location);
    if (!offset.empty()) entry("offset", offset);
    if (!length.empty()) entry("length", length);
    w.add_enum(14, 1);
  });
}
std::string external_model(const std::string& tensor) {
  return OnnxWriter(13).initializer(tensor).node("Relu", {"w"}, {"y"}).output("y").bytes();
}

}  // namespace

TEST_CASE("onnx hostile: what is no model") {
  const auto error = [](std::string_view bytes) {
    auto graph = import_onnx_bytes(bytes, "net.onnx");
    return graph.ok() ? std::string("(accepted)") : graph.error().render();
  };
  CHECK(error("") == "net.onnx: error: the file holds no graph\n  hint: is it an ONNX model?\n");
  CHECK(says(error("#include <cstdio>\nint main() {}\n"), "net.onnx: error: "));
  CHECK(error(std::string_view("\x3a\xff\xff\xff\x0f", 5)) ==
        "net.onnx: error: malformed protobuf in the model\n"
        "  hint: the file is damaged, incomplete, or not an ONNX model\n");
  CHECK(says(error_of(relu(5)), "operator set 5 is not supported\n  hint: 6 to 21 are"));
  CHECK(says(error_of(relu(22)), "operator set 22 is not supported"));
  CHECK(says(error_of(relu(13, 2)), "IR version 2 is not supported"));
  CHECK(says(error_of(OnnxWriter(13).input("x", {1})), "the graph has no outputs"));
  auto missing = import_onnx("/nonexistent/net.onnx");
  REQUIRE(!missing.ok());
  CHECK(missing.error().render() ==
        "/nonexistent/net.onnx: error: cannot open: No such file or directory\n");
  CHECK(!import_onnx("/dev/zero").ok());
  CHECK(!import_onnx("/tmp").ok());
}

TEST_CASE("onnx hostile: names") {
  auto twice = OnnxWriter(13)
                   .input("x", {1})
                   .node("Relu", {"x"}, {"y"})
                   .node("Relu", {"x"}, {"y"})
                   .output("y");
  CHECK(
      error_of(twice) ==
      "net.onnx: error: node 'Relu_1' (Relu) makes 'y', but node 'Relu_0' (Relu) makes it already\n"
      "  hint: every tensor name may be defined once\n");
  CHECK(says(error_of(OnnxWriter(13).input("x", {1}).node("Relu", {"x"}, {"x"}).output("x")),
             "makes 'x', but an input or initializer has that name already"));
  CHECK(says(error_of(OnnxWriter(13).input("x", {1}).input("x", {1}).output("x")),
             "two graph inputs are called 'x'"));
  CHECK(says(error_of(OnnxWriter(13).floats("w", {1}, {1}).floats("w", {1}, {1}).output("w")),
             "two initializers are called 'w'"));
  CHECK(error_of(OnnxWriter(13).input("image", {1}).node("Relu", {"imege"}, {"y"}).output("y")) ==
        "net.onnx: error: node 'Relu_0' (Relu) reads 'imege', which nothing provides\n"
        "  hint: did you mean 'image'?\n");
  CHECK(says(error_of(OnnxWriter(13).input("x", {1}).output("y")),
             "the graph returns 'y', which nothing provides"));
  CHECK(says(error_of(OnnxWriter(13).input("x", {1}).output("x").output("x")),
             "output 'x' is listed twice"));
  CHECK(says(
      error_of(
          OnnxWriter(13).input("x", {1}).node("Relu", {"x"}, {"\xff\xfey"}).output("\xff\xfey")),
      "the name of a value is not UTF-8: '\\xff\\xfey'"));
  CHECK(says(error_of(OnnxWriter(13).input(std::string(5000, 'a'), {1}).output("x")),
             "allowed are 4096"));
  // Terminal escapes in a name are shown, not sent.
  CHECK(says(error_of(OnnxWriter(13).input("x", {1}).node("Re\x1b[31m", {"x"}, {"y"}).output("y")),
             "'Re\\x1b[31m'"));
}

TEST_CASE("onnx hostile: order and cycles") {
  auto unsorted = OnnxWriter(13)
                      .input("x", {2})
                      .node("Relu", {"a"}, {"y"})
                      .node("Relu", {"x"}, {"a"})
                      .output("y");
  auto graph = import(unsorted);
  REQUIRE(graph.ok());
  CHECK(graph->node_count() == 2);
  CHECK(graph->name_of({0}) == "a");
  auto cycle = OnnxWriter(13)
                   .input("x", {2})
                   .node("Add", {"x", "b"}, {"a"})
                   .node("Relu", {"a"}, {"b"})
                   .node("Relu", {"b"}, {"y"})
                   .output("y");
  CHECK(error_of(cycle) ==
        "net.onnx: error: the graph has a cycle of 2 node(s) through node 'Add_0' (Add)\n"
        "  note: node 'Add_0' (Add) reads from node 'Relu_1' (Relu)\n"
        "  note: node 'Relu_1' (Relu) reads from node 'Add_0' (Add)\n"
        "  hint: an ONNX graph must be acyclic\n");
  auto self = OnnxWriter(13).input("x", {2}).node("Add", {"x", "y"}, {"y"}).output("y");
  CHECK(says(error_of(self), "a cycle of 1 node(s) through node 'Add_0'"));
}

TEST_CASE("onnx hostile: operators that do not exist here") {
  auto unknown = OnnxWriter(13)
                     .input("x", {1})
                     .node("NonMaxSuppression", {"x"}, {"a"})
                     .node("Einsum", {"a"}, {"y"})
                     .output("y");
  CHECK(error_of(unknown) ==
        "net.onnx: error: node 'NonMaxSuppression_0' (NonMaxSuppression): operator "
        "'NonMaxSuppression' is "
        "not supported\n  note: not supported: 'Einsum', 1 node(s)\n"
        "  note: not supported: 'NonMaxSuppression', 1 node(s)\n");
  CHECK(says(error_of(OnnxWriter(13).input("x", {1}).node("Rulu", {"x"}, {"y"}).output("y")),
             "hint: did you mean 'Relu'?"));
  CHECK(says(error_of(OnnxWriter(13)
                          .input("x", {1})
                          .node("Relu", {"x"}, {"y"}, {}, "com.microsoft")
                          .output("y")),
             "operator domain 'com.microsoft' is not supported"));
  CHECK(says(error_of(OnnxWriter(13).input("x", {1}).node("If", {"x"}, {"y"}).output("y")),
             "sub-graphs are not supported"));
  // A node no output needs does not matter.
  auto dead = OnnxWriter(13)
                  .input("x", {1})
                  .node("Einsum", {"x"}, {"z"})
                  .node("Relu", {"x"}, {"y"})
                  .output("y");
  CHECK(error_of(dead) == "(accepted)");
  // A sub-graph, however deep, is noticed and not entered.
  std::string nested;
  for (int i = 0; i < 10'000; ++i) {
    std::string a, n, g;
    protozero::pbf_writer(a).add_string(1, "g");
    protozero::pbf_writer(a).add_message(6, nested.size() < 50'000 ? nested : std::string());
    protozero::pbf_writer(n).add_message(5, a);
    protozero::pbf_writer(g).add_message(1, n);
    nested = g;
  }
  std::string attribute;
  protozero::pbf_writer(attribute).add_string(1, "body");
  protozero::pbf_writer(attribute).add_message(6, nested);
  CHECK(says(
      error_of(OnnxWriter(13).input("x", {1}).node("Relu", {"x"}, {"y"}, {attribute}).output("y")),
      "attribute 'body' holds a sub-graph"));
}

TEST_CASE("onnx hostile: sizes are checked before memory is taken") {
  const auto with = [](const std::string& tensor) {
    return OnnxWriter(13).initializer(tensor).node("Relu", {"w"}, {"y"}).output("y");
  };
  CHECK(error_of(with(raw_tensor<float>("w", {1 << 20, 1 << 15}, kOnnxFloat, {1}))) ==
        "net.onnx: error: initializer 'w': shape [1048576,32768] of float32 needs 137438953472 "
        "bytes, the "
        "file holds 4\n");
  CHECK(says(error_of(with(raw_tensor<float>("w", {INT64_MAX, INT64_MAX}, kOnnxFloat, {1}))),
             "more than 2^40 elements"));
  CHECK(says(error_of(with(raw_tensor<float>("w", {-1}, kOnnxFloat, {1}))),
             "shape [-1] is negative"));
  CHECK(says(
      error_of(with(tensor_proto("w", {1 << 30}, kOnnxFloat, [](auto& w) { w.add_float(4, 1); }))),
      "shape [1073741824] needs 1073741824 elements, the file holds 1"));
  CHECK(says(
      error_of(with(tensor_proto("w", {1 << 30}, kOnnxInt32, [](auto& w) { w.add_int32(5, 1); }))),
      "needs 1073741824 elements, the file holds 1"));
  CHECK(says(error_of(with(tensor_proto("w", Ints(33, 1), kOnnxFloat, [](auto&) {}))),
             "more than 32 axes"));
  CHECK(says(error_of(with(raw_tensor<float>("w", {1}, 8, {1}))),
             "element type string is not supported"));
  CHECK(says(error_of(with(raw_tensor<float>("w", {1}, 99, {1}))),
             "element type type 99 is not supported"));
  CHECK(says(error_of(with(int_tensor("w", {1}, {1}))),
             "input 0 'w' is int64; driftc computes on float32"));
  CHECK(says(
      error_of(
          OnnxWriter(13).input("x", {1 << 20, 1 << 20, 1}).node("Relu", {"x"}, {"y"}).output("y")),
      "(accepted)"));
  CHECK(says(
      error_of(
          OnnxWriter(13).input("x", {1 << 21, 1 << 20, 1}).node("Relu", {"x"}, {"y"}).output("y")),
      "input 'x' has shape [2097152,1048576,1]: more than 2^40 elements"));
  // Shapes that overflow only when multiplied out.
  auto outer = OnnxWriter(13)
                   .input("a", {1 << 20, 1})
                   .input("b", {1, 1 << 21})
                   .node("Add", {"a", "b"}, {"y"})
                   .output("y");
  CHECK(says(error_of(outer), "node 'Add_0' (Add): 'add' result of more than 2^40 elements"));

  OnnxWriter many(13);
  many.input("x", {1});
  std::string bytes = many.bytes();
  std::string graph;
  for (int i = 0; i < 200'001; ++i) protozero::pbf_writer(graph).add_message(1, std::string());
  std::string model;
  protozero::pbf_writer(model).add_message(7, graph);
  auto refused = import_onnx_bytes(model, "net.onnx");
  REQUIRE(!refused.ok());
  CHECK(refused.error().message == "more than 200000 nodes");
}

TEST_CASE("onnx hostile: shape arithmetic has a budget") {
  // A file of a few kilobytes that asks for a million elements at each of a hundred nodes.
  OnnxWriter bomb(13);
  bomb.input("x", {4})
      .ints("n", {1 << 20})
      .node("ConstantOfShape", {"n"}, {"v0"}, {attr_tensor("value", int_tensor("", {1}, {1}))});
  for (int i = 0; i < 100; ++i)
    bomb.node("Add", {"v" + std::to_string(i), "v" + std::to_string(i)},
              {"v" + std::to_string(i + 1)});
  bomb.node("Reshape", {"x", "v100"}, {"y"}).output("y");
  CHECK(says(error_of(bomb), "shape arithmetic on more than 2^24 elements in the whole model"));
  // A float fill of 2^40 elements is a recipe, not memory, whatever its type.
  auto fill = OnnxWriter(13)
                  .input("x", {1})
                  .ints("n", {1 << 20, 1 << 20})
                  .node("ConstantOfShape", {"n"}, {"v"},
                        {attr_tensor("value", raw_tensor<double>("", {1}, kOnnxDouble, {0.1}))});
  CHECK(says(error_of(fill.node("Mul", {"x", "v"}, {"y"}).output("y")), "(accepted)"));
}

TEST_CASE("onnx hostile: external data stays in the model's folder") {
  const TempFolder folder;
  std::vector<float> values(80);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const std::string data(reinterpret_cast<const char*>(values.data()), 4 * values.size());
  folder.file("outside.bin", data);
  folder.file("model/weights.bin", data);
  std::filesystem::create_symlink(folder.path() / "outside.bin", folder.path() / "model/link.bin");
  const auto load = [&](const std::string& tensor) {
    return import_onnx(folder.file("model/net.onnx", external_model(tensor)));
  };
  const auto error = [&](const std::string& tensor) {
    auto graph = load(tensor);
    return graph.ok() ? std::string("(accepted)") : graph.error().message;
  };
  auto good = load(external("weights.bin", "16", "256"));
  REQUIRE_MESSAGE(good.ok(), good.error().render());
  const ir::Literal& literal = *good->nodes()[0].literal;
  CHECK(literal.origin() == ir::Literal::Origin::kFile);
  CHECK(literal.offset() == 16);
  CHECK(literal.name() == (folder.path() / "model/weights.bin").string());
  CHECK(literal.tensor().data<float>()[0] == 4);

  CHECK(says(
      error(external("../outside.bin")),
      "initializer 'w': external data '../outside.bin' is refused: the path leaves the folder"));
  CHECK(says(error(external((folder.path() / "model/weights.bin").string())),
             "the path is absolute"));
  CHECK(says(error(external("link.bin")), "a link leads out of the folder"));
  CHECK(says(error(external("none.bin")), "cannot be opened"));
  CHECK(says(error(external("")), "no location is given"));
  CHECK(says(error(external(".")), "not a regular file"));
  CHECK(
      says(error(external("weights.bin", "100")), "256 bytes at offset 100 exceed its 320 bytes"));
  CHECK(says(error(external("weights.bin", "18446744073709551615")), "exceed its 320 bytes"));
  CHECK(says(error(external("weights.bin", "x")), "'offset' is 'x', not a number"));
  CHECK(says(error(external("weights.bin", "0", "12")), "has length 12, the shape needs 256"));
  auto in_memory = import_onnx_bytes(external_model(external("weights.bin")), "net.onnx");
  REQUIRE(!in_memory.ok());
  CHECK(says(in_memory.error().message, "external data needs a model that is a file"));
}
