// Types of values: element type, logical shape, storage layout.
// Shapes are always logical: NCHW for activations, OIHW for convolution weights. `Layout` says only
// how a value is stored on the device; it never changes what an index means.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace driftc::ir {

enum class DType : std::uint8_t { kF32, kF64, kF16, kBF16, kI64 };
std::size_t byte_size(DType dtype);
std::string_view name_of(DType dtype);  // "f32", "f64", "f16", "bf16", "i64"
std::optional<DType> parse_dtype(std::string_view name);

// Extents of a tensor, outermost first. Rank 0 is a scalar with one element. Extents are >= 0.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims) : dims_(dims) {}
  explicit Shape(std::vector<std::int64_t> dims) : dims_(std::move(dims)) {}

  std::size_t rank() const { return dims_.size(); }
  std::int64_t operator[](std::size_t axis) const { return dims_[axis]; }
  std::int64_t& operator[](std::size_t axis) { return dims_[axis]; }
  const std::vector<std::int64_t>& dims() const { return dims_; }
  // Product of the extents; 1 for a scalar. `checked_elements` is empty when it exceeds 2^40, the
  // largest tensor driftc accepts.
  std::int64_t elements() const;
  std::optional<std::int64_t> checked_elements() const;
  // Strides in elements of the dense row-major tensor of this shape.
  std::vector<std::int64_t> row_major_strides() const;
  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::vector<std::int64_t> dims_;
};
std::string to_string(const Shape& shape);  // "[1,64,56,56]"

// numpy / ONNX multidirectional broadcasting; empty when the shapes do not fit.
std::optional<Shape> broadcast(const Shape& a, const Shape& b);

enum class Layout : std::uint8_t { kNchw, kNhwc };

// Strides in elements, one per logical axis, of a value of `shape` stored as `layout`. kNhwc
// applies to rank 4; other ranks are stored row-major under either layout.
std::vector<std::int64_t> storage_strides(const Shape& shape, Layout layout);

struct TensorType {
  DType dtype = DType::kF32;
  Shape shape;
  Layout layout = Layout::kNchw;
  friend bool operator==(const TensorType&, const TensorType&) = default;
};
std::string to_string(const TensorType& type);  // "f32[1,64,56,56]@nhwc"

}  // namespace driftc::ir
