#include "ir/types.h"

#include <algorithm>
#include <array>

namespace driftc::ir {
namespace {
struct DTypeRow {
  DType dtype;
  std::string_view name;
  std::size_t bytes;
};
constexpr std::array kDTypes = {DTypeRow{DType::kF32, "f32", 4}, DTypeRow{DType::kF64, "f64", 8},
                                DTypeRow{DType::kF16, "f16", 2}, DTypeRow{DType::kBF16, "bf16", 2},
                                DTypeRow{DType::kI64, "i64", 8}};
constexpr std::int64_t kMaxElements = std::int64_t{1} << 40;
}  // namespace

std::size_t byte_size(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)].bytes; }
std::string_view name_of(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)].name; }
std::optional<DType> parse_dtype(std::string_view name) {
  for (const DTypeRow& row : kDTypes)
    if (row.name == name) return row.dtype;
  return std::nullopt;
}

std::int64_t Shape::elements() const {
  std::int64_t n = 1;
  for (std::int64_t d : dims_) n *= d;
  return n;
}
std::optional<std::int64_t> Shape::checked_elements() const {
  std::int64_t n = 1;
  bool zero = false;
  for (std::int64_t d : dims_) {
    if (d < 0) return std::nullopt;
    if (d == 0) {
      zero = true;
      continue;
    }
    if (d > kMaxElements / n) return std::nullopt;
    n *= d;
  }
  return zero ? 0 : n;
}
std::vector<std::int64_t> Shape::row_major_strides() const {
  std::vector<std::int64_t> strides(rank());
  std::int64_t run = 1;
  for (std::size_t i = rank(); i-- > 0;) {
    strides[i] = run;
    run *= dims_[i];
  }
  return strides;
}

std::string to_string(const Shape& shape) {
  std::string out = "[";
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    if (i) out += ',';
    out += std::to_string(shape[i]);
  }
  return out + ']';
}

std::optional<Shape> broadcast(const Shape& a, const Shape& b) {
  std::size_t rank = std::max(a.rank(), b.rank());
  std::vector<std::int64_t> dims(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    std::int64_t da = i + a.rank() < rank ? 1 : a[i + a.rank() - rank];
    std::int64_t db = i + b.rank() < rank ? 1 : b[i + b.rank() - rank];
    if (da != db && da != 1 && db != 1) return std::nullopt;
    dims[i] = da == 1 ? db : da;
  }
  return Shape(std::move(dims));
}

std::vector<std::int64_t> storage_strides(const Shape& shape, Layout layout) {
  if (layout == Layout::kNchw || shape.rank() != 4) return shape.row_major_strides();
  const std::int64_t c = shape[1], h = shape[2], w = shape[3];
  return {h * w * c, 1, w * c, c};
}

std::string to_string(const TensorType& type) {
  return std::string(name_of(type.dtype)) + to_string(type.shape) +
         (type.layout == Layout::kNhwc ? "@nhwc" : "");
}

}  // namespace driftc::ir
