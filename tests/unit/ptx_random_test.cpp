// Random kernels of shared loads, FMA chains and everything that may stand between them: the fast
// forms must give the bits of the plain interpreter. This is what keeps the region finder
// (runtime/ptx/region.cpp) honest.
#include <fmt/format.h>
#include <hwy/targets.h>

#include <cmath>

#include "tests/unit/ptx_helpers.h"

using namespace ptx_test;

namespace {

// Writes one kernel. Floats live in %f0..%f15 (all defined at the start), fresh results in %f16..
// (written once); %a0..%a5 are shared addresses of different shapes over the lanes.
class Writer {
 public:
  // `racy`: about half of the barriers are left out, and there are more kinds of accesses: stores
  // between loads, vectors, halves and bytes, under a guard, in a divergent branch, and to `y`.
  explicit Writer(std::uint32_t seed, bool racy = false) : rng_(seed), racy_(racy) {}

  // `plain_shadow`: with an atomic that no thread executes, which makes checked mode look at every
  // access of every thread by itself (check_shared.h).
  std::string kernel(bool plain_shadow = false) {
    text_ = R"(.version 9.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 px, .param .u64 py, .param .u32 pn)
{
 .reg .pred %p<4>;
 .reg .f32 %f<2000>;
 .reg .b32 %r<40>;
 .reg .b32 %a<8>;
 .reg .b64 %rd<10>;
 .shared .align 16 .b8 s[8192];
 ld.param.u64 %rd1, [px];
 ld.param.u64 %rd2, [py];
 ld.param.u32 %r9, [pn];
 mov.u32 %r1, %tid.x;
 mul.wide.u32 %rd3, %r1, 64;
 add.s64 %rd1, %rd1, %rd3;
 add.s64 %rd2, %rd2, %rd3;
 shl.b32 %r2, %r1, 2;
 mov.u32 %r3, s;
 add.s32 %a0, %r3, %r2;
 shr.u32 %r4, %r1, 4;
 shl.b32 %r5, %r4, 2;
 add.s32 %a1, %r3, %r5;
 and.b32 %r6, %r1, 7;
 mad.lo.s32 %a2, %r6, 4, %r3;
 mad.lo.s32 %a3, %r6, 16, %r3;
 and.b32 %r7, %r1, 31;
 mad.lo.s32 %a4, %r7, -4, %r3;
 add.s32 %a4, %a4, 128;
 mov.u32 %a5, s;
)";
    if (racy_) text_ += " setp.gt.u32 %p1, %r7, 15;\n setp.lt.u32 %p2, %r1, 20;\n";
    for (int i = 0; i < 16; ++i) line(fmt::format("ld.global.f32 %f{}, [%rd1+{}];", i, 4 * i));
    for (int i = 0; i < 16; ++i) line(fmt::format("st.shared.f32 [%a0+{}], %f{};", 512 * i, i));
    barrier();
    bool loop = below(2) == 0;
    if (loop) text_ += "mov.u32 %r20, 0;\n$LOOP:\n";
    for (int part = 1 + below(3); part > 0; --part) {
      for (int n = 10 + below(60); n > 0; --n) statement();
      if (below(3) == 0) {
        barrier();
        for (int n = 1 + below(3); n > 0; --n)
          line(fmt::format("st.shared.f32 [%a{}+{}], %f{};", racy_ ? below(6) : 0,
                           512 * below(racy_ ? 15 : 16), below(16)));
        barrier();
      }
      if (below(2) == 0) outer_product();
    }
    if (loop) text_ += "add.s32 %r20, %r20, 1;\nsetp.lt.s32 %p3, %r20, %r9;\n@%p3 bra $LOOP;\n";
    for (int i = 0; i < 16; ++i) line(fmt::format("st.global.f32 [%rd2+{}], %f{};", 4 * i, i));
    if (plain_shadow) text_ += "setp.gt.u32 %p0, %r1, 5000;\n@%p0 red.shared.add.u32 [%a5], %r9;\n";
    return text_ + "ret;\n}\n";
  }

 private:
  void barrier() {
    if (!racy_ || below(2)) line("bar.sync 0;");
  }
  int below(int n) { return static_cast<int>(rng_.next() % static_cast<std::uint32_t>(n)); }
  void line(const std::string& s) { text_ += " " + s + "\n"; }
  // A register that holds something: a loop variable, or a fresh one of this block.
  int any() {
    int fresh = next_ - block_first_;
    return fresh > 0 && below(2) ? block_first_ + below(fresh) : below(16);
  }
  int target() { return below(3) == 0 ? below(16) : next_++; }

  void statement() {
    if (racy_ && below(6) == 0) return access();
    switch (below(12)) {
      case 0:
      case 1:
      case 2:
        line(fmt::format("ld.shared.f32 %f{}, [%a{}+{}];", target(), below(6), 4 * below(64)));
        break;
      case 3:
        line(fmt::format("ld.shared.v2.f32 {{%f{}, %f{}}}, [%a{}+{}];", next_, next_ + 1,
                         below(2) ? 3 : 5, 8 * below(32)));
        next_ += 2;
        break;
      case 4:
        line(fmt::format("ld.shared.v4.f32 {{%f{}, %f{}, %f{}, %f{}}}, [%a{}+{}];", next_,
                         next_ + 1, next_ + 2, next_ + 3, below(2) ? 3 : 5, 16 * below(16)));
        next_ += 4;
        break;
      case 5:
      case 6:
      case 7: {
        int c = any();
        line(fmt::format("fma.rn.f32 %f{}, %f{}, %f{}, %f{};", below(2) ? c : target(), any(),
                         any(), c));
        break;
      }
      case 8:
        line(fmt::format("add.rn.f32 %f{}, %f{}, %f{};", target(), any(), any()));
        break;
      case 9: {
        // Moves an address; later code moves it back, so that it stays in range.
        int a = below(6);
        line(fmt::format("add.s32 %a{}, %a{}, 16;", a, a));
        for (int n = below(4); n > 0; --n)
          line(fmt::format("ld.shared.f32 %f{}, [%a{}+{}];", next_++, a, 4 * below(32)));
        line(fmt::format("add.s32 %a{}, %a{}, -16;", a, a));
        break;
      }
      case 10:
        line(fmt::format("setp.gt.f32 %p1, %f{}, 0f3F000000;", any()));
        line(fmt::format("@%p1 mov.f32 %f{}, %f{};", below(16), any()));
        break;
      default:
        line(fmt::format("setp.lt.f32 %p2, %f{}, 0f00000000;", any()));
        line(fmt::format("selp.f32 %f{}, %f{}, %f{}, %p2;", target(), any(), any()));
        break;
    }
  }

  void access() {
    const int aligned = below(2) ? 3 : 5;  // to 16 bytes
    switch (below(10)) {
      case 0:
        return line(fmt::format("st.shared.v2.f32 [%a{}+{}], {{%f{}, %f{}}};", aligned,
                                8 * below(32), any(), any()));
      case 1:
        return line(fmt::format("st.shared.v4.f32 [%a{}+{}], {{%f{}, %f{}, %f{}, %f{}}};", aligned,
                                16 * below(16), any(), any(), any(), any()));
      case 2:
        return line(fmt::format("st.shared.u16 [%a{}+{}], %r1;", below(6), 2 * below(64)));
      case 3:
        line(fmt::format("ld.shared.u16 %r21, [%a{}+{}];", below(6), 2 * below(64)));
        return line(fmt::format("cvt.rn.f32.u32 %f{}, %r21;", target()));
      case 4:
        return line(fmt::format("st.shared.u8 [%a{}+{}], %r1;", below(6), below(64)));
      case 5:
        return line(
            fmt::format("@%p1 st.shared.f32 [%a{}+{}], %f{};", below(6), 4 * below(64), any()));
      case 6:
        return line(fmt::format("@!%p2 ld.shared.f32 %f{}, [%a{}+{}];", below(16), below(6),
                                4 * below(64)));
      case 7:
        if (below(2))
          return line(fmt::format("st.global.f32 [%rd2+{}], %f{};", 4 * below(16), any()));
        return line(fmt::format("ld.global.f32 %f{}, [%rd2+{}];", target(), 4 * below(16)));
      case 8: {
        const int label = next_++;
        line(fmt::format("setp.lt.u32 %p1, %r1, {};", 1 + below(40)));
        line(fmt::format("@%p1 bra $L{};", label));
        for (int n = 1 + below(3); n > 0; --n)
          line(fmt::format("{} [%a{}+{}], %f{};", "st.shared.f32", below(6), 4 * below(64),
                           below(16)));
        line(fmt::format("ld.shared.f32 %f{}, [%a{}+{}];", below(16), below(6), 4 * below(64)));
        text_ += fmt::format("$L{}:\n", label);
        block_first_ = next_;
        return;
      }
      default:
        return line(fmt::format("st.shared.f32 [%a{}+{}], %f{};", below(6), 4 * below(64), any()));
    }
  }

  // rows x columns accumulators over a few steps, as an unrolled k loop looks; operands in either
  // order.
  void outer_product() {
    int rows = 1 + below(4), columns = 1 + below(4), steps = 1 + below(5), row_base = below(6),
        column_base = below(6);
    bool in_place = below(2);
    std::vector<int> acc(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns));
    for (std::size_t n = 0; n < acc.size(); ++n) acc[n] = static_cast<int>(n);
    for (int s = 0; s < steps; ++s) {
      int a = next_, b = next_ + rows;
      next_ += rows + columns;
      for (int i = 0; i < rows; ++i)
        line(fmt::format("ld.shared.f32 %f{}, [%a{}+{}];", a + i, row_base, 64 * s + 4 * i));
      for (int j = 0; j < columns; ++j)
        line(fmt::format("ld.shared.f32 %f{}, [%a{}+{}];", b + j, column_base,
                         256 + 64 * s + 16 * j));
      for (int i = 0; i < rows; ++i)
        for (int j = 0; j < columns; ++j) {
          int& c = acc[static_cast<std::size_t>(i * columns + j)];
          int d = in_place ? c : s + 1 == steps ? i * columns + j : next_++;
          bool swap = below(4) == 0;
          line(fmt::format("fma.rn.f32 %f{}, %f{}, %f{}, %f{};", d, swap ? b + j : a + i,
                           swap ? a + i : b + j, c));
          c = d;
        }
    }
  }

  Random rng_;
  bool racy_ = false;
  std::string text_;
  int next_ = 16;
  int block_first_ = 16;
};

struct Outcome {
  std::vector<float> y;
  std::string report;  // "": none
};
Outcome run_with(const ptx::Program& program, std::vector<float>& x, std::uint32_t threads,
                 bool check) {
  Outcome out;
  out.y.assign(x.size(), 0.0f);
  ptx::DeviceMemory memory;
  ptx::ArgumentPacker args;
  args.add(memory.add(x.data(), x.size() * 4, "x"));
  const std::uint64_t at = memory.add(out.y.data(), out.y.size() * 4, "y");
  args.add(at).add(std::int32_t{3});
  memory.track_writes(at);
  ThreadPool pool(1);
  auto result = ptx::launch(program, {.block = {threads, 1, 1}}, args.bytes(), memory, pool,
                            {.check = check});
  if (!result.ok()) out.report = result.error().render();
  return out;
}
std::vector<float> run_kernel(const ptx::Program& program, std::vector<float>& x,
                              std::uint32_t threads) {
  Outcome out = run_with(program, x, threads, false);
  if (!out.report.empty()) FAIL(out.report);
  return out.y;
}

// Addresses of buffers differ from run to run.
std::string without_addresses(std::string report) {
  const std::string mark = "global address ";
  for (std::size_t p = report.find(mark); p != std::string::npos; p = report.find(mark, p + 1)) {
    const std::size_t begin = p + mark.size();
    report.replace(begin, report.find_first_not_of("0123456789abcdefx", begin) - begin, "ADDRESS");
  }
  return report;
}

}  // namespace

TEST_CASE("ptx random: fast forms equal the plain interpreter on random kernels") {
  std::size_t with_region = 0;
  for (std::uint32_t seed = 1; seed <= 250; ++seed) {
    CAPTURE(seed);
    std::string text = Writer(seed).kernel();
    const std::uint32_t threads = seed % 3 == 0 ? 40 : seed % 3 == 1 ? 64 : 128;
    std::vector<float> x = Random(seed).floats(threads * 16);
    x[seed % x.size()] = HUGE_VALF;
    std::vector<float> first;
    for (const ptx::DecodeOptions& options : all_decode_options()) {
      auto program = load(text, options);
      const auto y = run_kernel(*program, x, threads);
      if (first.empty()) first = y;
      if (!same_bits(y, first)) FAIL("seed " << seed << " differs");
      with_region += program->fused_regions() > 0;
    }
  }
  CHECK(with_region > 100);  // the generator must reach what it is meant to test
}

TEST_CASE("ptx random: every instruction set of this machine gives the same bits") {
  // The widest first (what users get), then AVX2 and the scalar form, which need other vector
  // lengths.
  const std::int64_t supported = hwy::SupportedTargets();
  std::vector<std::int64_t> sets = {supported, supported & ~HWY_AVX3 & ~HWY_AVX3_DL, HWY_SCALAR};
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    const std::string text = Writer(seed).kernel();
    const std::uint32_t threads = seed % 2 ? 40 : 64;
    std::vector<float> x = Random(seed).floats(threads * 16), first;
    for (std::int64_t set : sets) {
      hwy::SetSupportedTargetsForTest(set);
      hwy::GetChosenTarget().DeInit();
      for (const ptx::DecodeOptions& options :
           {all_decode_options().front(), all_decode_options().back()}) {
        const auto y = run_kernel(*load(text, options), x, threads);
        if (first.empty()) first = y;
        if (!same_bits(y, first)) FAIL_CHECK("seed " << seed << " differs with targets " << set);
      }
    }
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().DeInit();
  }
}

TEST_CASE("ptx random: checked mode changes no bit and reports nothing of healthy kernels") {
  for (std::uint32_t seed = 1; seed <= 150; ++seed) {
    CAPTURE(seed);
    const std::string text = Writer(seed).kernel();
    // 128 threads write all of the shared memory that is read; fewer leave some undefined.
    const std::uint32_t threads = seed % 3 == 0 ? 40 : 128;
    std::vector<float> x = Random(seed).floats(threads * 16);
    const auto expected = run_kernel(*load(text, all_decode_options().front()), x, threads);
    for (const ptx::DecodeOptions& options :
         {all_decode_options().front(), all_decode_options().back()}) {
      const Outcome checked = run_with(*load(text, options), x, threads, true);
      if (!same_bits(checked.y, expected)) FAIL_CHECK("seed " << seed << " differs");
      if (threads == 128) CHECK(checked.report == "");
    }
  }
}

struct Found {
  std::size_t races = 0, undefined = 0, read_first = 0, global = 0;
};
// Under every decode option, the reports and bits are those of looking at every access of every
// thread by itself.
Found check_racy(std::uint32_t first, std::uint32_t last) {
  Found out;
  for (std::uint32_t seed = first; seed <= last; ++seed) {
    CAPTURE(seed);
    const std::string text = Writer(seed, true).kernel(), plain = Writer(seed, true).kernel(true);
    const std::uint32_t threads = seed % 3 == 0 ? 40 : seed % 3 == 1 ? 64 : 128;
    std::vector<float> x = Random(seed).floats(threads * 16);
    Outcome expected;
    for (const ptx::DecodeOptions& options : all_decode_options()) {
      expected = run_with(*load(plain, options), x, threads, true);
      const Outcome found = run_with(*load(text, options), x, threads, true);
      CHECK(without_addresses(found.report) == without_addresses(expected.report));
      if (!same_bits(found.y, expected.y)) FAIL_CHECK("seed " << seed << " differs");
    }
    const auto has = [&](const char* part) {
      return expected.report.find(part) != std::string::npos;
    };
    out.races += has("race:");
    out.undefined += has("nothing has written");
    out.read_first += has("race: write") && has("read by");
    out.global += has("global address");
  }
  return out;
}

TEST_CASE("ptx random: races are reported as by looking at every access of every thread") {
  const Found found = check_racy(1, 300);
  // The generator must reach what it is meant to test.
  CHECK(found.races > 150);
  CHECK(found.undefined > 50);
  CHECK(found.read_first > 30);
  CHECK(found.global > 10);
}

TEST_SUITE("soak") {
  TEST_CASE("soak: many random kernels with races" * doctest::skip()) {
    CHECK(check_racy(1001, 8000).races > 3000);
  }
}
