// Whole kernels, most of them CUDA C++ through NVRTC, bit for bit against plain loops on the host.
#include <algorithm>
#include <cmath>

#include "ir/support/hash.h"
#include "ir/support/round.h"
#include "tests/unit/ptx_helpers.h"

using namespace ptx_test;
using driftc::fma_rn;

namespace {

// Runs `fill(args, memory)`'s arguments under every decode option and 1, 2 and 3 threads; `output`
// must come out the same each time and is left in place.
template <class T, class Fill>
void run_everywhere(const std::string& text, const ptx::LaunchConfig& config,
                    std::vector<T>& output, Fill fill, std::uint64_t seed = 0) {
  const std::vector<T> initial = output;
  std::vector<T> first;
  for (const ptx::DecodeOptions& options : all_decode_options()) {
    auto program = load(text, options);
    for (int threads : {1, 2, 3}) {
      output = initial;
      ptx::DeviceMemory memory;
      ptx::ArgumentPacker args;
      fill(args, memory);
      ThreadPool pool(threads);
      auto result =
          ptx::launch(*program, config, args.bytes(), memory, pool, {.schedule_seed = seed});
      if (!result.ok()) FAIL(result.error().render());
      if (first.empty()) first = output;
      CHECK(same_bits(output, first));
    }
  }
}

template <class T>
std::uint64_t buffer(ptx::DeviceMemory& memory, std::vector<T>& v, const char* name) {
  return memory.add(v.data(), v.size() * sizeof(T), name);
}

}  // namespace

TEST_CASE("ptx kernels: nested divergence, loops with different trip counts, early return") {
  auto text = compile_cuda(R"(
extern "C" __global__ void k(const int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int v = in[i], sum = 0;
  if (v & 1) {
    for (int j = 0; j < v % 37; ++j) {
      if (j % 3 == 0) continue;
      if (j * j > v) break;
      sum += (j & 4) ? j * in[(i + j) % n] : -j;
    }
  } else {
    if (v % 5 == 0) { out[i] = -v; return; }
    int a = v, steps = 0;
    while (a > 1 && steps < 50) { a = (a & 1) ? 3 * a + 1 : a / 2; ++steps; }
    sum = steps * 1000 + a;
    switch (v % 7) { case 0: sum ^= 5; break; case 2: sum += in[(i * 7) % n]; case 3: sum *= 3; break; default: sum -= 1; }
  }
  out[i] = sum;
})");
  if (!text) return;
  const int n = 1000;
  Random random(3);
  std::vector<int> in(n), out(n, 12345), expected(n);
  for (int& v : in) v = static_cast<int>(random.next() % 5000);
  for (int i = 0; i < n; ++i) {
    int v = in[i], sum = 0;
    if (v & 1) {
      for (int j = 0; j < v % 37; ++j) {
        if (j % 3 == 0) continue;
        if (j * j > v) break;
        sum += (j & 4) ? j * in[(i + j) % n] : -j;
      }
    } else {
      if (v % 5 == 0) {
        expected[i] = -v;
        continue;
      }
      int a = v, steps = 0;
      while (a > 1 && steps < 50) {
        a = (a & 1) ? 3 * a + 1 : a / 2;
        ++steps;
      }
      sum = steps * 1000 + a;
      switch (v % 7) {
        case 0:
          sum ^= 5;
          break;
        case 2:
          sum += in[(i * 7) % n];
          [[fallthrough]];
        case 3:
          sum *= 3;
          break;
        default:
          sum -= 1;
      }
    }
    expected[i] = sum;
  }
  run_everywhere(*text, {.grid = {8, 1, 1}, .block = {139, 1, 1}}, out,
                 [&](auto& args, auto& memory) {
                   args.add(buffer(memory, in, "in")).add(buffer(memory, out, "out")).add(n);
                 });
  CHECK(out == expected);
}

TEST_CASE("ptx kernels: shared-memory tree and warp shuffles add in their stated order") {
  auto text = compile_cuda(R"(
extern "C" __global__ void k(const float* x, float* y, int n) {
  extern __shared__ float tree[];
  __shared__ float warps[8];
  int t = threadIdx.x;
  float lane = 0.0f;
  for (int i = t; i < n; i += blockDim.x) lane = __fadd_rn(lane, x[blockIdx.x * n + i]);
  tree[t] = lane;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (t < s) tree[t] = __fadd_rn(tree[t], tree[t + s]);
    __syncthreads();
  }
  float v = lane;
  for (int m = 16; m > 0; m >>= 1) v = __fadd_rn(v, __shfl_xor_sync(0xffffffffu, v, m));
  if (t % 32 == 0) warps[t / 32] = v;
  __syncthreads();
  if (t == 0) {
    float all = warps[0];
    for (int w = 1; w < blockDim.x / 32; ++w) all = __fadd_rn(all, warps[w]);
    y[2 * blockIdx.x] = tree[0];
    y[2 * blockIdx.x + 1] = all;
  }
})");
  if (!text) return;
  const int n = 1000, blocks = 5, threads = 128;
  Random random(5);
  std::vector<float> x = random.floats(n * blocks), y(2 * blocks, -1.0f), expected(2 * blocks);
  for (int b = 0; b < blocks; ++b) {
    std::vector<float> lane(threads, 0.0f);
    for (int t = 0; t < threads; ++t)
      for (int i = t; i < n; i += threads) lane[t] += x[b * n + i];
    std::vector<float> tree = lane;
    for (int s = threads / 2; s > 0; s /= 2)
      for (int t = 0; t < s; ++t) tree[t] += tree[t + s];
    expected[2 * b] = tree[0];
    for (int w = 0; w < threads / 32; ++w) {
      std::vector<float> v(lane.begin() + 32 * w, lane.begin() + 32 * w + 32);
      for (int m = 16; m > 0; m /= 2) {
        std::vector<float> next(32);
        for (int l = 0; l < 32; ++l) next[l] = v[l] + v[l ^ m];
        v = next;
      }
      expected[2 * b + 1] = w == 0 ? v[0] : expected[2 * b + 1] + v[0];
    }
  }
  run_everywhere(
      *text,
      {.grid = {blocks, 1, 1}, .block = {threads, 1, 1}, .dynamic_shared_bytes = threads * 4}, y,
      [&](auto& args, auto& memory) {
        args.add(buffer(memory, x, "x")).add(buffer(memory, y, "y")).add(n);
      });
  CHECK(same_bits(y, expected));
}

TEST_CASE("ptx kernels: shuffle and vote forms") {
  auto text = compile_cuda(R"(
extern "C" __global__ void k(const int* x, int* y) {
  int t = threadIdx.x, v = x[t];
  int r = __shfl_up_sync(~0u, v, 3) + 2 * __shfl_down_sync(~0u, v, 5) + 3 * __shfl_sync(~0u, v, t * 7) + 5 * __shfl_xor_sync(~0u, v, 9, 16);
  r += 7 * __shfl_sync(~0u, v, 2, 8) + 11 * __shfl_down_sync(~0u, v, 1, 4);
  r += __any_sync(~0u, v > 90) ? 1000 : 0;
  r += __all_sync(~0u, v > 3) ? 2000 : 0;
  r ^= __ballot_sync(~0u, v & 1);
  y[t] = r;
})");
  if (!text) return;
  const int n = 96;
  std::vector<int> x(n), y(n, 0), expected(n);
  for (int i = 0; i < n; ++i) x[i] = (i * 37 + 11) % 101;
  for (int t = 0; t < n; ++t) {
    int lane = t % 32, base = t - lane;
    auto at = [&](int l) { return x[base + l]; };
    int v = x[t], r = (lane >= 3 ? at(lane - 3) : v) + 2 * (lane + 5 <= 31 ? at(lane + 5) : v) +
                      3 * at(t * 7 % 32) + 5 * at(lane ^ 9);
    r += 7 * at(lane / 8 * 8 + 2) + 11 * (lane % 4 == 3 ? v : at(lane + 1));
    bool any = false, all = true;
    unsigned ballot = 0;
    for (int l = 0; l < 32; ++l) {
      any = any || at(l) > 90;
      all = all && at(l) > 3;
      ballot |= static_cast<unsigned>(at(l) & 1) << l;
    }
    expected[t] = (r + (any ? 1000 : 0) + (all ? 2000 : 0)) ^ static_cast<int>(ballot);
  }
  run_everywhere(*text, {.block = {n, 1, 1}}, y, [&](auto& args, auto& memory) {
    args.add(buffer(memory, x, "x")).add(buffer(memory, y, "y"));
  });
  CHECK(y == expected);
}

TEST_CASE("ptx kernels: implicit GEMM equals a sequential chain of fma") {
  // Strided tiles (broadcast x vector), contiguous ones (float4 loads, gathers), and a block whose
  // rows are 8 threads.
  for (const char* form :
       {"-DSTRIDED=1 -DTX=16", "-DSTRIDED=0 -DTX=16", "-DSTRIDED=1 -DTX=8", "-DSTRIDED=0 -DTX=8"}) {
    CAPTURE(form);
    std::string options(form);
    std::size_t space = options.find(' ');
    auto text = compile_cuda(R"(
#define TY 8
#define TM 4
#define TN 4
#define BM (TY * TM)
#define BN (TX * TN)
#define BK 8
extern "C" __global__ void k(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int M, int N, int K) {
  __shared__ __align__(16) float As[BK][BM], Bs[BK][BN];
  int t = threadIdx.x, tx = t % TX, ty = t / TX, m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
  float acc[TM][TN] = {};
  for (int k0 = 0; k0 < K; k0 += BK) {
    for (int e = t; e < BK * BM; e += TX * TY) {
      int kk = e / BM, m = e % BM;
      As[kk][m] = (k0 + kk < K && m0 + m < M) ? a[(m0 + m) * K + k0 + kk] : 0.0f;
    }
    for (int e = t; e < BK * BN; e += TX * TY) {
      int kk = e / BN, n = e % BN;
      Bs[kk][n] = (k0 + kk < K && n0 + n < N) ? b[(k0 + kk) * N + n0 + n] : 0.0f;
    }
    __syncthreads();
    int end = K - k0 < BK ? K - k0 : BK;
    if (end == BK) {
#pragma unroll
      for (int kk = 0; kk < BK; ++kk)
        for (int i = 0; i < TM; ++i)
          for (int j = 0; j < TN; ++j)
            acc[i][j] = __fmaf_rn(As[kk][STRIDED ? ty + i * TY : ty * TM + i], Bs[kk][STRIDED ? tx + j * TX : tx * TN + j], acc[i][j]);
    } else {
      for (int kk = 0; kk < end; ++kk)
        for (int i = 0; i < TM; ++i)
          for (int j = 0; j < TN; ++j)
            acc[i][j] = __fmaf_rn(As[kk][STRIDED ? ty + i * TY : ty * TM + i], Bs[kk][STRIDED ? tx + j * TX : tx * TN + j], acc[i][j]);
    }
    __syncthreads();
  }
  for (int i = 0; i < TM; ++i)
    for (int j = 0; j < TN; ++j) {
      int m = m0 + (STRIDED ? ty + i * TY : ty * TM + i), n = n0 + (STRIDED ? tx + j * TX : tx * TN + j);
      if (m < M && n < N) c[m * N + n] = acc[i][j];
    }
})",
                             "compute_90", {options.substr(0, space), options.substr(space + 1)});
    if (!text) return;
    const int M = 45, N = 83, K = 37, tx = options.ends_with("16") ? 16 : 8;
    Random random(7);
    std::vector<float> a = random.floats(M * K), b = random.floats(K * N), c(M * N, -1.0f),
                       expected(M * N);
    a[5 * K + 3] = HUGE_VALF;  // Inf * 0 and NaN must travel through the chains
    b[3 * N + 7] = 0.0f;
    a[9 * K + 30] = driftc::float_of(0xFFC12345);
    a[11 * K + 1] = 0x1p-140f;  // subnormals are kept
    for (int m = 0; m < M; ++m)
      for (int n = 0; n < N; ++n) {
        float s = 0.0f;
        for (int k = 0; k < K; ++k) s = fma_rn(a[m * K + k], b[k * N + n], s);
        expected[m * N + n] = s != s ? driftc::canonical_nan() : s;
      }
    std::uint32_t bn = static_cast<std::uint32_t>(tx * 4);
    run_everywhere(*text,
                   {.grid = {(N + bn - 1) / bn, (M + 31) / 32, 1},
                    .block = {static_cast<std::uint32_t>(tx * 8), 1, 1}},
                   c, [&](auto& args, auto& memory) {
                     args.add(buffer(memory, a, "a"))
                         .add(buffer(memory, b, "b"))
                         .add(buffer(memory, c, "c"))
                         .add(M)
                         .add(N)
                         .add(K);
                   });
    CHECK(same_bits(c, expected));
  }
}

TEST_CASE(
    "ptx kernels: local arrays, structs, constants, generic pointers, vector and narrow accesses") {
  auto text = compile_cuda(R"(
__constant__ float table[4] = {1.5f, 2.0f, 0.25f, -3.0f};
struct P { int a; float b; long long c; int d[3]; };
__device__ __noinline__ float pick(const float* p, int i) { return p[i]; }
extern "C" __global__ void k(const float* x, float* y, P p) {
  __shared__ float sm[64];
  float local[8];
  int i = threadIdx.x;
  float4 lo = ((const float4*)x)[2 * i], hi = ((const float4*)x)[2 * i + 1];
  local[0] = lo.x; local[1] = lo.y; local[2] = lo.z; local[3] = lo.w; local[4] = hi.x; local[5] = hi.y; local[6] = hi.z; local[7] = hi.w;
  local[(p.a + i) & 7] += 1.0f;
  sm[i] = local[(3 * i) & 7];
  __syncthreads();
  const float* generic = (i & 1) ? (const float*)sm : local;
  float v = __fadd_rn(generic[i & 7], table[i & 3]);
  v = __fadd_rn(v, (float)p.d[i % 3]);
  v = __fadd_rn(v, __fmul_rn(p.b, (float)p.c));
  unsigned char byte = ((const unsigned char*)x)[i];
  short half = ((const short*)x)[i];
  v = __fadd_rn(v, (float)byte);
  v = __fadd_rn(v, (float)half);
  y[i] = v;
})");
  if (!text) return;
  if (text->find("call") != std::string::npos) {
    MESSAGE("the helper was not inlined; nothing calls it in this kernel");
  }
  struct P {
    int a;
    float b;
    long long c;
    int d[3];
  } p = {5, 0.5f, 12, {1, -2, 3}};
  const int n = 64;
  Random random(9);
  std::vector<float> x = random.floats(n * 8), y(n, 0.0f), expected(n);
  const float table[4] = {1.5f, 2.0f, 0.25f, -3.0f};
  std::vector<std::vector<float>> local(n);
  for (int i = 0; i < n; ++i) {
    local[i].assign(x.begin() + i * 8, x.begin() + i * 8 + 8);
    local[i][(p.a + i) & 7] += 1.0f;
  }
  for (int i = 0; i < n; ++i) {
    int at = i & 7;
    float v = (i & 1) ? local[at][(3 * at) & 7] : local[i][at];
    v = v + table[i & 3];
    v = v + static_cast<float>(p.d[i % 3]);
    v = v + p.b * static_cast<float>(p.c);
    unsigned char byte;
    short half;
    std::memcpy(&byte, reinterpret_cast<const char*>(x.data()) + i, 1);
    std::memcpy(&half, reinterpret_cast<const char*>(x.data()) + 2 * i, 2);
    v = v + static_cast<float>(byte);
    expected[i] = v + static_cast<float>(half);
  }
  run_everywhere(*text, {.block = {n, 1, 1}}, y, [&](auto& args, auto& memory) {
    args.add(buffer(memory, x, "x")).add(buffer(memory, y, "y")).add(p);
  });
  CHECK(same_bits(y, expected));
}

TEST_CASE("ptx kernels: three-dimensional blocks and grids, odd sizes") {
  auto text = compile_cuda(R"(
extern "C" __global__ void k(int* y) {
  int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  int threads = blockDim.x * blockDim.y * blockDim.z;
  y[block * threads + thread] = blockIdx.x + 10 * blockIdx.y + 100 * blockIdx.z + 1000 * threadIdx.x + 10000 * threadIdx.y + 100000 * threadIdx.z;
})");
  if (!text) return;
  std::vector<int> y(4 * 3 * 2 * 5 * 3 * 3, -1), expected;
  for (int bz = 0; bz < 2; ++bz)
    for (int by = 0; by < 3; ++by)
      for (int bx = 0; bx < 4; ++bx)
        for (int tz = 0; tz < 3; ++tz)
          for (int ty = 0; ty < 3; ++ty)
            for (int tx = 0; tx < 5; ++tx)
              expected.push_back(bx + 10 * by + 100 * bz + 1000 * tx + 10000 * ty + 100000 * tz);
  run_everywhere(*text, {.grid = {4, 3, 2}, .block = {5, 3, 3}}, y,
                 [&](auto& args, auto& memory) { args.add(buffer(memory, y, "y")); });
  CHECK(y == expected);
}

TEST_CASE(
    "ptx kernels: float atomics follow the schedule seed and flush subnormals in global memory") {
  auto text = compile_cuda(R"(
extern "C" __global__ void k(const float* x, float* y, int slices) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(y + i, x[blockIdx.z * gridDim.x * blockDim.x + i]);
})");
  if (!text) return;
  const int n = 64, slices = 7;
  Random random(21);
  std::vector<float> x = random.floats(n * slices);
  for (int s = 0; s < slices; ++s) x[s * n + 5] = 0x1p-130f;  // each is flushed
  bool differs = false;
  std::vector<float> ascending;
  for (std::uint64_t seed : {0ull, 1ull, 2ull, 99ull}) {
    std::vector<std::uint32_t> order = driftc::seeded_permutation(seed, slices);
    std::vector<float> y(n, 0.0f), expected(n, 0.0f);
    for (std::uint32_t s : order)
      for (int i = 0; i < n; ++i)
        if (i != 5) expected[i] += x[s * n + i];
    run_everywhere(
        *text, {.grid = {2, 1, slices}, .block = {32, 1, 1}}, y,
        [&](auto& args, auto& memory) {
          args.add(buffer(memory, x, "x")).add(buffer(memory, y, "y")).add(slices);
        },
        seed);
    CHECK(same_bits(y, expected));
    if (seed == 0) ascending = y;
    differs = differs || !same_bits(y, ascending);
  }
  CHECK(differs);
}

TEST_CASE("ptx kernels: integer atomics and shared atomics") {
  auto text = compile_cuda(R"(
extern "C" __global__ void k(const int* x, int* y, float* z) {
  __shared__ int count[4];
  __shared__ float sum;
  int t = threadIdx.x;
  if (t < 4) count[t] = 0;
  if (t == 0) sum = 0.0f;
  __syncthreads();
  atomicAdd(&count[x[t] & 3], 1);
  atomicAdd(&sum, 0x1p-130f);
  __syncthreads();
  if (t < 4) y[t] = count[t];
  atomicMax(y + 4, x[t]);
  atomicMin(y + 5, x[t]);
  if (t == 0) { y[6] = atomicExch(y + 7, 42); atomicCAS(y + 7, 42, 43); z[0] = sum; }
})");
  if (!text) return;
  std::vector<int> x(64), y = {0, 0, 0, 0, -5, 1000, 0, 17},
                          expected = {0, 0, 0, 0, -5, 1000, 17, 43};
  for (int i = 0; i < 64; ++i) {
    x[i] = (i * 29) % 97;
    ++expected[x[i] & 3];
    expected[4] = std::max(expected[4], x[i]);
    expected[5] = std::min(expected[5], x[i]);
  }
  std::vector<float> z(1, 0.0f);
  run_everywhere(*text, {.block = {64, 1, 1}}, y, [&](auto& args, auto& memory) {
    args.add(buffer(memory, x, "x")).add(buffer(memory, y, "y")).add(buffer(memory, z, "z"));
  });
  CHECK(y == expected);
  CHECK(z[0] == 0x1p-124f);  // shared atomics keep subnormals
}

TEST_CASE("ptx kernels: every target from 75 to 120 gives the same bits") {
  std::vector<float> first;
  for (const char* target : {"75", "80", "86", "89", "90", "100", "120"}) {
    auto text = compile_cuda(R"(
extern "C" __global__ void k(const float* x, float* y, int n, long long stride) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = x[i * stride];
  float w = __fdiv_rn(v, 3.0f), s = __fsqrt_rn(fabsf(v));
  double d = __fma_rn((double)v, (double)w, 1.0);
  int q = __float2int_rn(__fmul_rn(v, 100.0f));
  y[i] = __fadd_rn(__fadd_rn(w, s), (float)d) + (float)(q % 13) + (float)__popc(q) + __int_as_float((127 + (q & 3)) << 23);
})",
                             target);
    if (!text) return;
    const int n = 300;
    Random random(13);
    std::vector<float> x = random.floats(n * 2), y(n, 0.0f);
    run_everywhere(*text, {.grid = {3, 1, 1}, .block = {128, 1, 1}}, y,
                   [&](auto& args, auto& memory) {
                     args.add(buffer(memory, x, "x")).add(buffer(memory, y, "y")).add(n).add(2ll);
                   });
    if (first.empty()) first = y;
    CHECK(same_bits(y, first));
  }
}

namespace {
std::string fault(const std::string& text, const ptx::LaunchConfig& config, std::vector<float>& x,
                  std::vector<float>& y, int n, int threads = 1, bool readonly = false) {
  auto program = load(text);
  ptx::DeviceMemory memory;
  ptx::ArgumentPacker args;
  args.add(memory.add(x.data(), x.size() * 4, "x"));
  args.add(readonly ? memory.add_readonly(y.data(), y.size() * 4, "y")
                    : memory.add(y.data(), y.size() * 4, "y"));
  args.add(n);
  ThreadPool pool(threads);
  auto result =
      ptx::launch(*program, config, args.bytes(), memory, pool, {.max_steps_per_block = 100000});
  return result.ok() ? "" : result.error().render();
}
}  // namespace

TEST_CASE(
    "ptx kernels: faults are reported with block, thread, address and buffer, and do not depend on "
    "threads") {
  auto copy = compile_cuda(R"(
extern "C" __global__ void k(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i + n];
})",
                           "compute_90", {"-lineinfo"});
  if (!copy) return;
  std::vector<float> x(256), y(256);
  CHECK(fault(*copy, {.grid = {4, 1, 1}, .block = {64, 1, 1}}, x, y, 0).empty());
  std::string first;
  for (int threads : {1, 2, 3}) {
    std::string message = fault(*copy, {.grid = {4, 1, 1}, .block = {64, 1, 1}}, x, y, 70, threads);
    CHECK(
        message.find("kernel 'k', block (2,0,0), thread (58,0,0): out-of-bounds read of 4 bytes") !=
        std::string::npos);
    CHECK(message.find("CUDA source") != std::string::npos);
    CHECK(message.find("k.cu:4") != std::string::npos);
    CHECK(message.find("nearest buffer: 'x' of 1024 bytes, 0 bytes behind its end") !=
          std::string::npos);
    if (first.empty()) first = message;
    CHECK(message == first);
  }
  CHECK(fault(*copy, {.grid = {4, 1, 1}, .block = {64, 1, 1}}, x, y, -1)
            .find("4 bytes before its begin") != std::string::npos);
  CHECK(fault(*copy, {.grid = {1, 1, 1}, .block = {64, 1, 1}}, x, y, 0, 1, true)
            .find("read-only memory") != std::string::npos);
  CHECK(fault(*copy, {.grid = {1, 1, 1}, .block = {2048, 1, 1}}, x, y, 0)
            .find("cannot be launched") != std::string::npos);

  auto shared = compile_cuda(R"(
extern "C" __global__ void k(const float* x, float* y, int n) {
  __shared__ float s[64];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = s[threadIdx.x + n];
})");
  CHECK(fault(*shared, {.block = {64, 1, 1}}, x, y, 0).empty());
  CHECK(fault(*shared, {.block = {64, 1, 1}}, x, y, 1)
            .find("thread (63,0,0): out-of-bounds read of 4 bytes at shared address 0x100") !=
        std::string::npos);

  auto vector = compile_cuda(R"(
extern "C" __global__ void k(const float* x, float* y, int n) { ((float4*)y)[threadIdx.x] = *(const float4*)(x + 4 * threadIdx.x + n); })");
  CHECK(fault(*vector, {.block = {16, 1, 1}}, x, y, 4).find("misaligned") == std::string::npos);
  CHECK(fault(*vector, {.block = {16, 1, 1}}, x, y, 1).find("misaligned read of 16 bytes") !=
        std::string::npos);

  auto barrier = compile_cuda(R"(
extern "C" __global__ void k(const float* x, float* y, int n) {
  if (threadIdx.x < n) { y[threadIdx.x] = 1.0f; __syncthreads(); y[threadIdx.x + 64] = x[0]; }
})");
  CHECK(fault(*barrier, {.block = {64, 1, 1}}, x, y, 64).empty());
  // Threads that have ended count as arrived; those that wait elsewhere do not.
  CHECK(fault(*barrier, {.block = {64, 1, 1}}, x, y, 20).empty());

  auto endless = compile_cuda(R"(
extern "C" __global__ void k(const float* x, volatile float* y, int n) { while (y[0] == 0.0f) y[1] = x[0]; })");
  std::vector<float> zero(256, 0.0f);
  CHECK(fault(*endless, {.block = {64, 1, 1}}, x, zero, 0).find("endless loop") !=
        std::string::npos);
}

TEST_CASE("ptx kernels: 64-bit float kernels") {
  auto text = compile_cuda(R"(
extern "C" __global__ void k(const double* __restrict__ a, const double* __restrict__ b, double* c, int K) {
  __shared__ double As[8][16], Bs[8][16];
  int x = threadIdx.x, y = threadIdx.y;
  double s = 0.0;
  for (int k0 = 0; k0 < K; k0 += 8) {
    if (y < 8) { As[y][x] = a[(k0 + y) * 16 + x]; Bs[y][x] = b[(k0 + y) * 16 + x]; }
    __syncthreads();
    for (int k = 0; k < 8; ++k) s = __fma_rn(As[k][y], Bs[k][x], s);
    __syncthreads();
  }
  c[y * 16 + x] = s;
})");
  if (!text) return;
  const int K = 40;
  Random random(17);
  std::vector<double> a(K * 16), b(K * 16), c(256, 0.0), expected(256);
  for (double& v : a) v = random.unit() * 1.000000123;
  for (double& v : b) v = random.unit() / 3.0;
  for (int y = 0; y < 16; ++y)
    for (int x = 0; x < 16; ++x) {
      double s = 0.0;
      for (int k = 0; k < K; ++k) s = fma_rn(a[k * 16 + y], b[k * 16 + x], s);
      expected[y * 16 + x] = s;
    }
  run_everywhere(*text, {.block = {16, 16, 1}}, c, [&](auto& args, auto& memory) {
    args.add(buffer(memory, a, "a")).add(buffer(memory, b, "b")).add(buffer(memory, c, "c")).add(K);
  });
  CHECK(same_bits(c, expected));
}
