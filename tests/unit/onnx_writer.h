// Hand-built ONNX files for tests: a few lines make a model with one operator.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <vector>

#include "frontend/onnx/onnx.h"
#include "runtime/eager/region.h"

namespace driftc::test {

using Ints = std::vector<std::int64_t>;
constexpr int kOnnxFloat = 1, kOnnxInt32 = 6, kOnnxInt64 = 7, kOnnxBool = 9, kOnnxHalf = 10,
              kOnnxDouble = 11;

// Serialised AttributeProto.
inline std::string attribute(const std::string& name, int type, const auto& write_value) {
  std::string out;
  protozero::pbf_writer w(out);
  w.add_string(1, name);
  write_value(w);
  w.add_enum(20, type);
  return out;
}
inline std::string attr(const std::string& name, std::int64_t v) {
  return attribute(name, 2, [&](auto& w) { w.add_int64(3, v); });
}
inline std::string attr_f(const std::string& name, float v) {
  return attribute(name, 1, [&](auto& w) { w.add_float(2, v); });
}
inline std::string attr_s(const std::string& name, const std::string& v) {
  return attribute(name, 3, [&](auto& w) { w.add_string(4, v); });
}
inline std::string attr(const std::string& name, const Ints& v) {
  return attribute(name, 7, [&](auto& w) {
    for (std::int64_t i : v) w.add_int64(8, i);
  });
}
inline std::string attr_tensor(const std::string& name, const std::string& tensor) {
  return attribute(name, 4, [&](auto& w) { w.add_message(5, tensor); });
}

// Serialised TensorProto with its data in the given field.
inline std::string tensor_proto(const std::string& name, const Ints& dims, int type,
                                const auto& write_data) {
  std::string out;
  protozero::pbf_writer w(out);
  for (std::int64_t d : dims) w.add_int64(1, d);
  w.add_int32(2, type);
  w.add_string(8, name);
  write_data(w);
  return out;
}
template <class T>
std::string raw_tensor(const std::string& name, const Ints& dims, int type,
                       const std::vector<T>& values) {
  return tensor_proto(name, dims, type, [&](auto& w) {
    w.add_bytes(9, reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  });
}
inline std::string float_tensor(const std::string& name, const Ints& dims,
                                const std::vector<float>& v) {
  return raw_tensor(name, dims, kOnnxFloat, v);
}
inline std::string int_tensor(const std::string& name, const Ints& dims, const Ints& v) {
  return raw_tensor(name, dims, kOnnxInt64, v);
}

class OnnxWriter {
 public:
  explicit OnnxWriter(std::int64_t opset, std::int64_t ir_version = 8)
      : opset_(opset), ir_version_(ir_version) {}

  // Extents below 0 become the symbol "S<n>".
  OnnxWriter& input(const std::string& name, const Ints& dims, int type = kOnnxFloat) {
    add_value(11, name, &dims, type);
    return *this;
  }
  OnnxWriter& output(const std::string& name, int type = kOnnxFloat) {
    add_value(12, name, nullptr, type);
    return *this;
  }
  OnnxWriter& initializer(const std::string& tensor) {
    protozero::pbf_writer(graph_).add_message(5, tensor);
    return *this;
  }
  OnnxWriter& floats(const std::string& name, const Ints& dims, const std::vector<float>& v) {
    return initializer(float_tensor(name, dims, v));
  }
  OnnxWriter& ints(const std::string& name, const Ints& v) {
    return initializer(int_tensor(name, {static_cast<std::int64_t>(v.size())}, v));
  }
  OnnxWriter& node(const std::string& op, const std::vector<std::string>& inputs,
                   const std::vector<std::string>& outputs,
                   const std::vector<std::string>& attributes = {},
                   const std::string& domain = "") {
    std::string out;
    protozero::pbf_writer w(out);
    for (const auto& i : inputs) w.add_string(1, i);
    for (const auto& o : outputs) w.add_string(2, o);
    w.add_string(3, op + "_" + std::to_string(nodes_++));
    w.add_string(4, op);
    for (const auto& a : attributes) w.add_message(5, a);
    if (!domain.empty()) w.add_string(7, domain);
    protozero::pbf_writer(graph_).add_message(1, out);
    return *this;
  }
  std::string bytes() const {
    std::string opset, out;
    protozero::pbf_writer(opset).add_int64(2, opset_);
    protozero::pbf_writer w(out);
    w.add_int64(1, ir_version_);
    w.add_message(7, graph_);
    w.add_message(8, opset);
    return out;
  }

 private:
  void add_value(std::uint32_t field, const std::string& name, const Ints* dims, int type) {
    std::string shape, tensor, type_proto, info;
    for (std::int64_t d : dims != nullptr ? *dims : Ints{}) {
      std::string dim;
      if (d < 0)
        protozero::pbf_writer(dim).add_string(2, "S" + std::to_string(-d));
      else
        protozero::pbf_writer(dim).add_int64(1, d);
      protozero::pbf_writer(shape).add_message(1, dim);
    }
    protozero::pbf_writer(tensor).add_int32(1, type);
    if (dims != nullptr) protozero::pbf_writer(tensor).add_message(2, shape);
    protozero::pbf_writer(type_proto).add_message(1, tensor);
    protozero::pbf_writer(info).add_string(1, name);
    protozero::pbf_writer(info).add_message(2, type_proto);
    protozero::pbf_writer(graph_).add_message(field, info);
  }

  std::int64_t opset_, ir_version_;
  std::string graph_;
  int nodes_ = 0;
};

inline Result<ir::Graph> import(const OnnxWriter& model,
                                const frontend::onnx::ImportOptions& options = {}) {
  return frontend::onnx::import_onnx_bytes(model.bytes(), "net.onnx", options);
}
// The rendered error, or "(accepted)".
inline std::string error_of(const OnnxWriter& model,
                            const frontend::onnx::ImportOptions& options = {}) {
  auto graph = import(model, options);
  return graph.ok() ? "(accepted)" : graph.error().render();
}

// First output of the model in f32, its inputs filled with 0, 1, 2, ... each.
inline ir::Tensor run(const OnnxWriter& model) {
  auto graph = import(model);
  REQUIRE_MESSAGE(graph.ok(), graph.error().render());
  runtime::ThreadPool pool(1);
  runtime::Evaluator evaluator(*graph, runtime::eager_recipes(*graph), {.pool = pool});
  for (ir::ValueId input : graph->inputs()) {
    ir::Tensor t(ir::DType::kF32, graph->value(input).type.shape);
    float next = 0;
    for (float& v : t.data_mut<float>()) v = next++;
    evaluator.know(input, std::move(t));
  }
  return evaluator.value(graph->outputs()[0]);
}
inline std::vector<float> values_of(const ir::Tensor& t) {
  return {t.data<float>().begin(), t.data<float>().end()};
}
inline int count(const ir::Graph& graph, ir::Op op) {
  int n = 0;
  for (const ir::Node& node : graph.nodes()) n += node.op == op;
  return n;
}

}  // namespace driftc::test
