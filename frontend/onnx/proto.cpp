#include "frontend/onnx/proto.h"

#include <fmt/format.h>

#include <protozero/pbf_message.hpp>
#include <protozero/pbf_reader.hpp>

namespace driftc::frontend::onnx {
namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;

// protozero asserts on the wire type in its getters; a hostile file must not reach them, so every
// read goes through one of these, which answer "skip it" by returning false.
bool is_bytes(const pbf_reader& r) { return r.has_wire_type(pbf_wire_type::length_delimited); }
bool is_varint(const pbf_reader& r) { return r.has_wire_type(pbf_wire_type::varint); }
bool is_fixed32(const pbf_reader& r) { return r.has_wire_type(pbf_wire_type::fixed32); }
bool is_fixed64(const pbf_reader& r) { return r.has_wire_type(pbf_wire_type::fixed64); }

std::string_view view(pbf_reader& r) {
  const auto v = r.get_view();
  return {v.data(), v.size()};
}
pbf_reader reader(std::string_view bytes) { return pbf_reader(bytes.data(), bytes.size()); }

// What is thrown inside this file for a limit; turned into a Diagnostic at its border.
struct LimitExceeded {
  std::string message;
};
void limit(std::size_t count, std::size_t most, const char* what) {
  if (count >= most) throw LimitExceeded{fmt::format("more than {} {}", most, what)};
}

// Runs a decoder and turns what it throws into an error that says which part was malformed.
template <class F>
auto guarded(const char* part, F&& decode) -> Result<decltype(decode())> {
  try {
    return decode();
  } catch (const protozero::exception&) {
    return input_error(fmt::format("malformed protobuf in {}", part),
                       "the file is damaged, incomplete, or not an ONNX model");
  } catch (const LimitExceeded& e) {
    return input_error(e.message);
  }
}

NodeProto read_node(std::string_view body, std::size_t& operand_names) {
  NodeProto node;
  node.body = body;
  pbf_reader r = reader(body);
  while (r.next()) {
    if (!is_bytes(r)) {
      r.skip();
      continue;
    }
    switch (r.tag()) {
      case 1:
      case 2:
        limit(operand_names++, kMaxOperandNames, "node inputs and outputs");
        (r.tag() == 1 ? node.inputs : node.outputs).push_back(view(r));
        break;
      case 3:
        node.name = view(r);
        break;
      case 4:
        node.op_type = view(r);
        break;
      case 7:
        node.domain = view(r);
        break;
      default:
        r.skip();
    }
  }
  return node;
}

// The name field of a message, the rest left alone.
std::string_view name_in(std::string_view body, std::uint32_t field) {
  std::string_view name;
  pbf_reader r = reader(body);
  while (r.next()) {
    if (r.tag() == field && is_bytes(r))
      name = view(r);
    else
      r.skip();
  }
  return name;
}

GraphProto read_graph(std::string_view body) {
  GraphProto graph;
  std::size_t operand_names = 0;
  pbf_reader r = reader(body);
  while (r.next()) {
    if (!is_bytes(r)) {
      r.skip();
      continue;
    }
    switch (r.tag()) {
      case 1:
        limit(graph.nodes.size(), kMaxNodes, "nodes");
        graph.nodes.push_back(read_node(view(r), operand_names));
        break;
      case 2:
        graph.name = view(r);
        break;
      case 5: {
        limit(graph.initializers.size(), kMaxInitializers, "initializers");
        const std::string_view tensor = view(r);
        graph.initializers.push_back({name_in(tensor, 8), tensor});
        break;
      }
      case 11:
      case 12: {
        const bool input = r.tag() == 11;
        auto& list = input ? graph.inputs : graph.outputs;
        limit(list.size(), input ? kMaxGraphInputs : kMaxGraphOutputs,
              input ? "graph inputs" : "graph outputs");
        const std::string_view info = view(r);
        list.push_back({name_in(info, 1), info});
        break;
      }
      case 15:
        graph.has_sparse_initializer = true;
        r.skip();
        break;
      default:
        r.skip();
    }
  }
  return graph;
}

ModelProto read_model(std::string_view bytes) {
  ModelProto model;
  pbf_reader r = reader(bytes);
  while (r.next()) {
    switch (r.tag_and_type()) {
      case protozero::tag_and_type(1, pbf_wire_type::varint):
        model.ir_version = r.get_int64();
        break;
      case protozero::tag_and_type(2, pbf_wire_type::length_delimited):
        model.producer = view(r);
        break;
      case protozero::tag_and_type(7, pbf_wire_type::length_delimited):
        if (model.graph) throw LimitExceeded{"the file holds two graphs"};
        model.graph = read_graph(view(r));
        break;
      case protozero::tag_and_type(8, pbf_wire_type::length_delimited): {
        std::string_view domain;
        std::int64_t version = 0;
        pbf_reader o = reader(view(r));
        while (o.next()) {
          if (o.tag() == 1 && is_bytes(o))
            domain = view(o);
          else if (o.tag() == 2 && is_varint(o))
            version = o.get_int64();
          else
            o.skip();
        }
        if (domain.empty() || domain == "ai.onnx") model.opset = version;
        break;
      }
      default:
        r.skip();
    }
  }
  return model;
}

AttributeProto read_attribute(std::string_view body) {
  AttributeProto a;
  pbf_reader r = reader(body);
  while (r.next()) {
    switch (r.tag_and_type()) {
      case protozero::tag_and_type(1, pbf_wire_type::length_delimited):
        a.name = view(r);
        break;
      case protozero::tag_and_type(2, pbf_wire_type::fixed32):
        a.f = r.get_float();
        break;
      case protozero::tag_and_type(3, pbf_wire_type::varint):
        a.i = r.get_int64();
        break;
      case protozero::tag_and_type(4, pbf_wire_type::length_delimited):
        a.s = view(r);
        break;
      case protozero::tag_and_type(5, pbf_wire_type::length_delimited):
        a.tensor = view(r);
        break;
      case protozero::tag_and_type(7, pbf_wire_type::length_delimited):
        for (float v : r.get_packed_float()) {
          limit(a.floats.size(), kMaxListEntries, "entries in one attribute");
          a.floats.push_back(v);
        }
        break;
      case protozero::tag_and_type(7, pbf_wire_type::fixed32):
        limit(a.floats.size(), kMaxListEntries, "entries in one attribute");
        a.floats.push_back(r.get_float());
        break;
      case protozero::tag_and_type(8, pbf_wire_type::length_delimited):
        for (std::int64_t v : r.get_packed_int64()) {
          limit(a.ints.size(), kMaxListEntries, "entries in one attribute");
          a.ints.push_back(v);
        }
        break;
      case protozero::tag_and_type(8, pbf_wire_type::varint):
        limit(a.ints.size(), kMaxListEntries, "entries in one attribute");
        a.ints.push_back(r.get_int64());
        break;
      case protozero::tag_and_type(9, pbf_wire_type::length_delimited):
        limit(a.strings.size(), kMaxListEntries, "entries in one attribute");
        a.strings.push_back(view(r));
        break;
      case protozero::tag_and_type(6, pbf_wire_type::length_delimited):
      case protozero::tag_and_type(11, pbf_wire_type::length_delimited):
        a.has_graph = true;
        r.skip();
        break;
      case protozero::tag_and_type(20, pbf_wire_type::varint):
        a.type = r.get_enum();
        break;
      case protozero::tag_and_type(21, pbf_wire_type::length_delimited):
        a.has_reference = true;
        r.skip();
        break;
      default:
        r.skip();
    }
  }
  return a;
}

void read_external_entry(std::string_view body, TensorProto& t) {
  std::string_view key, value;
  pbf_reader r = reader(body);
  while (r.next()) {
    if (r.tag() == 1 && is_bytes(r))
      key = view(r);
    else if (r.tag() == 2 && is_bytes(r))
      value = view(r);
    else
      r.skip();
  }
  if (key == "location") t.location = value;
  if (key == "offset") t.offset = value;
  if (key == "length") t.length = value;
}

TensorProto read_tensor(std::string_view body) {
  TensorProto t;
  t.body = body;
  pbf_reader r = reader(body);
  while (r.next()) {
    switch (r.tag_and_type()) {
      case protozero::tag_and_type(1, pbf_wire_type::length_delimited):
        for (std::int64_t v : r.get_packed_int64()) {
          limit(t.dims.size(), kMaxRank, "axes in a tensor");
          t.dims.push_back(v);
        }
        break;
      case protozero::tag_and_type(1, pbf_wire_type::varint):
        limit(t.dims.size(), kMaxRank, "axes in a tensor");
        t.dims.push_back(r.get_int64());
        break;
      case protozero::tag_and_type(2, pbf_wire_type::varint):
        t.type = static_cast<ElemType>(r.get_int32());
        break;
      case protozero::tag_and_type(8, pbf_wire_type::length_delimited):
        t.name = view(r);
        break;
      case protozero::tag_and_type(9, pbf_wire_type::length_delimited):
        t.raw = view(r);
        break;
      case protozero::tag_and_type(13, pbf_wire_type::length_delimited):
        read_external_entry(view(r), t);
        break;
      case protozero::tag_and_type(14, pbf_wire_type::varint):
        t.external = r.get_enum() == 1;
        break;
      default:
        r.skip();
    }
  }
  return t;
}

void read_shape(std::string_view body, ValueInfoProto& info) {
  pbf_reader r = reader(body);
  while (r.next()) {
    if (r.tag() != 1 || !is_bytes(r)) {
      r.skip();
      continue;
    }
    limit(info.dims.size(), kMaxRank, "axes in a declared shape");
    DimensionProto dim;
    pbf_reader d = reader(view(r));
    while (d.next()) {
      if (d.tag() == 1 && is_varint(d))
        dim.value = d.get_int64();
      else if (d.tag() == 2 && is_bytes(d))
        dim.symbol = view(d);
      else
        d.skip();
    }
    info.dims.push_back(dim);
  }
}

ValueInfoProto read_value_info(std::string_view body) {
  ValueInfoProto info;
  pbf_reader r = reader(body);
  while (r.next()) {
    if (r.tag() == 1 && is_bytes(r)) {
      info.name = view(r);
    } else if (r.tag() == 2 && is_bytes(r)) {
      pbf_reader type = reader(view(r));
      while (type.next()) {
        if (type.tag() != 1 || !is_bytes(type)) {
          type.skip();
          continue;
        }
        info.is_tensor = true;
        pbf_reader tensor = reader(view(type));
        while (tensor.next()) {
          if (tensor.tag() == 1 && is_varint(tensor)) {
            info.type = static_cast<ElemType>(tensor.get_int32());
          } else if (tensor.tag() == 2 && is_bytes(tensor)) {
            info.has_shape = true;
            read_shape(view(tensor), info);
          } else {
            tensor.skip();
          }
        }
      }
    } else {
      r.skip();
    }
  }
  return info;
}

// Elements of one typed data field. `packed` and `single` read a run and an element.
template <class T, class Packed, class IsSingle, class Single>
std::optional<std::size_t> typed(std::string_view body, std::uint32_t field, T* out,
                                 std::size_t out_size, Packed packed, IsSingle is_single,
                                 Single single) {
  try {
    std::size_t count = 0;
    const auto store = [&](T v) {
      if (count < out_size) out[count] = v;
      ++count;
    };
    pbf_reader r = reader(body);
    while (r.next()) {
      if (r.tag() == field && is_bytes(r)) {
        for (auto v : packed(r)) store(static_cast<T>(v));
      } else if (r.tag() == field && is_single(r)) {
        store(static_cast<T>(single(r)));
      } else {
        r.skip();
      }
    }
    return count;
  } catch (const protozero::exception&) {
    return std::nullopt;
  }
}

}  // namespace

std::string name_of(ElemType type) {
  switch (type) {
    case ElemType::kUndefined:
      return "undefined";
    case ElemType::kFloat:
      return "float32";
    case ElemType::kUint8:
      return "uint8";
    case ElemType::kInt8:
      return "int8";
    case ElemType::kUint16:
      return "uint16";
    case ElemType::kInt16:
      return "int16";
    case ElemType::kInt32:
      return "int32";
    case ElemType::kInt64:
      return "int64";
    case ElemType::kString:
      return "string";
    case ElemType::kBool:
      return "bool";
    case ElemType::kFloat16:
      return "float16";
    case ElemType::kDouble:
      return "float64";
    case ElemType::kUint32:
      return "uint32";
    case ElemType::kUint64:
      return "uint64";
    case ElemType::kBfloat16:
      return "bfloat16";
  }
  return fmt::format("type {}", static_cast<std::int32_t>(type));
}
bool is_float(ElemType type) {
  return type == ElemType::kFloat || type == ElemType::kFloat16 || type == ElemType::kBfloat16 ||
         type == ElemType::kDouble;
}
bool is_integer(ElemType type) {
  switch (type) {
    case ElemType::kUint8:
    case ElemType::kInt8:
    case ElemType::kUint16:
    case ElemType::kInt16:
    case ElemType::kInt32:
    case ElemType::kInt64:
    case ElemType::kBool:
    case ElemType::kUint32:
    case ElemType::kUint64:
      return true;
    case ElemType::kUndefined:
    case ElemType::kFloat:
    case ElemType::kString:
    case ElemType::kFloat16:
    case ElemType::kDouble:
    case ElemType::kBfloat16:
      break;
  }
  return false;
}

Result<ModelProto> decode_model(std::string_view bytes) {
  return guarded("the model", [&] { return read_model(bytes); });
}
Result<std::vector<AttributeProto>> decode_attributes(const NodeProto& node) {
  return guarded("the attributes", [&] {
    std::vector<AttributeProto> out;
    pbf_reader r = reader(node.body);
    while (r.next()) {
      if (r.tag() == 5 && is_bytes(r)) {
        limit(out.size(), 256, "attributes");
        out.push_back(read_attribute(view(r)));
      } else {
        r.skip();
      }
    }
    return out;
  });
}
Result<TensorProto> decode_tensor(std::string_view body) {
  return guarded("a tensor", [&] { return read_tensor(body); });
}
Result<ValueInfoProto> decode_value_info(std::string_view body) {
  return guarded("a declared type", [&] { return read_value_info(body); });
}

std::optional<std::size_t> typed_floats(std::string_view body, float* out, std::size_t out_size) {
  return typed(
      body, 4, out, out_size, [](pbf_reader& r) { return r.get_packed_float(); }, is_fixed32,
      [](pbf_reader& r) { return r.get_float(); });
}
std::optional<std::size_t> typed_doubles(std::string_view body, double* out, std::size_t out_size) {
  return typed(
      body, 10, out, out_size, [](pbf_reader& r) { return r.get_packed_double(); }, is_fixed64,
      [](pbf_reader& r) { return r.get_double(); });
}
std::optional<std::size_t> typed_ints(std::string_view body, std::uint32_t field, std::int64_t* out,
                                      std::size_t out_size) {
  // int32, int64 and uint64 share the varint form; the caller knows which range is meant.
  return typed(
      body, field, out, out_size, [](pbf_reader& r) { return r.get_packed_int64(); }, is_varint,
      [](pbf_reader& r) { return r.get_int64(); });
}
std::optional<std::string_view> packed_floats(std::string_view body) {
  std::optional<std::string_view> found;
  try {
    pbf_reader r = reader(body);
    while (r.next()) {
      if (r.tag() != 4) {
        r.skip();
        continue;
      }
      if (found || !is_bytes(r)) return std::nullopt;
      found = view(r);
    }
  } catch (const protozero::exception&) {
    return std::nullopt;
  }
  return found;
}

}  // namespace driftc::frontend::onnx
