// mma.sync as the executor knows it: shape, fragments and the tensor core that computes it. The
// core is that of the PTX's target, which the device profile chose; fragments are laid out as in
// numerics.md 2.5 (PTX ISA, "Matrix fragments for mma").
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/support/result.h"
#include "runtime/ptx/module.h"
#include "runtime/sums/tensor_core.h"

namespace driftc::runtime::ptx {

struct MmaShape {
  TensorCore core;
  int k = 0;
  int a_regs = 0, b_regs = 0, acc_regs = 0;  // 32-bit registers of a thread
  // m8n8k4: four 8x8 products side by side, one for each pair of quads (threads 4 q to 4 q + 3 and
  // 16 + 4 q to 19 + 4 q). It is executed in two parts of four columns, whose accumulators have the
  // registers above; `column` is the first one of this part.
  bool quad_pairs = false;
  int column = 0;
  int parts() const { return quad_pairs ? 2 : 1; }
};

// `target` of the module ("sm_90"); `flags` and `types` are the modifiers of the instruction, split
// ("sync", "aligned", "m16n8k8", "row", "col" and D, A, B, C). The error completes "instruction
// 'mma...' ": what is not modelled, or what the target does not have.
Result<MmaShape> mma_shape(std::string_view target, const std::vector<std::string>& flags,
                           const std::vector<Type>& types);

}  // namespace driftc::runtime::ptx
