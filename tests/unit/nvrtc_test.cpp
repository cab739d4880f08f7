#include "codegen/nvrtc.h"

#include "tests/unit/ptx_helpers.h"

using namespace driftc;

TEST_CASE("nvrtc: a kernel compiles without contraction") {
  auto text = ptx_test::compile_cuda(
      "extern \"C\" __global__ void k(float* x) { x[0] = x[1] * x[2] + x[3]; }", "sm_80");
  if (!text) return;
  CHECK(text->find(".target sm_80") != std::string::npos);
  CHECK(text->find("mul.rn.f32") != std::string::npos);
  CHECK(text->find("add.rn.f32") != std::string::npos);
  CHECK(text->find("fma.rn") == std::string::npos);
}

TEST_CASE("nvrtc: an error shows the emitted line and the log") {
  if (!ptx_test::nvrtc()) return;
  auto bad = ptx_test::nvrtc()->compile(
      {"broken", "extern \"C\" __global__ void k(float* x) {\n  x[0] = nothing;\n}\n", "90", {}});
  REQUIRE_FALSE(bad.ok());
  CHECK(bad.error().kind == ErrorKind::kInternal);
  std::string message = bad.error().render();
  CHECK(message.find("broken.cu:2: error: NVRTC rejects kernel 'broken'") == 0);
  CHECK(message.find("  x[0] = nothing;") != std::string::npos);
  CHECK(message.find("\"nothing\" is undefined") != std::string::npos);
}

TEST_CASE("nvrtc: options that change numbers are refused") {
  if (!ptx_test::nvrtc()) return;
  for (const char* option : {"--use_fast_math", "-use_fast_math", "--fmad=true", "-fmad=true",
                             "--ftz=true", "--prec-div=false", "--prec-sqrt=false"}) {
    auto result =
        ptx_test::nvrtc()->compile({"k", "extern \"C\" __global__ void k() {}", "90", {option}});
    REQUIRE_FALSE(result.ok());
    CHECK(result.error().message.find("changes results") != std::string::npos);
  }
}

TEST_CASE("nvrtc: keys name source, target and options") {
  using codegen::request_key;
  codegen::CompileRequest a{"x", "source", "90", {}}, b{"y", "source", "sm_90", {}},
      c{"x", "source", "80", {}}, d{"x", "source", "90", {"-lineinfo"}};
  CHECK(request_key(a) == request_key(b));
  CHECK(request_key(a) != request_key(c));
  CHECK(request_key(a) != request_key(d));
}
