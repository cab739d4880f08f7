// What a tuner decided for one convolution or matmul kernel. The passes that it concerns
// (choose-algorithm, split-k, bias-first, choose-tiling) read their part of it where their option
// says `tuned`; `with_choice` applies all of it to a finished kernel, which must come to the same.
#pragma once

#include <map>
#include <string>

#include "ir/kernel.h"

namespace driftc::passes {

struct KernelChoice {
  ir::Algorithm algorithm = ir::Algorithm::kImplicitGemm;
  ir::Schedule schedule;
  int split = 1;
  ir::SplitCombine combine = ir::SplitCombine::kSerial;  // serial where split is 1
  bool bias_first = false;
  ir::Precision filters = ir::Precision::kF32;  // of Winograd: arithmetic of the filter transform
  friend bool operator==(const KernelChoice&, const KernelChoice&) = default;
};
// "winograd2_fused 16x16x8 (1x1)", "implicit_gemm 64x64x8 (4x4) split4 bias.first", "direct"
std::string to_string(const KernelChoice& choice);

// By the value that the kernel's convolution or matmul makes (it keeps its name through fusions).
using KernelChoices = std::map<std::string, KernelChoice>;
const KernelChoice* choice_for(const KernelChoices* choices, const ir::Kernel& kernel);

// What the kernel is now, as a choice.
KernelChoice choice_of(const ir::Kernel& kernel);
// The order as the algorithm has it. Winograd's transforms leave sums over channels only, and add
// the bias to the result; a direct kernel has no slices.
ir::ReductionOrder order_for(ir::Algorithm algorithm, const ir::ReductionOrder& order);
// The kernel with another algorithm, and with the order and transform that go with it; its schedule
// is left to the caller.
ir::NumericContract contract_for(ir::Algorithm algorithm, ir::Precision filters,
                                 ir::NumericContract contract);
void set_algorithm(ir::Kernel& kernel, ir::Algorithm algorithm, ir::Precision filters);
// Turns `kernel`, a variant of `base`, into another; only where why_not(base, choice) is empty.
void set_choice(ir::Kernel& kernel, const ir::Kernel& base, const KernelChoice& choice);
// Why no such kernel can be made of `kernel`, or "".
std::string why_not(const ir::Kernel& kernel, const KernelChoice& choice);
// Only where why_not is empty. The body stays as it is.
ir::Kernel with_choice(const ir::Kernel& kernel, const KernelChoice& choice);

}  // namespace driftc::passes
