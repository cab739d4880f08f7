#include "frontend/onnx/tensor_data.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <limits>

#include "frontend/onnx/external_data.h"
#include "ir/support/half.h"

namespace driftc::frontend::onnx {
namespace {

static_assert(std::endian::native == std::endian::little, "raw_data is read as it lies");

// Constants smaller than this are kept in the graph's text, larger ones point into the file.
constexpr std::int64_t kFileLiteralElements = 64;

struct ElemInfo {
  std::size_t raw_bytes;      // of one element in raw_data
  std::uint32_t typed_field;  // of TensorProto
};
std::optional<ElemInfo> info_of(ElemType type) {
  switch (type) {
    case ElemType::kFloat:
      return ElemInfo{4, 4};
    case ElemType::kUint8:
    case ElemType::kInt8:
    case ElemType::kBool:
      return ElemInfo{1, 5};
    case ElemType::kUint16:
    case ElemType::kInt16:
    case ElemType::kFloat16:
    case ElemType::kBfloat16:
      return ElemInfo{2, 5};
    case ElemType::kInt32:
      return ElemInfo{4, 5};
    case ElemType::kInt64:
      return ElemInfo{8, 7};
    case ElemType::kDouble:
      return ElemInfo{8, 10};
    case ElemType::kUint32:
      return ElemInfo{4, 11};
    case ElemType::kUint64:
      return ElemInfo{8, 11};
    case ElemType::kUndefined:
    case ElemType::kString:
      break;
  }
  return std::nullopt;
}

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <class T>
std::int64_t integer_at(const std::byte* from) {
  return static_cast<std::int64_t>(load<T>(from));
}

// One element of raw data as f32 or i64.
float half_at(ElemType type, const std::byte* from) {
  const auto bits = load<std::uint16_t>(from);
  return type == ElemType::kFloat16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}
std::int64_t int_at(ElemType type, const std::byte* from) {
  switch (type) {
    case ElemType::kBool:
      return load<std::uint8_t>(from) != 0;
    case ElemType::kUint8:
      return integer_at<std::uint8_t>(from);
    case ElemType::kInt8:
      return integer_at<std::int8_t>(from);
    case ElemType::kUint16:
      return integer_at<std::uint16_t>(from);
    case ElemType::kInt16:
      return integer_at<std::int16_t>(from);
    case ElemType::kInt32:
      return integer_at<std::int32_t>(from);
    case ElemType::kUint32:
      return integer_at<std::uint32_t>(from);
    case ElemType::kInt64:
    case ElemType::kUint64:
      return integer_at<std::int64_t>(from);
    case ElemType::kUndefined:
    case ElemType::kFloat:
    case ElemType::kString:
    case ElemType::kFloat16:
    case ElemType::kDouble:
    case ElemType::kBfloat16:
      break;
  }
  return 0;
}

class Decoder {
 public:
  Decoder(const TensorProto& tensor, const ModelSource& source) : t_(tensor), source_(source) {}

  Result<Constant> run() {
    const auto info = info_of(t_.type);
    if (!info)
      return input_error(fmt::format("element type {} is not supported", name_of(t_.type)));
    info_ = *info;
    shape_ = ir::Shape(t_.dims);
    const auto elements = shape_.checked_elements();
    if (!elements)
      return input_error(
          fmt::format("shape {} is negative or has more than 2^40 elements", to_string(shape_)));
    count_ = static_cast<std::size_t>(*elements);
    if (t_.external) return external();
    if (t_.raw) return raw(*t_.raw);
    return typed();
  }

 private:
  bool floats() const { return is_float(t_.type); }
  ir::Tensor allocate() const {
    const ir::DType real = t_.type == ElemType::kDouble ? ir::DType::kF64 : ir::DType::kF32;
    return ir::Tensor(floats() ? real : ir::DType::kI64, shape_);
  }

  Result<ir::Tensor> convert(const std::byte* from) const {
    ir::Tensor tensor = allocate();
    if (t_.type == ElemType::kFloat || t_.type == ElemType::kDouble) {
      if (count_ > 0) std::memcpy(tensor.bytes_mut().data(), from, info_.raw_bytes * count_);
      return tensor;
    }
    if (floats()) {
      auto to = tensor.data_mut<float>();
      for (std::size_t i = 0; i < count_; ++i) to[i] = half_at(t_.type, from + 2 * i);
      return tensor;
    }
    auto to = tensor.data_mut<std::int64_t>();
    for (std::size_t i = 0; i < count_; ++i) to[i] = int_at(t_.type, from + i * info_.raw_bytes);
    DRIFTC_CHECK(check_unsigned(to));
    return tensor;
  }
  Result<void> check_unsigned(std::span<const std::int64_t> values) const {
    if (t_.type != ElemType::kUint64) return {};
    for (std::int64_t v : values)
      if (v < 0) return input_error("a uint64 element exceeds the range of int64");
    return {};
  }

  // The literal of a decoded tensor; f32 bytes that lie at `position` of the model file stay linked
  // to it.
  Constant literal(ir::Tensor tensor, std::string_view position) const {
    const bool linked = t_.type == ElemType::kFloat && source_.buffer != nullptr &&
                        !position.empty() && tensor.elements() >= kFileLiteralElements;
    if (!linked) return {t_.type, ir::Literal::dense(std::move(tensor))};
    const auto offset = static_cast<std::uint64_t>(position.data() - source_.bytes.data());
    return {t_.type, ir::Literal::from_file(std::move(tensor), source_.path, offset)};
  }

  Result<Constant> raw(std::string_view bytes) const {
    const std::uint64_t wanted = std::uint64_t{count_} * info_.raw_bytes;
    if (bytes.size() != wanted)
      return input_error(fmt::format("shape {} of {} needs {} bytes, the file holds {}",
                                     to_string(shape_), name_of(t_.type), wanted, bytes.size()));
    DRIFTC_TRY(tensor, convert(reinterpret_cast<const std::byte*>(bytes.data())));
    if (source_.buffer != nullptr) source_.buffer->release(bytes);
    return literal(std::move(tensor), bytes);
  }

  Result<Constant> typed() const {
    const auto wrong_count = [&](std::size_t present) {
      return input_error(fmt::format("shape {} needs {} elements, the file holds {}",
                                     to_string(shape_), count_, present));
    };
    if (t_.type == ElemType::kFloat)
      if (const auto run = packed_floats(t_.body)) return raw(*run);
    // Counting first: nothing is allocated for elements that are not there.
    const auto present = count_typed();
    if (!present) return input_error("malformed data field");
    if (*present != count_) return wrong_count(*present);
    ir::Tensor tensor = allocate();
    if (t_.type == ElemType::kFloat) {
      typed_floats(t_.body, tensor.data_mut<float>().data(), count_);
    } else if (t_.type == ElemType::kDouble) {
      typed_doubles(t_.body, tensor.data_mut<double>().data(), count_);
    } else if (floats()) {  // 16-bit floats as bits in int32_data
      std::vector<std::int64_t> bits(count_);
      typed_ints(t_.body, info_.typed_field, bits.data(), count_);
      auto to = tensor.data_mut<float>();
      for (std::size_t i = 0; i < count_; ++i) {
        const auto half = static_cast<std::uint16_t>(bits[i]);
        to[i] = t_.type == ElemType::kFloat16 ? f16_to_f32(half) : bf16_to_f32(half);
      }
    } else {
      auto to = tensor.data_mut<std::int64_t>();
      typed_ints(t_.body, info_.typed_field, to.data(), count_);
      DRIFTC_CHECK(check_unsigned(to));
    }
    return literal(std::move(tensor), {});
  }
  std::optional<std::size_t> count_typed() const {
    if (t_.type == ElemType::kFloat) return typed_floats(t_.body, nullptr, 0);
    if (t_.type == ElemType::kDouble) return typed_doubles(t_.body, nullptr, 0);
    return typed_ints(t_.body, info_.typed_field, nullptr, 0);
  }

  Result<Constant> external() const {
    if (source_.buffer == nullptr) return input_error("external data needs a model that is a file");
    const std::uint64_t wanted = std::uint64_t{count_} * info_.raw_bytes;
    DRIFTC_TRY(where, locate_external(t_, source_.path, wanted));
    if (t_.type == ElemType::kFloat) {
      ir::Tensor tensor = allocate();
      DRIFTC_CHECK(read_external(where, tensor.bytes_mut()));
      if (tensor.elements() < kFileLiteralElements)
        return Constant{t_.type, ir::Literal::dense(std::move(tensor))};
      return Constant{t_.type, ir::Literal::from_file(std::move(tensor), where.path, where.offset)};
    }
    std::vector<std::byte> bytes(static_cast<std::size_t>(wanted));
    DRIFTC_CHECK(read_external(where, bytes));
    DRIFTC_TRY(tensor, convert(bytes.data()));
    return Constant{t_.type, ir::Literal::dense(std::move(tensor))};
  }

  const TensorProto& t_;
  const ModelSource& source_;
  ElemInfo info_{};
  ir::Shape shape_;
  std::size_t count_ = 0;
};

}  // namespace

Result<Constant> decode_constant(const TensorProto& tensor, const ModelSource& source) {
  return Decoder(tensor, source).run();
}

}  // namespace driftc::frontend::onnx
