// Tensor-core kernels against source replay, bit for bit: convolutions and matrix products in every
// precision and on every architecture that has it. The default suite runs a sample that shares
// sources; the soak runs all of them on 50 shapes each.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "runtime/eager/region.h"
#include "tests/unit/emit_families.h"

namespace driftc::test {
namespace {

using ir::Algorithm;
using ir::Layout;
using ir::Op;

struct Unit {
  const char *arch, *target, *dtype, *shape, *rounding;
  ir::Precision in;
  std::string mma() const { return fmt::format("mma({},{},{}{})", arch, dtype, shape, rounding); }
};
constexpr ir::Precision kRna = ir::Precision::kTf32Rna, kTrunc = ir::Precision::kTf32Trunc,
                        kF16 = ir::Precision::kF16, kBF16 = ir::Precision::kBF16;
const Unit kUnits[] = {
    {"sm_75", "compute_75", "f16", "m16n8k8", "", kF16},
    {"sm_80", "compute_80", "f16", "m16n8k16", "", kF16},
    {"sm_80", "compute_80", "bf16", "m16n8k16", "", kBF16},
    {"sm_80", "compute_80", "tf32", "m16n8k8", ",rna", kRna},
    {"sm_80", "compute_80", "tf32", "m16n8k8", ",trunc", kTrunc},
    {"sm_89", "compute_89", "f16", "m16n8k16", "", kF16},
    {"sm_89", "compute_89", "bf16", "m16n8k8", "", kBF16},
    {"sm_89", "compute_89", "tf32", "m16n8k8", ",rna", kRna},
    {"sm_90", "compute_90", "f16", "m16n8k16", "", kF16},
    {"sm_90", "compute_90", "f16", "m16n8k8", "", kF16},
    {"sm_90", "compute_90", "bf16", "m16n8k16", "", kBF16},
    {"sm_90", "compute_90", "tf32", "m16n8k8", ",rna", kRna},
    {"sm_90", "compute_90", "tf32", "m16n8k8", ",trunc", kTrunc},
    {"sm_100", "compute_100", "f16", "m16n8k16", "", kF16},
    {"sm_100", "compute_100", "bf16", "m16n8k16", "", kBF16},
    {"sm_100", "compute_100", "tf32", "m16n8k8", ",rna", kRna},
};

ir::Schedule tile(const Unit& unit) {
  return {32, 32, unit.dtype == std::string("tf32") ? 16 : 32, 4, 8, 1};
}

// Autocast stores 16-bit results in their type.
void store_low(const Unit& unit, KernelCase& test) {
  if (unit.in == kF16 || unit.in == kBF16) test.kernel.contract.store = unit.in;
}

// 3x3, stride, pad and dilation drawn; with a residual and relu behind it.
KernelCase conv(const Unit& unit, Draw& d, const std::string& prefix, const std::string& bias,
                Layout layout, std::int64_t groups) {
  KernelCase test(Algorithm::kImplicitGemm, prefix + unit.mma() + bias, tile(unit));
  test.kernel.contract.in = unit.in;
  const std::int64_t c = d(1, 20), k = d(1, 40), h = d(3, 9), w = d(3, 9), n = d(1, 2);
  const std::int64_t stride = d(1, 2), pad = d(0, 2);
  const ir::ValueId x = test.input({n, c * groups, h, w}, layout),
                    weights = test.input({k * groups, c, 3, 3}), b = test.input({k * groups});
  ir::ValueId y = test.add(Op::kConv2d, {x, weights, b},
                           {{"stride", std::vector<std::int64_t>{stride, d(1, 2)}},
                            {"pad", std::vector<std::int64_t>{pad, pad, d(0, 1), d(0, 2)}},
                            {"dilation", std::vector<std::int64_t>{1, 1}},
                            {"groups", groups}});
  test.add(Op::kRelu, {y});
  test.finish(layout);
  if (layout == Layout::kNhwc) store_low(unit, test);
  return test;
}

KernelCase matmul(const Unit& unit, Draw& d, const std::string& prefix) {
  KernelCase test(Algorithm::kMatmul, prefix + unit.mma(), tile(unit));
  test.kernel.contract.in = unit.in;
  const std::int64_t batch = d(1, 3), m = d(1, 70), k = d(1, 90), n = d(1, 70);
  test.add(Op::kMatmul, {test.input({batch, m, k}), test.input({batch, k, n})});
  test.finish();
  return test;
}

KernelCase gemm(const Unit& unit, Draw& d, bool ta, bool tb) {
  KernelCase test(Algorithm::kMatmul, "k." + unit.mma() + "+bias.first", tile(unit));
  test.kernel.contract.in = unit.in;
  const std::int64_t m = d(1, 50), k = d(1, 60), n = d(1, 50);
  test.add(Op::kGemm,
           {test.input(ta ? ir::Shape{k, m} : ir::Shape{m, k}),
            test.input(tb ? ir::Shape{n, k} : ir::Shape{k, n}), test.input({n})},
           {{"trans_a", std::int64_t{ta}}, {"trans_b", std::int64_t{tb}}});
  test.finish();
  return test;
}

KernelCase conv1x1(const Unit& unit, Draw& d, Layout layout) {
  KernelCase test(Algorithm::kMatmul, "k." + unit.mma() + "+bias.stored", tile(unit));
  test.kernel.contract.in = unit.in;
  const std::int64_t n = d(1, 3), c = d(1, 60), k = d(2, 60), h = d(2, 9), w = d(1, 9);
  test.add(Op::kConv1x1Matmul,
           {test.input({n, c, h, w}, layout), test.input({k, c, 1, 1}), test.input({k})});
  test.finish(layout);
  return test;
}

struct MmaFamily {
  const char* name;
  KernelCase (*make)(const Unit&, Draw&);
};
const MmaFamily kFamilies[] = {
    {"conv crs",
     [](const Unit& u, Draw& d) { return conv(u, d, "crs.", "+bias.stored", Layout::kNchw, 1); }},
    {"conv rsc",
     [](const Unit& u, Draw& d) { return conv(u, d, "rsc.", "+bias.first", Layout::kNhwc, 1); }},
    {"conv c8rs, grouped",
     [](const Unit& u, Draw& d) { return conv(u, d, "c8rs.", "+bias.last", Layout::kNhwc, 2); }},
    {"conv crs, split",
     [](const Unit& u, Draw& d) {
       return conv(u, d, "crs.split3p.", "+bias.first", Layout::kNchw, 1);
     }},
    {"matmul", [](const Unit& u, Draw& d) { return matmul(u, d, "k."); }},
    {"matmul split", [](const Unit& u, Draw& d) { return matmul(u, d, "k.split4."); }},
    {"gemm", [](const Unit& u, Draw& d) { return gemm(u, d, false, true); }},
    {"gemm, a transposed", [](const Unit& u, Draw& d) { return gemm(u, d, true, false); }},
    {"conv1x1 nchw", [](const Unit& u, Draw& d) { return conv1x1(u, d, Layout::kNchw); }},
    {"conv1x1 nhwc", [](const Unit& u, Draw& d) { return conv1x1(u, d, Layout::kNhwc); }},
};

void replay(const Unit& unit, const MmaFamily& family, std::uint64_t first, std::uint64_t last) {
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    Draw draw(seed);
    const KernelCase test = family.make(unit, draw);
    const auto distribution = seed % 4 == 3 ? Distribution::kIntegers : Distribution::kRandom;
    const auto fault = check_replay(test, seed, distribution, seed % 3 == 2, unit.target);
    CHECK_MESSAGE(fault == std::optional<std::string>(""),
                  fmt::format("{} {}, seed {}: {}", family.name, unit.mma(), seed,
                              fault.value_or("no kernel")));
  }
}

TEST_CASE("mma kernel == replay: a sample of precisions, architectures and orders") {
  if (!kernels_available("mma kernels")) return;
  replay(kUnits[11], kFamilies[0], 1, 6);  // sm_90 tf32 rna, conv crs
  replay(kUnits[4], kFamilies[1], 1, 6);   // sm_80 tf32 trunc, conv rsc
  replay(kUnits[0], kFamilies[0], 1, 6);   // sm_75 f16, conv crs
  replay(kUnits[10], kFamilies[4], 1, 6);  // sm_90 bf16, matmul
  replay(kUnits[13], kFamilies[9], 1, 6);  // sm_100 f16, conv1x1 nhwc
}

TEST_CASE("case: tails of k on tensor cores count their ones (IREE-11630, triton-630)") {
  if (!kernels_available("mma kernels")) return;
  // The kernels of the sample above on sums of ones: what a tail reads or drops shows in the value.
  for (std::int64_t c : {1, 4, 7})
    for (const Unit* unit : {&kUnits[0], &kUnits[11]}) {
      KernelCase test(Algorithm::kImplicitGemm, "crs." + unit->mma() + "+bias.stored", tile(*unit));
      test.kernel.contract.in = unit->in;
      const ir::ValueId y = test.add(
          Op::kConv2d, {test.input({2, c, 8, 9}), test.input({5, c, 3, 3}), test.input({5})},
          {{"pad", std::vector<std::int64_t>{1, 1, 1, 1}}});
      test.add(Op::kRelu, {y});
      test.finish();
      // Bit equality with replay, whose value is known: 9, 6 or 4 taps of c ones, and the bias.
      CHECK(check_replay(test, 1, Distribution::kOnes, false, unit->target) ==
            std::optional<std::string>(""));
      ir::Node node;
      node.op = Op::kKernel;
      node.kernel = std::make_shared<const ir::Kernel>(test.kernel);
      runtime::ThreadPool pool(1);
      const ir::Tensor sums =
          runtime::evaluate_kernel(node, test.operands(1, Distribution::kOnes, false), {pool, 0});
      for (std::int64_t i = 0; i < sums.elements(); ++i) {
        const std::int64_t row = i / 9 % 8, column = i % 9;
        const std::int64_t taps =
            (row == 0 || row == 7 ? 2 : 3) * (column == 0 || column == 8 ? 2 : 3);
        CHECK(sums.data<float>()[static_cast<std::size_t>(i)] == static_cast<float>(taps * c + 1));
      }
    }
  for (std::int64_t k : {1, 31, 32, 33, 36, 1001}) {
    KernelCase test(Algorithm::kMatmul, "k." + kUnits[10].mma(), tile(kUnits[10]));
    test.kernel.contract.in = kUnits[10].in;
    test.add(Op::kMatmul, {test.input({1, 33, k}), test.input({1, k, 9})});
    test.finish();
    CHECK(check_replay(test, 1, Distribution::kOnes, false, kUnits[10].target) ==
          std::optional<std::string>(""));
  }
}

}  // namespace

TEST_SUITE("soak") {
  TEST_CASE("mma kernel == replay: every precision, architecture and order" * doctest::skip()) {
    if (!kernels_available("mma kernels")) return;
    for (const Unit& unit : kUnits)
      for (const MmaFamily& family : kFamilies) replay(unit, family, 1, 50);
  }
}

}  // namespace driftc::test
