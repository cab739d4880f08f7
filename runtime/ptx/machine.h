// Runs a decoded kernel on the CPU: whole blocks in lockstep, blocks spread over the threads of a
// pool. Results depend on the program, the arguments and the seed only: not on threads, vector
// width or timing. Errors (kInternal: a generated kernel misbehaved) name kernel, PTX line, CUDA
// line, block, thread, address.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ir/support/result.h"
#include "runtime/ptx/decode.h"
#include "runtime/ptx/memory.h"
#include "runtime/thread_pool.h"

namespace driftc::runtime::ptx {

struct LaunchConfig {
  std::array<std::uint32_t, 3> grid{1, 1, 1};   // blocks in x, y, z
  std::array<std::uint32_t, 3> block{1, 1, 1};  // threads in x, y, z; at most 1024 together
  std::uint32_t dynamic_shared_bytes =
      0;  // extern __shared__; at most 227 KiB with the static part
};

struct LaunchOptions {
  // Order of blocks and warps. Blocks: each grid dimension runs in the order
  // seeded_permutation(schedule_seed, extent) (ir/support/hash.h), z outermost, x innermost, one
  // block after the other. Warps of a block: stores and atomics of one instruction take effect warp
  // by warp, in the order seeded_permutation(schedule_seed, warps). 0: ascending, and blocks of
  // kernels without global atomics spread over the threads.
  std::uint64_t schedule_seed = 0;
  // Checked mode: also reports races in shared memory, reads of memory and registers nothing wrote,
  // atomics mixed with plain accesses (check.h). Bounds and alignment are always checked.
  bool check = false;
  // A kernel that executes more than this many basic blocks in one thread block is reported as
  // hanging.
  std::uint64_t max_steps_per_block = std::uint64_t{1} << 32;
};

// `params` as ArgumentPacker builds it; its size must match the kernel's parameters.
Result<void> launch(const Program& program, const LaunchConfig& config,
                    std::span<const std::byte> params, DeviceMemory& memory, ThreadPool& pool,
                    const LaunchOptions& options = {});

}  // namespace driftc::runtime::ptx
