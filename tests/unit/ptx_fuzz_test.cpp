// Large and degenerate PTX must end in bounded time; mutations are in tests/fuzz.
#include "tests/unit/ptx_helpers.h"

using ptx_test::refusal;

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
