// Convolutions by cuDNN on a GPU, through a scripted cuDNN on a driver over the PTX executor
// (tests/fake_cudnn, tests/fake_cuda), and the order of sums that a black box gives away.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>

#include "ir/eager_order.h"
#include "ir/support/half.h"
#include "ir/support/rng.h"
#include "runtime/cuda/cudnn_convolution.h"
#include "runtime/eager/interpreter.h"
#include "runtime/numeric/fprev.h"
#include "runtime/sums/tensor_core.h"
#include "runtime/study/gpu_check.h"
#include "tests/support/services.h"

using namespace driftc;
namespace cuda = runtime::cuda;
namespace study = runtime::study;

namespace {

cuda::ConvProblem problem() {
  cuda::ConvProblem p;
  p.x = {2, 4, 9, 8};
  p.w = {6, 2, 3, 3};
  p.y = {2, 6, 5, 4};
  p.stride = {2, 2};
  p.pad = {1, 1};
  p.dilation = {1, 1};
  p.groups = 2;
  return p;
}

struct Devices {
  Devices() {
    ::setenv("FAKE_CUDA", "", 1);
    Settings environment;
    environment.library_path = {DRIFTC_FAKE_CUDA "works", DRIFTC_FAKE_CUDNN "works"};
    auto opened = cuda::Gpu::open(environment);
    REQUIRE(opened.ok());
    gpu = *opened;
    auto made = cuda::CudnnExecutor::open(environment, gpu);
    REQUIRE_MESSAGE(made.ok(), (made.ok() ? "" : made.error().render()));
    cudnn = *made;
  }
  std::shared_ptr<cuda::Gpu> gpu;
  std::shared_ptr<cuda::CudnnExecutor> cudnn;
};

ir::Tensor by_interpreter(const cuda::ConvProblem& p, const ir::Tensor& x, const ir::Tensor& w,
                          ir::Precision in) {
  const auto graph = study::convolution_graph(p);
  REQUIRE(graph.ok());
  const ir::NodeId id = *graph->value(graph->outputs()[0]).producer;
  ir::NumericContract contract;
  contract.order = ir::eager_order(graph->node(id));
  contract.in = in;
  const std::vector<ir::Tensor> operands = {x, w};
  return runtime::evaluate(*graph, id, operands, contract,
                           runtime::EvalContext{tests::thread_pool(), 0});
}

runtime::SumTree tree_of(std::int64_t n, const std::function<float(const std::vector<float>&)>& sum,
                         std::int64_t* calls = nullptr) {
  auto tree = runtime::reveal_tree(
      n,
      [&](std::int64_t i, std::int64_t j) -> Result<double> {
        std::vector<float> values(static_cast<std::size_t>(n), 1.0f);
        values[static_cast<std::size_t>(i)] = 0x1p127f;
        values[static_cast<std::size_t>(j)] = -0x1p127f;
        return static_cast<double>(sum(values));
      },
      calls);
  REQUIRE_MESSAGE(tree.ok(), (tree.ok() ? "" : tree.error().message));
  return *tree;
}

}  // namespace

TEST_CASE("cudnn executor: the engine that PyTorch takes, run as it is, in both layouts") {
  const Devices devices;
  cuda::ConvProblem p = problem();
  ir::Tensor x(ir::DType::kF32, ir::Shape(p.x)), w(ir::DType::kF32, ir::Shape(p.w));
  fill(Distribution::kRandom, 1, "x", x.data_mut<float>());
  fill(Distribution::kRandom, 2, "w", w.data_mut<float>());
  const ir::Tensor f32 = by_interpreter(p, x, w, ir::Precision::kF32);
  const ir::Tensor tf32 = by_interpreter(p, x, w, ir::Precision::kTf32Rna);
  auto plain = devices.cudnn->convolution(p, {});
  REQUIRE(plain.ok());
  CHECK(plain->choice().engine == 5);
  auto y = plain->run(x, w);
  REQUIRE_MESSAGE(y.ok(), (y.ok() ? "" : y.error().render()));
  CHECK(ir::same_bits(*y, f32));
  CHECK(plain->time(3)->size() == 3);
  auto strict = devices.cudnn->convolution(p, {.deterministic = true});
  REQUIRE(strict.ok());
  CHECK(strict->choice().engine == 7);
  CHECK(strict->choice().precision == "tf32");
  CHECK(ir::same_bits(*strict->run(x, w), tf32));
  CHECK(!ir::same_bits(f32, tf32));
  p.layout = ir::Layout::kNhwc;
  auto last = devices.cudnn->convolution(p, {});
  REQUIRE(last.ok());
  CHECK(last->choice().fallback);
  CHECK(ir::same_bits(*last->run(x, w), f32));
  // One that fails in the middle.
  p.layout = ir::Layout::kNchw;
  auto fails = devices.cudnn->convolution(p, {.allow_tf32 = false, .deterministic = true});
  REQUIRE(fails.ok());
  const auto failed = fails->run(x, w);
  REQUIRE(!failed.ok());
  CHECK(failed.error().kind == ErrorKind::kUnavailable);
  CHECK(failed.error().message.find("cudnnBackendExecute of engine 9") != std::string::npos);
}

TEST_CASE("cudnn executor: judged against driftc's kernel, timed, its order revealed") {
  const Devices devices;
  auto gpu = std::make_shared<cuda::CudaExecutor>(devices.gpu);
  cuda::ConvProblem p = problem();
  p.groups = 1;
  p.x = {1, 4, 8, 8};
  p.w = {8, 4, 3, 3};
  p.y = {1, 8, 8, 8};
  p.stride = {1, 1};
  const auto checked = study::check_convolution(
      p, *devices.cudnn, tests::settings("default", "none"), gpu, tests::services(), 2);
  REQUIRE_MESSAGE(checked.ok(), (checked.ok() ? "" : checked.error().render()));
  CHECK(checked->choice.engine == 5);
  CHECK(checked->verdict == runtime::compare::Verdict::kIdentical);
  CHECK(checked->order == "36 leaves: 2-way x35 from the root, a chain");
  CHECK(checked->cudnn_ms.size() == 2);
  CHECK(checked->ours_ms == std::vector<double>{1, 1});  // the fake driver's clock
}

TEST_CASE("fprev: trees of sums that are known") {
  auto sequential = [](const std::vector<float>& v) {
    float sum = 0;
    for (const float x : v) sum += x;
    return sum;
  };
  std::int64_t calls = 0;
  const auto chain = tree_of(16, sequential, &calls);
  CHECK(calls == 15);
  CHECK(shape_of(chain) == "16 leaves: 2-way x15 from the root, a chain");
  auto reverse = [](const std::vector<float>& v) {
    float sum = 0;
    for (std::size_t i = v.size(); i-- > 0;) sum += v[i];
    return sum;
  };
  CHECK(shape_of(tree_of(16, reverse, &calls)) == "16 leaves: 2-way x15 from the root, a chain");
  CHECK(calls == 120);
  auto halves = [&](const std::vector<float>& v) {
    const auto middle = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
    return sequential({v.begin(), middle}) + sequential({middle, v.end()});
  };
  CHECK(shape_of(tree_of(16, halves)) ==
        "16 leaves: 2-way x8 from the root, joined by subtrees of up to 8");
  // Tensor cores: 9-way on A100, 17-way on H200; the first block lacks the carried sum (FPRev,
  // section 6).
  auto core = [](const char* arch) {
    return [arch](const std::vector<float>& v) {
      const auto unit =
          *runtime::tensor_core(arch, runtime::TcFormat::kBf16, runtime::TcAccumulator::kF32);
      const std::vector<float> ones(v.size(), 1.0f);
      return runtime::tensor_core_chain(unit, 16, 0, v, ones).value;
    };
  };
  CHECK(shape_of(tree_of(32, core("sm_80"))) ==
        "32 leaves: 9-way x3, 8-way x1 from the root, a chain");
  CHECK(shape_of(tree_of(32, core("sm_90"))) ==
        "32 leaves: 17-way x1, 16-way x1 from the root, a chain");
}

TEST_CASE("fprev: what adds no fixed tree is said") {
  auto reveal = [](const runtime::SurvivingUnits& box) { return runtime::reveal_tree(6, box); };
  const auto fraction = reveal([](std::int64_t, std::int64_t) -> Result<double> { return 1.5; });
  REQUIRE(!fraction.ok());
  CHECK(fraction.error().message.find("no fixed tree adds them") != std::string::npos);
  CHECK(!reveal([](std::int64_t, std::int64_t) -> Result<double> { return NAN; }).ok());
  CHECK(!reveal([](std::int64_t, std::int64_t) -> Result<double> { return 9; }).ok());
  // Every pair says that it meets below 3 leaves: no tree of 6.
  CHECK(!reveal([](std::int64_t, std::int64_t) -> Result<double> { return 3; }).ok());
  CHECK(!reveal([](std::int64_t, std::int64_t) -> Result<double> {
           return unavailable("gone");
         }).ok());
}
