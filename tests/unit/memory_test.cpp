// How long values live (docs/performance.md, "Memory"): an arm holds the weights and what later
// nodes still read, whatever the depth of the network. Counted in bytes of tensors
// (ir/support/tensor_memory.h), not in pages of the process.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "ir/support/tensor_memory.h"
#include "tests/support/services.h"

using namespace driftc;
using runtime::study::Arm;

namespace {

// zoo:residual-block with `count` convolutions, batch norms and ReLUs in front of its last
// convolution instead of one; the addition of the input, which closes it, keeps that alive over all
// of them. Its kernels are those of the block itself.
ir::Graph chain(int count) {
  const ir::Graph block = tests::zoo("residual-block");
  ir::Graph out("chain");
  std::map<std::string, ir::ValueId> now;
  const ir::Value& input = block.value(block.inputs()[0]);
  now[input.name] = out.add_input(input.name, input.type);
  // Copies node `of` of the block; "relu1" is the end of what is there so far.
  auto copy = [&](const std::string& of, const std::string& name) {
    ir::Node node = *block.producer(*block.find(of));
    const ir::TensorType type = block.value(node.result).type;
    for (ir::ValueId& operand : node.operands) operand = now.at(block.value(operand).name);
    const ir::NodeId id = out.add_node(std::move(node), name, type);
    now[of] = out.node(id).result;
  };
  for (const ir::Node& node : block.nodes()) {
    const std::string& name = block.value(node.result).name;
    copy(name, name);
    if (name != "conv2.weight") continue;
    for (int n = 1; n < count; ++n) {
      copy("conv2", fmt::format("conv.{}", n));
      now["conv1"] = now["conv2"];
      copy("bn1", fmt::format("bn.{}", n));
      copy("relu1", fmt::format("relu.{}", n));
    }
  }
  out.set_outputs({now.at("relu2")});
  return out;
}

std::size_t bytes_of(const ir::TensorType& type) {
  return static_cast<std::size_t>(type.shape.elements()) * ir::byte_size(type.dtype);
}

// The largest sum, over the nodes in order, of what a node reads and writes and what later nodes
// will read; weights apart.
struct Needs {
  std::size_t weights = 0, activations = 0;
};
Needs needs_of(const ir::Graph& graph) {
  Needs needs;
  std::vector<std::size_t> last(graph.value_count(), 0);
  for (std::size_t i = 0; i < graph.node_count(); ++i)
    for (ir::ValueId v : graph.nodes()[i].operands) last[v.index] = i;
  for (ir::ValueId v : graph.outputs()) last[v.index] = graph.node_count();
  std::size_t live = 0;
  for (ir::ValueId v : graph.inputs()) live += bytes_of(graph.value(v).type);
  for (std::size_t i = 0; i < graph.node_count(); ++i) {
    const ir::Node& node = graph.nodes()[i];
    const std::size_t result = bytes_of(graph.value(node.result).type);
    if (node.op == ir::Op::kConstant) {
      needs.weights += result;
      continue;
    }
    live += result;
    needs.activations = std::max(needs.activations, live);
    std::vector<ir::ValueId> dying = node.operands;
    std::sort(dying.begin(), dying.end(),
              [](ir::ValueId a, ir::ValueId b) { return a.index < b.index; });
    dying.erase(std::unique(dying.begin(), dying.end(),
                            [](ir::ValueId a, ir::ValueId b) { return a.index == b.index; }),
                dying.end());
    for (ir::ValueId v : dying)
      if (last[v.index] == i && !graph.is_constant(v)) live -= bytes_of(graph.value(v).type);
  }
  return needs;
}

// Most bytes of tensors that an arm held at once beyond the weights of the graph, which live in it.
std::size_t peak_of(const ir::Graph& graph, Arm arm) {
  const auto inputs = tests::random_inputs(graph, 0);
  for (const ir::Node& node : graph.nodes())
    if (node.literal) (void)node.literal->tensor();
  const std::size_t before = TensorMemory::live();
  TensorMemory::restart_peak();
  auto outputs =
      runtime::study::run_arm(graph, inputs, arm, tests::settings("default"), tests::services());
  REQUIRE(outputs.ok());
  return TensorMemory::peak() - before;
}

const char* name_of(Arm arm) {
  return arm == Arm::kEager ? "eager" : arm == Arm::kCompiled ? "compiled" : "reference";
}

}  // namespace

TEST_CASE("memory: tensors are counted while they live") {
  const std::size_t before = TensorMemory::live();
  {
    const ir::Tensor one(ir::DType::kF32, {1000});
    const ir::Tensor same = one.reshaped({10, 100});
    CHECK(TensorMemory::live() - before == 4032);  // in whole cache lines
    const runtime::DeviceTensor buffer = runtime::upload(one, ir::Layout::kNchw);
    CHECK(TensorMemory::live() - before == 4032 + 4096);
    CHECK(TensorMemory::peak() >= before + 4032 + 4096);
  }
  CHECK(TensorMemory::live() == before);
}

TEST_CASE("memory: a deep chain needs less than three times its largest set of activations") {
  const ir::Graph deep = chain(16), shallow = chain(4);
  const Needs needs = needs_of(deep);
  CHECK(needs.activations == needs_of(shallow).activations);
  for (const Arm arm : {Arm::kEager, Arm::kCompiled, Arm::kReference}) {
    if (arm == Arm::kCompiled && !tests::kernels_available("memory of the compiled arm")) continue;
    const std::string name = name_of(arm);
    CAPTURE(name);
    const std::size_t wide = arm == Arm::kReference ? 2 : 1;  // f64
    const std::size_t peak = peak_of(deep, arm);
    CHECK(peak <= 3 * wide * needs.activations);
    CHECK(peak == peak_of(shallow, arm));
  }
}

TEST_CASE("memory: zoo:resnet50 in eager needs less than three times its largest set") {
  const ir::Graph graph = tests::zoo("resnet50");
  const Needs needs = needs_of(graph);
  const std::size_t peak = peak_of(graph, Arm::kEager);
  MESSAGE("peak ", peak, " bytes, weights ", needs.weights, ", set ", needs.activations);
  CHECK(peak <= 3 * needs.activations);
}

TEST_SUITE("soak") {
  TEST_CASE("soak: zoo:resnet50 in every arm needs its weights and three times its largest set" *
            doctest::skip()) {
    if (!tests::kernels_available("memory of zoo:resnet50")) return;
    const ir::Graph graph = tests::zoo("resnet50");
    const Needs needs = needs_of(graph);
    for (const Arm arm : {Arm::kEager, Arm::kCompiled, Arm::kReference}) {
      const std::string name = name_of(arm);
      CAPTURE(name);
      const std::size_t wide = arm == Arm::kReference ? 2 : 1;
      const std::size_t peak = peak_of(graph, arm);
      MESSAGE(name, ": peak ", peak, " bytes beyond the weights' ", needs.weights, ", set ",
              needs.activations);
      CHECK(peak <= 3 * wide * needs.activations);
    }
  }
}
