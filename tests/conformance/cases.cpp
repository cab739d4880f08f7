#include "tests/conformance/cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>
#include <set>

#include "frontend/onnx/onnx.h"
#include "frontend/onnx/proto.h"
#include "frontend/onnx/tensor_data.h"

namespace driftc::conformance {
namespace {

namespace fs = std::filesystem;
namespace onnx = frontend::onnx;

// Float operands that import reads as numbers.
struct ConstantOperand {
  std::string_view op;
  std::size_t operand;
};
constexpr std::array kConstantOperands = {
    ConstantOperand{"Clip", 1},   ConstantOperand{"Clip", 2},   ConstantOperand{"Pad", 2},
    ConstantOperand{"Resize", 1}, ConstantOperand{"Resize", 2}, ConstantOperand{"Upsample", 1},
    ConstantOperand{"Dropout", 1}};

// Operators that import computes on shapes and constants only.
constexpr std::array<std::string_view, 13> kShapeArithmetic = {
    "Ceil", "Equal",       "Expand", "Floor",      "Gather", "Greater", "GreaterOrEqual",
    "Less", "LessOrEqual", "Range",  "ReduceProd", "Where",  "Not"};
constexpr std::array<std::string_view, 6> kSpatial = {"AveragePool",   "Conv",   "ConvTranspose",
                                                      "GlobalMaxPool", "LpPool", "MaxPool"};

std::string file_bytes(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

bool contains(const auto& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

struct Parsed {
  std::string bytes;
  onnx::ModelProto model;
  std::vector<onnx::ValueInfoProto> inputs, outputs;  // inputs without those an initializer fills
};

Result<Parsed> parse(const fs::path& path) {
  Parsed p;
  p.bytes = file_bytes(path);
  DRIFTC_TRY(model, onnx::decode_model(p.bytes));
  p.model = model;
  std::set<std::string_view> filled;
  for (const auto& tensor : p.model.graph->initializers) filled.insert(tensor.name);
  for (const auto& input : p.model.graph->inputs) {
    if (filled.contains(input.name)) continue;
    DRIFTC_TRY(info, onnx::decode_value_info(input.body));
    info.name = input.name;
    p.inputs.push_back(info);
  }
  for (const auto& output : p.model.graph->outputs) {
    DRIFTC_TRY(info, onnx::decode_value_info(output.body));
    info.name = output.name;
    p.outputs.push_back(info);
  }
  return p;
}

bool read_as_number(const onnx::GraphProto& graph, std::string_view name) {
  for (const auto& node : graph.nodes)
    for (const ConstantOperand& c : kConstantOperands)
      if (node.op_type == c.op && node.inputs.size() > c.operand && node.inputs[c.operand] == name)
        return true;
  return false;
}

std::string attribute_reason(const onnx::NodeProto& node) {
  auto attributes = onnx::decode_attributes(node);
  if (!attributes.ok()) return "";
  for (const auto& a : *attributes) {
    const std::string_view word = a.s.value_or("");
    if (node.op_type == "Resize" && a.name == "mode" && word == "cubic")
      return "cubic interpolation";
    if (node.op_type == "Resize" && word == "tf_crop_and_resize") return "crop and resize";
    if (node.op_type == "Pad" && (word == "reflect" || word == "edge"))
      return fmt::format("{} padding", word);
    if (a.name == "training_mode" && a.i.value_or(0) != 0) return "training";
    if (a.has_graph) return "sub-graph";
  }
  return "";
}

std::string skip_reason(const Parsed& p) {
  const onnx::GraphProto& graph = *p.model.graph;
  const std::vector<std::string> known = onnx::supported_operators();
  for (const auto& node : graph.nodes) {
    if (!node.domain.empty() && node.domain != "ai.onnx")
      return fmt::format("domain {}", node.domain);
    if (!contains(known, node.op_type)) return fmt::format("operator {}", node.op_type);
  }
  if (p.model.opset.value_or(0) < 6)
    return fmt::format("operator set {}", p.model.opset.value_or(0));
  for (const auto& v : p.outputs) {
    if (!v.is_tensor) return "sequence or optional";
    const bool index = v.type == onnx::ElemType::kInt64 && graph.nodes.back().op_type == "ArgMax";
    if (v.type != onnx::ElemType::kFloat && !index)
      return fmt::format("{} result", onnx::name_of(v.type));
  }
  bool float_input = false;
  for (const auto& v : p.inputs) {
    if (!v.is_tensor) return "sequence or optional";
    if (v.type != onnx::ElemType::kFloat && !onnx::is_integer(v.type))
      return fmt::format("{} input", onnx::name_of(v.type));
    float_input = float_input || v.type == onnx::ElemType::kFloat;
  }
  for (const auto& node : graph.nodes) {
    if (contains(kShapeArithmetic, node.op_type) && float_input)
      return fmt::format("{} of activations", node.op_type);
    if (std::string reason = attribute_reason(node); !reason.empty()) return reason;
    if (node.op_type == "Dropout" && node.inputs.size() > 2 && !node.inputs[2].empty() &&
        p.inputs.size() > 2)
      return "training";
    if (contains(kSpatial, node.op_type) && !p.inputs.empty() && p.inputs[0].dims.size() > 4)
      return "three spatial dimensions";
  }
  return "";
}

Result<onnx::TensorProto> read_tensor(const std::string& bytes) {
  return onnx::decode_tensor(bytes);
}
Result<ir::Tensor> tensor_of(const std::string& bytes) {
  DRIFTC_TRY(proto, read_tensor(bytes));
  const onnx::ModelSource source{"tensor", bytes, nullptr};
  DRIFTC_TRY(constant, onnx::decode_constant(proto, source));
  return constant.literal.tensor();
}

// The model with one more initializer. Only `graph` (field 7) changes.
std::string with_initializer(const std::string& model, std::string_view name,
                             const std::string& tensor) {
  std::string named = tensor;
  protozero::pbf_writer(named).add_string(8, name.data(), name.size());
  std::string out;
  protozero::pbf_writer w(out);
  for (protozero::pbf_reader r(model); r.next();) {
    if (r.tag() == 7) {
      std::string graph(r.get_view());
      protozero::pbf_writer(graph).add_message(5, named);
      w.add_message(7, graph);
    } else if (r.wire_type() == protozero::pbf_wire_type::varint) {
      w.add_uint64(r.tag(), r.get_uint64());
    } else {
      const protozero::pbf_tag_type tag = r.tag();
      const auto view = r.get_view();
      w.add_bytes(tag, view.data(), view.size());
    }
  }
  return out;
}

Result<Case> load(const std::string& suite, const fs::path& folder) {
  Case c;
  c.suite = suite;
  c.name = folder.filename().string();
  DRIFTC_TRY(parsed, parse(folder / "model.onnx"));
  std::set<std::string> operators;
  for (const auto& node : parsed.model.graph->nodes) operators.emplace(node.op_type);
  c.operators.assign(operators.begin(), operators.end());
  c.skip = skip_reason(parsed);
  if (!c.skip.empty()) return c;
  c.model = parsed.bytes;
  const fs::path data = folder / "test_data_set_0";
  for (std::size_t i = 0; i < parsed.inputs.size(); ++i) {
    const onnx::ValueInfoProto& v = parsed.inputs[i];
    const std::string bytes = file_bytes(data / fmt::format("input_{}.pb", i));
    if (v.type != onnx::ElemType::kFloat || read_as_number(*parsed.model.graph, v.name)) {
      c.model = with_initializer(c.model, v.name, bytes);
      continue;
    }
    DRIFTC_TRY(tensor, tensor_of(bytes));
    c.inputs.push_back({std::string(v.name), tensor});
  }
  for (std::size_t i = 0; i < parsed.outputs.size(); ++i) {
    DRIFTC_TRY(tensor, tensor_of(file_bytes(data / fmt::format("output_{}.pb", i))));
    c.expected.push_back({std::string(parsed.outputs[i].name), tensor});
  }
  return c;
}

}  // namespace

bool installed() { return fs::exists(fs::path(kFolder) / "node"); }

Result<std::vector<Case>> all_cases() {
  std::vector<Case> cases;
  for (const char* suite : {"node", "pytorch-converted", "pytorch-operator", "simple"}) {
    std::vector<fs::path> folders;
    for (const auto& entry : fs::directory_iterator(fs::path(kFolder) / suite))
      if (entry.is_directory()) folders.push_back(entry.path());
    std::sort(folders.begin(), folders.end());
    for (const fs::path& folder : folders) {
      auto c = load(suite, folder);
      if (!c.ok()) return input_error(fmt::format("{}: {}", folder.string(), c.error().message));
      cases.push_back(std::move(*c));
    }
  }
  return cases;
}

}  // namespace driftc::conformance
