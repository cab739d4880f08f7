// Checked mode: one seeded fault per kind of report, each beside the healthy kernel it was made
// from.
#include "tests/unit/ptx_helpers.h"

using namespace ptx_test;

namespace {

struct Seeded {
  std::uint32_t threads = 64, blocks = 1, shared = 0;
  bool track_output = true;  // the output buffer holds nothing yet
  bool check = true;
};

// The error of one launch over `in` (64 floats) and `out` (64 floats), "" when there is none. The
// same whatever the decoder does.
std::string checked(const std::string& text, const Seeded& how = {}) {
  std::optional<std::string> first;
  for (const ptx::DecodeOptions& options : all_decode_options()) {
    std::vector<float> in(64, 1.0f), out(64, 0.0f);
    auto program = load(text, options);
    ptx::DeviceMemory memory;
    ptx::ArgumentPacker args;
    args.add(memory.add_readonly(in.data(), 256, "in"));
    const std::uint64_t at = memory.add(out.data(), 256, "out");
    args.add(at);
    if (how.track_output) memory.track_writes(at);
    ThreadPool pool(1);
    auto result = ptx::launch(*program,
                              {.grid = {how.blocks, 1, 1},
                               .block = {how.threads, 1, 1},
                               .dynamic_shared_bytes = how.shared},
                              args.bytes(), memory, pool, {.check = how.check});
    std::string got = result.ok() ? "" : result.error().render();
    // Addresses of buffers differ from run to run.
    const std::string mark = "global address ";
    for (std::size_t p = got.find(mark); p != std::string::npos; p = got.find(mark, p + 1)) {
      const std::size_t begin = p + mark.size();
      got.replace(begin, got.find_first_not_of("0123456789abcdefx", begin) - begin, "ADDRESS");
    }
    if (!first) first = got;
    CHECK(got == *first);
  }
  return *first;
}

std::string cuda(const std::string& body, const Seeded& how = {}) {
  auto text = compile_cuda(
      "extern \"C\" __global__ void k(const float* in, float* out) {\n" + body + "\n}\n",
      "compute_90", {"-lineinfo"});
  return text ? checked(*text, how) : std::string("skipped");
}

bool has(const std::string& text, const std::string& part) {
  if (text == "skipped") return true;
  INFO(text);
  return text.find(part) != std::string::npos;
}

std::string ptx_kernel(const std::string& body) {
  return R"(.version 9.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
{
  .reg .pred %p<8>;
  .reg .b32 %r<16>;
  .reg .f32 %f<16>;
  .reg .b64 %rd<16>;
  .shared .align 16 .b8 tile[256];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd3, %r1, 4;
  ld.param.u64 %rd1, [in];
  ld.param.u64 %rd2, [out];
  add.s64 %rd4, %rd2, %rd3;
)" + body +
         "\n  ret;\n}\n";
}

}  // namespace

TEST_CASE("ptx check: a missing barrier is a race, with both threads") {
  const std::string head = "  __shared__ float s[64]; int t = threadIdx.x; s[t] = in[t];\n";
  const std::string tail = "\n  out[t] = s[63 - t];";
  const std::string healthy = cuda(head + "  __syncthreads();" + tail);
  CHECK((healthy.empty() || healthy == "skipped"));
  const std::string report = cuda(head + tail);
  CHECK(
      has(report,
          "kernel 'k', block (0,0,0), thread (0,0,0): race: read of 4 bytes at shared "
          "address 0xfc, written by thread (63,0,0) since the last barrier, value 0x3f800000 (f32 "
          "1)"));
  CHECK(has(report, "CUDA source"));
  CHECK(has(report, ":4"));
  CHECK(has(report, "byte 252 of 256"));
  // Two threads write one element, the same value or not.
  CHECK(has(cuda("  __shared__ float s[32]; int t = threadIdx.x; s[t / 2] = 1.0f;\n"
                 "  __syncthreads(); out[t] = s[t / 2];"),
            "race: write of 4 bytes at shared address 0x0, written by thread (0,0,0)"));
  // A tile overwritten while others still read it.
  CHECK(has(cuda(head + "  __syncthreads(); float v = s[63 - t];\n  s[t] = v + 1.0f;\n"
                        "  __syncthreads(); out[t] = s[t];"),
            "race: write of 4 bytes at shared address"));
  // A tree that adds in place is healthy.
  const std::string tree =
      cuda(head +
           "  __syncthreads();\n  for (int k = 32; k > 0; k /= 2) {\n"
           "    if (t < k) s[t] += s[t + k];\n    __syncthreads();\n  }\n  out[t] = s[0];");
  CHECK((tree.empty() || tree == "skipped"));
}

TEST_CASE("ptx check: memory that nothing wrote") {
  CHECK(has(cuda("  __shared__ float s[65]; int t = threadIdx.x; s[t] = in[t];\n"
                 "  __syncthreads(); out[t] = s[t + 1];"),
            "thread (63,0,0): read of 4 bytes at shared address 0x100, which nothing has written, "
            "value 0xffffffff (f32 -nan)"));
  const std::string global = cuda("  int t = threadIdx.x; out[t] += in[t];");
  CHECK(has(global, "read of 4 bytes at global address ADDRESS, which nothing has written"));
  CHECK(has(global, "buffer 'out', byte 0 of 256"));
  const std::string zeroed =
      cuda("  int t = threadIdx.x; out[t] += in[t];", {.track_output = false});
  CHECK((zeroed.empty() || zeroed == "skipped"));
  // Without checked mode nothing is said.
  const std::string unchecked = cuda("  int t = threadIdx.x; out[t] += in[t];", {.check = false});
  CHECK((unchecked.empty() || unchecked == "skipped"));
}

TEST_CASE("ptx check: registers never written on a thread's path") {
  // Only threads below 32 write %f1.
  const std::string body = "  setp.lt.u32 %p1, %r1, 32;\n  @%p1 mov.f32 %f1, 0f3F800000;\n";
  CHECK(has(checked(ptx_kernel(body + "  st.global.f32 [%rd4], %f1;")),
            "thread (32,0,0): use of a register that this thread has not written"));
  CHECK(checked(ptx_kernel(body + "  @%p1 st.global.f32 [%rd4], %f1;")).empty());
  // The same where what is written is the same for all threads, so that it could be computed first.
  CHECK(has(checked(ptx_kernel("  mov.u32 %r5, %ntid.x;\n  setp.gt.u32 %p1, %r1, 31;\n"
                               "  @%p1 bra ON;\n  bar.warp.sync -1;\n  add.s32 %r6, %r5, 3;\n"
                               "ON:\n  st.global.u32 [%rd4], %r6;")),
            "thread (32,0,0): use of a register that this thread has not written"));
  // Computed from it, and chosen away again.
  const std::string sum = body + "  add.rn.f32 %f2, %f1, %f1;\n";
  CHECK(has(checked(ptx_kernel(sum + "  st.global.f32 [%rd4], %f2;")), "thread (32,0,0): use of"));
  CHECK(checked(ptx_kernel(sum + "  selp.f32 %f3, %f2, 0f00000000, %p1;\n"
                                 "  st.global.f32 [%rd4], %f3;"))
            .empty());
  // As a branch condition.
  CHECK(has(checked(ptx_kernel(body + "  setp.gt.f32 %p2, %f1, 0f00000000;\n  @%p2 bra DONE;\n"
                                      "  bar.sync 0;\n  st.global.f32 [%rd4], 0f3F800000;\nDONE:")),
            "thread (32,0,0): use of a register"));
}

TEST_CASE("ptx check: off by one and misaligned") {
  const std::string shared = cuda(
      "  extern __shared__ float s[]; int t = threadIdx.x; s[t + 1] = in[t];\n"
      "  __syncthreads(); out[t] = s[t + 1];",
      {.shared = 256});
  CHECK(has(shared,
            "thread (63,0,0): out-of-bounds write of 4 bytes at shared address 0x100, value "
            "0x3f800000 (f32 1)"));
  CHECK(has(shared, "shared memory of the block: 256 bytes, 0 bytes behind its end"));
  const std::string global = cuda("  int t = threadIdx.x; out[t] = in[t + 1];");
  CHECK(has(global, "thread (63,0,0): out-of-bounds read of 4 bytes"));
  CHECK(has(checked(ptx_kernel("  mov.u32 %r2, tile;\n  mad.lo.u32 %r3, %r1, 4, %r2;\n"
                               "  st.shared.v2.f32 [%r3], {0f00000000, 0f00000000};")),
            "thread (1,0,0): misaligned write of 8 bytes at shared address 0x4, value 0x00000000"));
  CHECK(has(checked(ptx_kernel("  add.s64 %rd5, %rd1, 4;\n"
                               "  ld.global.v2.f32 {%f1, %f2}, [%rd5];\n"
                               "  st.global.f32 [%rd4], %f1;")),
            "misaligned read of 8 bytes at global address"));
}

TEST_CASE("ptx check: a barrier that some threads do not reach, or reach elsewhere") {
  CHECK(has(checked(ptx_kernel("  setp.lt.u32 %p1, %r1, 16;\n  @%p1 bra SKIP;\n  bar.sync 0;\n"
                               "SKIP:\n  st.global.f32 [%rd4], 0f3F800000;")),
            "thread (0,0,0): barrier that this thread does not reach"));
  // Both sides have a barrier, but not the same one.
  const std::string two =
      checked(ptx_kernel("  setp.lt.u32 %p1, %r1, 16;\n  @%p1 bra OTHER;\n  bar.sync 0;\n"
                         "  st.global.f32 [%rd4], 0f3F800000;\n  bra DONE;\nOTHER:\n  bar.sync 0;\n"
                         "  st.global.f32 [%rd4], 0f40000000;\nDONE:"));
  CHECK(has(two, "barrier that this thread does not reach"));
}

TEST_CASE("ptx check: atomics and plain accesses to one address") {
  CHECK(has(cuda("  __shared__ float s; int t = threadIdx.x; if (t == 0) s = 0.0f;\n"
                 "  __syncthreads(); atomicAdd(&s, in[t]); if (t == 5) out[0] = s;"),
            "atomic and plain accesses mixed: read of 4 bytes at shared address 0x0, accessed the "
            "other way by thread"));
  const std::string healthy = cuda(
      "  __shared__ float s; int t = threadIdx.x; if (t == 0) s = 0.0f;\n"
      "  __syncthreads(); atomicAdd(&s, in[t]); __syncthreads(); if (t == 5) out[0] = s;");
  CHECK((healthy.empty() || healthy == "skipped"));
  CHECK(has(cuda("  int t = threadIdx.x; if (t == 3) out[0] = 1.0f; atomicAdd(out, in[t]);",
                 {.track_output = false}),
            "atomic and plain accesses mixed: atomic of 4 bytes at global address"));
}
