#include "ir/tensor.h"

#include <cstring>
#include <new>

#include "ir/support/half.h"
#include "ir/support/round.h"
#include "ir/support/tensor_memory.h"

namespace driftc::ir {

Tensor::Tensor(DType dtype, Shape shape) : dtype_(dtype), shape_(std::move(shape)) {
  elements_ = shape_.elements();
  const std::size_t bytes = std::max<std::size_t>(64, (byte_count() + 63) / 64 * 64);
  auto* raw = static_cast<std::byte*>(::operator new (bytes, std::align_val_t{64}));
  std::memset(raw, 0, bytes);
  TensorMemory::add(bytes);
  buffer_ = std::shared_ptr<std::byte>(raw, [bytes](std::byte* p) {
    ::operator delete (p, std::align_val_t{64});
    TensorMemory::remove(bytes);
  });
}

Tensor Tensor::reshaped(Shape shape) const {
  DRIFTC_ASSERT(shape.elements() == elements_, "reshape changes the element count");
  Tensor t = *this;
  t.shape_ = std::move(shape);
  return t;
}

namespace {
double widen(const Tensor& t, std::size_t i) {
  switch (t.dtype()) {
    case DType::kF32:
      return t.data<float>()[i];
    case DType::kF64:
      return t.data<double>()[i];
    case DType::kI64:
      return static_cast<double>(t.data<std::int64_t>()[i]);
    case DType::kF16:
    case DType::kBF16: {
      std::uint16_t h;
      std::memcpy(&h, t.bytes().data() + 2 * i, 2);
      return t.dtype() == DType::kF16 ? f16_to_f32(h) : bf16_to_f32(h);
    }
  }
  return 0;
}
}  // namespace

Tensor Tensor::converted(DType dtype) const {
  if (dtype == dtype_) return *this;
  Tensor out(dtype, shape_);
  const auto n = static_cast<std::size_t>(elements_);
  switch (dtype) {
    case DType::kF32: {
      auto to = out.data_mut<float>();
      for (std::size_t i = 0; i < n; ++i) to[i] = to_f32_rn(widen(*this, i));
      break;
    }
    case DType::kF64: {
      auto to = out.data_mut<double>();
      for (std::size_t i = 0; i < n; ++i) to[i] = widen(*this, i);
      break;
    }
    case DType::kF16:
    case DType::kBF16: {
      // From f64 this would round twice; driftc only stores f32 values in 16 bits.
      DRIFTC_ASSERT(dtype_ == DType::kF32, "16-bit storage is made from f32");
      auto to = out.bytes_mut();
      for (std::size_t i = 0; i < n; ++i) {
        const float v = data<float>()[i];
        const std::uint16_t h = dtype == DType::kF16 ? f32_to_f16_rne(v) : f32_to_bf16_rne(v);
        std::memcpy(to.data() + 2 * i, &h, 2);
      }
      break;
    }
    case DType::kI64: {
      auto to = out.data_mut<std::int64_t>();
      for (std::size_t i = 0; i < n; ++i) to[i] = static_cast<std::int64_t>(widen(*this, i));
      break;
    }
  }
  return out;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  if (a.byte_count() == 0 || a.bytes().data() == b.bytes().data()) return true;
  if (std::memcmp(a.bytes().data(), b.bytes().data(), a.byte_count()) == 0) return true;
  auto nan_aware = [](auto x, auto y) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      const bool both_nan = x[i] != x[i] && y[i] != y[i];
      if (!both_nan && bits_of(x[i]) != bits_of(y[i])) return false;
    }
    return true;
  };
  if (a.dtype() == DType::kF32) return nan_aware(a.data<float>(), b.data<float>());
  if (a.dtype() == DType::kF64) return nan_aware(a.data<double>(), b.data<double>());
  return false;
}

}  // namespace driftc::ir
