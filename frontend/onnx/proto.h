// The ONNX messages driftc reads, decoded from the protobuf wire format with protozero.
// Strings and data are views of the file's bytes; nested messages that may be many or large
// (attributes, tensors, types) stay undecoded `body` views until someone needs them. So decoding
// costs a bounded multiple of the file size, and there is no recursion: sub-graphs are noticed,
// never entered. A field with an unexpected wire type is skipped, as protobuf prescribes for
// unknown fields.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/support/result.h"
#include "ir/types.h"

namespace driftc::frontend::onnx {

// TensorProto.DataType.
enum class ElemType : std::int32_t {
  kUndefined = 0,
  kFloat = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kUint32 = 12,
  kUint64 = 13,
  kBfloat16 = 16,
};
std::string name_of(ElemType type);  // "float32", "int64", ...; "type 99" for others
bool is_float(ElemType type);        // of the float types that become f32
bool is_integer(ElemType type);      // including bool: types that live only during import

struct NodeProto {
  std::string_view name, op_type, domain;
  std::vector<std::string_view> inputs, outputs;
  std::string_view body;  // of the whole message, for decode_attributes
};

struct AttributeProto {
  std::string_view name;
  std::int32_t type = 0;  // AttributeProto.AttributeType; 0 in files of the first IR versions
  std::optional<float> f;
  std::optional<std::int64_t> i;
  std::optional<std::string_view> s;
  std::optional<std::string_view> tensor;  // body
  std::vector<float> floats;
  std::vector<std::int64_t> ints;
  std::vector<std::string_view> strings;
  bool has_graph = false, has_reference = false;
};

struct TensorProto {
  std::string_view name;
  std::vector<std::int64_t> dims;
  ElemType type = ElemType::kUndefined;
  std::optional<std::string_view> raw;
  bool external = false;
  std::string_view location;  // of external data
  std::optional<std::string_view> offset, length;
  std::string_view body;  // for the typed *_data fields, which are decoded where they go
};

struct DimensionProto {
  std::optional<std::int64_t> value;
  std::string_view symbol;
};
struct ValueInfoProto {
  std::string_view name;
  bool is_tensor = false, has_shape = false;
  ElemType type = ElemType::kUndefined;
  std::vector<DimensionProto> dims;
};

// A message of which only the name was decoded.
struct Named {
  std::string_view name, body;
};

struct GraphProto {
  std::string_view name;
  std::vector<NodeProto> nodes;
  std::vector<Named> initializers, inputs, outputs;
  bool has_sparse_initializer = false;
};

struct ModelProto {
  std::int64_t ir_version = 0;
  std::optional<std::int64_t> opset;  // of the default domain
  std::string_view producer;
  std::optional<GraphProto> graph;
};

// Limits, checked while decoding. A model beyond them is refused before anything is built.
constexpr std::size_t kMaxNodes = 200'000;
constexpr std::size_t kMaxInitializers = 200'000;
constexpr std::size_t kMaxGraphInputs = 200'000;  // IR 3 lists every initializer as an input too
constexpr std::size_t kMaxGraphOutputs = 10'000;
constexpr std::size_t kMaxOperandNames = 1'000'000;  // inputs and outputs of all nodes together
constexpr std::size_t kMaxRank = 32;
constexpr std::size_t kMaxListEntries = 65'536;  // of one attribute
constexpr std::size_t kMaxNameBytes = 4096;

// `bytes` must outlive what is returned. Errors have no place; the caller adds the file.
Result<ModelProto> decode_model(std::string_view bytes);
Result<std::vector<AttributeProto>> decode_attributes(const NodeProto& node);
Result<TensorProto> decode_tensor(std::string_view body);
Result<ValueInfoProto> decode_value_info(std::string_view body);

// The typed data fields of a tensor, packed or not, one element at a time into `out`.
// Returns how many elements the file holds; at most `out_size` of them are stored.
std::optional<std::size_t> typed_floats(std::string_view tensor_body, float* out,
                                        std::size_t out_size);
std::optional<std::size_t> typed_doubles(std::string_view tensor_body, double* out,
                                         std::size_t out_size);
// int32_data, int64_data or uint64_data (`field` 5, 7, 11).
std::optional<std::size_t> typed_ints(std::string_view tensor_body, std::uint32_t field,
                                      std::int64_t* out, std::size_t out_size);
// Where float_data lies as one packed run of little-endian f32; empty when it is spread or absent.
std::optional<std::string_view> packed_floats(std::string_view tensor_body);

}  // namespace driftc::frontend::onnx
