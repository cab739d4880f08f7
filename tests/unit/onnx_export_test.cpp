// What export writes, import reads back as the same graph.
#include <doctest/doctest.h>

#include "frontend/onnx/export.h"
#include "frontend/onnx/onnx.h"
#include "frontend/zoo/zoo.h"
#include "ir/verifier.h"
#include "tests/support/services.h"

using namespace driftc;

namespace {

std::string exported(const ir::Graph& graph) {
  auto bytes = frontend::onnx::export_onnx(graph);
  REQUIRE_MESSAGE(bytes.ok(), bytes.error().render());
  return std::move(*bytes);
}
ir::Graph reread(const ir::Graph& graph) {
  auto back = frontend::onnx::import_onnx_bytes(exported(graph), "back.onnx");
  REQUIRE_MESSAGE(back.ok(), back.error().render());
  return std::move(*back);
}

// Every value of `graph` that is no constant is in `back`: made by the same op from operands of the
// same names with the same attributes; constants have the same bits.
void check_same(const ir::Graph& graph, const ir::Graph& back) {
  CHECK(ir::verify(back).empty());
  for (const ir::Node& node : graph.nodes()) {
    const std::string& name = graph.value(node.result).name;
    CAPTURE(name);
    const auto id = back.find(name);
    REQUIRE(id);
    CHECK(back.value(*id).type == graph.value(node.result).type);
    const ir::Node& other = *back.producer(*id);
    REQUIRE(other.op == node.op);
    if (node.op == ir::Op::kConstant) {
      CHECK(other.literal->hash() == node.literal->hash());
      continue;
    }
    if (node.op == ir::Op::kSoftmax) {  // import counts the axis from the front
      const auto rank = static_cast<std::int64_t>(graph.value(node.result).type.shape.rank());
      CHECK((other.integer("axis") - node.integer("axis")) % rank == 0);
    } else {
      CHECK(other.attributes == node.attributes);
    }
    REQUIRE(other.operands.size() == node.operands.size());
    for (std::size_t i = 0; i < node.operands.size(); ++i)
      CHECK(back.value(other.operands[i]).name == graph.value(node.operands[i]).name);
  }
  REQUIRE(back.outputs().size() == graph.outputs().size());
  for (std::size_t i = 0; i < graph.outputs().size(); ++i)
    CHECK(back.value(back.outputs()[i]).name == graph.value(graph.outputs()[i]).name);
}

}  // namespace

TEST_CASE("onnx export: every zoo model imports again as the same graph") {
  for (const frontend::zoo::ZooEntry& entry : frontend::zoo::zoo_names()) {
    CAPTURE(entry.name);
    const ir::Graph graph = tests::zoo(entry.name);
    check_same(graph, reread(graph));
  }
}

TEST_CASE("onnx export: every op with attributes keeps them") {
  const ir::Graph graph = tests::parse(R"(gir 1
graph @all(%x: f32[1,4,6,6], %m: f32[3,4], %n: f32[2,5,3]) {
  %w = constant f32[4,2,3,2] random(seed=1, he)
  %b = constant f32[4] splat(0x1p-1)
  %cc = constant f32[4] splat(0x1p0)
  %c = conv2d %x, %w, %b {stride=[2,1], pad=[1,0,2,1], dilation=[1,2], groups=2} : f32[1,4,4,5]
  %p = max_pool %c {kernel=[2,2], stride=[1,2], pad=[1,0,0,1], dilation=[1,1], ceil_mode=1} : f32[1,4,4,3]
  %a = avg_pool %p {kernel=[2,2], stride=[1,1], pad=[0,1,1,0], ceil_mode=0, count_include_pad=1} : f32[1,4,4,3]
  %bn = batch_norm %a, %b, %b, %b, %b {epsilon=0x1p-10} : f32[1,4,4,3]
  %cl = clip %bn {min=-inf, max=0x1p2} : f32[1,4,4,3]
  %s = slice %cl {starts=[0,3,1,0], steps=[1,-2,1,1], sizes=[1,2,2,3]} : f32[1,2,2,3]
  %pd = pad %s {before=[0,0,1,-1], after=[0,0,0,2], value=0x1p-1} : f32[1,2,3,4]
  %t = transpose %pd {perm=[0,2,3,1]} : f32[1,3,4,2]
  %k = concat %t, %t {axis=2} : f32[1,3,8,2]
  %f = flatten %k {axis=2} : f32[3,16]
  %r = reshape %f {shape=[4,12]} : f32[4,12]
  %g = gemm %m, %r {alpha=0x1p-1, beta=0x1p1, trans_a=0, trans_b=0} : f32[3,12]
  %h = gemm %g, %r, %cc {alpha=0x1p0, beta=0x1p1, trans_a=0, trans_b=1} : f32[3,4]
  %e = softmax %h {axis=0} : f32[3,4]
  %mm = matmul %n, %e : f32[2,5,4]
  %i = identity %mm : f32[2,5,4]
  %y = relu %i : f32[2,5,4]
  return %y, %cl
}
)");
  check_same(graph, reread(graph));
}

TEST_CASE("onnx export: what has no ONNX form is refused by name") {
  const ir::Graph folded = tests::parse(R"(gir 1
graph @f(%x: f32[1,2,3,3]) {
  %w = constant f32[2,2,1,1] random(seed=1, he)
  %c = conv1x1_matmul %x, %w : f32[1,2,3,3]
  return %c
}
)");
  auto bytes = frontend::onnx::export_onnx(folded);
  REQUIRE(!bytes.ok());
  CHECK(bytes.error().message == "'c' (conv1x1_matmul) has no ONNX form");
}
