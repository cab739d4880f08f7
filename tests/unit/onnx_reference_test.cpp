// Imported models, run by the interpreter, against the float64 references beside them
// (../shared/models). With the references' own order in f64 everything without exp must agree in
// every bit, which checks importer and interpreter at once; in f32 the project's bound is max|y -
// ref| / max|ref| <= 2e-5.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "frontend/npy/npy.h"
#include "frontend/onnx/onnx.h"
#include "runtime/eager/region.h"

using namespace driftc;

namespace {

const std::string kShared = DRIFTC_SOURCE_DIR "/../shared/models/";

// Recipes with the references' arithmetic: products added one at a time, multiply and add rounded
// apart.
std::vector<runtime::Recipe> reference_recipes(const ir::Graph& graph) {
  std::vector<runtime::Recipe> recipes = runtime::eager_recipes(graph);
  for (std::size_t i = 0; i < recipes.size(); ++i) {
    const ir::Node& node = graph.nodes()[i];
    const char* order = nullptr;
    if (node.op == ir::Op::kConv2d)
      order = node.operands.size() == 3 ? "crs.muladd+bias.last" : "crs.muladd";
    if (node.op == ir::Op::kGemm)
      order = node.operands.size() == 3 ? "k.muladd+bias.stored" : "k.muladd";
    if (node.op == ir::Op::kMatmul) order = "k.muladd";
    if (order != nullptr)
      recipes[i].contract = runtime::eager_contract(node, *ir::parse_order(order));
  }
  return recipes;
}

// The references divide by sqrt(var + epsilon); driftc's batch_norm (like PyTorch's) multiplies by
// the reciprocal. This writes the references' form out of sub, div, mul and add, with the root
// taken in f64, so that the comparison can be bit for bit. The values are typed f32 as in the
// graph; the f64 arm widens them.
ir::Graph with_divided_batch_norm(const ir::Graph& graph) {
  ir::Rewriter rewriter(graph);
  ir::Graph& out = rewriter.graph();
  for (std::uint32_t n = 0; n < graph.node_count(); ++n) {
    const ir::Node& node = graph.node({n});
    if (node.op != ir::Op::kBatchNorm) {
      rewriter.copy({n});
      continue;
    }
    const std::string& name = graph.value(node.result).name;
    const ir::TensorType& type = graph.value(node.result).type;
    const auto parameter = [&](std::size_t i, const char* suffix) {
      ir::Tensor t = graph.producer(node.operands[i])->literal->tensor().converted(ir::DType::kF64);
      std::vector<double> values(t.data<double>().begin(), t.data<double>().end());
      if (i == 4)
        for (double& v : values) v = std::sqrt(v + node.number("epsilon"));
      ir::Shape shape(std::vector<std::int64_t>(type.shape.rank(), 1));
      shape[1] = t.elements();
      return out.add_constant(name + suffix,
                              ir::Literal::dense(ir::Tensor::of<double>(shape, values)));
    };
    ir::ValueId v = rewriter.mapped(node.operands[0]);
    const auto step = [&](ir::Op op, ir::ValueId by, const char* suffix) {
      ir::Node next;
      next.op = op;
      next.operands = {v, by};
      v = out.node(out.add_node(std::move(next), name + suffix, type)).result;
    };
    step(ir::Op::kSub, parameter(3, ".mean64"), ".centred");
    step(ir::Op::kDiv, parameter(4, ".root64"), ".scaled");
    step(ir::Op::kMul, parameter(1, ".scale64"), ".product");
    step(ir::Op::kAdd, parameter(2, ".shift64"), "");
    rewriter.replace(node.result, v);
  }
  return rewriter.finish();
}

struct Extent {
  ir::Shape shape;
  double min, max;
};
struct Run {
  std::vector<ir::Tensor> outputs;
  std::map<std::string, Extent> values;  // of every node, by name
};

Run run(const ir::Graph& graph, std::vector<runtime::Recipe> recipes, const ir::Tensor& input,
        ir::DType arm) {
  runtime::ThreadPool pool(2);
  runtime::Evaluator evaluator(graph, std::move(recipes), {.pool = pool}, arm);
  Run out;
  out.outputs.resize(graph.outputs().size());
  const ir::Tensor inputs[] = {input.converted(arm)};
  runtime::run_values(evaluator, inputs, runtime::all_results(graph),
                      [&](ir::ValueId id, const ir::Tensor& t) {
                        const ir::Tensor wide = t.converted(ir::DType::kF64);
                        const auto [min, max] = std::ranges::minmax(wide.data<double>());
                        out.values[graph.value(id).name] = {t.shape(), min, max};
                        for (std::size_t i = 0; i < out.outputs.size(); ++i)
                          if (graph.outputs()[i] == id) out.outputs[i] = t;
                      });
  return out;
}

// Every tensor of `file` (layers.json) that is a value of the graph: shape, minimum, maximum.
void check_layers(const std::string& file, const Run& f64) {
  std::ifstream stream(file);
  const auto json = nlohmann::json::parse(stream);
  std::size_t compared = 0;
  for (const auto& layer : json["tensors"]) {
    const auto found = f64.values.find(layer["tensor"].get<std::string>());
    if (found == f64.values.end()) continue;  // a constant, folded while importing
    CAPTURE(found->first);
    CHECK(found->second.shape == ir::Shape(layer["shape"].get<std::vector<std::int64_t>>()));
    const double scale = layer["max_abs"].get<double>();
    CHECK(std::abs(found->second.min - layer["min"].get<double>()) <= 1e-15 * scale);
    CHECK(std::abs(found->second.max - layer["max"].get<double>()) <= 1e-15 * scale);
    ++compared;
  }
  CHECK(compared >= json["tensors"].size() / 2);
}

// max|y - ref| / max|ref|; NaN when either holds one.
double distance(const ir::Tensor& y, const ir::Tensor& reference) {
  const ir::Tensor wide = y.converted(ir::DType::kF64);
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(wide.elements()); ++i) {
    const double r = reference.data<double>()[i];
    worst = std::max(worst, std::abs(wide.data<double>()[i] - r));
    largest = std::max(largest, std::abs(r));
    if (std::isnan(wide.data<double>()[i])) return std::nan("");
  }
  return worst / largest;
}

struct Model {
  std::string name;
  std::vector<std::string> exact;  // "" = first output: no exp on the way to it
  std::vector<std::string> close;
  bool in_f64 = true;
};

}  // namespace

TEST_CASE("onnx: shared models meet their float64 references") {
  if (!std::filesystem::exists(kShared)) {
    MESSAGE("skipped: ../shared/models is missing");
    return;
  }
  const std::vector<Model> models = {{"resnet20-cifar10", {""}, {}},
                                     {"resnet20-cifar10-dyn", {""}, {}},
                                     {"resnet56-cifar10", {""}, {}},
                                     {"resnet56-cifar10-dyn", {""}, {}},
                                     {"mnist", {""}, {}},
                                     {"resnet8-mlperf-tiny", {}, {""}},
                                     {"rfb-320-simplified", {"boxes"}, {""}},
                                     {"squeezenet-fp16", {}, {""}},
                                     {"light_squeezenet", {}, {""}},
                                     {"light_densenet121", {""}, {}},
                                     {"light_shufflenet", {}, {""}},
                                     {"light_resnet50", {}, {""}},
                                     // 143 million weights: a gigabyte in f64.
                                     {"light_vgg19", {}, {""}, false}};
  for (const Model& model : models) {
    CAPTURE(model.name);
    auto input = frontend::npy::read_npy(kShared + model.name + ".input.npy");
    REQUIRE(input.ok());
    auto info = frontend::onnx::inspect_onnx(kShared + model.name + ".onnx");
    REQUIRE(info.ok());
    auto graph = frontend::onnx::import_onnx(
        kShared + model.name + ".onnx",
        {.input_shapes = {{info->inputs[0].name, input->shape()}}, .batch = {}});
    REQUIRE_MESSAGE(graph.ok(), graph.error().render());
    const ir::Graph divided = with_divided_batch_norm(*graph);
    const Run f64 =
        model.in_f64 ? run(divided, reference_recipes(divided), *input, ir::DType::kF64) : Run();
    const std::string layers = kShared + model.name + ".layers.json";
    if (model.in_f64 && std::filesystem::exists(layers)) check_layers(layers, f64);
    const Run f32 = run(*graph, runtime::eager_recipes(*graph), *input, ir::DType::kF32);
    const auto check = [&](const std::string& output, bool exact) {
      CAPTURE(output);
      const std::string file = output.empty() ? "" : "." + output;
      auto reference = frontend::npy::read_npy(kShared + model.name + file + ".ref64.npy");
      REQUIRE(reference.ok());
      std::size_t index = 0;
      if (!output.empty())
        while (graph->value(graph->outputs()[index]).name != output) ++index;
      REQUIRE(f32.outputs[index].shape() == reference->shape());
      CHECK(distance(f32.outputs[index], *reference) <= 2e-5);
      if (!model.in_f64) return;
      if (exact)
        CHECK(ir::same_bits(f64.outputs[index], *reference));
      else
        CHECK(distance(f64.outputs[index], *reference) <= 1e-15);
    };
    for (const std::string& output : model.exact) check(output, true);
    for (const std::string& output : model.close) check(output, false);
  }
}
