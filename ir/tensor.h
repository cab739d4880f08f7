// A dense tensor on the host, always in logical row-major order (NCHW for activations).
// Copies share the buffer; writing is allowed only while one owner exists (data_mut asserts it), so
// a Tensor that was handed out never changes. Buffers are 64-byte aligned and zero-filled.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "ir/support/assert.h"
#include "ir/types.h"

namespace driftc::ir {

template <class T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<float>() {
  return DType::kF32;
}
template <>
constexpr DType dtype_of<double>() {
  return DType::kF64;
}
template <>
constexpr DType dtype_of<std::int64_t>() {
  return DType::kI64;
}

class Tensor {
 public:
  Tensor() = default;
  Tensor(DType dtype, Shape shape);
  template <class T>
  static Tensor of(Shape shape, std::span<const T> values);

  bool defined() const { return buffer_ != nullptr; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  std::int64_t elements() const { return elements_; }
  std::size_t byte_count() const { return static_cast<std::size_t>(elements_) * byte_size(dtype_); }

  // T must match dtype(): float, double or int64_t.
  template <class T>
  std::span<const T> data() const {
    DRIFTC_ASSERT(dtype_of<T>() == dtype_, "tensor read as another type");
    return {reinterpret_cast<const T*>(buffer_.get()), static_cast<std::size_t>(elements_)};
  }
  template <class T>
  std::span<T> data_mut() {
    DRIFTC_ASSERT(dtype_of<T>() == dtype_, "tensor written as another type");
    DRIFTC_ASSERT(buffer_.use_count() == 1, "write to a shared tensor");
    return {reinterpret_cast<T*>(buffer_.get()), static_cast<std::size_t>(elements_)};
  }
  std::span<const std::byte> bytes() const { return {buffer_.get(), byte_count()}; }
  std::span<std::byte> bytes_mut() {
    DRIFTC_ASSERT(buffer_.use_count() == 1, "write to a shared tensor");
    return {buffer_.get(), byte_count()};
  }
  // The same elements under another shape of equal element count; shares the buffer.
  Tensor reshaped(Shape shape) const;
  // f32 <-> f64 (rounding to nearest when narrowing), f16 -> either; identity when the type is
  // equal.
  Tensor converted(DType dtype) const;

 private:
  DType dtype_ = DType::kF32;
  Shape shape_{0};
  std::int64_t elements_ = 0;
  std::shared_ptr<std::byte> buffer_;
};

// Same type, shape and bit patterns, all NaNs being one class ("same bits", product.md idea 2).
// -0 and +0 differ.
bool same_bits(const Tensor& a, const Tensor& b);

template <class T>
Tensor Tensor::of(Shape shape, std::span<const T> values) {
  Tensor t(dtype_of<T>(), std::move(shape));
  DRIFTC_ASSERT(t.elements() == static_cast<std::int64_t>(values.size()), "value count");
  std::copy(values.begin(), values.end(), t.data_mut<T>().begin());
  return t;
}

}  // namespace driftc::ir
