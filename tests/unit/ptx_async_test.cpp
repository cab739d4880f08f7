// cp.async: what it copies, under every form of the executor, and what checked mode says of those
// who look before the wait.
#include "tests/unit/ptx_helpers.h"

namespace driftc::test {
namespace {

using ptx_test::refusal;

// 32 threads with 64 words of shared memory `tile`: word i is the threads' own input %rd1 + 16 t,
// output %rd2 + 16 t (16 bytes each); %r1 = t, %r2 = tile + 16 t.
std::string text(const std::string& body) {
  return ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 in, .param "
         ".u64 out)\n{\n  .shared .align 16 .b8 tile[1024];\n  .reg .pred %p<8>;\n  .reg .b32 "
         "%r<32>;\n  .reg .b64 %rd<8>;\n  ld.param.u64 %rd1, [in];\n  ld.param.u64 %rd2, [out];\n"
         "  mov.u32 %r1, %tid.x;\n  mul.wide.u32 %rd3, %r1, 16;\n  add.s64 %rd1, %rd1, %rd3;\n"
         "  add.s64 %rd2, %rd2, %rd3;\n  mov.u32 %r3, tile;\n  shl.b32 %r4, %r1, 4;\n"
         "  add.s32 %r2, %r3, %r4;\n" +
         body + "\n  ret;\n}\n";
}

// The output of a body, the same under all decode options and in checked mode; or the report of
// checked mode.
std::string run(const std::string& body, std::vector<std::uint32_t>& out) {
  std::vector<std::uint32_t> in(128), first;
  for (std::uint32_t i = 0; i < 128; ++i) in[i] = 1000 + i;
  std::string report;
  const auto one = [&](const ptx_test::ptx::DecodeOptions& options, bool check) {
    out.assign(128, 7);
    auto program = ptx_test::load(text(body), options);
    runtime::ptx::DeviceMemory memory;
    runtime::ptx::ArgumentPacker args;
    args.add(memory.add_readonly(in.data(), 512, "in"));
    args.add(memory.add(out.data(), 512, "out"));
    runtime::ThreadPool pool(1);
    auto result = runtime::ptx::launch(*program, {.block = {32, 1, 1}}, args.bytes(), memory, pool,
                                       {.check = check});
    return result.ok() ? std::string() : result.error().render();
  };
  report = one({}, true);
  if (!report.empty()) return report;  // a race has no bits of its own
  first = out;
  for (const auto& options : ptx_test::all_decode_options()) {
    report = one(options, false);
    if (!report.empty()) return report;
    CHECK(out == first);
  }
  return "";
}
bool has(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

const std::string kWait = "  cp.async.commit_group;\n  cp.async.wait_group 0;\n";
const std::string kOwn =  // each thread stores what lies at its own 16 bytes
    "  ld.shared.v4.u32 {%r10,%r11,%r12,%r13}, [%r2];\n"
    "  st.global.v4.u32 [%rd2], {%r10,%r11,%r12,%r13};\n";
const std::string kNext =  // ... at those of the next thread
    "  add.s32 %r5, %r4, 16;\n  and.b32 %r5, %r5, 511;\n  add.s32 %r5, %r3, %r5;\n"
    "  ld.shared.v4.u32 {%r10,%r11,%r12,%r13}, [%r5];\n"
    "  st.global.v4.u32 [%rd2], {%r10,%r11,%r12,%r13};\n";

}  // namespace

TEST_CASE("cp.async: 4, 8 and 16 bytes, and zeros for what is not read") {
  struct Case {
    std::string copies;
    std::uint32_t words[4];  // 1000 + i of thread 0: word i of its input; 0: a zero
  };
  const std::string half = "  setp.lt.u32 %p1, %r1, 16;\n";
  for (const Case& c : {
           Case{"  cp.async.cg.shared.global [%r2], [%rd1], 16;\n", {1000, 1001, 1002, 1003}},
           Case{"  cp.async.ca.shared.global [%r2], [%rd1], 8;\n"
                "  cp.async.ca.shared::cta.global.L2::128B [%r2+8], [%rd1+4], 4;\n"
                "  cp.async.ca.shared.global [%r2+12], [%rd1], 4;\n",
                {1000, 1001, 1001, 1000}},
           Case{"  cp.async.cg.shared.global [%r2], [%rd1], 16, 8;\n", {1000, 1001, 0, 0}},
           Case{"  cp.async.ca.shared.global [%r2], [%rd1], 16, 0;\n", {0, 0, 0, 0}},
           Case{"  mov.u32 %r6, 12;\n  cp.async.cg.shared.global [%r2], [%rd1], 16, %r6;\n",
                {1000, 1001, 1002, 0}},
           Case{half + "  cp.async.cg.shared.global [%r2], [%rd1], 16, %p1;\n", {0, 0, 0, 0}},
       }) {
    INFO(c.copies);
    std::vector<std::uint32_t> out;
    CHECK(run(c.copies + kWait + kOwn, out) == "");
    for (std::size_t i = 0; i < 4; ++i) CHECK(out[i] == c.words[i]);
    const bool by_half = c.copies.starts_with(half);  // ignored by threads 0 to 15
    for (std::size_t i = 0; i < 4; ++i) {
      const std::uint32_t there = by_half ? 1000 + static_cast<std::uint32_t>(i) : c.words[i];
      CHECK(out[31 * 4 + i] == (there == 0 ? 0 : there + 124));
    }
  }
  // Under a predicate nothing is copied, and nothing is read beyond what is asked for.
  std::vector<std::uint32_t> out;
  CHECK(run("  mov.u32 %r7, 5;\n  st.shared.v4.u32 [%r2], {%r7,%r7,%r7,%r7};\n" + half +
                "  @!%p1 cp.async.cg.shared.global [%r2], [%rd1], 16, 4;\n" + kWait + kOwn,
            out) == "");
  CHECK(out[0] == 5);
  CHECK(out[64] == 1064);
  CHECK(out[65] == 0);
  CHECK(run("  cp.async.ca.shared.global [%r2], [%rd1+508], 16, 0;\n  cp.async.wait_all;\n" + kOwn,
            out) == "");
  CHECK(has(run("  cp.async.ca.shared.global [%r2], [%rd1+512], 4;\n", out), "out-of-bounds read"));
  CHECK(has(run("  cp.async.ca.shared.global [%r2+1024], [%rd1], 4;\n", out),
            "out-of-bounds write of 4 bytes at shared"));
  CHECK(has(run("  cp.async.cg.shared.global [%r2+4], [%rd1], 16;\n", out), "misaligned write"));
  CHECK(has(run("  mov.u32 %r6, 6;\n  cp.async.cg.shared.global [%r2], [%rd1], 16, %r6;\n", out),
            "trap"));
  CHECK(has(run("  mov.u32 %r6, 20;\n  cp.async.cg.shared.global [%r2], [%rd1], 16, %r6;\n", out),
            "trap"));
}

TEST_CASE("cp.async: checked mode sees who looks before the wait, or without a barrier behind it") {
  std::vector<std::uint32_t> out;
  const std::string copy = "  cp.async.cg.shared.global [%r2], [%rd1], 16;\n";
  const std::string second = "  cp.async.cg.shared.global [%r2+512], [%rd1], 16;\n";
  const std::string commit = "  cp.async.commit_group;\n", barrier = "  bar.sync 0;\n";
  CHECK(run(copy + kWait + barrier + kNext, out) == "");
  CHECK(out[0] == 1004);
  // Nobody waits: not even a barrier delivers.
  for (const std::string& before : {copy, copy + commit, copy + commit + barrier}) {
    const std::string report = run(before + kOwn, out);
    CHECK(has(report,
              "read of 16 bytes at shared address 0x0, which cp.async by thread (0,0,0) "
              "copies there: no cp.async.wait_group before it covers the copy"));
  }
  CHECK(has(run(copy + commit + "  st.shared.u32 [%r2], %r1;\n", out), "write of 4 bytes"));
  CHECK(has(run(copy + copy + kWait, out), "write of 16 bytes"));
  // A wait is the thread's own: others meet it at a barrier.
  CHECK(run(copy + kWait + kOwn, out) == "");
  CHECK(has(run(copy + kWait + kNext, out), "race: read of 16 bytes"));
  CHECK(has(run(copy + barrier + kWait + kNext, out), "race: read of 16 bytes"));
  // Two groups under way: waiting for all but one delivers the first.
  const std::string two = copy + commit + second + commit;
  CHECK(run(two + "  cp.async.wait_group 1;\n" + barrier + kNext, out) == "");
  CHECK(has(run(two + "  cp.async.wait_group 2;\n" + barrier + kNext, out), "cp.async by thread"));
  const std::string other = "  ld.shared.u32 %r10, [%r2+512];\n  st.global.u32 [%rd2], %r10;\n";
  CHECK(has(run(two + "  cp.async.wait_group 1;\n" + barrier + other, out), "cp.async by thread"));
  CHECK(run(two + "  cp.async.wait_group 0;\n" + barrier + other, out) == "");
  // Copies that no commit closed are waited for by wait_all only.
  CHECK(has(run(copy + "  cp.async.wait_group 0;\n" + kOwn, out), "cp.async by thread"));
  CHECK(run(copy + "  cp.async.wait_all;\n" + kOwn, out) == "");
  // A copy over what others still read.
  CHECK(has(
      run("  st.shared.v4.u32 [%r2], {%r1,%r1,%r1,%r1};\n" + barrier + kNext + copy + kWait, out),
      "race: write of 16 bytes"));
  CHECK(run(copy, out) == "");  // nobody looks
}

TEST_CASE("cp.async: what is not modelled is refused by name") {
  for (const char* bad :
       {"cp.async.cg.shared.global [%r2], [%rd1], 8;",
        "cp.async.ca.shared.global [%r2], [%rd1], 2;",
        "cp.async.ca.shared.global [%r2], [%rd1], %r1;", "cp.async.wait_group %r1;",
        "cp.async.ca.shared.global [%r2], [%rd1];", "cp.async.ca.global.shared [%rd1], [%r2];",
        "cp.async.mbarrier.arrive.shared.b64 [%r2];", "cp.async.bulk.commit_group;",
        "cp.async.ca.shared.global.L2::cache_hint [%r2], [%rd1], 4, %rd2;"}) {
    INFO(bad);
    CHECK(refusal(text(bad)) != "");
  }
  CHECK(has(refusal(text("cp.async.bulk.commit_group;")), "cp.async.bulk.commit_group"));
  CHECK(has(refusal(text("cp.async.cg.shared.global [%r2], [%rd1], 8;")), "4, 8 or 16 bytes"));
}

}  // namespace driftc::test
