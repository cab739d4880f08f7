#include "ir/literal.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <mutex>

#include "ir/support/rng.h"

namespace driftc::ir {

struct Literal::Lazy {
  std::once_flag once;
  Tensor tensor;
};

Literal Literal::dense(Tensor tensor) {
  Literal l;
  l.type_ = {tensor.dtype(), tensor.shape(), Layout::kNchw};
  l.lazy_ = std::make_shared<Lazy>();
  l.lazy_->tensor = std::move(tensor);
  return l;
}
Literal Literal::splat(TensorType type, double value) {
  DRIFTC_ASSERT(type.dtype == DType::kF32 || type.dtype == DType::kI64 || type.dtype == DType::kF64,
                "splat type");
  Literal l;
  l.origin_ = Origin::kSplat;
  l.type_ = std::move(type);
  l.splat_ = value;
  l.lazy_ = std::make_shared<Lazy>();
  return l;
}
Literal Literal::random(Shape shape, std::uint64_t seed, std::string name) {
  Literal l;
  l.origin_ = Origin::kRandom;
  l.type_ = {DType::kF32, std::move(shape), Layout::kNchw};
  l.seed_ = seed;
  l.name_ = std::move(name);
  l.lazy_ = std::make_shared<Lazy>();
  return l;
}
Literal Literal::from_file(Tensor tensor, std::string path, std::uint64_t offset) {
  Literal l = dense(std::move(tensor));
  l.origin_ = Origin::kFile;
  l.name_ = std::move(path);
  l.offset_ = offset;
  return l;
}

const Tensor& Literal::tensor() const {
  std::call_once(lazy_->once, [this] {
    if (lazy_->tensor.defined()) return;
    Tensor t(type_.dtype, type_.shape);
    if (origin_ == Origin::kRandom) {
      std::int64_t fan_in = 1;
      for (std::size_t i = 1; i < type_.shape.rank(); ++i) fan_in *= type_.shape[i];
      fill_he(seed_, name_, fan_in, t.data_mut<float>());
    } else if (type_.dtype == DType::kF32) {
      for (float& v : t.data_mut<float>()) v = static_cast<float>(splat_);
    } else if (type_.dtype == DType::kF64) {
      for (double& v : t.data_mut<double>()) v = splat_;
    } else {
      for (std::int64_t& v : t.data_mut<std::int64_t>()) v = static_cast<std::int64_t>(splat_);
    }
    lazy_->tensor = std::move(t);
  });
  return lazy_->tensor;
}

std::uint64_t Literal::hash() const {
  const auto bytes = tensor().bytes();
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace driftc::ir
