// The tensor-core model alone, 16 outputs at a time; MAC/s is the figure. Whole kernels with
// mma.sync are in ptx_bench.cpp (mma-tf32, mma-f16).
#include <benchmark/benchmark.h>

#include <vector>

#include "ir/support/half.h"
#include "ir/support/rng.h"
#include "runtime/sums/tensor_core_lanes.h"

namespace driftc::bench {
namespace {

void run_block(benchmark::State& state, const char* arch, runtime::TcFormat format, int k) {
  const auto core = runtime::tensor_core(arch, format, runtime::TcAccumulator::kF32);
  constexpr std::size_t kSteps = 512, kRows = 8;
  std::vector<float> lanes(kSteps * 16), scalars(kSteps * kRows), acc(kRows * 16);
  fill(Distribution::kRandom, 1, "lanes", lanes);
  fill(Distribution::kRandom, 1, "scalars", scalars);
  for (auto* v : {&lanes, &scalars})
    for (float& x : *v) x = f16_to_f32(f32_to_f16_rne(x));
  std::vector<std::uint32_t> lane_codes(lanes.size()), row_codes(scalars.size());
  runtime::tensor_core_lanes(format, static_cast<std::int64_t>(lanes.size()), lanes.data(),
                             lane_codes.data());
  runtime::tensor_core_rows(format, kRows, kSteps, scalars.data(), row_codes.data());
  runtime::TcTile tile;
  tile.lanes = lanes.data();
  tile.lane_codes = lane_codes.data();
  tile.row_values = scalars.data();
  tile.row_codes = row_codes.data();
  tile.rows = kRows;
  tile.steps = kSteps;
  tile.acc = acc.data();
  for (auto _ : state) {
    runtime::tensor_core_tile(*core, k, tile);
    benchmark::DoNotOptimize(acc.data());
  }
  state.counters["MAC/s"] =
      benchmark::Counter(kSteps * kRows * 16, benchmark::Counter::kIsIterationInvariantRate);
}

BENCHMARK_CAPTURE(run_block, x, "sm_90", runtime::TcFormat::kTf32, 8)->Name("block-tf32/sm_90");
BENCHMARK_CAPTURE(run_block, x, "sm_80", runtime::TcFormat::kTf32, 8)->Name("block-tf32/sm_80");
BENCHMARK_CAPTURE(run_block, x, "sm_90", runtime::TcFormat::kF16, 16)->Name("block-f16/sm_90");
BENCHMARK_CAPTURE(run_block, x, "sm_80", runtime::TcFormat::kF16, 16)->Name("block-f16/sm_80");
BENCHMARK_CAPTURE(run_block, x, "sm_90", runtime::TcFormat::kBf16, 16)->Name("block-bf16/sm_90");

}  // namespace
}  // namespace driftc::bench
