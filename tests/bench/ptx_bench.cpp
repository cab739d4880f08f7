// The PTX executor against oneDNN. Names: LAYER/onednn, LAYER/ptx-ORDER (the kernel that driftc
// emits for the layer with its default schedule) and LAYER/ptx-friendly (a kernel written for the
// executor, as docs/performance advises).
// `./dev bench --ratio LAYER` prints the quotients; `conv3x3-64-56` is the layer of the project's
// figure.
#include <benchmark/benchmark.h>

#include <memory>
#include <optional>
#include <string>

#include "codegen/cache.h"
#include "codegen/lower.h"
#include "ir/builder.h"
#include "ir/kernel.h"
#include "ir/schedule.h"
#include "ir/support/rng.h"
#include "onednn_peer.h"
#include "runtime/kernel_runner.h"
#include "runtime/ptx/arguments.h"
#include "runtime/ptx/machine.h"
#include "runtime/ptx/parser.h"

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

codegen::KernelCache& cache() {
  static codegen::KernelCache instance = [] {
    const Settings settings = Settings::from_env();
    auto nvrtc = codegen::Nvrtc::load(settings);
    return codegen::KernelCache({settings.cache_dir, {}},
                                nvrtc.ok() ? std::optional(*nvrtc) : std::nullopt);
  }();
  return instance;
}

// The layer as the emitters write it: NCHW with crs, NHWC with rsc.
void run_emitted(benchmark::State& state, const PeerConv& s, ir::Algorithm algorithm,
                 const char* order, int threads, std::int64_t groups) {
  const bool channels_last = std::string_view(order).starts_with("rsc");
  const ir::Layout layout = channels_last ? ir::Layout::kNhwc : ir::Layout::kNchw;
  ir::Kernel kernel;
  kernel.algorithm = algorithm;
  kernel.body = ir::Graph("body");
  kernel.contract.order = ir::parse_order(order).value();
  if (kernel.contract.order->arith == ir::Arith::kMma)
    kernel.contract.in = ir::operand_precision(kernel.contract.order->mma);
  const ir::ValueId x = kernel.body.add_input("x", {ir::DType::kF32, {s.n, s.c, s.h, s.w}, layout});
  const ir::ValueId w = kernel.body.add_input(
      "w", {ir::DType::kF32, {s.k, s.c / groups, s.kernel, s.kernel}, ir::Layout::kNchw});
  ir::Builder builder(kernel.body);
  const auto y = builder.add(ir::Op::kConv2d, {x, w},
                             {{"stride", std::vector<std::int64_t>{s.stride, s.stride}},
                              {"pad", std::vector<std::int64_t>{s.pad, s.pad, s.pad, s.pad}},
                              {"groups", groups}},
                             "y");
  if (!y.ok()) return state.SkipWithError("shape");
  kernel.body.set_outputs({y.value()});
  kernel.body.set_layout(y.value(), layout);
  kernel.schedule =
      ir::default_schedule(algorithm, kernel.body, *kernel.contract.order, layout, 132);

  ir::Graph graph("bench");
  ir::Node node;
  node.op = ir::Op::kKernel;
  for (ir::ValueId v : {x, w})
    node.operands.push_back(graph.add_input(kernel.body.value(v).name, kernel.body.value(v).type));
  const ir::TensorType type = kernel.body.value(y.value()).type;
  node.kernel = std::make_shared<const ir::Kernel>(kernel);
  const auto lowered = codegen::lower(graph, graph.add_node(std::move(node), "y", type));
  if (!lowered.ok()) return state.SkipWithError(lowered.error().message.c_str());
  const auto compiled = runtime::compile(*lowered, cache(), "compute_90");
  if (!compiled.ok()) return state.SkipWithError(compiled.error().message.c_str());

  ir::Tensor xs(ir::DType::kF32, {s.n, s.c, s.h, s.w}),
      ws(ir::DType::kF32, {s.k, s.c / groups, s.kernel, s.kernel});
  fill(Distribution::kRandom, 1, "x", xs.data_mut<float>());
  fill(Distribution::kRandom, 1, "w", ws.data_mut<float>());
  std::vector<runtime::DeviceTensor> operands = {runtime::upload(xs, layout),
                                                 runtime::upload(ws, ir::Layout::kNchw)};
  std::vector<runtime::DeviceTensor> prepared;
  for (const auto& p : lowered->preparations)
    prepared.push_back(runtime::prepare_operand(p, p.operand == 0 ? xs : ws));
  runtime::DeviceTensor result(type);
  runtime::ThreadPool pool(threads);
  for (auto _ : state) {
    const auto ran = runtime::run(*compiled, operands, prepared, result, pool);
    if (!ran.ok()) return state.SkipWithError(ran.error().message.c_str());
  }
  report(state, s.multiply_adds() / static_cast<double>(groups));
}

// Implicit GEMM in the form that suits lockstep execution: one pixel column per thread with its
// nine predicates hoisted, weights [CRS][K], whole channels per step, strided thread tiles, 16
// threads in x.
constexpr const char* kFriendly = R"(
#define BM 64
#define BN 64
#define CH 8
#define BK (9 * CH)
#define TX 16
#define TY 16
#define TM (BM / TY)
#define TN (BN / TX)
extern "C" __global__ void __launch_bounds__(TX * TY)
friendly(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int C, int H, int W,
         int K, int P, int Q, int pad) {
  __shared__ float As[BK][BM];
  __shared__ float Bs[BK][BN];
  const int tid = threadIdx.x, tx = tid % TX, ty = tid / TX;
  const int k0 = blockIdx.y * BM, pixel0 = blockIdx.x * BN, pixels = P * Q;
  const int bp = tid % BN, bc = tid / BN, pixel = pixel0 + bp;
  const int p = pixel / Q, q = pixel % Q, h0 = p - pad, w0 = q - pad;
  bool ok[9];
  for (int r = 0; r < 3; ++r)
    for (int s = 0; s < 3; ++s)
      ok[r * 3 + s] = pixel < pixels && h0 + r >= 0 && h0 + r < H && w0 + s >= 0 && w0 + s < W;
  const float* xp = x + (h0 * W + w0);
  float acc[TM][TN] = {};
  for (int c0 = 0; c0 < C; c0 += CH) {
#pragma unroll
    for (int i = 0; i < BK * BM / (TX * TY); ++i) {
      int e = i * TX * TY + tid, kk = e / BM, m = e % BM;
      As[kk][m] = w[(c0 * 9 + kk) * K + k0 + m];
    }
#pragma unroll
    for (int cc = 0; cc < CH; cc += TX * TY / BN)
#pragma unroll
      for (int rs = 0; rs < 9; ++rs) {
        float v = 0.0f;
        if (ok[rs]) v = xp[(c0 + cc + bc) * H * W + (rs / 3) * W + rs % 3];
        Bs[(cc + bc) * 9 + rs][bp] = v;
      }
    __syncthreads();
#pragma unroll
    for (int kk = 0; kk < BK; ++kk)
#pragma unroll
      for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; ++j)
          acc[i][j] = __fmaf_rn(As[kk][ty + i * TY], Bs[kk][tx + j * TX], acc[i][j]);
    __syncthreads();
  }
  for (int i = 0; i < TM; ++i)
    for (int j = 0; j < TN; ++j) {
      int pix = pixel0 + tx + j * TX, k = k0 + ty + i * TY;
      if (pix < pixels && k < K) y[k * pixels + pix] = acc[i][j];
    }
}
)";

void run_friendly(benchmark::State& state, const PeerConv& s) {
  const auto compiled = cache().compile({"friendly", kFriendly, "compute_90", {}});
  if (!compiled.ok()) return state.SkipWithError(compiled.error().message.c_str());
  const auto module = runtime::ptx::parse_module(compiled->ptx, "friendly.ptx");
  const auto program = runtime::ptx::decode(module.value(), "friendly");
  std::vector<float> x(static_cast<std::size_t>(s.c * s.h * s.w)),
      w(static_cast<std::size_t>(s.c * 9 * s.k)),
      y(static_cast<std::size_t>(s.k * s.out_h() * s.out_w()));
  fill(Distribution::kRandom, 1, "x", x);
  fill(Distribution::kRandom, 1, "w", w);
  runtime::ptx::DeviceMemory memory;
  runtime::ptx::ArgumentPacker arguments;
  for (auto* v : {&x, &w, &y}) arguments.add(memory.add(v->data(), v->size() * 4, "tensor"));
  for (std::int64_t v : {s.c, s.h, s.w, s.k, s.out_h(), s.out_w(), s.pad})
    arguments.add(static_cast<std::int32_t>(v));
  const auto blocks = static_cast<std::uint32_t>((s.out_h() * s.out_w() + 63) / 64);
  const runtime::ptx::LaunchConfig config{
      {blocks, static_cast<std::uint32_t>(s.k / 64), 1}, {256, 1, 1}, 0};
  runtime::ThreadPool pool(1);
  for (auto _ : state) {
    const auto ran =
        runtime::ptx::launch(*program.value(), config, arguments.bytes(), memory, pool);
    if (!ran.ok()) return state.SkipWithError(ran.error().message.c_str());
  }
  report(state, s.multiply_adds());
}

// From PTX text to a program that can be launched.
void run_decode(benchmark::State& state) {
  const auto compiled = cache().compile({"friendly", kFriendly, "compute_90", {}});
  if (!compiled.ok()) return state.SkipWithError(compiled.error().message.c_str());
  for (auto _ : state) {
    const auto module = runtime::ptx::parse_module(compiled->ptx, "friendly.ptx");
    benchmark::DoNotOptimize(runtime::ptx::decode(module.value(), "friendly"));
  }
}

constexpr PeerConv k64x56 = {1, 64, 56, 56, 64, 3, 1, 1};
constexpr PeerConv k128x28 = {1, 128, 28, 28, 128, 3, 1, 1};
constexpr PeerConv k256x14 = {1, 256, 14, 14, 256, 3, 1, 1};
constexpr PeerConv k512x7 = {1, 512, 7, 7, 512, 3, 1, 1};
constexpr PeerConv k1x1 = {1, 64, 56, 56, 256, 1, 1, 0};
constexpr PeerConv kStem = {1, 3, 224, 224, 64, 7, 2, 3};
constexpr PeerConv kDepthwise = {1, 128, 56, 56, 128, 3, 1, 1};

#define DRIFTC_LAYER(name, shape)                                                      \
  BENCHMARK_CAPTURE(run_onednn, x, shape)->Name(name "/onednn");                       \
  BENCHMARK_CAPTURE(run_emitted, x, shape, ir::Algorithm::kImplicitGemm, "crs.fma", 1, \
                    std::int64_t{1})                                                   \
      ->Name(name "/ptx-crs.fma");                                                     \
  BENCHMARK_CAPTURE(run_emitted, x, shape, ir::Algorithm::kImplicitGemm, "rsc.fma", 1, \
                    std::int64_t{1})                                                   \
      ->Name(name "/ptx-rsc.fma")

DRIFTC_LAYER("conv3x3-64-56", k64x56);
BENCHMARK_CAPTURE(run_friendly, x, k64x56)->Name("conv3x3-64-56/ptx-friendly");
BENCHMARK_CAPTURE(run_emitted, x, k64x56, ir::Algorithm::kImplicitGemm, "crs.fma", 2,
                  std::int64_t{1})
    ->Name("conv3x3-64-56/ptx-crs.fma-2-threads")
    ->UseRealTime();
DRIFTC_LAYER("conv3x3-128-28", k128x28);
BENCHMARK_CAPTURE(run_friendly, x, k128x28)->Name("conv3x3-128-28/ptx-friendly");
DRIFTC_LAYER("conv3x3-256-14", k256x14);
DRIFTC_LAYER("conv3x3-512-7", k512x7);
DRIFTC_LAYER("conv1x1-64-256-56", k1x1);
DRIFTC_LAYER("conv7x7-stem", kStem);
BENCHMARK_CAPTURE(run_emitted, x, kDepthwise, ir::Algorithm::kDirect, "crs.fma", 1,
                  std::int64_t{128})
    ->Name("depthwise3x3-128-56/ptx-crs.fma");
#define DRIFTC_MMA(name, shape, order)                                                    \
  BENCHMARK_CAPTURE(run_onednn, x, shape)->Name(name "/onednn");                          \
  BENCHMARK_CAPTURE(run_emitted, x, shape, ir::Algorithm::kImplicitGemm, "crs." order, 1, \
                    std::int64_t{1})                                                      \
      ->Name(name "/ptx-crs." order);                                                     \
  BENCHMARK_CAPTURE(run_emitted, x, shape, ir::Algorithm::kImplicitGemm, "rsc." order, 1, \
                    std::int64_t{1})                                                      \
      ->Name(name "/ptx-rsc." order)
DRIFTC_MMA("mma-tf32", k64x56, "mma(sm_90,tf32,m16n8k8,rna)");
DRIFTC_MMA("mma-f16", k64x56, "mma(sm_90,f16,m16n8k16)");
DRIFTC_MMA("mma-tf32-128-28", k128x28, "mma(sm_90,tf32,m16n8k8,rna)");
BENCHMARK(run_decode)->Name("ptx-decode/friendly");

}  // namespace
}  // namespace driftc::bench
