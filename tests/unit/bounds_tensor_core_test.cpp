// The scalar tensor-core model: the discriminating vectors of numerics.md 1.6, all captured outputs
// of real GPUs, and the error bounds of a block and a chain (1.8).
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "ir/support/half.h"
#include "runtime/compare/bounds.h"
#include "runtime/sums/tensor_core.h"
#include "tests/unit/exact_support.h"

namespace driftc::test {
namespace {

using runtime::TcAccumulator;
using runtime::TcFormat;
using runtime::TensorCore;

TensorCore core(const char* arch, TcFormat format,
                TcAccumulator accumulator = TcAccumulator::kF32) {
  const auto found = runtime::tensor_core(arch, format, accumulator);
  REQUIRE(found.has_value());
  return *found;
}

// Products given as values p = a * 2^k split into two operands with exact powers of two.
std::uint32_t block(const TensorCore& unit, float c,
                    const std::vector<std::pair<float, float>>& products) {
  std::vector<float> a(static_cast<std::size_t>(unit.length), 0.0f), b = a;
  for (std::size_t i = 0; i < products.size(); ++i) {
    a[i] = products[i].first;
    b[i] = products[i].second;
  }
  return bits_of(runtime::tensor_core_block(unit, c, a, b).value);
}
using Products = std::vector<std::pair<float, float>>;
Products repeated(std::size_t n, float a, float b) { return Products(n, {a, b}); }

const char* const kAll[] = {"sm_70", "sm_75", "sm_80", "sm_89", "sm_90", "sm_100"};

TEST_CASE("tensor core: T1 rounds toward zero, T2 fraction bits") {
  for (const char* arch : kAll) {
    const TensorCore unit = core(arch, TcFormat::kF16);
    INFO(arch);
    CHECK(block(unit, 1, {{0x1.8p-12f, 0x1p-12f}}) == 0x3F800000u);  // T1
    CHECK(block(unit, 1, repeated(2, 0x1p-12f, 0x1p-12f)) ==
          (arch == std::string("sm_70") ? 0x3F800000u : 0x3F800001u));  // T2a
    const bool hopper = unit.fraction_bits == 25;
    CHECK(block(unit, 1, repeated(4, 0x1p-12f, 0x1p-13f)) ==
          (hopper ? 0x3F800001u : 0x3F800000u));  // T2b
    if (unit.length >= 8)
      CHECK(block(unit, 1, repeated(8, 0x1p-13f, 0x1p-13f)) == 0x3F800000u);  // T2c
  }
}

TEST_CASE("tensor core: T3 block length, T4 raw exponents align") {
  const auto t3 = [](const char* arch, TcFormat format, std::size_t at) {
    std::vector<float> a(16, 0.0f), b = a;
    a[0] = b[0] = 0x1p12f;
    a[1] = 0x1p12f;
    b[1] = -0x1p12f;
    a[at] = b[at] = 0x1p-5f;
    return runtime::tensor_core_chain(core(arch, format), 16, 0, a, b).value;
  };
  CHECK(t3("sm_80", TcFormat::kF16, 8) == 0x1p-10f);
  CHECK(t3("sm_90", TcFormat::kF16, 8) == 0.0f);
  CHECK(t3("sm_70", TcFormat::kF16, 8) == 0x1p-10f);
  CHECK(t3("sm_80", TcFormat::kTf32, 4) == 0x1p-10f);
  CHECK(t3("sm_90", TcFormat::kTf32, 4) == 0.0f);
  // The k extent of the instruction limits the block.
  std::vector<float> a(16, 0.0f), b = a;
  a[0] = b[0] = a[1] = 0x1p12f;
  b[1] = -0x1p12f;
  a[8] = b[8] = 0x1p-5f;
  CHECK(runtime::tensor_core_chain(core("sm_90", TcFormat::kF16), 8, 0, a, b).value == 0x1p-10f);

  Products t4 = repeated(9, 0x1p-12f, 0x1p-13f);
  t4[0] = {1.5f, 1.5f};
  CHECK(block(core("sm_90", TcFormat::kF16), 0, t4) == bits_of(2.25f + 0x1p-22f));
}

TEST_CASE("tensor core: T5 subnormal inputs, T6 and T7 the floor of the alignment exponent") {
  for (const char* arch : kAll)
    CHECK(block(core(arch, TcFormat::kF16), 0, {{0x1p-24f, 1}}) == bits_of(0x1p-24f));
  CHECK(block(core("sm_90", TcFormat::kBf16), 0, repeated(16, 0x1p-100f, 0x1p-53f)) == 1u);
  CHECK(block(core("sm_80", TcFormat::kBf16), 0, repeated(8, 0x1p-100f, 0x1p-52f)) == 1u);
  const auto t7 = [](const char* arch, float a, float b) {
    return block(core(arch, TcFormat::kF16, TcAccumulator::kF16), 0,
                 {{0x1p-12f, 0x1p-13f}, {a, b}});
  };
  CHECK(t7("sm_90", 0x1p-24f, 0x1p-23f) == bits_of(0x1p-24f));
  CHECK(t7("sm_80", 0x1p-23f, 0x1p-22f) == bits_of(0x1p-24f));
  CHECK(t7("sm_70", 0x1p-22f, 0x1p-21f) == bits_of(0x1p-24f));
}

TEST_CASE("tensor core: T8 raw tf32 operands, T9 NaN, T11 saturation") {
  const TensorCore tf32 = core("sm_80", TcFormat::kTf32);
  CHECK(block(tf32, 0, {{float_of(0x3F801000), 1}}) == bits_of(1.0f));
  CHECK(block(tf32, 0, {{float_of(0x3F801FFF), 1}}) == bits_of(1.0f));
  const TensorCore f16 = core("sm_90", TcFormat::kF16);
  const float inf = std::numeric_limits<float>::infinity();
  CHECK(block(f16, 0, {{inf, 0}}) == 0x7FFFFFFFu);
  CHECK(block(f16, 0, {{inf, 1}, {-inf, 1}}) == 0x7FFFFFFFu);
  CHECK(block(f16, 0, {{float_of(0x7FC12345), 1}}) == 0x7FFFFFFFu);
  CHECK(block(f16, inf, {{1, 1}}) == bits_of(inf));
  CHECK(block(f16, -inf, {{inf, 1}}) == 0x7FFFFFFFu);
  CHECK(block(f16, 0, {{-inf, 2}}) == bits_of(-inf));
  const TensorCore bf16 = core("sm_90", TcFormat::kBf16);
  const float most = std::numeric_limits<float>::max();
  CHECK(block(bf16, most, {{0x1p60f, 0x1p44f}}) == bits_of(inf));
  CHECK(block(bf16, most, {{0x1p60f, 0x1p43f}}) == 0x7F7FFFFFu);
}

TEST_CASE("tensor core: units that do not exist") {
  CHECK_FALSE(runtime::tensor_core("sm_70", TcFormat::kBf16, TcAccumulator::kF32));
  CHECK_FALSE(runtime::tensor_core("sm_75", TcFormat::kTf32, TcAccumulator::kF32));
  CHECK_FALSE(runtime::tensor_core("sm_90", TcFormat::kTf32, TcAccumulator::kF16));
  CHECK_FALSE(runtime::tensor_core("sm_60", TcFormat::kF16, TcAccumulator::kF32));
  ir::MmaSpec spec{"sm_90", "tf32", "m16n8k8", "rna"};
  CHECK(runtime::tensor_core(spec)->length == 8);
}

TEST_CASE("tensor core: every captured output of real GPUs, bit for bit") {
  namespace fs = std::filesystem;
  const char* given = std::getenv("DRIFTC_TENSORCORE_DATA");
  const fs::path folder = given != nullptr
                              ? fs::path(given)
                              : fs::path(DRIFTC_SOURCE_DIR) / "../shared/data/tensorcore";
  if (!fs::is_directory(folder)) {
    std::printf("[skip] captured tensor-core vectors: no folder %s (DRIFTC_TENSORCORE_DATA)\n",
                folder.c_str());
    return;
  }
  const std::pair<const char*, const char*> gpus[] = {{"v100", "sm_70"},
                                                      {"a100", "sm_80"},
                                                      {"ada", "sm_89"},
                                                      {"h200", "sm_90"},
                                                      {"b200", "sm_100"}};
  const std::pair<const char*, TcFormat> formats[] = {
      {"fp16", TcFormat::kF16}, {"bf16", TcFormat::kBf16}, {"tf32", TcFormat::kTf32}};
  std::int64_t files = 0, rows_seen = 0, bounded = 0;
  for (const auto& [gpu, arch] : gpus)
    for (const auto& [name, format] : formats) {
      std::ifstream in(folder / (std::string(gpu) + "_" + name + ".bin"), std::ios::binary);
      if (!in) continue;
      ++files;
      std::uint32_t header[4];
      in.read(reinterpret_cast<char*>(header), sizeof header);
      REQUIRE(header[0] == 0x31564354u);  // "TCV1"
      const std::size_t k = header[1], rows = header[2];
      const bool has_f16 = header[3] == 1;
      std::vector<std::uint32_t> row(2 * k + 2 + (has_f16 ? 1 : 0));
      const TensorCore unit = core(arch, format);
      std::int64_t wrong = 0, wrong_f16 = 0, outside = 0;
      for (std::size_t r = 0; r < rows; ++r) {
        in.read(reinterpret_cast<char*>(row.data()), static_cast<std::streamsize>(row.size() * 4));
        REQUIRE(in.good());
        std::vector<float> a, b;
        for (std::size_t i = 0; i < k; ++i) {
          a.push_back(float_of(row[i]));
          b.push_back(float_of(row[k + i]));
        }
        const float c = float_of(row[2 * k]);
        const auto made = runtime::tensor_core_chain(unit, static_cast<int>(k), c, a, b);
        if (bits_of(made.value) != row[2 * k + 1]) ++wrong;
        ++rows_seen;
        if (std::isfinite(made.value)) {
          Real error{double{c}};
          double magnitude = std::abs(double{c}), largest = 0;
          for (std::size_t i = 0; i < k; ++i) {
            error.add_product(a[i], b[i]);
            magnitude += std::abs(double{a[i]} * double{b[i]});
            largest = std::max({largest, double{std::abs(a[i])}, double{std::abs(b[i])}});
          }
          error.subtract(Real(made.value));
          const double chain =
              runtime::tensor_core_bound(unit, static_cast<int>(k), static_cast<std::int64_t>(k),
                                         magnitude * 1.000001, largest);
          if (!(error.magnitude() <= Real(made.bound)) || !(made.bound <= chain)) ++outside;
          ++bounded;
        }
        if (!has_f16) continue;
        const TensorCore half = core(arch, format, TcAccumulator::kF16);
        const float c16 = f16_to_f32(f32_to_f16_rne(c));
        if (bits_of(runtime::tensor_core_chain(half, static_cast<int>(k), c16, a, b).value) !=
            row[2 * k + 2])
          ++wrong_f16;
      }
      INFO(gpu, " ", name);
      CHECK(wrong == 0);
      CHECK(wrong_f16 == 0);
      CHECK(outside == 0);
    }
  INFO(rows_seen, " rows, ", bounded, " finite");
  CHECK(files == 13);
}

TEST_CASE(
    "tensor core: the error of long chains lies within the running and the a-priori bound; "
    "truncation is biased") {
  for (const char* arch : kAll)
    for (TcFormat format : {TcFormat::kF16, TcFormat::kBf16, TcFormat::kTf32})
      for (TcAccumulator accumulator : {TcAccumulator::kF32, TcAccumulator::kF16}) {
        const auto unit = runtime::tensor_core(arch, format, accumulator);
        if (!unit) continue;
        for (std::uint64_t seed = 0; seed < 20; ++seed) {
          Chooser pick(seed, "chain");
          const auto n = static_cast<std::size_t>(pick.pick(1, 200));
          const bool tiny = seed % 4 == 3, positive = seed % 4 == 2;
          std::vector<float> a, b;
          for (std::size_t i = 0; i < n; ++i)
            for (std::vector<float>* v : {&a, &b}) {
              float x = pick.symmetric();
              if (tiny) x = std::ldexp(x, format == TcFormat::kF16 ? -20 : -70);
              if (positive) x = std::abs(x);
              v->push_back(format == TcFormat::kF16    ? f16_to_f32(f32_to_f16_rne(x))
                           : format == TcFormat::kBf16 ? bf16_to_f32(f32_to_bf16_rne(x))
                                                       : tf32_rna(x));
            }
          const auto made = runtime::tensor_core_chain(*unit, 16, 0, a, b);
          Real error;
          double magnitude = 0, largest = 0;
          for (std::size_t i = 0; i < n; ++i) {
            error.add_product(a[i], b[i]);
            magnitude += std::abs(double{a[i]} * double{b[i]});
            largest = std::max({largest, double{std::abs(a[i])}, double{std::abs(b[i])}});
          }
          error.subtract(Real(made.value));
          INFO(std::string(arch), " format ", static_cast<int>(format), " seed ", seed, " error ",
               error.to_f64(), " bound ", made.bound);
          REQUIRE(error.magnitude() <= Real(made.bound));
          REQUIRE(made.bound <= runtime::tensor_core_bound(*unit, 16, static_cast<std::int64_t>(n),
                                                           magnitude * 1.000001, largest));
          if (positive && accumulator == TcAccumulator::kF32) CHECK(error.to_f64() >= 0);
        }
      }
}

TEST_CASE("tensor core: an mma order's a-priori bound covers a whole matrix product") {
  runtime::ThreadPool pool(1);
  Chooser pick(5, "mma");
  ir::Tensor a = pick.tensor({6, 100}, 0), b = pick.tensor({100, 5}, 0);
  const NodeCase c = make_node(ir::Op::kMatmul, {a, b});
  const auto problem = runtime::compare::matched(runtime::sum_problem(c.graph, c.node, c.operands),
                                                 runtime::Hypothesis::kTf32Rna, pool);
  ir::NumericContract contract;
  contract.order = ir::parse_order("k.mma(sm_90,tf32,m16n8k8,rna)").value();
  const auto bound = runtime::compare::a_priori_bound(problem, contract, pool);
  CHECK(bound.kind == runtime::compare::BoundKind::kTensorCore);
  const auto chain =
      runtime::compare::tensor_core_chain_bound(problem, core("sm_90", TcFormat::kTf32), 8, pool);
  for (std::size_t m = 0; m < 6; ++m)
    for (std::size_t n = 0; n < 5; ++n) {
      std::vector<float> x, y;
      for (std::size_t k = 0; k < 100; ++k) {
        x.push_back(problem.rows.data<float>()[m * 100 + k]);
        y.push_back(problem.columns.data<float>()[k * 5 + n]);
      }
      const float made =
          runtime::tensor_core_chain(core("sm_90", TcFormat::kTf32), 8, 0, x, y).value;
      Real error =
          *oracle(c, static_cast<std::int64_t>(m * 5 + n), nullptr, runtime::Hypothesis::kTf32Rna);
      error.subtract(Real(made));
      CHECK(error.magnitude() <= Real(bound.value.data<double>()[m * 5 + n]));
      CHECK(error.magnitude() <= Real(chain.value.data<double>()[m * 5 + n]));
    }
}

}  // namespace
}  // namespace driftc::test
