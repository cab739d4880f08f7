// The exact reference against oneDNN. Names: exact-LAYER/onednn and exact-LAYER/driftc for ordinary
// data; exact-cancelling-LAYER for data whose outputs nearly all need the second tier;
// bounds-LAYER/WHAT for the bounds of a whole tensor. One thread.
#include <benchmark/benchmark.h>

#include <array>

#include "ir/builder.h"
#include "ir/support/rng.h"
#include "onednn_peer.h"
#include "runtime/compare/bounds.h"
#include "runtime/numeric/exact.h"

namespace driftc::bench {
namespace {

void report(benchmark::State& state, double multiply_adds) {
  state.counters["MAC/s"] =
      benchmark::Counter(multiply_adds, benchmark::Counter::kIsIterationInvariantRate);
}

void run_onednn(benchmark::State& state, const PeerConv& shape) {
  OnednnConv conv(shape);
  for (auto _ : state) conv.run();
  report(state, shape.multiply_adds());
}

enum class Data { kOrdinary, kCancelling };

// Cancelling: channels 2i and 2i+1 have the same weights and opposite inputs but for 2^-26 of their
// size.
void make_cancelling(const PeerConv& s, std::span<float> x, std::span<float> w) {
  const auto plane = static_cast<std::size_t>(s.h * s.w),
             taps = static_cast<std::size_t>(s.kernel * s.kernel);
  for (std::size_t i = plane; i < x.size(); ++i)
    if (i / plane % 2 == 1) x[i] = -x[i - plane] * (1.0f - 0x1p-23f);
  for (std::size_t i = taps; i < w.size(); ++i)
    if (i / taps % 2 == 1) w[i] = w[i - taps];
}

void run_exact(benchmark::State& state, const PeerConv& s, Data data,
               runtime::Hypothesis operands) {
  ir::Tensor x(ir::DType::kF32, {s.n, s.c, s.h, s.w}),
      w(ir::DType::kF32, {s.k, s.c, s.kernel, s.kernel});
  fill(Distribution::kRandom, 1, "x", x.data_mut<float>());
  fill(Distribution::kRandom, 1, "w", w.data_mut<float>());
  if (data == Data::kCancelling) make_cancelling(s, x.data_mut<float>(), w.data_mut<float>());
  ir::Graph graph;
  ir::Builder builder(graph);
  const auto result =
      builder.add(ir::Op::kConv2d,
                  {graph.add_input("x", {ir::DType::kF32, x.shape(), ir::Layout::kNchw}),
                   graph.add_input("w", {ir::DType::kF32, w.shape(), ir::Layout::kNchw})},
                  {{"stride", std::vector<std::int64_t>{s.stride, s.stride}},
                   {"pad", std::vector<std::int64_t>{s.pad, s.pad, s.pad, s.pad}}},
                  "y");
  if (!result.ok()) return state.SkipWithError("shape");
  const std::array<ir::Tensor, 2> tensors = {x, w};
  runtime::ThreadPool pool(1);
  runtime::ExactResult exact;
  for (auto _ : state)
    exact = runtime::exact_value(graph, {0}, tensors, {.operands = operands}, pool);
  report(state, s.multiply_adds());
  const auto elements = static_cast<double>(exact.value.elements());
  state.counters["compensated"] = static_cast<double>(exact.compensated) / elements;
  state.counters["kulisch"] = static_cast<double>(exact.kulisch) / elements;
}

// Bounds of a whole tensor.
enum class Bound { kPerLeaf, kReplay, kWinograd4, kTensorCore };
void run_bound(benchmark::State& state, const PeerConv& s, Bound bound) {
  ir::Tensor x(ir::DType::kF32, {s.n, s.c, s.h, s.w}),
      w(ir::DType::kF32, {s.k, s.c, s.kernel, s.kernel});
  fill(Distribution::kRandom, 1, "x", x.data_mut<float>());
  fill(Distribution::kRandom, 1, "w", w.data_mut<float>());
  ir::Graph graph;
  ir::Builder builder(graph);
  const auto result =
      builder.add(ir::Op::kConv2d,
                  {graph.add_input("x", {ir::DType::kF32, x.shape(), ir::Layout::kNchw}),
                   graph.add_input("w", {ir::DType::kF32, w.shape(), ir::Layout::kNchw})},
                  {{"stride", std::vector<std::int64_t>{s.stride, s.stride}},
                   {"pad", std::vector<std::int64_t>{s.pad, s.pad, s.pad, s.pad}}},
                  "y");
  if (!result.ok()) return state.SkipWithError("shape");
  const std::array<ir::Tensor, 2> tensors = {x, w};
  const runtime::SumProblem problem = runtime::sum_problem(graph, {0}, tensors);
  runtime::ThreadPool pool(1);
  using namespace runtime::compare;
  for (auto _ : state) switch (bound) {
      case Bound::kPerLeaf:
        benchmark::DoNotOptimize(a_priori_bound(problem, {}, pool));
        break;
      case Bound::kReplay:
        benchmark::DoNotOptimize(replay_bound(problem, {}, pool));
        break;
      case Bound::kWinograd4:
        benchmark::DoNotOptimize(winograd_bound(problem, ir::winograd_matrices(4), {}, pool));
        break;
      case Bound::kTensorCore:
        benchmark::DoNotOptimize(tensor_core_chain_bound(
            problem,
            *runtime::tensor_core("sm_90", runtime::TcFormat::kTf32, runtime::TcAccumulator::kF32),
            8, pool));
        break;
    }
  report(state, s.multiply_adds());
}

constexpr PeerConv k64x56 = {1, 64, 56, 56, 64, 3, 1, 1};
constexpr PeerConv k512x7 = {1, 512, 7, 7, 512, 3, 1, 1};
constexpr PeerConv k1x1 = {1, 64, 56, 56, 256, 1, 1, 0};
constexpr PeerConv kStem = {1, 3, 224, 224, 64, 7, 2, 3};

#define DRIFTC_EXACT(layer, shape)                                                   \
  BENCHMARK_CAPTURE(run_onednn, x, shape)->Name("exact-" layer "/onednn");           \
  BENCHMARK_CAPTURE(run_exact, x, shape, Data::kOrdinary, runtime::Hypothesis::kF32) \
      ->Name("exact-" layer "/driftc")

DRIFTC_EXACT("conv3x3-64-56", k64x56);
BENCHMARK_CAPTURE(run_exact, x, k64x56, Data::kOrdinary, runtime::Hypothesis::kTf32Rna)
    ->Name("exact-conv3x3-64-56/driftc-tf32");
DRIFTC_EXACT("conv3x3-512-7", k512x7);
DRIFTC_EXACT("conv1x1-64-256-56", k1x1);
DRIFTC_EXACT("conv7x7-stem", kStem);
BENCHMARK_CAPTURE(run_onednn, x, k64x56)->Name("exact-cancelling-conv3x3-64-56/onednn");
BENCHMARK_CAPTURE(run_exact, x, k64x56, Data::kCancelling, runtime::Hypothesis::kF32)
    ->Name("exact-cancelling-conv3x3-64-56/driftc");

BENCHMARK_CAPTURE(run_onednn, x, k64x56)->Name("bounds-conv3x3-64-56/onednn");
BENCHMARK_CAPTURE(run_bound, x, k64x56, Bound::kPerLeaf)->Name("bounds-conv3x3-64-56/per-leaf");
BENCHMARK_CAPTURE(run_bound, x, k64x56, Bound::kReplay)->Name("bounds-conv3x3-64-56/replay");
BENCHMARK_CAPTURE(run_bound, x, k64x56, Bound::kWinograd4)->Name("bounds-conv3x3-64-56/winograd4");
BENCHMARK_CAPTURE(run_bound, x, k64x56, Bound::kTensorCore)
    ->Name("bounds-conv3x3-64-56/tensor-core");

}  // namespace
}  // namespace driftc::bench
