// Device functions that give one sum its arithmetic: struct Sum and the few functions every
// reduction kernel is written with. The kernels decide the order of the calls; this decides the
// rounding of each.
//
//   total_t                  float, or double under f64 arithmetic
//   Sum                      the running sum of one output (kahan: and what was lost)
//   start(sum, v)            begins a chain with the value v
//   add_product(sum, x, w)   one leaf of the order, products; add_value(sum, x): without products
//   plus(a, b)               combination of two chains
//   rounded(total)           the one rounding to f32 at the end
//   operand(x)               an operand of a product as the contract wants it
#pragma once

#include <string>
#include <vector>

#include "codegen/cuda_writer.h"
#include "ir/numeric.h"
#include "ir/support/result.h"

namespace driftc::codegen {

// Internal error when the contract asks for arithmetic that has no code yet.
Result<std::vector<DeviceFunction>> sum_prelude(const ir::NumericContract& contract);
bool sums_in_f64(const ir::NumericContract& contract);
// "_muladd", "_tf32_rna" ...: what differs from f32 fma, for entry names.
std::string sum_suffix(const ir::NumericContract& contract);
// Text of the order for comments: what a reader should know about the order of the sum.
std::string explain_order(const ir::ReductionOrder& order);

}  // namespace driftc::codegen
