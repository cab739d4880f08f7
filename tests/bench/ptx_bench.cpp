// The PTX executor against oneDNN. Names: LAYER/onednn; LAYER/ptx-crs.fma and so on: the kernel
// that driftc emits for the layer with its default schedule, on the best path, or with another
// order, path or schedule; LAYER/ptx-friendly: a kernel written for the executor.
// LAYER/ptx-checked and LAYER/ptx-2-threads: the first row's kernel in checked mode, on two
// threads; their peer is that row. ptx-load/...: from PTX text to the first instruction.
// ptx-growing/...: one layer at growing sizes, for the time per multiply-add. `./dev bench --ratio
// LAYER` prints the quotient of the layer's first row, `conv3x3-64-56` being the layer of the
// project's figure.
#include <benchmark/benchmark.h>

#include <memory>
#include <optional>
#include <string>

#include "emitted.h"
#include "ir/support/rng.h"
#include "onednn_peer.h"
#include "runtime/ptx/arguments.h"
#include "runtime/ptx/machine.h"
#include "runtime/ptx/parser.h"

namespace driftc::bench {
namespace {

using runtime::ptx::Path;

void report(benchmark::State& state, double multiply_adds) {
  state.counters["MAC/s"] =
      benchmark::Counter(multiply_adds, benchmark::Counter::kIsIterationInvariantRate);
}

void run_onednn(benchmark::State& state, const PeerConv& shape) {
  OnednnConv conv(shape);
  for (auto _ : state) conv.run();
  report(state, shape.multiply_adds());
}

// The layer as the emitters write it: NCHW with crs, NHWC with rsc.
struct Form {
  ir::Algorithm algorithm = ir::Algorithm::kImplicitGemm;
  const char* order = "crs.fma";
  int threads = 1;
  Path path = Path::kAvx512;
  std::optional<ir::Schedule> schedule = {};
  bool check = false;
};
void run_emitted(benchmark::State& state, const PeerConv& s, const Form& form) {
  const bool matmul = form.algorithm == ir::Algorithm::kMatmul;
  const ir::Layout layout =
      std::string_view(form.order).starts_with("rsc") ? ir::Layout::kNhwc : ir::Layout::kNchw;
  EmittedKernel kernel(form.algorithm, form.order, layout);
  const ir::ValueId x = kernel.input("x", {s.n, s.c, s.h, s.w}, layout);
  const ir::ValueId w =
      kernel.input("w", {s.k, s.c / s.groups, s.kernel, s.kernel}, ir::Layout::kNchw);
  if (matmul) {
    kernel.add(ir::Op::kConv1x1Matmul, {x, w}, {});
  } else {
    kernel.add(ir::Op::kConv2d, {x, w},
               {{"stride", std::vector<std::int64_t>{s.stride, s.stride}},
                {"pad", std::vector<std::int64_t>{s.pad, s.pad, s.pad, s.pad}},
                {"dilation", std::vector<std::int64_t>{s.dilation, s.dilation}},
                {"groups", s.groups}});
  }
  if (!kernel.finish(state, form.schedule)) return;
  kernel.run(state, form.threads, form.path, form.check);
  report(state, s.multiply_adds());
}

constexpr PeerPool kPool = {1, 64, 112, 112, 3, 2, 1};
void run_pool(benchmark::State& state, Path path, bool check) {
  EmittedKernel kernel(ir::Algorithm::kPool, "", ir::Layout::kNchw);
  const ir::ValueId x = kernel.input("x", {kPool.n, kPool.c, kPool.h, kPool.w}, ir::Layout::kNchw);
  kernel.add(ir::Op::kMaxPool, {x},
             {{"kernel", std::vector<std::int64_t>{kPool.kernel, kPool.kernel}},
              {"stride", std::vector<std::int64_t>{kPool.stride, kPool.stride}},
              {"pad", std::vector<std::int64_t>{kPool.pad, kPool.pad, kPool.pad, kPool.pad}}});
  if (kernel.finish(state)) kernel.run(state, 1, path, check);
}
void run_onednn_pool(benchmark::State& state) {
  OnednnPool pool(kPool);
  for (auto _ : state) pool.run();
}

constexpr std::int64_t kElements[4] = {1, 64, 112, 112};
void run_relu(benchmark::State& state, Path path, bool check) {
  EmittedKernel kernel(ir::Algorithm::kElementwise, "", ir::Layout::kNchw);
  const ir::ValueId x = kernel.input("x", {kElements[0], kElements[1], kElements[2], kElements[3]},
                                     ir::Layout::kNchw);
  kernel.add(ir::Op::kRelu, {x}, {});
  if (kernel.finish(state)) kernel.run(state, 1, path, check);
}
void run_onednn_relu(benchmark::State& state) {
  OnednnRelu relu(kElements);
  for (auto _ : state) relu.run();
}

// From PTX text to the end of a first launch of one block; most of it is parsing, analysis and
// translation.
void run_load(benchmark::State& state, const PeerConv& s, const char* order) {
  const ir::Layout layout =
      std::string_view(order).starts_with("rsc") ? ir::Layout::kNhwc : ir::Layout::kNchw;
  EmittedKernel kernel(ir::Algorithm::kImplicitGemm, order, layout);
  const ir::ValueId x = kernel.input("x", {s.n, s.c, s.h, s.w}, layout),
                    w = kernel.input("w", {s.k, s.c, s.kernel, s.kernel}, ir::Layout::kNchw);
  kernel.add(ir::Op::kConv2d, {x, w},
             {{"stride", std::vector<std::int64_t>{s.stride, s.stride}},
              {"pad", std::vector<std::int64_t>{s.pad, s.pad, s.pad, s.pad}}});
  if (!kernel.finish(state)) return;
  for (auto _ : state) {
    const auto module = runtime::ptx::parse_module(kernel.ptx(), "bench.ptx");
    const auto program = runtime::ptx::decode(module.value(), "");
    // The arguments are null, so the first access ends the launch; everything up to it has run.
    const std::vector<std::byte> arguments(program.value()->parameter_bytes());
    runtime::ptx::DeviceMemory memory;
    runtime::ThreadPool pool(1);
    benchmark::DoNotOptimize(runtime::ptx::launch(*program.value(), {{1, 1, 1}, kernel.block(), 0},
                                                  arguments, memory, pool));
  }
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

constexpr PeerConv k64x56 = {1, 64, 56, 56, 64, 3, 1, 1};
constexpr PeerConv k128x28 = {1, 128, 28, 28, 128, 3, 1, 1};
constexpr PeerConv k256x14 = {1, 256, 14, 14, 256, 3, 1, 1};
constexpr PeerConv k512x7 = {1, 512, 7, 7, 512, 3, 1, 1};
constexpr PeerConv k1x1 = {1, 64, 56, 56, 256, 1, 1, 0};
constexpr PeerConv kStem = {1, 3, 224, 224, 64, 7, 2, 3};
constexpr PeerConv kDepthwise = {1, 128, 56, 56, 128, 3, 1, 1, 128};
// The tuner's space: what default schedules and even shapes do not show.
constexpr PeerConv kStrided = {1, 64, 56, 56, 128, 3, 2, 1};
constexpr PeerConv kDilated = {1, 64, 56, 56, 64, 3, 1, 2, 1, 2};
constexpr PeerConv kRagged = {1, 60, 45, 45, 70, 3, 1, 1};

constexpr Form kRsc = {.order = "rsc.fma"};
constexpr Form kTwoThreads = {.threads = 2};

void layer(const std::string& name, const PeerConv& shape,
           std::initializer_list<const char*> more) {
  auto add = [&](const std::string& row, const Form& form) {
    return benchmark::RegisterBenchmark(
        (name + "/" + row).c_str(),
        [shape, form](benchmark::State& state) { run_emitted(state, shape, form); });
  };
  benchmark::RegisterBenchmark((name + "/onednn").c_str(),
                               [shape](benchmark::State& state) { run_onednn(state, shape); });
  const bool depthwise = shape.groups > 1, matmul = shape.kernel == 1;
  Form form;
  if (depthwise) form.algorithm = ir::Algorithm::kDirect;
  if (matmul) form.algorithm = ir::Algorithm::kMatmul, form.order = "k.fma";
  add(matmul ? "ptx-matmul" : "ptx-crs.fma", form);
  for (const char* row : more) {
    Form other = form;
    const std::string_view text(row);
    if (text == "avx2") other.path = Path::kAvx2;
    if (text == "portable") other.path = Path::kPortable;
    if (text == "rsc.fma") other = kRsc;
    if (text == "implicit-gemm") other = Form{};
    if (text == "small-blocks") other.schedule = ir::Schedule{32, 32, 9, 4, 2, 1};
    if (text == "narrow-blocks") other.schedule = ir::Schedule{16, 64, 18, 2, 4, 1};
    if (text == "vector-loads") other.schedule = ir::Schedule{64, 64, 36, 4, 4, 4};
    if (text == "8-threads-in-x") other.schedule = ir::Schedule{64, 64, 18, 8, 4, 1};
    if (text == "2-threads") {
      add("ptx-2-threads", kTwoThreads)->MeasureProcessCPUTime()->UseRealTime();
      continue;
    }
    if (text == "checked") {
      other.check = true;
      add("ptx-checked", other);
      continue;
    }
    add("ptx-" + std::string(row), other);
  }
}

const bool kRegistered = [] {
  layer("conv3x3-64-56", k64x56,
        {"rsc.fma", "avx2", "portable", "checked", "2-threads", "small-blocks", "narrow-blocks",
         "vector-loads", "8-threads-in-x"});
  benchmark::RegisterBenchmark("conv3x3-64-56/ptx-friendly",
                               [](benchmark::State& state) { run_friendly(state, k64x56); });
  layer("conv3x3-128-28", k128x28, {"rsc.fma", "avx2", "portable"});
  layer("conv3x3-256-14", k256x14, {"rsc.fma", "avx2", "portable"});
  layer("conv3x3-512-7", k512x7, {"rsc.fma", "avx2", "portable", "checked"});
  layer("conv1x1-64-256-56", k1x1, {"implicit-gemm", "avx2", "portable", "checked"});
  layer("conv7x7-stem", kStem, {"rsc.fma", "avx2"});
  layer("conv3x3-strided", kStrided, {"rsc.fma"});
  layer("conv3x3-dilated", kDilated, {"rsc.fma"});
  layer("conv3x3-ragged", kRagged, {"rsc.fma", "checked"});
  for (const auto& [name, shape] : kGrowing)
    benchmark::RegisterBenchmark(
        (std::string("ptx-growing/") + name).c_str(),
        [shape = shape](benchmark::State& state) { run_emitted(state, shape, Form{}); });
  for (const auto& [name, shape, order] :
       {std::tuple{"mma-tf32", k64x56, "mma(sm_90,tf32,m16n8k8,rna)"},
        std::tuple{"mma-f16", k64x56, "mma(sm_90,f16,m16n8k16)"},
        std::tuple{"mma-tf32-128-28", k128x28, "mma(sm_90,tf32,m16n8k8,rna)"}}) {
    benchmark::RegisterBenchmark(
        (std::string(name) + "/onednn").c_str(),
        [shape = shape](benchmark::State& state) { run_onednn(state, shape); });
    for (const char* walk : {"crs.", "rsc."})
      benchmark::RegisterBenchmark(
          (std::string(name) + "/ptx-" + walk + order).c_str(),
          [shape = shape, text = std::string(walk) + order](benchmark::State& state) {
            Form form;
            form.order = text.c_str();
            run_emitted(state, shape, form);
          });
    benchmark::RegisterBenchmark(
        (std::string(name) + "/ptx-checked").c_str(),
        [shape = shape, text = std::string("crs.") + order](benchmark::State& state) {
          Form form;
          form.order = text.c_str();
          form.check = true;
          run_emitted(state, shape, form);
        });
  }
  layer("depthwise3x3-128-56", kDepthwise, {"avx2", "portable", "checked"});
  benchmark::RegisterBenchmark("maxpool3x3-64-112/onednn", run_onednn_pool);
  for (const auto& [row, path, check] :
       {std::tuple{"ptx", Path::kAvx512, false}, std::tuple{"ptx-avx2", Path::kAvx2, false},
        std::tuple{"ptx-checked", Path::kAvx512, true}}) {
    benchmark::RegisterBenchmark(
        (std::string("maxpool3x3-64-112/") + row).c_str(),
        [path = path, check = check](benchmark::State& state) { run_pool(state, path, check); });
    benchmark::RegisterBenchmark(
        (std::string("relu-64-112/") + row).c_str(),
        [path = path, check = check](benchmark::State& state) { run_relu(state, path, check); });
  }
  benchmark::RegisterBenchmark("relu-64-112/onednn", run_onednn_relu);
  for (const auto& [name, shape] : {std::pair{"conv3x3-64-56", k64x56}, {"conv7x7-stem", kStem}})
    for (const char* order : {"crs.fma", "rsc.fma"})
      benchmark::RegisterBenchmark(
          (std::string("ptx-load/") + name + "-" + order).c_str(),
          [shape = shape, order](benchmark::State& state) { run_load(state, shape, order); });
  return true;
}();

}  // namespace
}  // namespace driftc::bench
