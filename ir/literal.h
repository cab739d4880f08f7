// The value of a `constant`: its type and either its bits or the recipe that makes them.
// Literals are shared and immutable; recipes make their bits on first use (thread-safe) and keep
// them.
#pragma once

#include <memory>
#include <string>

#include "ir/tensor.h"

namespace driftc::ir {

class Literal {
 public:
  enum class Origin : std::uint8_t { kDense, kSplat, kRandom, kFile };

  static Literal dense(Tensor tensor);
  static Literal splat(TensorType type, double value);  // f32: `value` is an f32; i64: an integer
  // he weights of rng.h, f32; `name` is the generator's name of the tensor. fan_in = product of the
  // extents after the first.
  static Literal random(Shape shape, std::uint64_t seed, std::string name);
  // Bits that lie in a file at a byte offset, little-endian; `tensor` holds them already.
  static Literal from_file(Tensor tensor, std::string path, std::uint64_t offset);

  Origin origin() const { return origin_; }
  const TensorType& type() const { return type_; }
  double splat_value() const { return splat_; }
  std::uint64_t seed() const { return seed_; }
  const std::string& name() const { return name_; }  // random: generator name; file: path
  std::uint64_t offset() const { return offset_; }
  const Tensor& tensor() const;  // the bits
  std::uint64_t hash() const;    // xxh3 of the bits

 private:
  struct Lazy;
  Origin origin_ = Origin::kDense;
  TensorType type_;
  double splat_ = 0;
  std::uint64_t seed_ = 0, offset_ = 0;
  std::string name_;
  std::shared_ptr<Lazy> lazy_;
};

}  // namespace driftc::ir
