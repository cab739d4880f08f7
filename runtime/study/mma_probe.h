// One mma.sync instruction on given matrices, executed as PTX: how the executor's tensor cores are
// held against captured hardware outputs and against the scalar model. The fragments are packed
// here, from the tables of the PTX ISA, independently of the executor's own unpacking.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ir/support/result.h"
#include "runtime/sums/tensor_core.h"
#include "runtime/thread_pool.h"

namespace driftc::runtime::study {

struct MmaInstruction {
  std::string target = "sm_90";
  TcFormat format = TcFormat::kF16;
  TcAccumulator accumulator = TcAccumulator::kF32;
  int k = 16;
};

// d = a * b + c: a is [16][k], b [k][8], c and d [16][8], values of the instruction's formats (f32
// words for tf32, whose low bits the hardware ignores). m8n8k4 of sm_70 (f16, k = 4) takes the rows
// eight at a time.
struct MmaProblem {
  std::vector<float> a, b, c;
};

// The text of the kernel: every block of 32 threads is one mma.
std::string mma_probe_ptx(const MmaInstruction& instruction);
// All problems in one launch; `check`: in the executor's checked mode. Errors: what the executor
// refuses.
Result<std::vector<std::vector<float>>> run_mma(const MmaInstruction& instruction,
                                                std::span<const MmaProblem> problems,
                                                ThreadPool& pool, bool check = false);

}  // namespace driftc::runtime::study
