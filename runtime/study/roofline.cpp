#include "runtime/study/roofline.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "codegen/element_kernel.h"
#include "codegen/line_windows.h"
#include "passes/tiling.h"

namespace driftc::runtime::study {
namespace {

constexpr int kElementThreads = codegen::kElementThreads;
// Of a thread that loads one element of a tile: address, guards, load, store.
constexpr double kLoadInstructions = 8;
// Per element of a kernel with one thread per element: coordinates, guard, store.
constexpr double kElementInstructions = 24;

double terms_of(const ir::FractionMatrix& matrix) {
  double terms = 0;
  for (int r = 0; r < matrix.rows; ++r)
    terms += static_cast<double>(ir::transform_row(matrix, r).size());
  return terms;
}

double ceil_div(double a, double b) { return std::ceil(a / b); }
double real(std::int64_t n) { return static_cast<double>(n); }
double bytes_of(const ir::TensorType& type) {
  return real(type.shape.elements()) * static_cast<double>(ir::byte_size(type.dtype));
}

// One thread per element, in blocks of 256.
LaunchWork elements(std::string_view name, double count, double instructions, double bytes) {
  LaunchWork out;
  out.name = name;
  out.threads = kElementThreads;
  out.blocks = ceil_div(count, kElementThreads);
  out.instructions = (instructions + kElementInstructions) * kElementThreads;
  if (out.blocks > 0) out.l2_bytes = bytes / out.blocks;
  out.memory_bytes = bytes;
  return out;
}

struct Product {
  double m, n, k, batches;
};

class Works {
 public:
  Works(const ir::Kernel& kernel, std::span<const ir::TensorType> operands,
        const ir::TensorType& result, const DeviceProfile& device)
      : kernel_(kernel),
        result_(result),
        device_(device),
        node_(*ir::reduction_node(kernel.body)),
        extent_(*passes::gemm_extent(kernel.body)),
        output_bytes_(bytes_of(result)) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const ir::ValueId input = kernel.body.inputs()[i];
      const bool main = input == node_.operands[0] || input == node_.operands[1];
      (main ? main_bytes_ : rest_bytes_) += bytes_of(operands[i]);
    }
  }

  std::vector<LaunchWork> all() {
    const int tile = ir::winograd_tile(kernel_.algorithm);
    const Product product{real(extent_.m), real(extent_.n), real(extent_.k), real(extent_.batches)};
    if (kernel_.algorithm == ir::Algorithm::kDirect) return {direct(product)};
    if (tile != 0) return winograd(product, tile);
    std::vector<LaunchWork> out;
    if (kernel_.algorithm == ir::Algorithm::kIm2col) {
      const double cells = product.m * product.k * product.batches;
      out.push_back(elements("im2col", cells, 8, stored(4 * cells)));
    }
    LaunchWork main = products(product, order().split);
    const double slices = slices_of(product.k, order().split), sums = product.m * product.n;
    if (slices > 1) {
      main.memory_bytes = main_bytes_ + stored(4 * slices * sums * product.batches);
      out.push_back(std::move(main));
      LaunchWork combine = elements("combine", sums * product.batches, 2 * slices + epilogue(),
                                    4 * (slices + 1) * sums * product.batches);
      combine.memory_bytes =
          rest_bytes_ + output_bytes_ + stored(4 * slices * sums * product.batches);
      out.push_back(std::move(combine));
      return out;
    }
    main.memory_bytes = main_bytes_ + rest_bytes_ + output_bytes_;
    main.instructions += epilogue() * kernel_.schedule.block_m * kernel_.schedule.block_n;
    out.push_back(std::move(main));
    return out;
  }

 private:
  const ir::ReductionOrder& order() const { return *kernel_.contract.order; }
  double epilogue() const {
    return kElementInstructions + 4 * static_cast<double>(kernel_.body.node_count() - 1);
  }
  static double slices_of(double k, int split) {
    return split > 1 && k > 0 ? ceil_div(k, ceil_div(k, split)) : 1;
  }
  // Scratch that the next launch reads stays in L2 where it fits into half of it.
  double stored(double bytes) const { return bytes <= 512.0 * device_.l2_kib ? 0 : bytes; }
  Pipe pipe() const {
    if (order().arith == ir::Arith::kMma)
      return order().mma.dtype == "tf32" ? Pipe::kTensorTf32 : Pipe::kTensorF16;
    return order().arith == ir::Arith::kF64 || kernel_.contract.acc == ir::Precision::kF64
               ? Pipe::kF64
               : Pipe::kF32;
  }

  // The tiled product: every block reads its rows and columns of each step into shared memory.
  LaunchWork products(const Product& p, int split) const {
    const ir::Schedule& s = kernel_.schedule;
    const double slices = slices_of(p.k, split), k = std::max(1.0, ceil_div(p.k, slices));
    const double threads_m = s.block_m / s.thread_m, threads_n = s.block_n / s.thread_n;
    LaunchWork out;
    out.name = "products";
    out.sums = true;
    out.pipe = pipe();
    out.threads = static_cast<int>(threads_m * threads_n);
    out.blocks = ceil_div(p.m, s.block_m) * ceil_div(p.n, s.block_n) * p.batches * slices;
    out.waits = ceil_div(k, s.block_k) + 1;
    const double tile = s.block_m + s.block_n, sums = s.thread_m * s.thread_n;
    out.l2_bytes = 4 * tile * k + 4.0 * s.block_m * s.block_n;
    const double loads = kLoadInstructions * tile * k;
    if (out.pipe == Pipe::kTensorF16 || out.pipe == Pipe::kTensorTf32) {
      // A warp computes 8 thread_m x 4 thread_n: it reads that many rows and columns.
      const double per_word = out.pipe == Pipe::kTensorTf32 ? 1 : 2, warps = out.threads / 32.0;
      out.products = real(s.block_m) * s.block_n * k;
      out.shared_words = (warps * (8.0 * s.thread_m + 4.0 * s.thread_n) + tile) * k / per_word;
      out.instructions = loads + out.shared_words + warps * 32 * sums * k / 64;
      out.registers = 40 + static_cast<int>(sums) + 2 * (s.thread_m + s.thread_n);
      out.shared_bytes = static_cast<std::int64_t>(4 * (s.block_k / per_word + 4) * tile);
      return out;
    }
    const double per_product = instructions_per_product(order().arith);
    const int width = out.pipe == Pipe::kF64 ? 2 : 1;
    out.products = out.threads * sums * k * per_product;
    out.shared_words = out.threads * (s.thread_m + s.thread_n) * k + tile * k;
    out.instructions = out.products + out.shared_words + loads;
    const int kept = order().arith == ir::Arith::kKahan ? 2 : width;
    out.registers = 32 + static_cast<int>(sums) * kept + s.thread_m + s.thread_n;
    out.shared_bytes = 4 * s.block_k * (s.block_m + 1 + s.block_n);
    return out;
  }

  // A thread per output, or per few lines of a plane, which share the loads of w and of the rows of
  // x that their windows overlap in.
  LaunchWork direct(const Product& p) const {
    const ir::ReductionExtent reduction = ir::reduction_extent(kernel_.body, node_);
    const std::int64_t taps = reduction.r * reduction.s;
    const codegen::Places places = codegen::places_of(
        result_, codegen::direct_lines(taps, order().bias == ir::BiasPoint::kFirst));
    LaunchWork out;
    out.name = "direct";
    out.sums = true;
    out.threads = static_cast<int>(places.block[0] * places.block[1] * places.block[2]);
    out.blocks = real(places.grid[0]) * places.grid[1] * places.grid[2];
    const double outputs = real(out.threads) * places.lines, each = outputs * p.k;
    const double per_product = instructions_per_product(order().arith);
    out.pipe = pipe();
    out.products = each * per_product;
    const int sharing =
        codegen::LineWindows::apply(order(), reduction.c, places.lines) ? places.lines : 1;
    const codegen::LineWindows windows(sharing, reduction.r, node_.ints("stride")[0],
                                       node_.ints("dilation")[0]);
    const double loads = out.threads * real(places.lines / sharing) * real(windows.rows_read()) *
                         real(reduction.s * reduction.c);
    out.instructions =
        outputs * epilogue() + out.threads * kElementInstructions + each * per_product + loads * 6;
    out.shared_words = loads + out.threads * p.k;
    // Neighbouring outputs share the inputs of overlapping windows.
    out.l2_bytes = 4 * outputs * (p.k / real(taps) + 2);
    out.waits = real(reduction.c);
    out.registers = 40;
    out.memory_bytes = main_bytes_ + rest_bytes_ + output_bytes_;
    return out;
  }

  std::vector<LaunchWork> winograd(const Product& p, int tile) const {
    const ir::WinogradMatrices& w = ir::winograd_matrices(tile);
    const double area = w.n() * w.n(), channels = p.k / 9, groups = p.batches;
    const ir::Shape& y = kernel_.body.value(node_.result).type.shape;
    const double tiles = real(y[0]) * ceil_div(real(y[2]), tile) * ceil_div(real(y[3]), tile);
    // Rows of transformed filters are whole vectors of four.
    const double weights = 4 * 9 * channels * p.n * groups;
    const double filters = channels * 4 * ceil_div(p.n, 4) * groups,
                 data = tiles * channels * groups, sums = tiles * p.n * groups;
    const int registers = tile == 2 ? 48 : 96;
    const double filter_cost = sandwich_instructions(w.g), data_cost = sandwich_instructions(w.bt),
                 sum_cost = sandwich_instructions(w.at);
    LaunchWork first = elements("filters", filters, filter_cost + area, 4 * filters * (9 + area));
    first.memory_bytes = weights + stored(4 * area * filters);
    first.registers = registers;
    const bool fused = kernel_.algorithm == ir::Algorithm::kWinograd2Fused ||
                       kernel_.algorithm == ir::Algorithm::kWinograd4Fused;
    if (fused) {
      const ir::Schedule& s = kernel_.schedule;
      const double threads = s.block_m * s.block_n,
                   per_product = instructions_per_product(order().arith);
      LaunchWork out;
      out.name = "fused";
      out.sums = true;
      out.pipe = pipe();
      out.threads = static_cast<int>(threads);
      out.blocks = ceil_div(tiles, s.block_m) * ceil_div(p.n, s.block_n) * groups;
      out.waits = ceil_div(channels, s.block_k) + 1;
      // Transforms of the block's tiles are made again by every block of the same tiles.
      const double transforms = s.block_m * channels * data_cost + threads * sum_cost;
      out.products = threads * area * channels * per_product + transforms;
      out.shared_words = (2 * threads + s.block_m + s.block_n) * area * channels;
      out.l2_bytes = 4 * area * channels * (s.block_m + s.block_n) + 4 * threads * tile * tile;
      out.instructions = out.products + out.shared_words +
                         kLoadInstructions * area * channels * (s.block_m + s.block_n) +
                         epilogue() * threads * tile * tile;
      out.registers = 40 + 2 * static_cast<int>(area);
      out.shared_bytes =
          static_cast<std::int64_t>(4 * s.block_k * area) * (s.block_m + 1 + s.block_n);
      out.memory_bytes =
          main_bytes_ - weights + rest_bytes_ + output_bytes_ + stored(4 * area * filters);
      return {first, out};
    }
    LaunchWork second = elements("data", data, data_cost + 5 * area, 8 * data * area);
    second.memory_bytes = main_bytes_ - weights + stored(4 * area * data);
    second.registers = registers;
    LaunchWork third = products({tiles, p.n, channels, area * groups}, 1);
    third.memory_bytes =
        stored(4 * area * filters) + stored(4 * area * data) + stored(4 * area * sums);
    const double outputs = tile * tile;
    LaunchWork last = elements("output", sums, sum_cost + area + outputs * epilogue(),
                               4 * sums * (area + outputs));
    last.memory_bytes = stored(4 * area * sums) + rest_bytes_ + output_bytes_;
    last.registers = registers;
    return {first, second, third, last};
  }

  const ir::Kernel& kernel_;
  const ir::TensorType& result_;
  const DeviceProfile& device_;
  const ir::Node& node_;
  passes::GemmExtent extent_;
  double main_bytes_ = 0, rest_bytes_ = 0, output_bytes_;
};

// Products per clock and SM.
double rate_of(Pipe pipe, const DeviceProfile& device) {
  switch (pipe) {
    case Pipe::kF32:
      return device.f32_per_clock;
    case Pipe::kF64:
      return device.f64_per_clock;
    case Pipe::kTensorF16:
      return device.tensor_f16;
    case Pipe::kTensorTf32:
      return device.tensor_tf32;
  }
  return 0;
}

std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

double instructions_per_product(ir::Arith arith) {
  switch (arith) {
    case ir::Arith::kMulAdd:
      return 2;
    case ir::Arith::kKahan:
      return 5;  // a product, and four additions that keep what was lost
    default:
      return 1;
  }
}

double sandwich_instructions(const ir::FractionMatrix& m) {
  return terms_of(m) * (m.columns + m.rows);
}

std::vector<LaunchWork> launch_works(const ir::Kernel& kernel,
                                     std::span<const ir::TensorType> operands,
                                     const ir::TensorType& result, const DeviceProfile& device) {
  if (passes::gemm_extent(kernel.body) && kernel.contract.order)
    return Works(kernel, operands, result, device).all();
  // Everything else reads its operands and writes its result once; a reduction visits its window.
  double bytes = bytes_of(result), positions = 1;
  for (const ir::TensorType& operand : operands) bytes += bytes_of(operand);
  if (const ir::Node* node = ir::reduction_node(kernel.body))
    positions = real(ir::reduction_extent(kernel.body, *node).positions());
  return {elements("elements", real(result.shape.elements()),
                   8 * positions * static_cast<double>(kernel.body.node_count()), bytes)};
}

Occupancy occupancy(const DeviceProfile& device, int threads, int registers,
                    std::int64_t shared_bytes) {
  if (threads < 1 || threads > kThreadsPerBlock || registers > kThreadRegisters ||
      shared_bytes > std::int64_t{1024} * device.shared_block_kib)
    return {0, ""};
  const std::int64_t warps = (threads + kWarpSize - 1) / kWarpSize;
  Occupancy out{device.blocks_per_sm, "blocks"};
  const auto limit = [&](std::int64_t blocks, std::string_view why) {
    if (blocks < out.blocks) out = {static_cast<int>(blocks), why};
  };
  limit(device.threads_per_sm / (warps * kWarpSize), "threads");
  const std::int64_t per_warp =
      round_up(std::max(registers, 1) * std::int64_t{kWarpSize}, kRegisterUnit);
  // Each of the four schedulers has a quarter of the registers, and whole warps.
  limit(kRegisters / 4 / per_warp * 4 / warps, "registers");
  const std::int64_t shared =
      round_up(shared_bytes + std::int64_t{1024} * device.shared_reserved_kib, device.shared_unit);
  if (shared > 0) limit(std::int64_t{1024} * device.shared_sm_kib / shared, "shared memory");
  return out;
}

double estimated_seconds(const LaunchWork& launch, const DeviceProfile& device) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const Occupancy resident =
      occupancy(device, launch.threads, launch.registers, launch.shared_bytes);
  const double rate = rate_of(launch.pipe, device);
  if (resident.blocks == 0 || rate == 0) return kNever;
  const double share =
      std::max({launch.products / rate, launch.shared_words / kSharedWordsPerClock,
                launch.l2_bytes / kL2BytesPerClock, launch.instructions / kIssuePerClock});
  const double warps = std::ceil(launch.threads / static_cast<double>(kWarpSize));
  const double alone =
      std::max(share, launch.instructions / (kIssuePerClock / 4 * std::min(4.0, warps)));
  const auto clocks = [&](double blocks) {
    return blocks == 0 ? 0 : std::max(blocks * share, launch.waits * kMemoryClocks + alone);
  };
  const double wave = static_cast<double>(device.sm_count) * resident.blocks;
  const double full = std::floor(launch.blocks / wave), rest = launch.blocks - full * wave;
  const double total = full * clocks(resident.blocks) + clocks(ceil_div(rest, device.sm_count));
  return std::max(total / (1e6 * device.sm_clock_mhz),
                  launch.memory_bytes / (1e9 * device.bandwidth_gbps)) +
         kLaunchSeconds;
}

double estimated_seconds(std::span<const LaunchWork> launches, const DeviceProfile& device) {
  double seconds = 0;
  for (const LaunchWork& launch : launches) seconds += estimated_seconds(launch, device);
  return seconds;
}

double estimated_seconds(const ir::Graph& graph, const ir::Node& node,
                         const DeviceProfile& device) {
  std::vector<ir::TensorType> operands;
  for (const ir::ValueId v : node.operands) operands.push_back(graph.value(v).type);
  return estimated_seconds(
      launch_works(*node.kernel, operands, graph.value(node.result).type, device), device);
}

GraphEstimate estimated_seconds(const ir::Graph& compiled, const DeviceProfile& device) {
  GraphEstimate out;
  for (const ir::Node& node : compiled.nodes()) {
    if (node.op != ir::Op::kKernel) continue;
    if (node.kernel->algorithm == ir::Algorithm::kInterpreter) {
      ++out.interpreted;
    } else {
      out.seconds += estimated_seconds(compiled, node, device);
    }
  }
  return out;
}

}  // namespace driftc::runtime::study
