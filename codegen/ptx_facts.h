// Facts about PTX text that tests and reports rely on: how much arithmetic of which kind it holds,
// and whether every rounding is pinned (numerics.md 2.2: ptxas may fuse an unsuffixed mul with an
// add).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/support/result.h"

namespace driftc::codegen {

struct PtxFacts {
  int fma_rn = 0;  // fma.rn.{f32,f64}, scalar
  int mul_rn = 0;
  int add_rn = 0;          // add and sub
  int mul_unsuffixed = 0;  // f32 or f64 without a rounding
  int add_unsuffixed = 0;
  int approx = 0;  // any .approx or .full
  int ftz = 0;
  int mma = 0;
  std::vector<std::string> offences;  // instructions our kernels never contain, each once, in order
};

PtxFacts ptx_facts(std::string_view ptx);
// kInternal when the PTX leaves a rounding to ptxas or approximates.
Result<void> check_ptx(std::string_view ptx, std::string_view name);

}  // namespace driftc::codegen
