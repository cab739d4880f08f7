// Preparations: what happens to an operand before a kernel reads it, named and pure. For a constant
// it is done once and kept by the caller; for another operand the runner does it on every run.
// Being plain data, a preparation can be printed, hashed and (by certify) broken on purpose.
#pragma once

#include <cstdint>
#include <string>

#include "ir/numeric.h"
#include "ir/support/result.h"
#include "ir/tensor.h"

namespace driftc::codegen {

struct Preparation {
  enum class Kind : std::uint8_t {
    // Convolution weights [K,C,R,S] -> [positions in walk order][K rounded up to a multiple of 4];
    // what the
    // rounding adds is +0 and never takes part in a stored sum.
    kWalkMajor,
    // A matrix [N,K] -> [K][N rounded up to a multiple of 4].
    kTransposed,
  };
  Kind kind = Kind::kWalkMajor;
  int operand = 0;                 // position among the kernel node's operands
  ir::Walk walk = ir::Walk::kCrs;  // kWalkMajor
  int channel_tile = 0;            // kWalkMajor with kTiledCrs
  ir::Shape result_shape;          // stored row-major
  friend bool operator==(const Preparation&, const Preparation&) = default;
};
std::string to_string(const Preparation& preparation);  // "walk_major(operand=1, walk=crs)"

// Columns of a prepared matrix: rows start at multiples of 16 bytes so that vector loads are
// aligned.
std::int64_t padded_columns(std::int64_t columns);

Preparation walk_major(int operand, const ir::Shape& weight, const ir::ReductionOrder& order);
Preparation transposed(int operand, const ir::Shape& matrix);

// `operand` is f32 in logical row-major order, of the shape the preparation was made for.
ir::Tensor prepare(const Preparation& preparation, const ir::Tensor& operand);

}  // namespace driftc::codegen
