#include "runtime/kernel_runner.h"

#include <doctest/doctest.h>

#include <numeric>

#include "runtime/first_runs.h"
#include "tests/support/services.h"
#include "tests/unit/emit_families.h"
#include "tests/unit/emit_reference.h"

using namespace driftc;
using namespace driftc::test;

TEST_CASE(
    "device tensors: upload and download keep every element, in both layouts and all sizes of "
    "element") {
  for (ir::DType dtype : {ir::DType::kF32, ir::DType::kF64, ir::DType::kF16, ir::DType::kI64}) {
    ir::Tensor t(dtype, {2, 3, 4, 5});
    for (std::size_t i = 0; i < t.byte_count(); ++i)
      t.bytes_mut()[i] = static_cast<std::byte>(i * 7);
    for (ir::Layout layout : {ir::Layout::kNchw, ir::Layout::kNhwc}) {
      const ir::Tensor back = runtime::download(runtime::upload(t, layout));
      CHECK(std::equal(t.bytes().begin(), t.bytes().end(), back.bytes().begin()));
    }
  }
  ir::Tensor t(ir::DType::kF32, {1, 2, 2, 2});
  std::iota(t.data_mut<float>().begin(), t.data_mut<float>().end(), 0.0f);
  const auto nhwc = runtime::upload(t, ir::Layout::kNhwc);
  const float expected[] = {0, 4, 1, 5, 2, 6, 3, 7};
  CHECK(std::equal(std::begin(expected), std::end(expected),
                   reinterpret_cast<const float*>(nhwc.data())));
}

TEST_CASE("device tensors: no elements") {
  const auto empty = runtime::upload(ir::Tensor(ir::DType::kF32, {0, 3}), ir::Layout::kNchw);
  CHECK(empty.defined());
  CHECK(empty.byte_count() == 0);
  CHECK(runtime::download(empty).elements() == 0);
}

TEST_CASE("kernels: extents of 1 and 0") {
  if (!kernels_available("extents of 1 and 0")) return;
  using Ints = std::vector<std::int64_t>;
  auto check = [](KernelCase& test) {
    const auto fault = check_case(test, 3);
    CHECK_MESSAGE(fault == std::optional<std::string>(""), fault.value_or("no kernel"));
  };
  {  // one pixel, one channel in, one out
    KernelCase test(ir::Algorithm::kImplicitGemm, "crs.fma+bias.stored", {32, 16, 18, 4, 2, 1});
    test.add(ir::Op::kConv2d, {test.input({1, 1, 1, 1}), test.input({1, 1, 3, 3}), test.input({1})},
             {{"pad", Ints{1, 1, 1, 1}}});
    check(test.finish());
  }
  {  // no image
    KernelCase test(ir::Algorithm::kElementwise, "");
    test.add(ir::Op::kRelu, {test.input({0, 4})});
    check(test.finish());
  }
  {  // a matrix product over nothing is +0
    KernelCase test(ir::Algorithm::kMatmul, "k.fma", {32, 64, 16, 2, 4, 1});
    test.add(ir::Op::kMatmul, {test.input({3, 0}), test.input({0, 5})});
    check(test.finish());
  }
  {  // one tensor as two operands of one kernel
    KernelCase test(ir::Algorithm::kElementwise, "");
    const ir::ValueId x = test.input({7, 9});
    test.add(ir::Op::kMul, {x, x});
    check(test.finish());
  }
}

TEST_CASE("kernels: the schedule's seed orders atomics as the denotation says") {
  if (!kernels_available("seeds of atomics")) return;
  const Family* family = nullptr;
  for (const Family& f : conv_families())
    if (std::string_view(f.name) == "3x3 crs split atomic") family = &f;
  REQUIRE(family != nullptr);
  bool changed = false;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    Draw draw(11);
    const KernelCase test = family->make(draw);
    const auto fault = check_case(test, 1, Distribution::kRandom, false, seed);
    CHECK_MESSAGE(fault == std::optional<std::string>(""), fault.value_or("no kernel"));
    const auto operands = test.operands(1, Distribution::kRandom, false);
    changed = changed || !ir::same_bits(reference(test.kernel, operands, 0),
                                        reference(test.kernel, operands, seed));
  }
  CHECK(changed);
}

TEST_CASE("kernel runner: the first run of a kernel in this program is in checked mode") {
  // Every thread reads its neighbour's element of shared memory without a barrier in between.
  codegen::CompiledPtx racy;
  racy.ptx = R"(.version 9.0
.target sm_90
.address_size 64
.visible .entry racy(.param .u64 in, .param .u64 out)
{
  .reg .b32 %r<8>;
  .reg .f32 %f<4>;
  .reg .b64 %rd<8>;
  .shared .align 4 .b8 tile[256];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd3, %r1, 4;
  ld.param.u64 %rd1, [in];
  ld.param.u64 %rd2, [out];
  add.s64 %rd4, %rd1, %rd3;
  ld.global.f32 %f1, [%rd4];
  mov.u32 %r2, tile;
  mad.lo.u32 %r3, %r1, 4, %r2;
  st.shared.f32 [%r3], %f1;
  xor.b32 %r4, %r1, 1;
  mad.lo.u32 %r5, %r4, 4, %r2;
  ld.shared.f32 %f2, [%r5];
  add.s64 %rd5, %rd2, %rd3;
  st.global.f32 [%rd5], %f2;
  ret;
}
)";
  codegen::LoweredKernel lowered;
  codegen::Launch launch;
  launch.entry = "racy";
  launch.block = {64, 1, 1};
  codegen::Argument in, out;
  in.kind = codegen::Argument::Kind::kOperand;
  out.kind = codegen::Argument::Kind::kResult;
  launch.arguments = {in, out};
  lowered.launches = {launch};
  const auto kernel = runtime::assemble(lowered, std::span(&racy, 1));
  REQUIRE(kernel.ok());
  const ir::TensorType type{ir::DType::kF32, {64}, ir::Layout::kNchw};
  const std::vector<runtime::DeviceTensor> operands = {runtime::DeviceTensor(type)};
  runtime::DeviceTensor result(type);
  const std::size_t before = runtime::first_runs_checked();
  const auto first = runtime::run(*kernel, operands, {}, result, tests::thread_pool());
  REQUIRE(!first.ok());
  CHECK(first.error().message.find("race: read of 4 bytes") != std::string::npos);
  CHECK(runtime::first_runs_checked() == before + 1);
  CHECK(runtime::run(*kernel, operands, {}, result, tests::thread_pool()).ok());
}
