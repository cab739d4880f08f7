// A SumProgram (ir/numeric.h) arranged for execution: which chain runs when, and in which of few
// slots its value waits. The plan performs exactly the program's operations; only the moment of
// independent ones differs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/numeric.h"

namespace driftc::runtime {

// What one leaf does to its chain. kAdd and kKahanAdd take b alone (pooling, means).
enum class SumArith : std::uint8_t { kFma, kMulAdd, kKahan, kAdd, kKahanAdd };

struct SumStep {
  enum class Kind : std::uint8_t {
    kChain,     // slot = chain of leaves [begin, end)
    kChainAdd,  // slot = add_rn(slot, chain of leaves [begin, end))
    kAdd,       // slot = add_rn(slot, from)
  };
  Kind kind = Kind::kChain;
  bool starts_with_bias = false;
  bool flush =
      false;  // kAdd: subnormal operands and results become zero of the same sign (f32 only)
  std::int32_t slot = 0, from = 0;
  std::int32_t begin = 0, end = 0;  // into SumPlan::leaves
};

struct SumPlan {
  std::vector<std::int32_t>
      leaves;  // canonical positions, SumProgram::kZeroLeaf for padding leaves
  std::vector<SumStep> steps;
  std::int32_t slots = 1;
  std::int32_t result = 0;  // the slot of the sum
};

// `flush_root`: additions into the root flush subnormals, as f32 atomics on global memory do.
SumPlan make_plan(const ir::SumProgram& program, bool flush_root = false);
// The plan of one order. `wide`: the accumulator is f64, whose atomics do not flush.
SumPlan make_plan(const ir::ReductionOrder& order, const ir::ReductionExtent& extent,
                  std::span<const bool> padded, std::uint64_t atomic_seed, bool wide);

// kF64 becomes kFma (or kAdd): the caller picks double for the chain's type. kMma is
// carried out by a tensor core instead (sum_engine.h) and in f64 by fma.
SumArith sum_arith(ir::Arith arith, bool has_products);

}  // namespace driftc::runtime
