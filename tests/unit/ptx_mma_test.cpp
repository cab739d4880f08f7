// mma.sync and what belongs to it in the PTX executor: the discriminating vectors of numerics.md
// 1.6 as instructions, random and special operands against the scalar model, captured outputs of
// real GPUs, ldmatrix, conversions, and what is refused.
#include <hwy/highway.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <set>

#include "ir/support/half.h"
#include "runtime/study/captures.h"
#include "runtime/study/mma_probe.h"
#include "runtime/sums/tensor_core_lanes.h"
#include "tests/unit/exact_support.h"
#include "tests/unit/ptx_helpers.h"

namespace driftc::test {
namespace {

using runtime::TcAccumulator;
using runtime::TcFormat;
using runtime::study::MmaInstruction;
using runtime::study::MmaProblem;

struct Kind {
  TcFormat format;
  TcAccumulator accumulator;
  int k, first_sm;
  int last_sm = 1000;
};
constexpr Kind kKinds[] = {{TcFormat::kF16, TcAccumulator::kF32, 4, 70, 70},
                           {TcFormat::kF16, TcAccumulator::kF16, 4, 70, 70},
                           {TcFormat::kF16, TcAccumulator::kF32, 8, 75},
                           {TcFormat::kF16, TcAccumulator::kF32, 16, 80},
                           {TcFormat::kF16, TcAccumulator::kF16, 8, 75},
                           {TcFormat::kF16, TcAccumulator::kF16, 16, 80},
                           {TcFormat::kBf16, TcAccumulator::kF32, 8, 80},
                           {TcFormat::kBf16, TcAccumulator::kF32, 16, 80},
                           {TcFormat::kTf32, TcAccumulator::kF32, 4, 80},
                           {TcFormat::kTf32, TcAccumulator::kF32, 8, 80}};
constexpr int kArchs[] = {70, 75, 80, 89, 90, 100};

std::string target(int sm) { return "sm_" + std::to_string(sm); }

// A value of the format, of one of the laws of Chooser, rarely a special one.
float operand(Chooser& pick, TcFormat format, int law, bool specials) {
  if (specials && pick.chance(40)) {
    const float all[] = {std::numeric_limits<float>::infinity(),
                         -std::numeric_limits<float>::infinity(), canonical_nan(), -0.0f};
    return all[pick.pick(0, 3)];
  }
  const float x = pick.value(law);
  switch (format) {
    case TcFormat::kF16:
      return f16_to_f32(f32_to_f16_rne(x));
    case TcFormat::kBf16:
      return bf16_to_f32(f32_to_bf16_rne(x));
    case TcFormat::kTf32:
      return x;  // the hardware drops the low bits
  }
  return x;
}

float scalar(const runtime::TensorCore& core, int k, const MmaProblem& p, std::size_t row,
             std::size_t column) {
  std::vector<float> a, b;
  for (std::size_t i = 0; i < static_cast<std::size_t>(k); ++i) {
    a.push_back(p.a[row * static_cast<std::size_t>(k) + i]);
    b.push_back(p.b[i * 8 + column]);
  }
  return runtime::tensor_core_chain(core, k, p.c[row * 8 + column], a, b).value;
}

// fn() with the best instruction set of this machine, with AVX2 and with none: vectors of 16, 8 and
// one lanes.
template <class Fn>
void on_every_target(const Fn& fn) {
  const std::int64_t supported = hwy::SupportedTargets();
  const std::vector<std::int64_t> sets = {supported, (supported & HWY_AVX2) | HWY_SCALAR,
                                          HWY_SCALAR};
  for (const std::int64_t targets : sets) {
    hwy::SetSupportedTargetsForTest(targets);
    hwy::GetChosenTarget().DeInit();
    CAPTURE(targets);
    fn();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
}

// Random operands of every law, with and without specials, against the scalar model.
void check_every_shape(std::uint64_t seed, std::int64_t& outputs) {
  runtime::ThreadPool pool(1);
  for (int sm : kArchs)
    for (const Kind& kind : kKinds) {
      if (sm < kind.first_sm || sm > kind.last_sm) continue;
      const MmaInstruction in{target(sm), kind.format, kind.accumulator, kind.k};
      const auto core = runtime::tensor_core(in.target, kind.format, kind.accumulator);
      REQUIRE(core);
      std::vector<MmaProblem> problems;
      Chooser pick(seed * 1000 + static_cast<std::uint64_t>(sm), "mma");
      for (int law = 0; law <= 6; ++law)
        for (bool specials : {false, true}) {
          MmaProblem p;
          for (int i = 0; i < 16 * in.k; ++i)
            p.a.push_back(operand(pick, in.format, law, specials));
          for (int i = 0; i < 8 * in.k; ++i)
            p.b.push_back(operand(pick, in.format, pick.chance(2) ? 0 : law, specials));
          for (int i = 0; i < 16 * 8; ++i) {
            const float c = pick.chance(4) ? 0.0f : pick.value(law);
            p.c.push_back(kind.accumulator == TcAccumulator::kF16 ? f16_to_f32(f32_to_f16_rne(c))
                                                                  : c);
          }
          // A row of A and a column of B that are zero, with zero and other accumulators.
          if (!specials && law % 2 == 1) {
            for (int i = 0; i < in.k; ++i) {
              p.a[static_cast<std::size_t>(3 * in.k + i)] = 0;
              p.b[static_cast<std::size_t>(i * 8 + 6)] = -0.0f;
            }
          }
          problems.push_back(std::move(p));
        }
      std::vector<float> wanted;
      for (const MmaProblem& p : problems)
        for (std::size_t i = 0; i < 16 * 8; ++i, ++outputs) {
          const float one = scalar(*core, in.k, p, i / 8, i % 8);
          // (The f16 NaN is 0x7FFF.)
          wanted.push_back(kind.accumulator == TcAccumulator::kF16 ? f16_to_f32(f32_to_f16_rne(one))
                                                                   : one);
        }
      on_every_target([&] {
        const auto made = runtime::study::run_mma(in, problems, pool, sm == 90);
        if (!made.ok()) FAIL(made.error().render());
        std::int64_t wrong = 0;
        for (std::size_t n = 0; n < problems.size(); ++n)
          for (std::size_t i = 0; i < 16 * 8; ++i)
            if (bits_of((*made)[n][i]) != bits_of(wanted[n * 16 * 8 + i])) ++wrong;
        INFO(in.target, " format ", static_cast<int>(kind.format), " k ", in.k, " f16 ",
             kind.accumulator == TcAccumulator::kF16);
        CHECK(wrong == 0);
      });
    }
}

TEST_CASE(
    "mma.sync: every shape on every architecture equals the scalar model, bit for bit, on every "
    "instruction set") {
  std::int64_t outputs = 0;
  check_every_shape(0, outputs);
  CHECK(outputs == 14 * 128 * (2 + 2 + 4 * 8));
}

TEST_SUITE("soak") {
  TEST_CASE("soak: mma.sync of random operands equals the scalar model on every instruction set") {
    std::int64_t outputs = 0;
    for (std::uint64_t seed = 1; seed <= 400; ++seed) {
      CAPTURE(seed);
      check_every_shape(seed, outputs);
    }
    CHECK(outputs == 400 * 14 * 128 * (2 + 2 + 4 * 8));
  }
}

// One output of the instruction: products p[i] = a[i] * b[i] in the order of k.
float single(int sm, TcFormat format, int k, float c,
             const std::vector<std::pair<int, std::pair<float, float>>>& products,
             TcAccumulator accumulator = TcAccumulator::kF32) {
  MmaProblem p{std::vector<float>(static_cast<std::size_t>(16 * k)),
               std::vector<float>(static_cast<std::size_t>(8 * k)), std::vector<float>(16 * 8)};
  for (const auto& [at, ab] : products) {
    p.a[static_cast<std::size_t>(5 * k + at)] = ab.first;
    p.b[static_cast<std::size_t>(at * 8 + 3)] = ab.second;
  }
  p.c[5 * 8 + 3] = c;
  runtime::ThreadPool pool(1);
  const auto made =
      runtime::study::run_mma({target(sm), format, accumulator, k}, std::span(&p, 1), pool);
  if (!made.ok()) FAIL(made.error().render());
  return (*made)[0][5 * 8 + 3];
}
std::vector<std::pair<int, std::pair<float, float>>> first(int n, float a, float b) {
  std::vector<std::pair<int, std::pair<float, float>>> out;
  for (int i = 0; i < n; ++i) out.push_back({i, {a, b}});
  return out;
}

TEST_CASE("mma.sync: the discriminating vectors T1 to T9 and T11") {
  const TcFormat f16 = TcFormat::kF16, bf16 = TcFormat::kBf16, tf32 = TcFormat::kTf32;
  const float inf = std::numeric_limits<float>::infinity();
  for (int sm : kArchs) {
    INFO(sm);
    if (sm == 70) {  // one bit less than the others: T2a is lost, and no more than 4 products meet
      CHECK(bits_of(single(70, f16, 4, 1, first(2, 0x1p-12f, 0x1p-12f))) == 0x3F800000u);
      CHECK(bits_of(single(70, f16, 4, 1, first(2, 0x1p-12f, 0x1p-11f))) == 0x3F800002u);
      CHECK(bits_of(single(70, f16, 4, 0, {{0, {inf, 0}}})) == 0x7FFFFFFFu);
      continue;
    }
    const int k = sm == 75 ? 8 : 16;
    const bool hopper = sm >= 90;
    CHECK(bits_of(single(sm, f16, k, 1, {{0, {0x1.8p-12f, 0x1p-12f}}})) == 0x3F800000u);  // T1
    CHECK(bits_of(single(sm, f16, k, 1, first(2, 0x1p-12f, 0x1p-12f))) == 0x3F800001u);   // T2a
    CHECK(bits_of(single(sm, f16, k, 1, first(4, 0x1p-12f, 0x1p-13f))) ==
          (hopper ? 0x3F800001u : 0x3F800000u));                                         // T2b
    CHECK(bits_of(single(sm, f16, k, 1, first(8, 0x1p-13f, 0x1p-13f))) == 0x3F800000u);  // T2c
    CHECK(single(sm, f16, k, 0, {{0, {0x1p-24f, 1}}}) == 0x1p-24f);                      // T5
    CHECK(bits_of(single(sm, f16, k, 0, {{0, {inf, 0}}})) == 0x7FFFFFFFu);               // T9
    CHECK(bits_of(single(sm, f16, k, 0, {{0, {inf, 1}}, {1, {-inf, 1}}})) == 0x7FFFFFFFu);
    CHECK(bits_of(single(sm, f16, k, 0, {{0, {float_of(0x7FC12345), 1}}})) == 0x7FFFFFFFu);
    const float ezero = hopper ? 0x1p-47f : 0x1p-45f;  // T7
    CHECK(single(sm, f16, k, 0, {{0, {0x1p-12f, 0x1p-13f}}, {1, {0x1p-23f, ezero * 0x1p23f}}},
                 TcAccumulator::kF16) == 0x1p-24f);
    if (sm == 75) continue;
    // T3: the block ends before index 8 (tf32: 4), or not.
    CHECK(single(sm, f16, 16, 0,
                 {{0, {0x1p12f, 0x1p12f}}, {1, {0x1p12f, -0x1p12f}}, {8, {0x1p-5f, 0x1p-5f}}}) ==
          (hopper ? 0.0f : 0x1p-10f));
    CHECK(single(sm, tf32, 8, 0,
                 {{0, {0x1p12f, 0x1p12f}}, {1, {0x1p12f, -0x1p12f}}, {4, {0x1p-5f, 0x1p-5f}}}) ==
          (hopper ? 0.0f : 0x1p-10f));
    if (hopper) {  // T4
      auto products = first(9, 0x1p-12f, 0x1p-13f);
      products[0].second = {1.5f, 1.5f};
      CHECK(single(sm, f16, 16, 0, products) == 2.25f + 0x1p-22f);
    }
    CHECK(bits_of(single(sm, bf16, 16, 0,
                         first(hopper ? 16 : 8, 0x1p-100f, hopper ? 0x1p-53f : 0x1p-52f))) ==
          1u);                                                                // T6
    CHECK(single(sm, tf32, 8, 0, {{0, {float_of(0x3F801000), 1}}}) == 1.0f);  // T8
    CHECK(single(sm, tf32, 8, 0, {{0, {float_of(0x3F801FFF), 1}}}) == 1.0f);
    const float most = std::numeric_limits<float>::max();  // T11
    CHECK(single(sm, bf16, 16, most, {{0, {0x1p60f, 0x1p44f}}}) == inf);
    CHECK(bits_of(single(sm, bf16, 16, most, {{0, {0x1p60f, 0x1p43f}}})) == 0x7F7FFFFFu);
  }
}

TEST_CASE("tensor core: captured outputs through the fast model and mma.sync") {
  const char* given = std::getenv("DRIFTC_TENSORCORE_DATA");
  const std::filesystem::path folder =
      given != nullptr ? std::filesystem::path(given)
                       : std::filesystem::path(DRIFTC_SOURCE_DIR) / "../shared/data/tensorcore";
  if (!std::filesystem::is_directory(folder)) {
    std::printf("[skip] captured tensor-core vectors: no folder %s (DRIFTC_TENSORCORE_DATA)\n",
                folder.c_str());
    return;
  }
  const auto captures = runtime::read_captures(folder.string());
  if (!captures.ok()) FAIL(captures.error().render());
  runtime::ThreadPool pool(1);
  for (const auto& capture : *captures) {
    const auto result = runtime::study::check_capture(capture, pool);
    if (!result.ok()) FAIL(result.error().render());
    INFO(capture.file);
    CHECK(result->outputs >= capture.rows());
    CHECK(result->wrong_scalar == 0);
    CHECK(result->wrong_lanes == 0);
    CHECK(result->wrong_mma == 0);
  }
}

// Behind the laws of Chooser: sums of 16 that nearly fill 31 bits.
constexpr int kLargestProducts = 7;

struct LanesCase {
  const char* arch;
  TcFormat format;
  TcAccumulator accumulator;
  std::size_t rows;
  int law;
  bool specials, offsets;
};

void check_lanes(const LanesCase& t) {
  const auto core = runtime::tensor_core(t.arch, t.format, t.accumulator);
  Chooser pick(7 + static_cast<std::uint64_t>(t.law), t.arch);
  const std::size_t steps = 37, rows = t.rows, width = t.offsets ? 20 : 16;
  std::vector<float> lanes(steps * width), scalars(steps * rows), start(rows * 16);
  const auto value = [&] {
    return t.law == kLargestProducts ? 0x1.fcp0f : operand(pick, t.format, t.law, t.specials);
  };
  for (float& v : lanes) v = value();
  for (float& v : scalars) v = value();
  for (float& v : start) {
    v = pick.chance(3) ? 0.0f : t.law == kLargestProducts ? 0x1.fep3f : pick.value(t.law);
    if (t.accumulator == TcAccumulator::kF16) v = f16_to_f32(f32_to_f16_rne(v));
  }
  for (std::size_t k = 0; k < steps; ++k) lanes[k * width + 5] = 0;  // a lane without products
  std::vector<std::int64_t> offsets;
  for (std::size_t k = 0; k < steps; ++k)
    offsets.push_back(!t.offsets    ? static_cast<std::int64_t>(k * width)
                      : k % 11 == 3 ? -1
                                    : static_cast<std::int64_t>((steps - 1 - k) * width));
  std::vector<float> wanted;
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t j = 0; j < 16; ++j) {
      std::vector<float> a, b;
      for (std::size_t k = 0; k < steps; ++k) {
        // What is skipped is a product of +0, whatever the row has.
        const bool skipped = offsets[k] < 0;
        a.push_back(skipped ? 0.0f : scalars[k * rows + r]);
        b.push_back(skipped ? 0.0f : lanes[static_cast<std::size_t>(offsets[k]) + j]);
      }
      wanted.push_back(runtime::tensor_core_chain(*core, 16, start[r * 16 + j], a, b).value);
    }
  on_every_target([&] {
    std::vector<float> lane_values = lanes, row_values = scalars, acc = start;
    std::vector<std::uint32_t> lane_codes(lanes.size()), row_codes(scalars.size());
    runtime::tensor_core_lanes(t.format, static_cast<std::int64_t>(lanes.size()),
                               lane_values.data(), lane_codes.data());
    runtime::tensor_core_rows(t.format, static_cast<std::int64_t>(rows), steps, row_values.data(),
                              row_codes.data());
    runtime::TcTile tile;
    tile.lanes = lane_values.data();
    tile.lane_codes = lane_codes.data();
    tile.offsets = t.offsets ? offsets.data() : nullptr;
    tile.row_values = row_values.data();
    tile.row_codes = row_codes.data();
    tile.rows = static_cast<int>(rows);
    tile.steps = static_cast<std::int64_t>(steps);
    tile.acc = acc.data();
    runtime::tensor_core_tile(*core, 16, tile);
    INFO(t.arch, " format ", static_cast<int>(t.format), " rows ", t.rows, " law ", t.law);
    CHECK(ptx_test::same_bits(acc, wanted));
  });
}

TEST_CASE(
    "tensor core lanes: offsets, zero leaves, any number of rows, short last blocks, every law "
    "and instruction set") {
  for (const char* arch : {"sm_80", "sm_90"})
    for (const auto& [format, accumulator] : {std::pair{TcFormat::kF16, TcAccumulator::kF32},
                                              std::pair{TcFormat::kF16, TcAccumulator::kF16},
                                              std::pair{TcFormat::kBf16, TcAccumulator::kF32},
                                              std::pair{TcFormat::kTf32, TcAccumulator::kF32}})
      for (std::size_t rows : {1, 3, 8, 14})
        for (int law = 0; law <= kLargestProducts; ++law)
          for (bool specials : {false, true})
            check_lanes({arch, format, accumulator, rows, law, specials, rows % 2 == 1});
}

std::string mma_text(const std::string& sm, const std::string& instruction) {
  return ".version 9.0\n.target " + sm +
         "\n.address_size 64\n.visible .entry k()\n{\n  .reg .pred %p<4>;\n  .reg .b32 %r<32>;\n"
         "  mov.u32 %r20, %tid.x;\n  setp.lt.u32 %p1, %r20, 16;\n  " +
         instruction + "\n  ret;\n}\n";
}

TEST_CASE(
    "mma.sync and ldmatrix: what a target does not have or the model does not cover is "
    "refused by name") {
  using ptx_test::refusal;
  const std::string f32 = "{%r0,%r1,%r2,%r3}", a2 = "{%r4,%r5}", a4 = "{%r4,%r5,%r6,%r7}",
                    b1 = "{%r8}", b2 = "{%r8,%r9}";
  const auto has = [](const std::string& text, const std::string& part) {
    INFO(text);
    return text.find(part) != std::string::npos;
  };
  const std::string k16 = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 " + f32 + ", " + a4 +
                          ", " + b2 + ", " + f32 + ";";
  CHECK(refusal(mma_text("sm_90", k16)) == "");
  CHECK(refusal(mma_text("sm_90a", k16)) == "");
  CHECK(has(refusal(mma_text("sm_75", k16)), "needs a tensor core that sm_75 does not have"));
  CHECK(has(refusal(mma_text("sm_75", "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 " + f32 +
                                          ", " + a4 + ", " + b2 + ", " + f32 + ";")),
            "needs a tensor core"));
  CHECK(has(refusal(mma_text("sm_90", "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 " + f32 +
                                          ", " + a4 + ", " + b2 + ", " + f32 + ";")),
            "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32' is not modelled bit-exactly"));
  CHECK(has(refusal(mma_text("sm_90", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 " + f32 +
                                          ", " + a2 + ", " + b1 + ", " + f32 + ";")),
            "operand 2 of"));
  CHECK(has(refusal(mma_text("sm_90", "@%p1 " + k16)), "under a predicate is not supported"));
  CHECK(has(refusal(mma_text("sm_90", "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 " + f32 +
                                          ", " + a4 + ", " + b2 + ", " + f32 + ";")),
            "wmma"));
  CHECK(has(refusal(mma_text("sm_90", "cvt.rna.satfinite.tf32.f32 %r1, %r2;")), "cvt"));
  CHECK(has(refusal(mma_text("sm_90", "cvt.rz.f16.f32 %r1, %r2;")), "cvt"));
}

TEST_CASE("mma.sync: m8n8k4 may write over what it reads, and is refused where it is emulated") {
  const std::string opcode = "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 ";
  const auto vector = [](int from, int count, int turn = 0) {
    std::string out;
    for (int i = 0; i < count; ++i)
      out += (i ? ",%r" : "{%r") + std::to_string(from + (i + turn) % count);
    return out + "}";
  };
  // Registers 0 to 7: A in the first two, B in the next two, and all eight as C in another order.
  const auto results = [&](int first_result) {
    std::string text =
        ".version 9.0\n.target sm_70\n.address_size 64\n.visible .entry k(.param .u64 out)\n{\n"
        "  .reg .b32 %r<32>;\n  .reg .b64 %rd<4>;\n  ld.param.u64 %rd1, [out];\n"
        "  mov.u32 %r30, %tid.x;\n";
    for (int i = 0; i < 8; ++i)  // f16 pairs near 1, all different
      text += "  mad.lo.u32 %r" + std::to_string(i) + ", %r30, " + std::to_string(0x10003 + i) +
              ", " + std::to_string(0x3C003B00 + 77 * i) + ";\n";
    text += "  " + opcode + vector(first_result, 8) + ", " + vector(0, 2) + ", " + vector(2, 2) +
            ", " + vector(0, 8, 5) +
            ";\n  mul.wide.u32 %rd2, %r30, 32;\n"
            "  add.s64 %rd3, %rd1, %rd2;\n";
    for (int i = 0; i < 8; ++i)
      text += "  st.global.u32 [%rd3+" + std::to_string(4 * i) + "], %r" +
              std::to_string(first_result + i) + ";\n";
    std::vector<std::uint32_t> out(256);
    auto program = ptx_test::load(text + "  ret;\n}\n");
    runtime::ptx::DeviceMemory memory;
    runtime::ptx::ArgumentPacker args;
    args.add(memory.add(out.data(), 1024, "out"));
    runtime::ThreadPool pool(1);
    auto result = runtime::ptx::launch(*program, {.block = {32, 1, 1}}, args.bytes(), memory, pool,
                                       {.check = true});
    if (!result.ok()) FAIL(result.error().render());
    return out;
  };
  const std::vector<std::uint32_t> apart = results(8);
  CHECK(results(0) == apart);
  CHECK(std::set<std::uint32_t>(apart.begin(), apart.end()).size() > 32);
  const std::string text = opcode + vector(0, 8) + ", " + vector(8, 2) + ", " + vector(10, 2) +
                           ", " + vector(12, 8) + ";";
  CHECK(ptx_test::refusal(mma_text("sm_70", text)) == "");
  CHECK(ptx_test::refusal(mma_text("sm_75", text))
            .find("is not modelled bit-exactly on sm_75, which emulates it") != std::string::npos);
}

TEST_CASE("mma.sync: a warp that is not whole is reported with the missing thread") {
  const auto run = [](std::uint32_t threads, const std::string& body) -> std::string {
    auto program = ptx_test::load(mma_text("sm_90", body));
    runtime::ptx::DeviceMemory memory;
    runtime::ThreadPool pool(1);
    auto result = runtime::ptx::launch(*program, {.block = {threads, 1, 1}}, {}, memory, pool);
    return result.ok() ? "" : result.error().render();
  };
  const std::string mma =
      "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%r0,%r1,%r2,%r3}, {%r4,%r5}, {%r8}, "
      "{%r0,%r1,%r2,%r3};";
  CHECK(run(64, mma) == "");
  CHECK(run(48, mma).find("thread (32,0,0)") != std::string::npos);
  const std::string some = run(32, "@!%p1 bra $over;\n" + mma + "\n$over:");
  INFO(some);
  CHECK(some.find("does not execute together with a whole warp") != std::string::npos);
  CHECK(some.find("thread (16,0,0)") != std::string::npos);
}

TEST_CASE("ldmatrix: rows go to threads, four matrices at once; bad addresses are reported") {
  // Shared memory holds word i at 4 i; thread 8 q + r gives the address of row r of matrix q.
  const auto text = [](const std::string& base) {
    return ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out)\n{\n"
           "  .shared .align 16 .b8 tile[4096];\n  .reg .b32 %r<32>;\n  .reg .b64 %rd<8>;\n"
           "  ld.param.u64 %rd1, [out];\n  mov.u32 %r1, %tid.x;\n  mov.u32 %r2, tile;\n"
           "  shl.b32 %r3, %r1, 2;\n  add.s32 %r4, %r2, %r3;\n"
           "  mov.u32 %r6, 0;\n$fill:\n  st.shared.u32 [%r4], %r1;\n  add.s32 %r1, %r1, 32;\n"
           "  add.s32 %r4, %r4, 128;\n  add.s32 %r6, %r6, 1;\n  setp.lt.s32 %p1, %r6, 32;\n"
           "  @%p1 bra $fill;\n  bar.sync 0;\n  mov.u32 %r1, %tid.x;\n" +
           base +
           "  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10,%r11,%r12,%r13}, [%r7+64];\n"
           "  mul.wide.u32 %rd2, %r1, 16;\n  add.s64 %rd3, %rd1, %rd2;\n"
           "  st.global.v4.u32 [%rd3], {%r10,%r11,%r12,%r13};\n  ret;\n}\n";
  };
  const auto with_predicate = [](std::string s) {
    const std::string mark = "  .reg .b32 %r<32>;\n";
    return s.insert(s.find(mark), "  .reg .pred %p<2>;\n");
  };
  const auto run = [&](const std::string& base, std::vector<std::uint32_t>& out) -> std::string {
    out.assign(128, 0);
    auto program = ptx_test::load(with_predicate(text(base)));
    runtime::ptx::DeviceMemory memory;
    runtime::ptx::ArgumentPacker args;
    args.add(memory.add(out.data(), 512, "out"));
    runtime::ThreadPool pool(1);
    auto result = runtime::ptx::launch(*program, {.block = {32, 1, 1}}, args.bytes(), memory, pool,
                                       {.check = true});
    return result.ok() ? "" : result.error().render();
  };
  std::vector<std::uint32_t> out;
  // Row r of matrix q at byte 96 (8 q + r) + 64.
  CHECK(run("  mul.lo.s32 %r5, %r1, 96;\n  add.s32 %r7, %r2, %r5;\n", out) == "");
  for (std::uint32_t lane = 0; lane < 32; ++lane)
    for (std::uint32_t q = 0; q < 4; ++q) {
      const std::uint32_t row = lane / 4, word = lane % 4;
      CHECK(out[lane * 4 + q] == (8 * q + row) * 24 + 16 + word);
    }
  CHECK(run("  mul.lo.s32 %r5, %r1, 92;\n  add.s32 %r7, %r2, %r5;\n", out).find("misaligned") !=
        std::string::npos);
  CHECK(run("  mul.lo.s32 %r5, %r1, 160;\n  add.s32 %r7, %r2, %r5;\n", out)
            .find("out-of-bounds read of 16 bytes") != std::string::npos);
}

TEST_CASE("cvt: tf32, f16 and bf16 forms against the software conversions") {
  std::vector<std::uint64_t> values;
  Chooser pick(11, "cvt");
  for (int i = 0; i < 320; ++i)
    values.push_back(i < 300 ? bits_of(pick.value(i % 7))
                             : static_cast<std::uint32_t>(0x7F7FF000u + 0x111u * i));
  for (std::uint32_t special : {0x7F800000u, 0xFF800000u, 0x7F800001u, 0x7FC00000u, 0x80000000u,
                                0x7F7FFFFFu, 0x00000001u, 0x477FF000u, 0x477FEFFFu, 0x33000000u})
    values.push_back(special);
  while (values.size() % 32 != 0) values.push_back(0);
  const auto compare = [&](const std::string& lines, auto expected) {
    const auto made = ptx_test::run_lines(lines, false, values);
    for (std::size_t i = 0; i < values.size(); ++i) {
      INFO(lines, " ", values[i]);
      REQUIRE(made[i] == expected(float_of(static_cast<std::uint32_t>(values[i]))));
    }
  };
  compare("  cvt.rna.tf32.f32 %r4, %r1;", [](float v) { return bits_of(tf32_rna(v)); });
  compare("  cvt.rn.f16.f32 %rs1, %r1;\n  cvt.u32.u16 %r4, %rs1;",
          [](float v) { return std::uint32_t{f32_to_f16_rne(v)}; });
  compare("  cvt.rn.bf16.f32 %rs1, %r1;\n  cvt.u32.u16 %r4, %rs1;",
          [](float v) { return std::uint32_t{f32_to_bf16_rne(v)}; });
  compare("  mov.u32 %r5, 0f3F800000;\n  cvt.rn.f16x2.f32 %r4, %r1, %r5;",
          [](float v) { return std::uint32_t{f32_to_f16_rne(v)} << 16 | 0x3C00u; });
  compare("  mov.u32 %r5, 0f3F800000;\n  cvt.rn.bf16x2.f32 %r4, %r5, %r1;",
          [](float v) { return 0x3F800000u | f32_to_bf16_rne(v); });
  compare("  cvt.u16.u32 %rs1, %r1;\n  cvt.f32.f16 %r4, %rs1;",
          [](float v) { return bits_of(f16_to_f32(static_cast<std::uint16_t>(bits_of(v)))); });
  compare("  cvt.u16.u32 %rs1, %r1;\n  cvt.f32.bf16 %r4, %rs1;",
          [](float v) { return bits_of(v) << 16; });
}

}  // namespace
}  // namespace driftc::test
