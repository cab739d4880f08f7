// The import itself: decode, check the versions, order, declare inputs, run one handler per node.
#include <fmt/format.h>

#include <map>
#include <unordered_set>

#include "frontend/onnx/graph_order.h"
#include "frontend/onnx/inputs.h"
#include "frontend/onnx/names.h"
#include "frontend/onnx/onnx.h"
#include "frontend/onnx/op_context.h"
#include "frontend/onnx/ops.h"

namespace driftc::frontend::onnx {
namespace {

constexpr std::int64_t kFirstIrVersion = 3, kFirstOpset = 6, kLastOpset = 21;

// `error` with the file as its place, unless it has one.
Diagnostic in_file(const ModelSource& source, Diagnostic error) {
  if (error.place.file.empty()) error.place.file = source.path;
  return error;
}

Result<void> check_versions(const ModelProto& model) {
  if (!model.graph) return input_error("the file holds no graph", "is it an ONNX model?");
  if (model.ir_version < kFirstIrVersion)
    return input_error(fmt::format("IR version {} is not supported", model.ir_version),
                       fmt::format("version {} (2017) and later are", kFirstIrVersion));
  if (!model.opset) return input_error("the file names no version of the default operator set");
  if (*model.opset < kFirstOpset || *model.opset > kLastOpset)
    return input_error(
        fmt::format("operator set {} is not supported", *model.opset),
        fmt::format("{} to {} are; onnx.version_converter converts", kFirstOpset, kLastOpset));
  if (model.graph->has_sparse_initializer)
    return input_error("sparse initializers are not supported");
  return {};
}

bool default_domain(const NodeProto& node) {
  return node.domain.empty() || node.domain == "ai.onnx";
}

// All needed nodes at once, before anything is built: one message that lists every unknown
// operator.
Result<void> check_operators(const GraphProto& graph, const GraphOrder& order) {
  const NodeProto* first = nullptr;
  std::map<std::string, int> unknown;  // sorted, so that the message does not depend on hashing
  for (std::uint32_t index : order.nodes) {
    const NodeProto& node = graph.nodes[index];
    if (default_domain(node) && find_op(node.op_type) != nullptr) continue;
    if (first == nullptr) first = &node;
    if (unknown.size() < 100)
      ++unknown[default_domain(node)
                    ? quoted(node.op_type)
                    : fmt::format("{} of domain {}", quoted(node.op_type), quoted(node.domain))];
  }
  if (first == nullptr) return {};
  Diagnostic d;
  if (!default_domain(*first)) {
    d = input_error(fmt::format("{}: operator domain {} is not supported", describe(*first),
                                quoted(first->domain)),
                    "only operators of the default ONNX domain are");
  } else {
    d = input_error(
        fmt::format("{}: operator {} is not supported", describe(*first), quoted(first->op_type)));
    if (first->op_type == "If" || first->op_type == "Loop" || first->op_type == "Scan")
      d.hint = "sub-graphs are not supported; export without control flow";
    else if (const std::string near = nearest_name(first->op_type, supported_operators());
             !near.empty() && near.size() == first->op_type.size())
      d.hint = fmt::format("did you mean '{}'?", near);
  }
  if (unknown.size() > 1)
    for (const auto& [name, count] : unknown)
      d.notes.push_back(fmt::format("not supported: {}, {} node(s)", name, count));
  return d;
}

Result<ir::Graph> import_model(const ModelSource& source, const ImportOptions& options) {
  DRIFTC_TRY(model, decode_model(source.bytes));
  DRIFTC_CHECK(check_versions(model));
  const GraphProto& proto = *model.graph;
  DRIFTC_TRY(order, order_graph(proto));
  DRIFTC_CHECK(check_operators(proto, order));
  if (proto.outputs.empty()) return input_error("the graph has no outputs");

  Scope scope(source, proto, *model.opset);
  DRIFTC_CHECK(add_inputs(scope, proto, options));
  for (std::uint32_t index : order.nodes) {
    const NodeProto& node = proto.nodes[index];
    const OpRow& row = *find_op(node.op_type);
    DRIFTC_TRY(context, OpContext::open(scope, node, row.ir_op));
    DRIFTC_CHECK(row.import(context));
    DRIFTC_CHECK(context.finish());
  }

  std::vector<ir::ValueId> outputs;
  std::unordered_set<std::string_view> returned;
  for (const Named& output : proto.outputs) {
    DRIFTC_TRY(operand, scope.operand(output.name));
    DRIFTC_TRY(declared, declared_tensor(output));
    // Integers that come out of the graph (argmax) are returned as they are; shapes are not.
    const bool index = operand.declared == ElemType::kInt64 && operand.value.has_value();
    if (!is_float(operand.declared) && !index)
      return input_error(fmt::format("output {} is {}; driftc returns floats", quoted(output.name),
                                     name_of(operand.declared)));
    // Shapes are not compared: files with a bound batch often keep the old one in their outputs.
    const bool open = declared.type_name == "undefined" || declared.type_name == "no tensor";
    if (!open && (!declared.dtype || (*declared.dtype == ir::DType::kI64) != index))
      return input_error(fmt::format("output {} is declared {} but computed as {}",
                                     quoted(output.name), declared.type_name,
                                     name_of(operand.declared)));
    outputs.push_back(scope.materialise(output.name, operand));
    if (!returned.insert(output.name).second)
      return input_error(fmt::format("output {} is listed twice", quoted(output.name)));
  }
  scope.graph().set_outputs(std::move(outputs));
  return std::move(scope.graph());
}

Result<ModelInfo> inspect_model(const ModelSource& source) {
  DRIFTC_TRY(model, decode_model(source.bytes));
  DRIFTC_CHECK(check_versions(model));
  ModelInfo info;
  info.ir_version = model.ir_version;
  info.opset = *model.opset;
  info.producer = is_utf8(model.producer) ? std::string(model.producer) : std::string();
  info.graph_name = is_utf8(model.graph->name) ? std::string(model.graph->name) : std::string();
  info.node_count = model.graph->nodes.size();
  DRIFTC_TRY(inputs, declared_inputs(*model.graph));
  info.inputs = std::move(inputs);
  for (const Named& output : model.graph->outputs) {
    DRIFTC_TRY(declared, declared_tensor(output));
    info.outputs.push_back(std::move(declared));
  }
  return info;
}

// Adds the place to errors, and keeps what may be thrown below (std::bad_alloc) inside this folder.
template <class T, class F>
Result<T> guarded(const ModelSource& source, F&& work) {
  try {
    Result<T> result = work();
    if (!result.ok()) return in_file(source, std::move(result.error()));
    return result;
  } catch (const std::bad_alloc&) {
    return in_file(source, input_error("not enough memory to import the model"));
  }
}

}  // namespace

Result<ir::Graph> import_onnx_bytes(std::string_view bytes, const std::string& name,
                                    const ImportOptions& options) {
  const ModelSource source{name, bytes, nullptr};
  return guarded<ir::Graph>(source, [&] { return import_model(source, options); });
}
Result<ir::Graph> import_onnx(const std::string& path, const ImportOptions& options) {
  DRIFTC_TRY(buffer, FileBuffer::read(path));
  const ModelSource source{path, buffer.bytes(), &buffer};
  return guarded<ir::Graph>(source, [&] { return import_model(source, options); });
}
Result<ModelInfo> inspect_onnx_bytes(std::string_view bytes, const std::string& name) {
  const ModelSource source{name, bytes, nullptr};
  return guarded<ModelInfo>(source, [&] { return inspect_model(source); });
}
Result<ModelInfo> inspect_onnx(const std::string& path) {
  DRIFTC_TRY(buffer, FileBuffer::read(path));
  const ModelSource source{path, buffer.bytes(), &buffer};
  return guarded<ModelInfo>(source, [&] { return inspect_model(source); });
}

}  // namespace driftc::frontend::onnx
