// One instruction family after the other, with results that can be derived by hand.
#include <cmath>
#include <limits>

#include "ir/support/round.h"
#include "tests/unit/ptx_helpers.h"

using namespace ptx_test;
using driftc::bits_of;
using driftc::float_of;
using Words = std::vector<std::uint64_t>;

namespace {
std::uint64_t F(float v) { return bits_of(v); }
std::uint64_t D(double v) { return bits_of(v); }
std::uint64_t S(std::int32_t v) { return static_cast<std::uint32_t>(v); }
constexpr std::uint64_t kNan = 0x7FFFFFFF, kQuiet = 0x7FC01234, kSignalling = 0xFF800001,
                        kInf = 0x7F800000, kNegInf = 0xFF800000;
constexpr std::uint64_t kNegZero = 0x80000000;
}  // namespace

TEST_CASE("ptx: 32-bit integer arithmetic") {
  CHECK(run_lines("add.s32 %r4, %r1, %r2;", false, {S(7), S(-1), 0xFFFFFFFF}, {S(-9), S(1), 2}) ==
        Words{S(-2), 0, 1});
  CHECK(run_lines("sub.s32 %r4, %r1, 5;", false, {S(7), S(0)}) == Words{2, S(-5)});
  CHECK(run_lines("mul.lo.s32 %r4, %r1, %r2;", false, {S(-3), 0x10001}, {S(7), 0x10001}) ==
        Words{S(-21), 0x20001});
  CHECK(run_lines("mul.hi.s32 %r4, %r1, %r2;", false, {S(-1), 0x40000000}, {S(1), 8}) ==
        Words{S(-1), 2});
  CHECK(run_lines("mul.hi.u32 %r4, %r1, %r2;", false, {0xFFFFFFFF}, {0xFFFFFFFF}) ==
        Words{0xFFFFFFFE});
  CHECK(run_lines("mad.lo.s32 %r4, %r1, %r2, %r3;", false, {S(-3)}, {S(5)}, {S(20)}) == Words{5});
  CHECK(run_lines("mad.hi.u32 %r4, %r1, %r2, %r3;", false, {0x80000000}, {6}, {1}) == Words{4});
  CHECK(run_lines("div.s32 %r4, %r1, %r2;", false, {S(-7), S(7), S(1000000007), S(-2147483647 - 1)},
                  {S(2), S(-2), S(10), S(-1)}) == Words{S(-3), S(-3), S(100000000), 0x80000000});
  CHECK(run_lines("rem.s32 %r4, %r1, %r2;", false, {S(-7), S(7), S(-2147483647 - 1)},
                  {S(2), S(-2), S(-1)}) == Words{S(-1), 1, 0});
  CHECK(run_lines("div.u32 %r4, %r1, 3;", false, {0xFFFFFFFF, 2, 3, 0xFFFFFFFE}) ==
        Words{0x55555555, 0, 1, 0x55555554});
  CHECK(run_lines("rem.u32 %r4, %r1, 7;", false, {0xFFFFFFFF, 6, 14}) ==
        Words{0xFFFFFFFFu % 7, 6, 0});
  CHECK(run_lines("div.s32 %r4, %r1, -7;", false, {S(-49), S(-48), S(50), S(-2147483647 - 1)}) ==
        Words{7, 6, S(-7), S(306783378)});
  CHECK(run_lines("min.s32 %r4, %r1, %r2;", false, {S(-1), 3}, {1, 2}) == Words{S(-1), 2});
  CHECK(run_lines("min.u32 %r4, %r1, %r2;", false, {S(-1)}, {1}) == Words{1});
  CHECK(run_lines("max.s32 %r4, %r1, %r2;", false, {S(-1)}, {1}) == Words{1});
  CHECK(run_lines("abs.s32 %r4, %r1;", false, {S(-5), 5, 0x80000000}) == Words{5, 5, 0x80000000});
  CHECK(run_lines("neg.s32 %r4, %r1;", false, {S(-5), 5}) == Words{5, S(-5)});
}

TEST_CASE("ptx: every uniform 32-bit divisor divides exactly") {
  Random random(11);
  for (int round = 0; round < 40; ++round) {
    std::uint32_t divisor = random.next() >> (random.next() % 32);
    if (divisor == 0) divisor = 1;
    Words a, quotients, signed_quotients;
    for (int i = 0; i < 64; ++i) {
      std::uint32_t q = random.next() % (0xFFFFFFFFu / divisor + (divisor > 1 ? 1 : 0));
      // Around exact multiples, where a rounded quotient would be off by one.
      std::uint32_t v =
          i % 4 == 3 ? random.next() : q * divisor + static_cast<std::uint32_t>(i % 4) - 1;
      a.push_back(v);
      quotients.push_back(v / divisor);
      std::int64_t d = static_cast<std::int32_t>(divisor), n = static_cast<std::int32_t>(v);
      signed_quotients.push_back(static_cast<std::uint32_t>(n / d));
    }
    CHECK(run_lines("div.u32 %r4, %r1, " + std::to_string(divisor) + ";", false, a) == quotients);
    CHECK(run_lines("div.s32 %r4, %r1, " + std::to_string(static_cast<std::int32_t>(divisor)) + ";",
                    false, a) == signed_quotients);
  }
}

TEST_CASE("ptx: bits and shifts") {
  CHECK(run_lines("and.b32 %r4, %r1, %r2;", false, {0xFF00FF00}, {0x0FF00FF0}) ==
        Words{0x0F000F00});
  CHECK(run_lines("or.b32 %r4, %r1, %r2;", false, {0xF0}, {0x0F}) == Words{0xFF});
  CHECK(run_lines("xor.b32 %r4, %r1, -1;", false, {0xF0F0F0F0}) == Words{0x0F0F0F0F});
  CHECK(run_lines("not.b32 %r4, %r1;", false, {0}) == Words{0xFFFFFFFF});
  CHECK(run_lines("shl.b32 %r4, %r1, %r2;", false, {1, 1, 1, 3}, {0, 31, 32, 1}) ==
        Words{1, 0x80000000, 0, 6});
  CHECK(run_lines("shl.b32 %r4, %r1, 33;", false, {1}) == Words{0});
  CHECK(run_lines("shr.s32 %r4, %r1, %r2;", false, {0x80000000, 0x80000000, 0x40000000},
                  {31, 99, 99}) == Words{0xFFFFFFFF, 0xFFFFFFFF, 0});
  CHECK(run_lines("shr.s32 %r4, %r1, 40;", false, {0x80000000}) == Words{0xFFFFFFFF});
  CHECK(run_lines("shr.u32 %r4, %r1, 4;", false, {0x80000000}) == Words{0x08000000});
  CHECK(run_lines("shf.l.wrap.b32 %r4, %r1, %r2, %r3;", false, {0x80000000, 5}, {1, 9}, {1, 32}) ==
        Words{3, 9});
  CHECK(run_lines("shf.r.clamp.b32 %r4, %r1, %r2, %r3;", false, {0x80000000, 5}, {1, 9}, {1, 40}) ==
        Words{0xC0000000, 9});
  CHECK(run_lines("popc.b32 %r4, %r1;", false, {0xF0F0, 0}) == Words{8, 0});
  CHECK(run_lines("clz.b32 %r4, %r1;", false, {1, 0, 0x80000000}) == Words{31, 32, 0});
  CHECK(run_lines("brev.b32 %r4, %r1;", false, {1, 0x80000001}) == Words{0x80000000, 0x80000001});
  CHECK(run_lines("bfe.u32 %r4, %r1, 4, 8;", false, {0x12345678}) == Words{0x67});
  CHECK(run_lines("bfe.s32 %r4, %r1, %r2, %r3;", false, {0x00000080, 0x80000000, 0xFF}, {4, 24, 3},
                  {4, 20, 0}) == Words{S(-8), S(-128), 0});
  CHECK(run_lines("bfi.b32 %r4, %r1, %r2, 8, 4;", false, {0xF5}, {0xFFFFFFFF}) ==
        Words{0xFFFFF5FF});
  CHECK(run_lines("prmt.b32 %r4, %r1, %r2, %r3;", false, {0x44332211, 0x80}, {0x88776655, 0},
                  {0x7310, 0x8888}) == Words{0x88442211, 0xFFFFFFFF});
  CHECK(run_lines("lop3.b32 %r4, %r1, %r2, %r3, 0x96;", false, {0x0F}, {0x33}, {0x55}) ==
        Words{0x0F ^ 0x33 ^ 0x55});
  CHECK(run_lines("lop3.b32 %r4, %r1, %r2, %r3, 0xE8;", false, {0x0F}, {0x33}, {0x55}) ==
        Words{0x17});
}

TEST_CASE("ptx: 64-bit integers and mixed widths") {
  CHECK(run_lines("add.s64 %rd4, %rd1, %rd2;", true, {~0ull}, {2}) == Words{1});
  CHECK(run_lines("mul.lo.s64 %rd4, %rd1, %rd2;", true, {0x100000001ull}, {0x100000001ull}) ==
        Words{0x200000001ull});
  CHECK(run_lines("mul.hi.u64 %rd4, %rd1, %rd2;", true, {~0ull}, {~0ull}) == Words{~0ull - 1});
  CHECK(run_lines("mul.hi.s64 %rd4, %rd1, %rd2;", true, {~0ull}, {5}) == Words{~0ull});
  CHECK(run_lines("mad.lo.s64 %rd4, %rd1, %rd2, %rd3;", true, {3}, {4}, {5}) == Words{17});
  CHECK(run_lines("div.s64 %rd4, %rd1, %rd2;", true, {static_cast<std::uint64_t>(-7), 1ull << 63},
                  {2, ~0ull}) == Words{static_cast<std::uint64_t>(-3), 1ull << 63});
  CHECK(run_lines("rem.u64 %rd4, %rd1, %rd2;", true, {~0ull}, {10}) == Words{5});
  CHECK(run_lines("shl.b64 %rd4, %rd1, %r2;", true, {1, 1}, {63, 64}) == Words{1ull << 63, 0});
  CHECK(run_lines("shr.s64 %rd4, %rd1, 60;", true, {1ull << 63}) ==
        Words{static_cast<std::uint64_t>(-8)});
  CHECK(run_lines("shr.u64 %rd4, %rd1, 60;", true, {1ull << 63}) == Words{8});
  CHECK(run_lines("mul.wide.s32 %rd4, %r1, %r2;", true, {S(-2), 0x7FFFFFFF}, {0x7FFFFFFF, 4}) ==
        Words{static_cast<std::uint64_t>(-0xFFFFFFFEll), 0x1FFFFFFFCull});
  CHECK(run_lines("mul.wide.u32 %rd4, %r1, %r2;", true, {0xFFFFFFFF}, {0xFFFFFFFF}) ==
        Words{0xFFFFFFFE00000001ull});
  CHECK(run_lines("mad.wide.s32 %rd4, %r1, %r2, %rd3;", true, {S(-2)}, {3}, {10}) == Words{4});
  CHECK(run_lines("cvt.s64.s32 %rd4, %r1;", true, {S(-2)}) ==
        Words{static_cast<std::uint64_t>(-2)});
  CHECK(run_lines("cvt.u64.u32 %rd4, %r1;", true, {S(-2)}) == Words{0xFFFFFFFE});
  CHECK(run_lines("cvt.s32.s8 %r4, %r1;", false, {0x1FF, 0x7F}) == Words{S(-1), 0x7F});
  CHECK(run_lines("cvt.u32.u16 %r4, %r1;", false, {0x12345}) == Words{0x2345});
  CHECK(run_lines("cvt.u16.u32 %rs1, %r1;\n cvt.s32.s16 %r4, %rs1;", false, {0x18000}) ==
        Words{S(-32768)});
  CHECK(run_lines("mov.b64 {%r5, %r6}, %rd1;\n mov.b64 %rd4, {%r6, %r5};", true,
                  {0x1122334455667788ull}) == Words{0x5566778811223344ull});
  CHECK(run_lines("popc.b64 %r4, %rd1;", false, {~0ull}) == Words{64});
  CHECK(run_lines("clz.b64 %r4, %rd1;", false, {1, 0}) == Words{63, 64});
  CHECK(run_lines("mul.wide.u16 %r4, %rs1, %rs2;", false, {0}) == Words{0});
}

TEST_CASE("ptx: 16-bit integers use their own width") {
  std::string head = "cvt.u16.u32 %rs1, %r1;\n cvt.u16.u32 %rs2, %r2;\n";
  CHECK(run_lines(head + "add.s16 %rs3, %rs1, %rs2;\n cvt.u32.u16 %r4, %rs3;", false, {0xFFFF},
                  {2}) == Words{1});
  CHECK(run_lines(head + "mul.lo.s16 %rs3, %rs1, %rs2;\n cvt.s32.s16 %r4, %rs3;", false, {0xFFFF},
                  {3}) == Words{S(-3)});
  CHECK(run_lines(head + "mul.wide.s16 %r4, %rs1, %rs2;", false, {0xFFFF}, {3}) == Words{S(-3)});
  CHECK(run_lines(head + "mul.wide.u16 %r4, %rs1, %rs2;", false, {0xFFFF}, {3}) == Words{0x2FFFD});
  CHECK(run_lines(head + "shr.s16 %rs3, %rs1, 4;\n cvt.u32.u16 %r4, %rs3;", false, {0x8000}) ==
        Words{0xF800});
  CHECK(run_lines(head + "setp.lt.s16 %p1, %rs1, %rs2;\n selp.u32 %r4, 1, 0, %p1;", false,
                  {0x8000, 1}, {1, 0x8000}) == Words{1, 0});
  CHECK(run_lines(head + "setp.lt.u16 %p1, %rs1, %rs2;\n selp.u32 %r4, 1, 0, %p1;", false,
                  {0x8000, 1}, {1, 0x8000}) == Words{0, 1});
}

TEST_CASE("ptx: f32 arithmetic rounds once, keeps subnormals and writes canonical NaNs") {
  CHECK(run_lines("fma.rn.f32 %r4, %r1, %r2, %r3;", false, {F(0x1.b11b1p-20f)}, {F(0x1.2ea2p-5f)},
                  {F(1)}) == Words{F(0x1.000002p+0f)});
  CHECK(run_lines("add.rn.f32 %r4, %r1, %r2;", false, {F(1), 1, kInf, kSignalling, kNegZero},
                  {F(0x1p-24f), 1, kNegInf, F(1), kNegZero}) ==
        Words{F(1), 2, kNan, kNan, kNegZero});
  CHECK(run_lines("sub.rn.f32 %r4, %r1, %r2;", false, {F(1), kInf}, {F(1), kInf}) ==
        Words{0, kNan});
  CHECK(run_lines("mul.rn.f32 %r4, %r1, %r2;", false, {F(0x1p-100f), F(0x1p-126f), kInf},
                  {F(0x1p-49f), F(0.5f), 0}) == Words{1, 0x00400000, kNan});
  CHECK(run_lines("div.rn.f32 %r4, %r1, %r2;", false, {F(1), F(1), 0, F(-1)}, {F(3), 0, 0, 0}) ==
        Words{F(1.0f / 3.0f), kInf, kNan, kNegInf});
  CHECK(run_lines("sqrt.rn.f32 %r4, %r1;", false, {F(2), F(-1), kNegZero, 1}) ==
        Words{F(std::sqrt(2.0f)), kNan, kNegZero, F(0x1.6a09e6p-75f)});
  CHECK(run_lines("rcp.rn.f32 %r4, %r1;", false, {F(3), 0}) == Words{F(1.0f / 3.0f), kInf});
  CHECK(run_lines("neg.f32 %r4, %r1;", false, {F(3), 0, kQuiet}) == Words{F(-3), kNegZero, kNan});
  CHECK(run_lines("abs.f32 %r4, %r1;", false, {F(-3), kNegZero, kQuiet}) == Words{F(3), 0, kNan});
  CHECK(run_lines("min.f32 %r4, %r1, %r2;", false, {F(1), kQuiet, F(2), kQuiet, 0, kNegZero},
                  {F(2), F(5), kQuiet, kQuiet, kNegZero, 0}) ==
        Words{F(1), F(5), F(2), kNan, kNegZero, kNegZero});
  CHECK(run_lines("max.f32 %r4, %r1, %r2;", false, {F(1), kQuiet, F(2), kQuiet, 0, kNegZero},
                  {F(2), F(5), kQuiet, kQuiet, kNegZero, 0}) ==
        Words{F(2), F(5), F(2), kNan, 0, 0});
  CHECK(run_lines("max.NaN.f32 %r4, %r1, %r2;", false, {F(1), kQuiet, F(2)},
                  {F(2), F(5), kQuiet}) == Words{F(2), kNan, kNan});
  CHECK(run_lines("copysign.f32 %r4, %r1, %r2;", false, {F(-1)}, {F(3)}) == Words{F(-3)});
  CHECK(run_lines("cvt.sat.f32.f32 %r4, %r1;", false, {F(-1), F(0.5f), F(2), kQuiet}) ==
        Words{0, F(0.5f), F(1), 0});
}

TEST_CASE("ptx: a select moves bits, NaN payloads included") {
  CHECK(run_lines("setp.lt.f32 %p1, %r1, 0f00000000;\n selp.f32 %r4, 0f00000000, %r1, %p1;", false,
                  {F(-1), F(2), kQuiet, kSignalling, kNegZero}) ==
        Words{0, F(2), kQuiet, kSignalling, kNegZero});
  CHECK(run_lines("mov.f32 %r4, %r1;", false, {kSignalling}) == Words{kSignalling});
}

TEST_CASE("ptx: comparisons of floats, NaN included") {
  Words a = {F(1), F(2), F(1), kQuiet, 0}, b = {F(2), F(1), F(1), F(1), kNegZero};
  struct Row {
    const char* name;
    Words expected;
  };
  for (const Row& row :
       {Row{"eq", {0, 0, 1, 0, 1}}, Row{"ne", {1, 1, 0, 0, 0}}, Row{"lt", {1, 0, 0, 0, 0}},
        Row{"le", {1, 0, 1, 0, 1}}, Row{"gt", {0, 1, 0, 0, 0}}, Row{"ge", {0, 1, 1, 0, 1}},
        Row{"equ", {0, 0, 1, 1, 1}}, Row{"neu", {1, 1, 0, 1, 0}}, Row{"ltu", {1, 0, 0, 1, 0}},
        Row{"leu", {1, 0, 1, 1, 1}}, Row{"gtu", {0, 1, 0, 1, 0}}, Row{"geu", {0, 1, 1, 1, 1}},
        Row{"num", {1, 1, 1, 0, 1}}, Row{"nan", {0, 0, 0, 1, 0}}}) {
    CAPTURE(row.name);
    CHECK(run_lines(
              std::string("setp.") + row.name + ".f32 %p1, %r1, %r2;\n selp.u32 %r4, 1, 0, %p1;",
              false, a, b) == row.expected);
  }
  CHECK(run_lines("setp.lt.u32 %p1, %r1, %r2;\n selp.u32 %r4, 1, 0, %p1;", false, {S(-1), 1},
                  {1, S(-1)}) == Words{0, 1});
  CHECK(run_lines("setp.ge.s64 %p1, %rd1, %rd2;\n selp.u32 %r4, 1, 0, %p1;", false, {~0ull, 1},
                  {0, 1}) == Words{0, 1});
  CHECK(run_lines("setp.hi.u64 %p1, %rd1, %rd2;\n selp.u32 %r4, 1, 0, %p1;", false, {~0ull, 1},
                  {0, 1}) == Words{1, 0});
  CHECK(run_lines("setp.eq.s32 %p2, %r2, 0;\n setp.lt.and.s32 %p1|%p3, %r1, 5, %p2;\n selp.u32 "
                  "%r5, 1, 0, %p1;\n selp.u32 %r6, 2, 0, %p3;\n or.b32 %r4, %r5, %r6;",
                  false, {1, 9, 1}, {0, 0, 1}) == Words{1, 2, 0});
}

TEST_CASE("ptx: f64 arithmetic") {
  constexpr std::uint64_t kNan64 = 0x7FF8000000000000;
  CHECK(run_lines("fma.rn.f64 %rd4, %rd1, %rd2, %rd3;", true, {D(1 + 0x1p-52)}, {D(1 - 0x1p-53)},
                  {D(-1)}) == Words{D(std::fma(1 + 0x1p-52, 1 - 0x1p-53, -1.0))});
  CHECK(run_lines("add.rn.f64 %rd4, %rd1, %rd2;", true, {D(1), D(HUGE_VAL)},
                  {D(2), D(-HUGE_VAL)}) == Words{D(3), kNan64});
  CHECK(run_lines("div.rn.f64 %rd4, %rd1, 0d4008000000000000;", true, {D(1)}) ==
        Words{D(1.0 / 3.0)});
  CHECK(run_lines("sqrt.rn.f64 %rd4, %rd1;", true, {D(2)}) == Words{D(std::sqrt(2.0))});
  CHECK(run_lines("min.f64 %rd4, %rd1, %rd2;", true, {D(0.0)}, {D(-0.0)}) == Words{D(-0.0)});
  CHECK(run_lines("cvt.f64.f32 %rd4, %r1;", true, {1}) == Words{D(0x1p-149)});
  CHECK(run_lines("cvt.rn.f32.f64 %r4, %rd1;", false, {D(0.1), D(1e300), D(0x1p-150)}) ==
        Words{F(0.1f), kInf, 0});
  CHECK(run_lines("setp.gt.f64 %p1, %rd1, 0d0000000000000000;\n selp.f64 %rd4, %rd1, "
                  "0d0000000000000000, %p1;",
                  true, {D(-1), D(3)}) == Words{0, D(3)});
}

TEST_CASE("ptx: conversions between integers and floats") {
  CHECK(run_lines("cvt.rn.f32.s32 %r4, %r1;", false, {S(-3), 16777217}) ==
        Words{F(-3), F(16777216)});
  CHECK(run_lines("cvt.rn.f32.u32 %r4, %r1;", false, {0xFFFFFFFF}) == Words{F(4294967296.0f)});
  CHECK(run_lines("cvt.rn.f32.s64 %r4, %rd1;", false, {static_cast<std::uint64_t>(-5)}) ==
        Words{F(-5)});
  CHECK(run_lines("cvt.rn.f64.u64 %rd4, %rd1;", true, {~0ull}) == Words{D(0x1p64)});
  Words half = {F(2.5f), F(-2.5f), F(3.5f), F(3e9f), F(-3e9f), kQuiet, F(-0.4f)};
  CHECK(run_lines("cvt.rni.s32.f32 %r4, %r1;", false, half) ==
        Words{2, S(-2), 4, 0x7FFFFFFF, 0x80000000, 0, 0});
  CHECK(run_lines("cvt.rzi.s32.f32 %r4, %r1;", false, half) ==
        Words{2, S(-2), 3, 0x7FFFFFFF, 0x80000000, 0, 0});
  CHECK(run_lines("cvt.rmi.s32.f32 %r4, %r1;", false, half) ==
        Words{2, S(-3), 3, 0x7FFFFFFF, 0x80000000, 0, S(-1)});
  CHECK(run_lines("cvt.rpi.s32.f32 %r4, %r1;", false, half) ==
        Words{3, S(-2), 4, 0x7FFFFFFF, 0x80000000, 0, 0});
  CHECK(run_lines("cvt.rzi.u32.f32 %r4, %r1;", false, {F(-1), F(5e9f), F(7.9f)}) ==
        Words{0, 0xFFFFFFFF, 7});
  CHECK(run_lines("cvt.rzi.s64.f64 %rd4, %rd1;", true, {D(-1e30), D(12345.9), D(NAN)}) ==
        Words{1ull << 63, 12345, 1ull << 63});
  CHECK(run_lines("cvt.rzi.u8.f32 %rs1, %r1;\n cvt.u32.u16 %r4, %rs1;", false,
                  {F(300), F(-4), F(77.7f)}) == Words{255, 0, 77});
  CHECK(run_lines("cvt.rni.f32.f32 %r4, %r1;", false, {F(2.5f), F(-0.4f), kQuiet}) ==
        Words{F(2), kNegZero, kNan});
  CHECK(run_lines("cvt.rmi.f32.f32 %r4, %r1;", false, {F(-2.5f)}) == Words{F(-3)});
}

TEST_CASE("ptx: predicates, guarded instructions, special registers") {
  CHECK(run_lines("setp.gt.s32 %p1, %r1, 3;\n mov.u32 %r4, 7;\n @%p1 mov.u32 %r4, 9;\n @!%p1 "
                  "add.s32 %r4, %r4, 1;",
                  false, {1, 5}) == Words{8, 9});
  CHECK(run_lines("setp.gt.s32 %p1, %r1, 0;\n setp.gt.s32 %p2, %r2, 0;\n xor.pred %p3, %p1, %p2;\n "
                  "not.pred %p4, %p3;\n and.pred %p5, %p4, %p1;\n "
                  "selp.u32 %r4, 1, 0, %p5;",
                  false, {1, 1, 0, 0}, {1, 0, 1, 0}) == Words{1, 0, 0, 0});
  CHECK(run_lines("mov.u32 %r5, %ntid.x;\n mov.u32 %r6, %laneid;\n mad.lo.s32 %r4, %r5, 100, %r6;",
                  false, Words(40, 0))[37] == 4005);
  CHECK(run_lines("mov.u32 %r4, %lanemask_lt;", false, Words(4, 0)) == Words{0, 1, 3, 7});
}

TEST_CASE("ptx: values that all threads share reach every thread") {
  // 40 threads: more than one group of lanes, the last one short.
  Words a(40), expected(40);
  for (std::size_t i = 0; i < 40; ++i) {
    a[i] = i;
    expected[i] = i > 3 ? 3 : 1;
  }
  CHECK(run_lines("mov.pred %p1, -1;\n setp.gt.s32 %p2, %r1, 3;\n and.pred %p3, %p1, %p2;\n "
                  "selp.u32 %r5, 1, 0, %p1;\n selp.u32 %r6, 2, 0, %p3;\n add.s32 %r4, %r5, %r6;",
                  false, a) == expected);
  // A shared 64-bit value that is updated in place, then used per thread.
  for (std::size_t i = 0; i < 40; ++i) expected[i] = 40 + i;
  CHECK(run_lines("mov.u64 %rd5, 5;\n add.s64 %rd5, %rd5, %rd5;\n add.s64 %rd5, %rd5, %rd5;\n "
                  "add.s64 %rd5, %rd5, %rd5;\n add.s64 %rd4, %rd5, %rd1;",
                  true, a) == expected);
  for (std::size_t i = 0; i < 40; ++i) expected[i] = i + 77;
  CHECK(run_lines("setp.gt.s32 %p1, %r1, 100;\n @!%p1 mov.u32 %r5, 77;\n add.s32 %r4, %r5, %r1;",
                  false, a) == expected);
}

TEST_CASE("ptx: what is not modelled exactly is refused by name and place") {
  auto refused = [](const std::string& line) { return refusal(kernel_text(line, false)); };
  for (const char* line : {"ex2.approx.f32 %r4, %r1;",
                           "rcp.approx.ftz.f32 %r4, %r1;",
                           "div.full.f32 %r4, %r1, %r2;",
                           "div.approx.f32 %r4, %r1, %r2;",
                           "sqrt.approx.f32 %r4, %r1;",
                           "add.ftz.f32 %r4, %r1, %r2;",
                           "add.rz.f32 %r4, %r1, %r2;",
                           "fma.rm.f32 %r4, %r1, %r2, %r3;",
                           "add.sat.f32 %r4, %r1, %r2;",
                           "sin.approx.f32 %r4, %r1;",
                           "tex.2d.v4.f32.s32 {%r4,%r5,%r6,%r7}, [t, {%r1,%r2}];",
                           "add.f16 %rs1, %rs2, %rs3;",
                           "cvt.rz.f16.f32 %rs1, %r1;",
                           "cvt.rn.tf32.f32 %r4, %r1;",
                           "cp.async.bulk.wait_group 0;",
                           "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r4,%r5,%r6,%r7}, "
                           "{%r1,%r2,%r3,%r1}, {%r1,%r2}, {%r4,%r5,%r6,%r7};",
                           "add.cc.u32 %r4, %r1, %r2;",
                           "mov.u32 %r4, %clock;",
                           "call.uni foo, (%r1);",
                           "bar.sync 0, 64;"}) {
    CAPTURE(line);
    std::string message = refused(line);
    CHECK(message.find("test.ptx:26:") == 0);
    INFO(message);
    std::string opcode(line, std::strcspn(line, " "));
    bool named = message.find(opcode) != std::string::npos ||
                 message.find("%clock") != std::string::npos ||
                 message.find("texture") != std::string::npos;
    CHECK(named);
  }
}

TEST_CASE(
    "ptx: an unsuffixed product that feeds an unsuffixed sum is refused, anything suffixed is "
    "not") {
  auto refused = [](const std::string& lines) { return refusal(kernel_text(lines, false)); };
  CHECK(refused("mul.f32 %r5, %r1, %r2;\n add.f32 %r4, %r5, %r3;").find("may be contracted") !=
        std::string::npos);
  CHECK(refused("mul.f32 %r5, %r1, %r2;\n neg.f32 %r6, %r5;\n sub.f32 %r4, %r3, %r6;")
            .find("may be contracted") != std::string::npos);
  CHECK(refused("mul.f32 %r5, %r1, %r2;\n add.rn.f32 %r4, %r5, %r3;").empty());
  CHECK(refused("mul.rn.f32 %r5, %r1, %r2;\n add.f32 %r4, %r5, %r3;").empty());
  CHECK(refused("mul.f32 %r4, %r1, %r2;").empty());
}

TEST_CASE("ptx: syntax errors name the place") {
  CHECK(refusal(kernel_text("add.s32 %r4 %r1;", false))
            .find("test.ptx:26:13: error: expected ';', found '%r1'") == 0);
  CHECK(refusal(kernel_text("add.s32 %r4, %r99, %r1;", false))
            .find("register '%r99' is not declared") != std::string::npos);
  CHECK(refusal(kernel_text("bra $nowhere;", false)).find("label '$nowhere' is not defined") !=
        std::string::npos);
  CHECK(refusal(kernel_text("add.s32 %rd4, %r1, %r2;", false)).find("wrong width") !=
        std::string::npos);
  CHECK(refusal(".version 9.0\n.target sm_90\n.address_size 32\n").find("test.ptx:3:15") == 0);
  CHECK(refusal("").find("0 kernels") != std::string::npos);
  CHECK(refusal(".visible .entry k() { ").find("no closing") != std::string::npos);
}

// 64-bit lanes take several vectors a group; the second must not read what the first stored. The
// values come from a special register, so that the decoder keeps them uniform, and dies at the
// instruction that replaces it.
TEST_CASE("ptx: a uniform register may be updated in place") {
  const std::string head =
      "mov.u32 %r5, %nctaid.x;\n cvt.u64.u32 %rd5, %r5;\n mul.wide.u32 %rd6, %r5, 4096;\n";
  for (const char* update : {"add.s64 %rd7, %rd5, %rd6;", "add.s64 %rd7, %rd6, %rd5;",
                             "mad.wide.u32 %rd7, %r5, 4096, %rd5;"}) {
    const std::vector<std::uint64_t> zeros(40, 0);
    CHECK(run_lines(head + update + "\n add.s64 %rd4, %rd7, %rd1;", true, zeros) ==
          Words(40, 4097));
  }
}
