// The grid of algorithm x precision x architecture: every kernel that code generation accepts
// against source replay, bit for bit, on random shapes. Here are the kernels of scalar arithmetic;
// those of tensor cores are in mma_replay_test.cpp. An architecture is a row of its own only where
// NVRTC makes other PTX for it.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "runtime/numeric/hypothesis.h"
#include "runtime/sums/tensor_core.h"
#include "tests/unit/eager_support.h"
#include "tests/unit/emit_families.h"

namespace driftc::test {
namespace {

using ir::Algorithm;
using ir::Arith;
using ir::Layout;
using ir::Op;
using ir::Precision;
using Ints = std::vector<std::int64_t>;

constexpr Layout kNchw = Layout::kNchw, kNhwc = Layout::kNhwc;
constexpr const char* kTargets[] = {"compute_75", "compute_80", "compute_89", "compute_90",
                                    "compute_100"};

struct GridPrecision {
  const char* name;
  Precision in = Precision::kF32, acc = Precision::kF32, store = Precision::kF32;
  const char* arith = "fma";
};
const GridPrecision kPrecisions[] = {
    {"f32"},
    {"tf32:rna", Precision::kTf32Rna},
    {"tf32:trunc", Precision::kTf32Trunc},
    // Autocast: operands rounded, results stored in the same type.
    {"f16", Precision::kF16, Precision::kF32, Precision::kF16},
    {"bf16", Precision::kBF16, Precision::kF32, Precision::kBF16},
    {"f64", Precision::kF32, Precision::kF64, Precision::kF32, "f64"},
};

// One way to compute an op. The order is `sums` + "." + the precision's arithmetic + `bias`.
struct GridForm {
  const char* name;
  Algorithm algorithm;
  const char *sums, *bias = "";
  Layout x = kNchw, y = kNchw;
  Precision filters = Precision::kF32;  // Winograd only
  ir::Schedule schedule{32, 16, 16, 4, 2, 1};
  bool atomic = false;
};
const ir::Schedule kFused{16, 16, 8, 1, 1, 1}, kPixels{64, 32, 16, 4, 2, 4};
const GridForm kForms[] = {
    {"direct", Algorithm::kDirect, "crs", "+bias.stored", kNchw, kNchw, Precision::kF32, {}},
    {"direct nhwc, skip", Algorithm::kDirect, "rsc.skip", "", kNhwc, kNhwc, Precision::kF32, {}},
    {"implicit_gemm", Algorithm::kImplicitGemm, "crs", "+bias.stored"},
    {"implicit_gemm nhwc", Algorithm::kImplicitGemm, "rsc", "+bias.first", kNhwc, kNhwc},
    {"implicit_gemm split", Algorithm::kImplicitGemm, "c4rs.split3p", "+bias.last"},
    {"implicit_gemm atomics",
     Algorithm::kImplicitGemm,
     "crs.split5a",
     "",
     kNchw,
     kNhwc,
     Precision::kF32,
     {32, 16, 16, 4, 2, 1},
     true},
    {"im2col", Algorithm::kIm2col, "crs", "+bias.stored", kNhwc, kNchw},
    {"im2col split", Algorithm::kIm2col, "crs.split4p", "+bias.last"},
    {"im2col atomics",
     Algorithm::kIm2col,
     "rsc.split3a",
     "",
     kNchw,
     kNchw,
     Precision::kF32,
     {32, 16, 16, 4, 2, 1},
     true},
    {"winograd2", Algorithm::kWinograd2, "crs", "+bias.stored"},
    {"winograd2, filters in f64", Algorithm::kWinograd2, "crs", "", kNhwc, kNhwc, Precision::kF64},
    {"winograd4", Algorithm::kWinograd4, "crs", ""},
    {"winograd4, filters in f64", Algorithm::kWinograd4, "crs", "+bias.stored", kNchw, kNhwc,
     Precision::kF64},
    {"winograd2 fused", Algorithm::kWinograd2Fused, "crs", "", kNchw, kNchw, Precision::kF32,
     kFused},
    {"winograd2 fused, filters in f64", Algorithm::kWinograd2Fused, "crs", "+bias.stored", kNhwc,
     kNchw, Precision::kF64, kFused},
    {"winograd4 fused", Algorithm::kWinograd4Fused, "crs", "+bias.stored", kNhwc, kNhwc,
     Precision::kF32, kFused},
    {"winograd4 fused, filters in f64", Algorithm::kWinograd4Fused, "crs", "", kNchw, kNchw,
     Precision::kF64, kFused},
    {"matmul", Algorithm::kMatmul, "k", "", kNchw, kNchw, Precision::kF32, kPixels},
    {"matmul split", Algorithm::kMatmul, "k.split4", "", kNchw, kNchw, Precision::kF32, kPixels},
    {"matmul atomics", Algorithm::kMatmul, "k.split3a", "", kNchw, kNchw, Precision::kF32, kPixels,
     true},
};

KernelCase grid_case(const GridForm& form, const GridPrecision& p, Draw& d) {
  KernelCase test(form.algorithm, fmt::format("{}.{}{}", form.sums, p.arith, form.bias),
                  form.schedule);
  test.kernel.contract.in = p.in;
  test.kernel.contract.acc = p.acc;
  test.kernel.contract.store = p.store;
  if (form.algorithm == Algorithm::kMatmul) {
    const std::int64_t batch = d(1, 2), m = d(1, 70), k = d(1, 70), n = d(1, 70);
    test.add(Op::kMatmul, {test.input({batch, m, k}), test.input({batch, k, n})});
    return test.finish();
  }
  const int m = ir::winograd_tile(form.algorithm);
  if (m != 0) test.kernel.contract.transform = {m, form.filters};
  const std::int64_t channels = d(1, 19), columns = d(1, 24), stride = m == 0 ? d(1, 2) : 1;
  std::vector<ir::ValueId> operands{test.input({d(1, 2), channels, d(3, 11), d(3, 11)}, form.x),
                                    test.input({columns, channels, 3, 3})};
  if (*form.bias != 0) operands.push_back(test.input({columns}));
  const ir::ValueId y = test.add(Op::kConv2d, operands,
                                 {{"pad", Ints{d(0, 2), d(0, 2), d(0, 2), d(0, 2)}},
                                  {"stride", Ints{stride, stride}},
                                  {"dilation", Ints{1, 1}},
                                  {"groups", std::int64_t{1}}});
  test.add(Op::kRelu, {y});
  return test.finish(form.y);
}

struct GridCount {
  std::size_t rows = 0, texts = 0;  // algorithm x precision; different PTX among the architectures
  std::uint64_t runs = 0;
};

void replay(const GridForm& form, const GridPrecision& p, std::span<const char* const> targets,
            std::uint64_t shapes, GridCount& count) {
  ++count.rows;
  std::size_t most = 0;
  for (std::uint64_t seed = 1; seed <= shapes; ++seed) {
    Draw draw(seed);
    const KernelCase test = grid_case(form, p, draw);
    const auto distribution = seed % 4 == 3 ? Distribution::kIntegers : Distribution::kRandom;
    const auto different = distinct_targets(test, targets);
    CHECK_MESSAGE(!different.empty(), form.name << " " << p.name << " has no kernel");
    most = std::max(most, different.size());
    for (const std::string& target : different) {
      // Atomics in the order of another schedule each time; every fifth run in the sanitizer.
      const auto fault = check_replay(test, seed, distribution, seed % 3 == 2, target,
                                      form.atomic ? seed : 0, seed % 5 == 0);
      ++count.runs;
      CHECK_MESSAGE(fault == std::optional<std::string>(""),
                    fmt::format("{} {} {}, seed {}: {}", form.name, p.name, target, seed,
                                fault.value_or("no kernel")));
    }
  }
  count.texts += most;
}

TEST_CASE("replay grid: it holds whatever code generation accepts") {
  // Of every algorithm of sums of products, with every combination of slices: a row where
  // supports_order says yes, and for tensor cores the refusals that leave the rest to the model.
  for (Algorithm algorithm :
       {Algorithm::kDirect, Algorithm::kImplicitGemm, Algorithm::kIm2col, Algorithm::kWinograd2,
        Algorithm::kWinograd4, Algorithm::kWinograd2Fused, Algorithm::kWinograd4Fused,
        Algorithm::kMatmul})
    for (const char* slices : {"", ".split3", ".split3a"}) {
      const std::string walk = algorithm == Algorithm::kMatmul ? "k" : "crs";
      const bool accepted = ir::supports_order(algorithm, *ir::parse_order(walk + slices + ".fma"));
      const bool atomic = std::string_view(slices) == ".split3a";
      const bool row = std::ranges::any_of(kForms, [&](const GridForm& f) {
        const auto order = *ir::parse_order(fmt::format("{}.fma", f.sums));
        return f.algorithm == algorithm && (order.split > 1) == (*slices != 0) &&
               f.atomic == atomic;
      });
      CHECK_MESSAGE(row == accepted, ir::name_of(algorithm) << slices);
      const bool mma = ir::supports_order(
          algorithm, *ir::parse_order(walk + slices + ".mma(sm_90,tf32,m16n8k8,rna)"));
      CHECK((mma == (!atomic &&
                     (algorithm == Algorithm::kImplicitGemm || algorithm == Algorithm::kMatmul))));
      CHECK(!ir::supports_order(algorithm,
                                *ir::parse_order(walk + slices + ".mma(sm_70,f16,m8n8k4)")));
    }
}

TEST_CASE("replay grid: sums on V100's tensor cores follow the scalar model") {
  // No kernel of ours runs there: the interpreter's order against the model, 50 random shapes.
  const auto core =
      *runtime::tensor_core("sm_70", runtime::TcFormat::kF16, runtime::TcAccumulator::kF32);
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Draw d(seed);
    const std::int64_t m = d(1, 6), k = d(1, 90), n = d(1, 5);
    ir::Tensor a(ir::DType::kF32, {m, k}), b(ir::DType::kF32, {k, n});
    const auto kind = seed % 4 == 3 ? Distribution::kIntegers : Distribution::kRandom;
    fill(kind, seed, "a", a.data_mut<float>());
    fill(kind, seed, "b", b.data_mut<float>());
    OneOp op(Op::kMatmul, {a, b});
    op.contract.order = *ir::parse_order("k.mma(sm_70,f16,m8n8k4)");
    op.contract.in = Precision::kF16;
    const ir::Tensor got = op.run();
    const auto half = [](float v) { return runtime::rounded(v, runtime::Hypothesis::kF16); };
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        std::vector<float> x, w;
        for (std::int64_t t = 0; t < k; ++t) {
          x.push_back(half(a.data<float>()[static_cast<std::size_t>(i * k + t)]));
          w.push_back(half(b.data<float>()[static_cast<std::size_t>(t * n + j)]));
        }
        const float want = runtime::tensor_core_chain(core, 4, 0.0f, x, w).value;
        REQUIRE(bits_of(got.data<float>()[static_cast<std::size_t>(i * n + j)]) == bits_of(want));
      }
  }
}

}  // namespace

TEST_SUITE("soak") {
  TEST_CASE("replay grid: every algorithm, precision and architecture, 50 random shapes each" *
            doctest::skip()) {
    if (!kernels_available("replay grid")) return;
    GridCount count;
    for (const GridForm& f : kForms)
      for (const GridPrecision& p : kPrecisions) replay(f, p, kTargets, 50, count);
    CHECK(count.rows == std::size(kForms) * std::size(kPrecisions));
    CHECK(count.runs >= 50 * count.rows);
    MESSAGE(count.rows << " rows of algorithm and precision, 5 architectures with " << count.texts
                       << " different texts, " << count.runs << " runs");
  }
}

}  // namespace driftc::test
