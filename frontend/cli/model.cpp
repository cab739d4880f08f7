#include "frontend/cli/model.h"

#include <fmt/format.h>

#include <filesystem>
#include <limits>

#include "frontend/cli/output.h"
#include "frontend/onnx/onnx.h"
#include "frontend/zoo/reseed.h"
#include "frontend/zoo/zoo.h"
#include "ir/parser.h"

namespace driftc::frontend {
namespace {

std::vector<InputDeclaration> declarations(const ir::Graph& graph) {
  std::vector<InputDeclaration> out;
  for (ir::ValueId id : graph.inputs()) {
    const ir::Value& value = graph.value(id);
    out.push_back({value.name, value.type.dtype, value.type.shape.dims()});
  }
  return out;
}

Result<Model> load_zoo(const std::string& source, const std::vector<std::string>& given,
                       std::optional<std::int64_t> batch) {
  const std::string name = source.substr(4);
  DRIFTC_TRY(one, zoo::zoo_graph(name, 1));
  std::vector<InputDeclaration> declared = declarations(one);
  for (InputDeclaration& input : declared) input.extents[0] = -1;
  DRIFTC_TRY(inputs, resolve_inputs(declared, given, batch));
  DRIFTC_TRY(graph, zoo::zoo_graph(name, inputs[0].shape[0]));
  return Model{source, std::move(graph), std::move(inputs), {}};
}

Result<Model> load_text(const std::string& source, const std::vector<std::string>& given,
                        std::optional<std::int64_t> batch) {
  DRIFTC_TRY(text, read_file(source));
  DRIFTC_TRY(graph, ir::parse_graph(text, source));
  DRIFTC_TRY(inputs, resolve_inputs(declarations(graph), given, batch));
  return Model{source, std::move(graph), std::move(inputs), {}};
}

Result<Model> load_onnx(const std::string& source, const std::vector<std::string>& given,
                        std::optional<std::int64_t> batch) {
  DRIFTC_TRY(info, onnx::inspect_onnx(source));
  std::vector<InputDeclaration> declared;
  for (const onnx::TensorInfo& input : info.inputs) {
    InputDeclaration d{input.name, input.dtype.value_or(ir::DType::kF32), {}};
    d.open_rank = !input.has_shape;
    for (const onnx::Dimension& dim : input.dims) d.extents.push_back(dim.extent.value_or(-1));
    declared.push_back(std::move(d));
  }
  DRIFTC_TRY(inputs, resolve_inputs(declared, given, batch));
  onnx::ImportOptions options;
  for (const ResolvedInput& input : inputs)
    options.input_shapes[input.declaration.name] = input.shape;
  DRIFTC_TRY(graph, onnx::import_onnx(source, options));
  Model model{source, std::move(graph), {}, {}};
  // The graph keeps the inputs that an output needs.
  for (ResolvedInput& input : inputs)
    if (model.graph.find(input.declaration.name)) model.inputs.push_back(std::move(input));
  for (const onnx::TensorInfo& output : info.outputs)
    if (output.dtype && *output.dtype != ir::DType::kF32)
      model.declared_outputs[output.name] = *output.dtype;
  return model;
}

// Text IR starts with the word `gir` after comments and blank lines; anything else is read as ONNX.
bool looks_like_text(const std::string& path) {
  if (path.ends_with(".gir")) return true;
  if (path.ends_with(".onnx")) return false;
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return false;
  char head[16] = {};
  const std::size_t got = std::fread(head, 1, sizeof head, file);
  std::fclose(file);
  const std::string_view text(head, got);
  return text.starts_with("gir ") || text.starts_with("//");
}

Result<Model> load(const std::string& source, const std::vector<std::string>& given,
                   std::optional<std::int64_t> batch) {
  if (source.starts_with("zoo:")) return load_zoo(source, given, batch);
  std::error_code error;
  if (!std::filesystem::exists(source, error)) {
    std::vector<std::string> zoo_names;
    for (const zoo::ZooEntry& entry : zoo::zoo_names()) zoo_names.push_back(entry.name);
    const std::string near = nearest_name(source, zoo_names);
    return input_error(
        fmt::format("no such model '{}'", source),
        near.empty() ? "MODEL is an .onnx or .gir file, or zoo:NAME (`driftc zoo` lists the names)"
                     : fmt::format("did you mean 'zoo:{}'?", near));
  }
  return looks_like_text(source) ? load_text(source, given, batch)
                                 : load_onnx(source, given, batch);
}

}  // namespace

Result<Model> load_model(const Arguments& arguments) {
  DRIFTC_TRY(batch, arguments.integer("--batch", 1, 65536));
  DRIFTC_TRY(seed,
             arguments.integer("--reseed-weights", 0, std::numeric_limits<std::int64_t>::max()));
  DRIFTC_TRY(model, load(arguments.value_or("MODEL", ""), arguments.all("--input"), batch));
  model.weight_seed = seed;
  if (seed) model.graph = zoo::reseed_weights(model.graph, static_cast<std::uint64_t>(*seed));
  return std::move(model);
}

ir::DType declared_type(const Model& model) {
  for (const ResolvedInput& input : model.inputs) {
    const ir::DType type = input.declaration.dtype;
    if (type == ir::DType::kF16 || type == ir::DType::kBF16) return type;
  }
  return ir::DType::kF32;
}

}  // namespace driftc::frontend
