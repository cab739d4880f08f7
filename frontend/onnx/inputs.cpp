#include "frontend/onnx/inputs.h"

#include <fmt/format.h>

#include <unordered_set>

#include "frontend/onnx/names.h"

namespace driftc::frontend::onnx {
namespace {

std::optional<ir::DType> dtype_of(ElemType type) {
  switch (type) {
    case ElemType::kFloat:
      return ir::DType::kF32;
    case ElemType::kFloat16:
      return ir::DType::kF16;
    case ElemType::kBfloat16:
      return ir::DType::kBF16;
    case ElemType::kDouble:
      return ir::DType::kF64;
    case ElemType::kInt64:
      return ir::DType::kI64;
    case ElemType::kUndefined:
    case ElemType::kUint8:
    case ElemType::kInt8:
    case ElemType::kUint16:
    case ElemType::kInt16:
    case ElemType::kInt32:
    case ElemType::kString:
    case ElemType::kBool:
    case ElemType::kUint32:
    case ElemType::kUint64:
      break;
  }
  return std::nullopt;
}

std::string shown(const TensorInfo& info) {
  if (!info.has_shape) return "(no shape)";
  std::string out = "[";
  for (const Dimension& d : info.dims) {
    if (out.size() > 1) out += ',';
    out += d.extent ? std::to_string(*d.extent) : d.symbol.empty() ? "?" : d.symbol;
  }
  return out + ']';
}

// The symbols bound so far. A symbol stands for one extent in the whole graph.
class Binding {
 public:
  explicit Binding(const ImportOptions& options) : options_(options) {}

  // Inputs with a file bind first, whatever their order, because they are certain.
  Result<void> bind_files(const std::vector<TensorInfo>& inputs) {
    std::vector<std::string> names;
    for (const TensorInfo& info : inputs) names.push_back(info.name);
    for (const auto& [name, shape] : options_.input_shapes) {
      const TensorInfo* info = nullptr;
      for (const TensorInfo& candidate : inputs)
        if (candidate.name == name) info = &candidate;
      if (info == nullptr)
        return input_error(fmt::format("the model has no input {}", quoted(name)),
                           names.empty() ? "it has no inputs" : name_hint(name, names));
      DRIFTC_CHECK(match(*info, shape));
    }
    return {};
  }

  Result<ir::Shape> resolve(const TensorInfo& info) {
    if (const auto given = options_.input_shapes.find(info.name);
        given != options_.input_shapes.end())
      return check_batch(info, given->second);
    const std::string hint = fmt::format("give the input: --input {}=FILE.npy", info.name);
    if (!info.has_shape)
      return input_error(fmt::format("input {} declares no shape", quoted(info.name)), hint);
    std::vector<std::int64_t> dims;
    for (std::size_t i = 0; i < info.dims.size(); ++i) {
      const Dimension& d = info.dims[i];
      const auto known = d.symbol.empty() ? symbols_.end() : symbols_.find(d.symbol);
      if (d.extent) {
        dims.push_back(*d.extent);
      } else if (known != symbols_.end()) {
        dims.push_back(known->second.extent);
      } else if (i == 0) {
        dims.push_back(options_.batch.value_or(1));
        if (!d.symbol.empty()) symbols_[d.symbol] = {dims[0], info.name};
      } else {
        return input_error(fmt::format("input {} has shape {}: axis {} is open", quoted(info.name),
                                       shown(info), i),
                           hint);
      }
    }
    return check_batch(info, ir::Shape(std::move(dims)));
  }

 private:
  struct Bound {
    std::int64_t extent;
    std::string by;
  };

  Result<void> match(const TensorInfo& info, const ir::Shape& shape) {
    const auto refuse = [&](std::string why) {
      return input_error(fmt::format("input {} is {} in the model, {} was given{}",
                                     quoted(info.name), shown(info), to_string(shape), why));
    };
    if (!info.has_shape) return {};
    if (info.dims.size() != shape.rank()) return refuse("");
    for (std::size_t i = 0; i < shape.rank(); ++i) {
      const Dimension& d = info.dims[i];
      if (d.extent && *d.extent != shape[i])
        return refuse(fmt::format(": axis {} must be {}", i, *d.extent));
      if (d.extent || d.symbol.empty()) continue;
      const auto [at, inserted] = symbols_.emplace(d.symbol, Bound{shape[i], info.name});
      if (!inserted && at->second.extent != shape[i])
        return refuse(fmt::format(": {} is {} in {}", quoted(d.symbol), at->second.extent,
                                  quoted(at->second.by)));
    }
    return {};
  }

  Result<ir::Shape> check_batch(const TensorInfo& info, ir::Shape shape) const {
    if (options_.batch && shape.rank() > 0 && shape[0] != *options_.batch)
      return input_error(fmt::format("batch {} contradicts input {}, whose first extent is {}",
                                     *options_.batch, quoted(info.name), shape[0]),
                         options_.input_shapes.contains(info.name)
                             ? "the batch of a given input comes from its file"
                             : "the model or the file of another input fixes it");
    if (!shape.checked_elements())
      return input_error(fmt::format("input {} has shape {}: more than 2^40 elements",
                                     quoted(info.name), to_string(shape)));
    return shape;
  }

  const ImportOptions& options_;
  std::map<std::string, Bound> symbols_;
};

}  // namespace

Result<TensorInfo> declared_tensor(const Named& value_info) {
  const auto fail = [&](const std::string& why) {
    return input_error(fmt::format("{}: {}", quoted(value_info.name), why));
  };
  auto proto = decode_value_info(value_info.body);
  if (!proto.ok()) return fail(proto.error().message);
  if (!is_utf8(value_info.name)) return fail("the name is not UTF-8");
  TensorInfo info;
  info.name = std::string(value_info.name);
  info.type_name = proto->is_tensor ? name_of(proto->type) : "no tensor";
  info.dtype = proto->is_tensor ? dtype_of(proto->type) : std::nullopt;
  info.has_shape = proto->has_shape;
  for (const DimensionProto& d : proto->dims) {
    if (d.value && *d.value < 0) return fail(fmt::format("declares the extent {}", *d.value));
    if (d.symbol.size() > kMaxNameBytes || !is_utf8(d.symbol)) return fail("a symbol is not UTF-8");
    info.dims.push_back({d.value, std::string(d.symbol)});
  }
  return info;
}

Result<std::vector<TensorInfo>> declared_inputs(const GraphProto& graph) {
  std::unordered_set<std::string_view> filled;
  for (const Named& tensor : graph.initializers) filled.insert(tensor.name);
  std::vector<TensorInfo> out;
  for (const Named& input : graph.inputs) {
    if (filled.contains(input.name)) continue;
    DRIFTC_TRY(info, declared_tensor(input));
    out.push_back(std::move(info));
  }
  return out;
}

Result<void> add_inputs(Scope& scope, const GraphProto& graph, const ImportOptions& options) {
  if (options.batch && (*options.batch < 1 || *options.batch > (std::int64_t{1} << 24)))
    return input_error(fmt::format("batch {} is out of range", *options.batch), "1 to 2^24");
  DRIFTC_TRY(inputs, declared_inputs(graph));
  Binding binding(options);
  DRIFTC_CHECK(binding.bind_files(inputs));
  std::size_t next = 0;
  for (const Named& input : graph.inputs) {
    if (next == inputs.size() || inputs[next].name != input.name)
      continue;  // filled by an initializer
    const TensorInfo& info = inputs[next++];
    const bool wide = info.dtype == ir::DType::kF32 || info.dtype == ir::DType::kF16 ||
                      info.dtype == ir::DType::kBF16;
    if (!wide)
      return input_error(fmt::format("input {} is {}", quoted(info.name), info.type_name),
                         "inputs must be float32, float16 or bfloat16 tensors");
    DRIFTC_TRY(shape, binding.resolve(info));
    Operand operand;
    operand.declared = info.dtype == ir::DType::kF32   ? ElemType::kFloat
                       : info.dtype == ir::DType::kF16 ? ElemType::kFloat16
                                                       : ElemType::kBfloat16;
    operand.shape = shape;
    operand.value = scope.graph().add_input(info.name, {ir::DType::kF32, shape, ir::Layout::kNchw});
    scope.bind(input.name, std::move(operand));
  }
  return {};
}

}  // namespace driftc::frontend::onnx
