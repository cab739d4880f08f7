#include "frontend/onnx/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <protozero/pbf_writer.hpp>

#include "frontend/onnx/proto.h"

namespace driftc::frontend::onnx {
namespace {

using Ints = std::vector<std::int64_t>;
using protozero::pbf_writer;

constexpr std::int64_t kIrVersion = 7, kOpset = 13;
// AttributeProto.AttributeType.
constexpr std::int32_t kFloatAttribute = 1, kIntAttribute = 2, kIntsAttribute = 7;

// Ops whose operands and meaning are ONNX's, without attributes. By text, so that a row may stand
// here before ops.def has the op.
struct PlainOp {
  std::string_view ir, onnx;
};
constexpr PlainOp kPlain[] = {
    {"abs", "Abs"},           {"add", "Add"},         {"div", "Div"},
    {"erf", "Erf"},           {"exp", "Exp"},         {"global_avg_pool", "GlobalAveragePool"},
    {"identity", "Identity"}, {"log", "Log"},         {"matmul", "MatMul"},
    {"max", "Max"},           {"min", "Min"},         {"mul", "Mul"},
    {"neg", "Neg"},           {"pow", "Pow"},         {"prelu", "PRelu"},
    {"relu", "Relu"},         {"sigmoid", "Sigmoid"}, {"softplus", "Softplus"},
    {"sqrt", "Sqrt"},         {"sub", "Sub"},         {"tanh", "Tanh"}};

std::string tensor_message(std::string_view name, const Ints& dims, ElemType type,
                           std::string_view raw) {
  std::string out;
  pbf_writer w(out);
  w.add_packed_int64(1, dims.begin(), dims.end());
  w.add_int32(2, static_cast<std::int32_t>(type));
  w.add_string(8, name.data(), name.size());
  w.add_bytes(9, raw.data(), raw.size());
  return out;
}

std::string value_message(const ir::Value& value) {
  std::string shape, tensor, type, info;
  for (std::int64_t extent : value.type.shape.dims()) {
    std::string dim;
    pbf_writer(dim).add_int64(1, extent);
    pbf_writer(shape).add_message(1, dim);
  }
  pbf_writer t(tensor);
  t.add_int32(1, static_cast<std::int32_t>(ElemType::kFloat));
  t.add_message(2, shape);
  pbf_writer(type).add_message(1, tensor);
  pbf_writer i(info);
  i.add_string(1, value.name);
  i.add_message(2, type);
  return info;
}

// One NodeProto being written.
class NodeMessage {
 public:
  NodeMessage(const ir::Graph& graph, const ir::Node& node) : graph_(graph), node_(node) {}

  void operands() {
    for (ir::ValueId id : node_.operands) operand(graph_.value(id).name);
  }
  void operand(std::string_view name) { writer_.add_string(1, name.data(), name.size()); }
  void integers(std::string_view name, const Ints& values) {
    attribute(name, kIntsAttribute, [&](pbf_writer& w) {
      for (std::int64_t v : values) w.add_int64(8, v);
    });
  }
  void integer(std::string_view name, std::int64_t value) {
    attribute(name, kIntAttribute, [&](pbf_writer& w) { w.add_int64(3, value); });
  }
  void real(std::string_view name, double value) {
    attribute(name, kFloatAttribute,
              [&](pbf_writer& w) { w.add_float(2, static_cast<float>(value)); });
  }
  std::string finish(std::string_view op_type) {
    const std::string& name = graph_.value(node_.result).name;
    writer_.add_string(2, name);
    writer_.add_string(3, name);
    writer_.add_string(4, op_type.data(), op_type.size());
    for (const std::string& attribute : attributes_) writer_.add_message(5, attribute);
    return std::move(out_);
  }

 private:
  void attribute(std::string_view name, std::int32_t type, const auto& write_value) {
    std::string message;
    pbf_writer w(message);
    w.add_string(1, name.data(), name.size());
    write_value(w);
    w.add_int32(20, type);
    attributes_.push_back(std::move(message));
  }

  const ir::Graph& graph_;
  const ir::Node& node_;
  std::string out_;
  pbf_writer writer_{out_};
  std::vector<std::string> attributes_;
};

class Exporter {
 public:
  explicit Exporter(const ir::Graph& graph) : graph_(graph) {}

  Result<std::string> run() {
    for (const ir::Value& value : graph_.values())
      if (value.type.dtype != ir::DType::kF32)
        return input_error(fmt::format("value '{}' is {}; only f32 graphs are written as ONNX",
                                       value.name, name_of(value.type.dtype)));
    for (const ir::Node& node : graph_.nodes()) DRIFTC_CHECK(add(node));
    pbf_writer w(body_);
    w.add_string(2, graph_.name());
    for (const std::string& tensor : initializers_) w.add_message(5, tensor);
    for (ir::ValueId id : graph_.inputs()) w.add_message(11, value_message(graph_.value(id)));
    for (ir::ValueId id : graph_.outputs()) w.add_message(12, value_message(graph_.value(id)));
    if (body_.size() > std::size_t{std::numeric_limits<std::int32_t>::max()})
      return input_error("the model is larger than 2 GiB, the limit of an ONNX file");
    std::string opset, out;
    pbf_writer o(opset);
    o.add_string(1, "");
    o.add_int64(2, kOpset);
    pbf_writer m(out);
    m.add_int64(1, kIrVersion);
    m.add_string(2, "driftc");
    m.add_message(7, body_);
    m.add_message(8, opset);
    return out;
  }

 private:
  // An initializer that no value of the graph is; its name is free in the graph.
  std::string helper(const ir::Node& node, std::string_view suffix, const Ints& dims, ElemType type,
                     std::string_view raw) {
    std::string name =
        graph_.fresh_name(fmt::format("{}.{}", graph_.value(node.result).name, suffix));
    initializers_.push_back(tensor_message(name, dims, type, raw));
    return name;
  }
  std::string int_helper(const ir::Node& node, std::string_view suffix, const Ints& values) {
    return helper(node, suffix, {static_cast<std::int64_t>(values.size())}, ElemType::kInt64,
                  {reinterpret_cast<const char*>(values.data()), values.size() * 8});
  }
  std::string float_helper(const ir::Node& node, std::string_view suffix, double value) {
    const float narrow = static_cast<float>(value);
    return helper(node, suffix, {}, ElemType::kFloat, {reinterpret_cast<const char*>(&narrow), 4});
  }

  Result<void> add(const ir::Node& node) {
    if (node.op == ir::Op::kConstant) {
      const auto bytes = node.literal->tensor().bytes();
      initializers_.push_back(tensor_message(
          graph_.value(node.result).name, node.literal->type().shape.dims(), ElemType::kFloat,
          {reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
      return {};
    }
    NodeMessage m(graph_, node);
    DRIFTC_TRY(op_type, write(node, m));
    pbf_writer(body_).add_message(1, m.finish(op_type));
    return {};
  }

  void window(const ir::Node& node, NodeMessage& m, const Ints& kernel) {
    m.integers("kernel_shape", kernel);
    m.integers("strides", node.ints("stride"));
    m.integers("pads", node.ints("pad"));
  }

  // Operands and attributes of `node`; returns ONNX's name of the operator.
  Result<std::string_view> write(const ir::Node& node, NodeMessage& m) {
    m.operands();
    const auto shape = [&](std::size_t i) -> const ir::Shape& {
      return graph_.value(node.operands[i]).type.shape;
    };
    // New ops appear in ops.def often; what has no case here is an error, so a default is right.
    switch (node.op) {
      case ir::Op::kConv2d:
        if (node.word("fold") != "none") break;
        window(node, m, {shape(1)[2], shape(1)[3]});
        m.integers("dilations", node.ints("dilation"));
        m.integer("group", node.integer("groups"));
        return std::string_view("Conv");
      case ir::Op::kGemm:
        m.real("alpha", node.number("alpha"));
        m.real("beta", node.number("beta"));
        m.integer("transA", node.integer("trans_a"));
        m.integer("transB", node.integer("trans_b"));
        return std::string_view("Gemm");
      case ir::Op::kBatchNorm:
        if (node.word("fold") != "none") break;
        m.real("epsilon", node.number("epsilon"));
        return std::string_view("BatchNormalization");
      case ir::Op::kMaxPool:
        window(node, m, node.ints("kernel"));
        m.integers("dilations", node.ints("dilation"));
        m.integer("ceil_mode", node.integer("ceil_mode"));
        return std::string_view("MaxPool");
      case ir::Op::kAvgPool:
        window(node, m, node.ints("kernel"));
        m.integer("ceil_mode", node.integer("ceil_mode"));
        m.integer("count_include_pad", node.integer("count_include_pad"));
        return std::string_view("AveragePool");
      case ir::Op::kConvTranspose:
        window(node, m, {shape(1)[2], shape(1)[3]});
        m.integers("output_padding", node.ints("output_pad"));
        m.integers("dilations", node.ints("dilation"));
        m.integer("group", node.integer("groups"));
        return std::string_view("ConvTranspose");
      case ir::Op::kElu:
      case ir::Op::kLeakyRelu:
        m.real("alpha", node.number("alpha"));
        return node.op == ir::Op::kElu ? std::string_view("Elu") : std::string_view("LeakyRelu");
      case ir::Op::kHardSigmoid:
        m.real("alpha", node.number("alpha"));
        m.real("beta", node.number("beta"));
        return std::string_view("HardSigmoid");
      case ir::Op::kReduceMean:
      case ir::Op::kReduceMax:
      case ir::Op::kReduceMin:
        m.integers("axes", node.ints("axes"));
        m.integer("keepdims", node.integer("keepdims"));
        return node.op == ir::Op::kReduceMean  ? std::string_view("ReduceMean")
               : node.op == ir::Op::kReduceMax ? std::string_view("ReduceMax")
                                               : std::string_view("ReduceMin");
      case ir::Op::kReduceSum:
        m.operand(int_helper(node, "axes", node.ints("axes")));
        m.integer("keepdims", node.integer("keepdims"));
        return std::string_view("ReduceSum");
      case ir::Op::kClip:
        m.operand(float_helper(node, "min", node.number("min")));
        m.operand(float_helper(node, "max", node.number("max")));
        return std::string_view("Clip");
      case ir::Op::kConcat:
      case ir::Op::kFlatten:
      case ir::Op::kSoftmax:
        m.integer("axis", node.integer("axis"));
        return node.op == ir::Op::kConcat    ? std::string_view("Concat")
               : node.op == ir::Op::kFlatten ? std::string_view("Flatten")
                                             : std::string_view("Softmax");
      case ir::Op::kReshape:
        // 0 copies an extent in ONNX, which for an empty result is the same extent here.
        m.operand(int_helper(node, "shape", node.ints("shape")));
        return std::string_view("Reshape");
      case ir::Op::kTranspose:
        m.integers("perm", node.ints("perm"));
        return std::string_view("Transpose");
      case ir::Op::kSlice:
        write_slice(node, m);
        return std::string_view("Slice");
      case ir::Op::kPad: {
        Ints pads = node.ints("before");
        pads.insert(pads.end(), node.ints("after").begin(), node.ints("after").end());
        m.operand(int_helper(node, "pads", pads));
        m.operand(float_helper(node, "value", node.number("value")));
        return std::string_view("Pad");
      }
      default:
        for (const PlainOp& plain : kPlain)
          if (plain.ir == ir::info(node.op).name) return plain.onnx;
    }
    return input_error(fmt::format("'{}' ({}) has no ONNX form", graph_.value(node.result).name,
                                   ir::info(node.op).name),
                       "graphs are exported as they are before the passes");
  }

  void write_slice(const ir::Node& node, NodeMessage& m) {
    const Ints &starts = node.ints("starts"), &steps = node.ints("steps"),
               &sizes = node.ints("sizes");
    Ints ends, axes;
    for (std::size_t i = 0; i < starts.size(); ++i) {
      axes.push_back(static_cast<std::int64_t>(i));
      const std::int64_t end = starts[i] + steps[i] * sizes[i];
      // Negative ends count from the back; running off the front needs the lowest integer.
      ends.push_back(end < 0 ? std::numeric_limits<std::int64_t>::min() : end);
    }
    m.operand(int_helper(node, "starts", starts));
    m.operand(int_helper(node, "ends", ends));
    m.operand(int_helper(node, "axes", axes));
    m.operand(int_helper(node, "steps", steps));
  }

  const ir::Graph& graph_;
  std::string body_;  // GraphProto: nodes first
  std::vector<std::string> initializers_;
};

}  // namespace

Result<std::string> export_onnx(const ir::Graph& graph) { return Exporter(graph).run(); }

}  // namespace driftc::frontend::onnx
