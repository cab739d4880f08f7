// The eager interpreter against oneDNN. Names: eager-LAYER/onednn and eager-LAYER/ORDER; `./dev
// bench --ratio eager-LAYER` prints the quotients. One thread, unless the row says two; the
// interpreter's figure includes packing weights and images. eager-growing/...: one layer at growing
// sizes, for the time per multiply-add.
#include <benchmark/benchmark.h>

#include <array>
#include <string>

#include "frontend/zoo/zoo.h"
#include "ir/builder.h"
#include "ir/support/rng.h"
#include "onednn_peer.h"
#include "runtime/eager/region.h"

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

void run_eager(benchmark::State& state, const PeerConv& s, const char* order_text, bool f64,
               std::int64_t groups = 1, int threads = 1) {
  const auto type = f64 ? ir::DType::kF64 : ir::DType::kF32;
  ir::Tensor x(ir::DType::kF32, {s.n, s.c, s.h, s.w}),
      w(ir::DType::kF32, {s.k, s.c / groups, s.kernel, s.kernel});
  fill(Distribution::kRandom, 1, "x", x.data_mut<float>());
  fill(Distribution::kRandom, 1, "w", w.data_mut<float>());
  ir::Graph graph;
  ir::Builder builder(graph);
  const auto result = builder.add(ir::Op::kConv2d,
                                  {graph.add_input("x", {type, x.shape(), ir::Layout::kNchw}),
                                   graph.add_input("w", {type, w.shape(), ir::Layout::kNchw})},
                                  {{"stride", std::vector<std::int64_t>{s.stride, s.stride}},
                                   {"pad", std::vector<std::int64_t>{s.pad, s.pad, s.pad, s.pad}},
                                   {"groups", groups}},
                                  "y");
  if (!result.ok()) return state.SkipWithError("shape");
  ir::NumericContract contract;
  contract.order = ir::parse_order(order_text).value();
  const std::array<ir::Tensor, 2> operands = {x.converted(type), w.converted(type)};
  runtime::ThreadPool pool(threads);
  for (auto _ : state)
    benchmark::DoNotOptimize(runtime::evaluate(graph, {0}, operands, contract, {pool}));
  report(state, s.multiply_adds() / static_cast<double>(groups));
}

// A whole network: every value made in order and freed after its last use.
void run_network(benchmark::State& state, const char* name, ir::DType arm, int threads) {
  const auto graph = frontend::zoo::zoo_graph(name);
  if (!graph.ok()) return state.SkipWithError("no such network");
  std::vector<ir::Tensor> inputs;
  for (ir::ValueId id : graph.value().inputs()) {
    const ir::Value& value = graph.value().value(id);
    inputs.emplace_back(ir::DType::kF32, value.type.shape);
    fill(Distribution::kRandom, 0, value.name, inputs.back().data_mut<float>());
  }
  for (const ir::Node& node :
       graph.value().nodes())  // seeded weights are made when first asked for
    if (node.literal) benchmark::DoNotOptimize(node.literal->tensor());
  runtime::ThreadPool pool(threads);
  const auto wanted = runtime::all_results(graph.value());
  for (auto _ : state) {
    runtime::Evaluator evaluator(graph.value(), runtime::eager_recipes(graph.value()), {pool}, arm);
    runtime::run_values(evaluator, inputs, wanted, [](ir::ValueId, const ir::Tensor&) {});
  }
}

constexpr PeerConv k64x56 = {1, 64, 56, 56, 64, 3, 1, 1};
constexpr PeerConv k128x28 = {1, 128, 28, 28, 128, 3, 1, 1};
constexpr PeerConv k256x14 = {1, 256, 14, 14, 256, 3, 1, 1};
constexpr PeerConv k512x7 = {1, 512, 7, 7, 512, 3, 1, 1};
constexpr PeerConv k1x1 = {1, 64, 56, 56, 256, 1, 1, 0};
constexpr PeerConv kSmall = {1, 32, 8, 8, 32, 3, 1, 1};
constexpr PeerConv kStem = {1, 3, 224, 224, 64, 7, 2, 3};
constexpr PeerConv kDepthwise = {1, 128, 56, 56, 128, 3, 1, 1};

#define DRIFTC_LAYER(name, shape)                                \
  BENCHMARK_CAPTURE(run_onednn, x, shape)->Name(name "/onednn"); \
  BENCHMARK_CAPTURE(run_eager, x, shape, "crs.fma", false)->Name(name "/crs.fma")
#define DRIFTC_ORDER(order) \
  BENCHMARK_CAPTURE(run_eager, x, k64x56, order, false)->Name("eager-conv3x3-64-56/" order)

DRIFTC_LAYER("eager-conv3x3-64-56", k64x56);
DRIFTC_ORDER("rsc.fma");
DRIFTC_ORDER("crs.muladd");
DRIFTC_ORDER("crs.f64");
DRIFTC_ORDER("crs.kahan");
DRIFTC_ORDER("rsc.skip.fma");
DRIFTC_ORDER("rsc.kpad16.split4.fma");
DRIFTC_ORDER("crs.lanes32.fma");
DRIFTC_ORDER("crs.acc4.fma");
DRIFTC_ORDER("crs.tile8.fma");
DRIFTC_ORDER("crs.tile2.muladd");
BENCHMARK_CAPTURE(run_eager, x, k64x56, "crs.fma", true)->Name("eager-conv3x3-64-56/f64-arm");
BENCHMARK_CAPTURE(run_eager, x, k64x56, "crs.fma", false, std::int64_t{1}, 2)
    ->Name("eager-conv3x3-64-56/crs.fma-2-threads")
    ->MeasureProcessCPUTime()
    ->UseRealTime();
DRIFTC_LAYER("eager-conv3x3-128-28", k128x28);
DRIFTC_LAYER("eager-conv3x3-256-14", k256x14);
DRIFTC_LAYER("eager-conv3x3-512-7", k512x7);
DRIFTC_LAYER("eager-conv1x1-64-256-56", k1x1);
DRIFTC_LAYER("eager-conv3x3-32-8", kSmall);
DRIFTC_LAYER("eager-conv7x7-stem", kStem);
BENCHMARK_CAPTURE(run_eager, x, kDepthwise, "crs.fma", false, std::int64_t{128})
    ->Name("eager-depthwise3x3-128-56/crs.fma");
BENCHMARK_CAPTURE(run_network, x, "resnet50", ir::DType::kF32, 1)
    ->Name("eager-resnet50/f32")
    ->UseRealTime();
BENCHMARK_CAPTURE(run_network, x, "resnet50", ir::DType::kF64, 1)
    ->Name("eager-resnet50/f64")
    ->UseRealTime();
BENCHMARK_CAPTURE(run_network, x, "resnet50", ir::DType::kF32, 2)
    ->Name("eager-resnet50/f32-2-threads")
    ->UseRealTime();

// Time per multiply-add over the sizes of onednn_peer.h.
const bool kRegistered = [] {
  for (const auto& [name, shape] : kGrowing)
    benchmark::RegisterBenchmark(
        (std::string("eager-growing/") + name).c_str(),
        [shape = shape](benchmark::State& state) { run_eager(state, shape, "crs.fma", false); });
  return true;
}();

}  // namespace
}  // namespace driftc::bench
