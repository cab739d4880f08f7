// Without NVRTC the shipped examples still run, from PTX in the repository.
#include <doctest/doctest.h>

#include "frontend/npy/npy.h"
#include "frontend/onnx/onnx.h"
#include "tests/support/services.h"

using namespace driftc;
namespace study = runtime::study;

TEST_CASE("recorded PTX: the shipped examples compare without a compiler") {
  const std::string models = std::string(DRIFTC_SOURCE_DIR) + "/tests/models/";
  codegen::KernelCache cache({"", {models + "recorded-ptx"}}, std::nullopt);
  auto images = frontend::npy::read_npy(models + "digits.images.npy");
  REQUIRE(images.ok());
  frontend::onnx::ImportOptions options;
  options.input_shapes["image"] = images->shape();
  auto digits = frontend::onnx::import_onnx(models + "digits-resnet.onnx", options);
  REQUIRE(digits.ok());
  const study::Services services{cache, tests::thread_pool(), {}};
  for (const char* mode : {"default", "strict"}) {
    auto report = study::pair_run(*digits, {{"image", *images}}, tests::settings(mode), services);
    CHECK_MESSAGE(report.ok(),
                  "stale, run ./dev record: " << (report.ok() ? "" : report.error().render()));
    if (report.ok()) CHECK(report->verdict <= runtime::compare::Verdict::kOrder);
  }
  const ir::Graph block = tests::zoo("residual-block");
  auto report =
      study::pair_run(block, tests::random_inputs(block, 0), tests::settings("default"), services);
  CHECK_MESSAGE(report.ok(),
                "stale, run ./dev record: " << (report.ok() ? "" : report.error().render()));
  CHECK(cache.counters().compiled == 0);
  CHECK(cache.counters().recorded > 0);
}

TEST_CASE("recorded PTX: without compiler and recording the error says how to get one") {
  codegen::KernelCache cache({"", {}}, std::nullopt);
  const ir::Graph block = tests::zoo("residual-block");
  auto report = study::pair_run(block, tests::random_inputs(block, 0), tests::settings("default"),
                                {cache, tests::thread_pool(), {}});
  REQUIRE(!report.ok());
  CHECK(report.error().kind == ErrorKind::kUnavailable);
  CHECK(report.error().render().find("./dev") != std::string::npos);
}
