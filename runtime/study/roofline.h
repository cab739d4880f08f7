// How long a kernel would take on a device, from a model: an ESTIMATE, never a measurement, and
// labelled so wherever it is shown. Good for ranking ways to compute the same thing.
//
// A launch is described by the work of one thread block; its time is
//   max(waves of blocks over the SMs, bytes that must come from memory / bandwidth) + one launch.
// b blocks share an SM (occupancy); they take
//   T(b) = max(b * share, waits * latency + alone)  clocks, where
//   share = max(products / rate, shared-memory words / 32, bytes from L2 / 32, instructions / 128)
//   alone = max(share, instructions / (32 * min(4, warps)))
// so many blocks fill the SM, and few are left waiting for memory. Blocks run in full waves of
// SMs * b, and a last one with ceil(rest / SMs) blocks on an SM (the tail).
//
// Sources: CUDA programming guide (arithmetic per clock, 32 banks of 4 bytes, four schedulers of
// one warp instruction a clock) and cuda_occupancy.h for the limits, through the device profile.
// The constants below are round figures out of published measurements, the same for every device.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/kernel.h"
#include "ir/winograd.h"
#include "runtime/devices/profile.h"

namespace driftc::runtime::study {

// Latency of a load from global memory in clocks: 300 (L2) to 700 (memory) on Volta to Hopper.
inline constexpr double kMemoryClocks = 500;
// L2 to SM: V100 2048 and A100 5120 bytes a clock for all SMs (NVIDIA's white papers): 26 and 47.
inline constexpr double kL2BytesPerClock = 32;
inline constexpr double kSharedWordsPerClock = 32, kIssuePerClock = 128;
// From the end of a kernel to the start of the next in one stream or graph.
inline constexpr double kLaunchSeconds = 1e-6;

enum class Pipe : std::uint8_t { kF32, kF64, kTensorF16, kTensorTf32 };

struct LaunchWork {
  std::string_view name;  // "products", "combine", "elements", ...
  double blocks = 1;
  int threads = 256;              // of a block
  int registers = 32;             // of a thread: guessed, or as ptxas reports
  std::int64_t shared_bytes = 0;  // of a block
  Pipe pipe = Pipe::kF32;
  // Of one block, its threads together.
  double products = 0;      // on the pipe, instructions of sums and transforms
  double instructions = 0;  // of all kinds, tensor cores apart
  double shared_words = 0;  // 32-bit words through shared memory or L1, broadcasts counted per lane
  double l2_bytes = 0;
  double waits = 1;         // times it waits for global memory, one after another
  bool sums = false;        // the launch that computes the kernel's sums
  double memory_bytes = 0;  // of the whole launch: what has to come from or go to memory
};

// The launches of a kernel, in the order in which code generation makes them. `operands` and
// `result` are the types at the kernel's border. Kernels of other algorithms than convolutions' and
// matrix products' are one launch.
std::vector<LaunchWork> launch_works(const ir::Kernel& kernel,
                                     std::span<const ir::TensorType> operands,
                                     const ir::TensorType& result, const DeviceProfile& device);

struct Occupancy {
  int blocks = 0;          // resident on an SM; 0: it cannot run
  std::string_view limit;  // "threads", "registers", "shared memory" or "blocks"
};
Occupancy occupancy(const DeviceProfile& device, int threads, int registers,
                    std::int64_t shared_bytes);

// Seconds; infinite where a block does not fit on an SM or the device has no such pipe.
double estimated_seconds(const LaunchWork& launch, const DeviceProfile& device);
double estimated_seconds(std::span<const LaunchWork> launches, const DeviceProfile& device);
double estimated_seconds(const ir::Graph& graph, const ir::Node& kernel_node,
                         const DeviceProfile& device);

struct GraphEstimate {
  double seconds = 0;   // of all compiled kernels
  int interpreted = 0;  // nodes that have none and are not counted
};
GraphEstimate estimated_seconds(const ir::Graph& compiled, const DeviceProfile& device);

// f32 (or f64) instructions per product of a sum.
double instructions_per_product(ir::Arith arith);
// Instructions of Winograd's M x M' for a matrix M.
double sandwich_instructions(const ir::FractionMatrix& matrix);

}  // namespace driftc::runtime::study
