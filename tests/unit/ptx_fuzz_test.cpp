// The fuzz target as a seeded loop: 20,000 mutations of small kernels. Any compiler, a few seconds.
// Several targets share one test program, so the entry point gets its own name here.
#define LLVMFuzzerTestOneInput ptx_fuzz_one_input
#include "tests/fuzz/ptx_fuzz.cpp"
#undef LLVMFuzzerTestOneInput

#include <algorithm>

#include "tests/unit/ptx_helpers.h"

using ptx_test::refusal;

namespace {

const char* const kSeeds[] = {
    R"(.version 9.0
.target sm_90
.address_size 64
.global .align 4 .f32 table[4] = {0f3FC00000, 0f40000000, 0f3E800000, 0fC0400000};
.extern .shared .align 16 .b8 sm[];
.visible .entry k(.param .u64 p0, .param .align 8 .b8 p1[24])
.maxntid 256, 1, 1
{
 .reg .pred %p<5>;
 .reg .f32 %f<20>;
 .reg .b32 %r<20>;
 .reg .b64 %rd<10>;
 .shared .align 4 .b8 tile[4096];
 .local .align 16 .b8 depot[64];
 .loc 1 12 3
 ld.param.u64 %rd1, [p0];
 ld.param.v2.u32 {%r8, %r9}, [p1+8];
 mov.u32 %r1, %tid.x;
 mul.wide.s32 %rd2, %r1, 4;
 mov.u64 %rd3, tile;
 add.s64 %rd4, %rd3, %rd2;
 setp.ge.s32 %p1, %r1, 17;
 mov.f32 %f1, 0f00000000;
 @%p1 bra $L1;
 ld.shared.v4.f32 {%f2, %f3, %f4, %f5}, [%rd4+16];
 fma.rn.f32 %f1, %f2, %f3, %f1;
 fma.rn.f32 %f1, %f4, %f5, %f1;
$L1:
 mov.u32 %r2, 0;
$L2:
 ld.shared.f32 %f6, [%rd4+64];
 ld.shared.f32 %f7, [sm+4];
 fma.rn.f32 %f1, %f6, %f7, %f1;
 add.s32 %r2, %r2, 1;
 setp.lt.s32 %p2, %r2, %r9;
 @%p2 bra $L2;
 bar.sync 0;
 shfl.sync.bfly.b32 %r3|%p3, %r1, 16, 31, -1;
 selp.b32 %r4, %r3, %r1, %p3;
 st.local.u32 [depot+4], %r4;
 atom.global.add.f32 %f8, [%rd1], %f1;
 mov.b64 {%r5, %r6}, %rd1;
 cvt.rzi.s32.f32 %r7, %f1;
 div.s32 %r7, %r7, %r4;
 st.global.f32 [%rd1+8], %f1;
 ret;
}
 .file 1 "k.cu"
)",
    R"(.version 9.0
.target sm_75
.address_size 64
.visible .entry a(.param .u64 x)
{
 .reg .pred %p<9>; .reg .b32 %r<40>; .reg .b64 %rd<9>;
 mov.u32 %r1, %ctaid.x;
 { .reg .b32 t; mov.u32 t, %r1; add.u32 %r2, t, 1; }
$A: setp.eq.s32 %p1, %r1, 3;
 @!%p1 bra $B;
 add.s32 %r1, %r1, 1;
 bra.uni $C;
$B: sub.s32 %r1, %r1, 1;
$C: setp.ne.and.s32 %p2|%p3, %r1, 0, %p1;
 @%p2 bra $A;
 @%p3 ret;
 vote.sync.ballot.b32 %r3, %p1, -1;
 lop3.b32 %r4, %r1, %r2, %r3, 0x96;
 exit;
}
)"};

void one(const std::string& text) {
  ptx_fuzz_one_input(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
}

}  // namespace

TEST_CASE("ptx fuzz: 20,000 mutated kernels") {
  for (const char* seed : kSeeds) CHECK(refusal(seed) == "");
  ptx_test::Random rng(20240601);
  std::vector<std::string> words = {"%r1",
                                    "%rd1",
                                    "%p1",
                                    "%f1",
                                    "$L1",
                                    "$L2",
                                    "ret;",
                                    "bra $L1;",
                                    ".reg",
                                    "{",
                                    "}",
                                    ";",
                                    ",",
                                    "[",
                                    "]",
                                    "0x7fffffffffffffff",
                                    "-1",
                                    "99999999999999999999",
                                    "0f7F800000",
                                    ".v4",
                                    ".shared",
                                    "bar.sync 0;",
                                    "@%p1",
                                    "@!%p2",
                                    "%r<4294967295>",
                                    "[268435456]",
                                    "fma.rn.f32 %f1, %f2, %f3, %f4;",
                                    "\"",
                                    "/*",
                                    "//",
                                    "::",
                                    "$X:",
                                    "mov.u32 %r1, %r2;"};
  for (int round = 0; round < 20000; ++round) {
    std::string text = kSeeds[rng.next() % std::size(kSeeds)];
    for (std::uint32_t edits = 1 + rng.next() % 6; edits > 0; --edits) {
      std::size_t at = text.empty() ? 0 : rng.next() % text.size();
      switch (rng.next() % 6) {
        case 0:
          text[at < text.size() ? at : 0] = static_cast<char>(rng.next());
          break;
        case 1:
          text.erase(at, 1 + rng.next() % 40);
          break;
        case 2:
          text.insert(at, words[rng.next() % words.size()]);
          break;
        case 3: {  // repeat a piece
          std::string piece = text.substr(at, 1 + rng.next() % 120);
          text.insert(rng.next() % (text.size() + 1), piece);
          break;
        }
        case 4:
          text.resize(at);
          break;
        default: {  // exchange two lines
          std::size_t from = text.find('\n', at),
                      to = from == std::string::npos ? from : text.find('\n', from + 1);
          if (to == std::string::npos) break;
          std::string line = text.substr(from, to - from);
          text.erase(from, to - from);
          text.insert(std::min(text.size(), text.find('\n', rng.next() % (text.size() + 1))), line);
          break;
        }
      }
      if (text.empty()) text = " ";
    }
    one(text);
  }
}

TEST_CASE("ptx fuzz: large and degenerate texts end in bounded time") {
  std::string head =
      ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k()\n{\n.reg .pred "
      "%p<4>;\n.reg .b32 %r<100000>;\n";
  std::string many_blocks = head, chain = head, nested, long_vector = head + "mov.b32 {";
  for (int i = 0; i < 20000; ++i)
    many_blocks +=
        "$L" + std::to_string(i) + ": @%p1 bra $L" + std::to_string((i * 7919) % 20000) + ";\n";
  for (int i = 0; i < 3000; ++i)
    chain += "mov.u32 %r" + std::to_string(i + 1) + ", %r" + std::to_string(i) + ";\n";
  for (int i = 0; i < 10000; ++i) nested += "{";
  for (int i = 0; i < 1000; ++i) long_vector += "%r1,";
  CHECK(refusal(many_blocks + "ret;\n}\n").find("too large") != std::string::npos);
  CHECK(refusal(chain + "ret;\n}\n").empty());
  CHECK(refusal(head + nested).find("nested too deeply") != std::string::npos);
  CHECK(refusal(long_vector).find("at most 8 elements") != std::string::npos);
  CHECK(refusal(".version 9.0\n.global .b8 big[99999999999];\n").find("too large") !=
        std::string::npos);
  CHECK(refusal(".version 9.0\n.global .b8 big[268435456][268435456];\n").find("too large") !=
        std::string::npos);
  CHECK(refusal(std::string(100000, '\n') + "\x01").find("test.ptx:100001:1") == 0);
  // A tangle of branches just below the limit.
  std::string tangle = head;
  for (int i = 0; i < 1500; ++i)
    tangle += "$L" + std::to_string(i) + ": add.s32 %r1, %r1, 1; @%p1 bra $L" +
              std::to_string((i * 911) % 1500) + ";\n";
  CHECK(refusal(tangle + "ret;\n}\n").empty());
}
