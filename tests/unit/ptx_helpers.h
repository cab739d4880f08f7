// Small machinery for the tests of the PTX executor: run a few lines of PTX per thread, or CUDA C++
// through NVRTC.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codegen/nvrtc.h"
#include "ir/support/env.h"
#include "runtime/ptx/arguments.h"
#include "runtime/ptx/machine.h"
#include "runtime/ptx/parser.h"

namespace ptx_test {

namespace ptx = driftc::runtime::ptx;
using driftc::runtime::ThreadPool;

// Decoder settings under which every kernel must give the same bits: the plain interpreter, and all
// fast forms.
inline std::vector<ptx::DecodeOptions> all_decode_options() {
  constexpr auto kPortable = ptx::Path::kPortable;
  return {{.convert_branches = false,
           .fuse_regions = false,
           .scalar_uniform = false,
           .highest_path = kPortable},
          {.convert_branches = true,
           .fuse_regions = false,
           .scalar_uniform = false,
           .highest_path = kPortable},
          {.highest_path = kPortable},
          {.convert_branches = false, .fuse_regions = false, .scalar_uniform = false},
          {.convert_branches = false},
          {.fuse_regions = false},
          {.convert_branches = false,
           .fuse_regions = false,
           .scalar_uniform = false,
           .highest_path = ptx::Path::kAvx2},
          {.fuse_regions = false, .highest_path = ptx::Path::kAvx2},
          {.highest_path = ptx::Path::kAvx2},
          {}};
}

inline std::shared_ptr<const ptx::Program> load(const std::string& text,
                                                const ptx::DecodeOptions& options = {},
                                                const std::string& entry = "") {
  auto module = ptx::parse_module(text, "test.ptx");
  if (!module.ok()) FAIL(module.error().render());
  auto program = ptx::decode(*module, entry, options);
  if (!program.ok()) FAIL(program.error().render());
  return *program;
}

// The message of the first error of parsing or decoding; "" when there is none.
inline std::string refusal(const std::string& text) {
  auto module = ptx::parse_module(text, "test.ptx");
  if (!module.ok()) return module.error().render();
  auto program = ptx::decode(*module, "");
  return program.ok() ? "" : program.error().render();
}

// A kernel around `body`: thread i finds a[i], b[i], c[i] (64-bit words) in %rd1..%rd3 and their
// low halves in %r1..%r3; the body leaves its result in %rd4 (wide) or %r4. Free: %r5.., %rd5..,
// %p1..
inline std::string kernel_text(const std::string& body, bool wide) {
  return std::string(R"(.version 9.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 po)
{
  .reg .pred %p<8>;
  .reg .b16 %rs<8>;
  .reg .b32 %r<32>;
  .reg .b64 %rd<32>;
  mov.u32 %r20, %tid.x;
  mul.wide.u32 %rd20, %r20, 8;
  ld.param.u64 %rd21, [pa];
  ld.param.u64 %rd22, [pb];
  ld.param.u64 %rd23, [pc];
  ld.param.u64 %rd24, [po];
  add.s64 %rd21, %rd21, %rd20;
  add.s64 %rd22, %rd22, %rd20;
  add.s64 %rd23, %rd23, %rd20;
  add.s64 %rd24, %rd24, %rd20;
  ld.global.u64 %rd1, [%rd21];
  ld.global.u64 %rd2, [%rd22];
  ld.global.u64 %rd3, [%rd23];
  cvt.u32.u64 %r1, %rd1;
  cvt.u32.u64 %r2, %rd2;
  cvt.u32.u64 %r3, %rd3;
)") + body +
         (wide ? "" : "\n  cvt.u64.u32 %rd4, %r4;") +
         "\n  st.global.u64 [%rd24], %rd4;\n  ret;\n}\n";
}

// Result per thread, checked to be the same under all decode options.
inline std::vector<std::uint64_t> run_lines(const std::string& body, bool wide,
                                            std::vector<std::uint64_t> a,
                                            std::vector<std::uint64_t> b = {},
                                            std::vector<std::uint64_t> c = {}) {
  std::size_t n = a.size();
  b.resize(n);
  c.resize(n);
  std::vector<std::uint64_t> first;
  for (const ptx::DecodeOptions& options : all_decode_options()) {
    std::vector<std::uint64_t> out(n, 0xDEADBEEFDEADBEEFu);
    auto program = load(kernel_text(body, wide), options);
    ptx::DeviceMemory memory;
    ptx::ArgumentPacker args;
    args.add(memory.add(a.data(), n * 8, "a"))
        .add(memory.add(b.data(), n * 8, "b"))
        .add(memory.add(c.data(), n * 8, "c"));
    args.add(memory.add(out.data(), n * 8, "out"));
    ThreadPool pool(1);
    auto result = ptx::launch(*program, {.block = {static_cast<std::uint32_t>(n), 1, 1}},
                              args.bytes(), memory, pool);
    if (!result.ok()) FAIL(result.error().render());
    if (first.empty()) first = out;
    CHECK(out == first);
  }
  return first;
}

inline const std::optional<driftc::codegen::Nvrtc>& nvrtc() {
  static const std::optional<driftc::codegen::Nvrtc> compiler = [] {
    auto loaded = driftc::codegen::Nvrtc::load(driftc::Settings::from_env());
    return loaded.ok() ? std::optional(*loaded) : std::nullopt;
  }();
  return compiler;
}

// PTX of CUDA C++; nullopt (with a message in the log) where NVRTC is missing.
inline std::optional<std::string> compile_cuda(const std::string& source,
                                               const std::string& target = "compute_90",
                                               std::vector<std::string> options = {}) {
  if (!nvrtc()) {
    MESSAGE("skipped: NVRTC is missing");
    return std::nullopt;
  }
  auto compiled = nvrtc()->compile({"k", source, target, std::move(options)});
  if (!compiled.ok()) FAIL(compiled.error().render());
  return compiled->ptx;
}

// Deterministic data: a plain generator, so that tests say exactly what they run on.
class Random {
 public:
  explicit Random(std::uint32_t seed) : state_(seed * 2654435761u + 12345u) {}
  std::uint32_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 17;
    state_ ^= state_ << 5;
    return state_;
  }
  float unit() { return static_cast<float>(static_cast<std::int32_t>(next()) >> 8) * 0x1p-23f; }
  std::vector<float> floats(std::size_t n) {
    std::vector<float> v(n);
    for (float& x : v) x = unit();
    return v;
  }

 private:
  std::uint32_t state_;
};

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

}  // namespace ptx_test
