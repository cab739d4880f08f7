// The CUDA executor, on a driver that the tests build over the PTX executor (tests/fake_cuda): its
// own code really runs, module load to graph launch, and every bit must be the PTX executor's.
#include "runtime/cuda/cuda_executor.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>

#include "frontend/npy/npy.h"
#include "frontend/onnx/onnx.h"
#include "frontend/report/json_text.h"
#include "runtime/study/compile.h"
#include "runtime/study/compiled_arm.h"
#include "tests/support/command_line.h"
#include "tests/support/random_network.h"
#include "tests/support/services.h"

using namespace driftc;
using frontend::Json;
namespace cuda = runtime::cuda;
namespace study = runtime::study;
using tests::Outcome;

namespace {

// The program with a fake driver that plays `part` (fake_cuda.cpp); `fake` is its folder.
Outcome driftc_with(const std::string& part, const std::string& arguments,
                    const std::string& fake = "works") {
  return tests::run_command("export DRIFTC_LIBRARY_PATH='" DRIFTC_FAKE_CUDA + fake +
                                "':\"$DRIFTC_LIBRARY_PATH\" CUDA_VISIBLE_DEVICES=0 FAKE_CUDA='" +
                                part + "' DRIFTC_DUMP_DIR=$TMP/dump\ndriftc " + arguments,
                            tests::TemporaryFolder());
}

bool has(const std::string& text, const std::string& piece) {
  return text.find(piece) != std::string::npos;
}

// A small network whose kernels other tests compile, too.
const std::string kBlock = "zoo:residual-block --input random:1 ";

struct Digits {
  ir::Graph graph;
  std::vector<study::NamedTensor> inputs;
};
Digits digits() {
  const std::string models = DRIFTC_SOURCE_DIR "/tests/models/";
  auto images = frontend::npy::read_npy(models + "digits.images.npy");
  REQUIRE(images.ok());
  frontend::onnx::ImportOptions options;
  options.input_shapes["image"] = images->shape();
  auto graph = frontend::onnx::import_onnx(models + "digits-resnet.onnx", options);
  REQUIRE(graph.ok());
  return {std::move(*graph), {{"image", *images}}};
}

// The fake driver in this process. Every test that uses it leaves FAKE_CUDA empty.
struct FakeHere {
  FakeHere() {
    ::setenv("FAKE_CUDA", "", 1);
    Settings environment;
    environment.library_path = {DRIFTC_FAKE_CUDA "works"};
    auto opened = cuda::Gpu::open(environment);
    REQUIRE_MESSAGE(opened.ok(), (opened.ok() ? "" : opened.error().render()));
    gpu = *opened;
    executor = std::make_shared<cuda::CudaExecutor>(gpu);
  }
  ~FakeHere() {
    ::setenv("FAKE_CUDA", "", 1);
    gpu->api().library.function<void()>("fakeCudaHeal")();
  }
  FakeHere(const FakeHere&) = delete;
  FakeHere& operator=(const FakeHere&) = delete;
  void play(const std::string& part) { ::setenv("FAKE_CUDA", part.c_str(), 1); }
  long calls(const char* name) const {
    return gpu->api().library.function<long(const char*)>("fakeCudaCalls")(name);
  }
  std::size_t used() const { return gpu->api().library.function<std::size_t()>("fakeCudaUsed")(); }
  std::shared_ptr<cuda::Gpu> gpu;
  std::shared_ptr<cuda::CudaExecutor> executor;
};

void same_outputs(const std::vector<study::NamedTensor>& a,
                  const std::vector<study::NamedTensor>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CAPTURE(a[i].name);
    CHECK(a[i].name == b[i].name);
    CHECK(ir::same_bits(a[i].tensor, b[i].tensor));
  }
}

}  // namespace

TEST_CASE("cuda executor: a report is the PTX executor's but for its name") {
  for (const char* flags : {"", "--passes none"}) {
    CAPTURE(flags);
    Outcome ptx = driftc_with("", "compare " + kBlock + flags + " --executor ptx --json -");
    const Outcome gpu = driftc_with("", "compare " + kBlock + flags + " --executor cuda --json -");
    REQUIRE_MESSAGE(gpu.code == 0, gpu.err);
    Json a = Json::parse(ptx.out), b = Json::parse(gpu.out);
    CHECK(b["arms"]["compiled"]["executor"] == "cuda");
    a["arms"]["compiled"].erase("executor");
    b["arms"]["compiled"].erase("executor");
    CHECK(a == b);
  }
  // auto takes the GPU where there is one, not to check kernels.
  const Outcome automatic = driftc_with("", "compare " + kBlock + "--json -");
  CHECK(Json::parse(automatic.out)["arms"]["compiled"]["executor"] == "cuda");
  const Outcome checked = driftc_with("", "compare " + kBlock + "--check --json -");
  CHECK(Json::parse(checked.out)["arms"]["compiled"]["executor"] == "ptx");
  CHECK(has(driftc_with("", "compare " + kBlock).out, "kernels on the GPU for h200"));
}

TEST_CASE("cuda executor: bits that differ are unexplained") {
  const Outcome flipped =
      driftc_with("flip", "compare " + kBlock + "--executor cuda --passes none");
  CHECK(flipped.code == 1);
  CHECK(has(flipped.out, "unexplained"));
}

TEST_CASE("cuda executor: whole networks as a plan and as a CUDA graph, the PTX executor's bits") {
  FakeHere fake;
  const Digits d = digits();
  for (const char* mode : {"default", "reduce-overhead"}) {
    CAPTURE(mode);
    study::PairSettings settings = tests::settings(mode);
    const auto ptx =
        study::run_arm(d.graph, d.inputs, study::Arm::kCompiled, settings, tests::services());
    settings.executor = fake.executor;
    const long graphs = fake.calls("cuGraphLaunch"), launches = fake.calls("cuLaunchKernel");
    const auto gpu =
        study::run_arm(d.graph, d.inputs, study::Arm::kCompiled, settings, tests::services());
    REQUIRE(ptx.ok());
    REQUIRE_MESSAGE(gpu.ok(), (gpu.ok() ? "" : gpu.error().render()));
    same_outputs(*ptx, *gpu);
    const bool as_graph = std::string(mode) == "reduce-overhead";
    CHECK(fake.calls("cuGraphLaunch") - graphs == (as_graph ? 1 : 0));
    CHECK(fake.calls("cuLaunchKernel") - launches > 5);
  }
}

TEST_CASE("cuda executor: a plan runs again, on other inputs and by the clock") {
  FakeHere fake;
  const Digits d = digits();
  for (const bool as_graph : {false, true}) {
    study::PairSettings settings = tests::settings("default");
    settings.executor = fake.executor;
    auto compiled = study::compile(d.graph, settings, tests::services());
    REQUIRE(compiled.ok());
    auto arm = study::CompiledArm::prepare(compiled->graph, settings, tests::services());
    REQUIRE(arm.ok());
    auto plan = (*arm)->plan(as_graph);
    REQUIRE(plan.ok());
    REQUIRE(*plan != nullptr);
    const std::vector<ir::Tensor> inputs = {d.inputs[0].tensor};
    auto first = (*plan)->run(inputs);
    REQUIRE(first.ok());
    std::vector<ir::Tensor> other = {ir::Tensor(inputs[0].dtype(), inputs[0].shape())};
    auto zeros = (*plan)->run(other);
    REQUIRE(zeros.ok());
    CHECK(!ir::same_bits((*first)[0], (*zeros)[0]));
    auto again = (*plan)->run(inputs);
    REQUIRE(again.ok());
    CHECK(ir::same_bits((*first)[0], (*again)[0]));
    // The fake's clock counts launches.
    auto times = (*plan)->time(2);
    REQUIRE(times.ok());
    CHECK(*times == std::vector<double>(2, static_cast<double>((*plan)->launches())));
    auto kernels = (*plan)->time_kernels(1);
    REQUIRE(kernels.ok());
    CHECK(kernels->size() > 5);
    double total = 0;
    for (const double ms : *kernels) total += ms;
    CHECK(total == static_cast<double>((*plan)->launches()));
  }
}

TEST_CASE("cuda executor: random networks with every pass, bit for bit") {
  FakeHere fake;
  int with_fallback = 0;
  for (const std::uint64_t seed : {1, 2, 3}) {
    CAPTURE(seed);
    const tests::RandomNetwork network = tests::random_network(seed);
    study::PairSettings settings = tests::settings("default", tests::random_settings(seed).passes);
    // A node in the interpreter: no plan of the whole network, node by node instead.
    if (seed == 3)
      for (const ir::Node& node : network.graph.nodes())
        if (node.op == ir::Op::kRelu && settings.fallback.empty()) {
          settings = tests::settings("default", "none");
          settings.fallback = {network.graph.value(node.result).name};
          ++with_fallback;
        }
    const auto ptx = study::run_arm(network.graph, network.inputs, study::Arm::kCompiled, settings,
                                    tests::services());
    settings.executor = fake.executor;
    const auto gpu = study::run_arm(network.graph, network.inputs, study::Arm::kCompiled, settings,
                                    tests::services());
    REQUIRE(ptx.ok());
    REQUIRE_MESSAGE(gpu.ok(), (gpu.ok() ? "" : gpu.error().render()));
    same_outputs(*ptx, *gpu);
  }
  CHECK(with_fallback == 1);
}

TEST_CASE("cuda executor: memory comes back, and is used again") {
  FakeHere fake;
  const Digits d = digits();
  study::PairSettings settings = tests::settings("default");
  settings.executor = fake.executor;
  auto once = [&] {
    const auto run =
        study::run_arm(d.graph, d.inputs, study::Arm::kCompiled, settings, tests::services());
    REQUIRE(run.ok());
  };
  once();
  const std::size_t used = fake.used();
  CHECK(fake.gpu->pooled_bytes() == used);  // nothing is held
  const long allocations = fake.calls("cuMemAlloc_v2"), loads = fake.calls("cuModuleLoadDataEx");
  once();
  CHECK(fake.calls("cuMemAlloc_v2") == allocations);
  CHECK(fake.calls("cuModuleLoadDataEx") == loads);
  CHECK(fake.used() == used);
  fake.gpu->trim();
  CHECK(fake.used() == 0);
  // A full device: what the pool holds is given back before anything is refused.
  once();
  fake.play("memory=" + std::to_string(used + 512));
  auto large = fake.gpu->allocate(used, "test");
  CHECK(large.ok());
  CHECK(fake.gpu->pooled_bytes() == 0);
  auto too_large = fake.gpu->allocate(std::size_t{1} << 40, "test");
  REQUIRE(!too_large.ok());
  CHECK(too_large.error().kind == ErrorKind::kUnavailable);
}

TEST_CASE("cuda executor: atomics on a GPU are bounded, not replayed") {
  const std::string atomics =
      "compare zoo:conv1x1 --passes none,+split-k --set split-k.combine=atomic "
      "--set split-k.slices=4 --executor cuda --json -";
  const Outcome same = driftc_with("", atomics);
  REQUIRE_MESSAGE(same.code == 0, same.err);
  CHECK(Json::parse(same.out)["evidence"] == "replayed");  // here in the order of seed 0
  const Outcome other = driftc_with("seed=1", atomics);
  REQUIRE_MESSAGE(other.code == 0, other.err);
  const Json json = Json::parse(other.out);
  CHECK(json["evidence"] == "bounded");
  CHECK(json["verdict"] == "order");
  CHECK(json["causes"][0]["cause"] == "reduction-order");
}

TEST_CASE("cuda executor: what can go wrong has a name") {
  auto compare = [](const std::string& part, const std::string& flags = "",
                    const std::string& fake = "works") {
    return driftc_with(part, "compare " + kBlock + "--executor cuda " + flags, fake);
  };
  const Outcome old = compare("old");
  CHECK(old.code == 3);
  CHECK(has(old.err, "is too old: it runs CUDA 11.4, and 12.0 is needed"));
  const Outcome incomplete = compare("", "", "incomplete");
  CHECK(incomplete.code == 3);
  CHECK(has(incomplete.err, "is no usable CUDA driver: it has no cuInit"));
  const Outcome none = compare("no-gpu");
  CHECK(none.code == 3);
  CHECK(has(none.err, "cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected"));
  const Outcome full = compare("memory=200000");
  CHECK(full.code == 3);
  CHECK(has(full.err,
            "kernel of %conv1: the result: the CUDA driver fails in cuMemAlloc: "
            "CUDA_ERROR_OUT_OF_MEMORY"));
  CHECK(has(full.err, "NVIDIA H200, which has 200000"));
  // A fault of a kernel: which, with its launch.
  const Outcome fault = compare("fault=conv", "--passes none");
  CHECK(fault.code == 4);
  CHECK(has(fault.err, "kernel of %conv1: launch 1 of 1, conv"));
  CHECK(has(fault.err, ", grid "));
  CHECK(has(fault.err, "cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS"));
  // A driver too old for the PTX, and a GPU too old for it.
  const Outcome toolchain = compare("cuda12");
  if (const auto nvrtc = tests::kernel_cache().compiler(); nvrtc && nvrtc->version() >= "13") {
    CHECK(toolchain.code == 3);
    CHECK(has(toolchain.err, "cuModuleLoadDataEx: CUDA_ERROR_UNSUPPORTED_PTX_VERSION"));
    CHECK(has(toolchain.err, "this driver runs CUDA 12.4: NVRTC must not be newer"));
  }
  const Outcome turing = compare("t4", "--device h200");
  CHECK(turing.code == 3);
  CHECK(has(turing.err,
            "Tesla T4 has compute capability 7.5 and does not run kernels for compute_90"));
  const Outcome check = compare("", "--check");
  CHECK(check.code == 2);
  CHECK(has(check.err, "--check does not go with --executor cuda"));
  // auto goes on without it.
  for (const char* part : {"old", "no-gpu", "t4"}) {
    const Outcome automatic = driftc_with(part, "compare " + kBlock);
    CHECK(automatic.code == 0);
    CHECK(has(automatic.out, "on the PTX executor for h200"));
  }
}

TEST_CASE("cuda executor: without a driver --executor cuda ends with 3 and says what to do") {
  if (cuda::load_driver(Settings::from_env()).ok()) {
    std::printf("[skip] a CUDA driver is installed here\n");
    return;
  }
  const Outcome none = driftc_with("", "run zoo:mlp --executor cuda", "nowhere");
  CHECK(none.code == 3);
  CHECK(has(none.err, "--executor cuda: the CUDA driver was not found"));
  CHECK(has(none.err, "--executor ptx runs the same kernels"));
}

TEST_CASE("cuda executor: bench takes the device's time") {
  for (const char* mode : {"default", "reduce-overhead"}) {
    const Outcome bench =
        driftc_with("", "bench " + kBlock + "--runs 1 --json - --executor cuda --mode " + mode);
    REQUIRE_MESSAGE(bench.code == 0, bench.err);
    const Json json = Json::parse(bench.out);
    CHECK(has(json["measured"], "device time on NVIDIA H200"));
    double total = 0;  // the fake's clock: a millisecond a launch
    for (const Json& kernel : json["kernels"]) total += kernel["ms"].get<double>();
    CHECK(json["arms_ms"]["compiled"] == total);
  }
}

TEST_CASE("cuda executor: doctor names the driver and the GPU") {
  const Outcome works = driftc_with("", "doctor");
  CHECK(has(works.out, "for CUDA 13.0 at "));
  CHECK(has(works.out, "NVIDIA H200, compute capability 9.0, the first of 1 GPU"));
  CHECK(has(driftc_with("no-gpu", "doctor").out, "none (CUDA_ERROR_NO_DEVICE: no CUDA-capable"));
  CHECK(has(driftc_with("", "doctor", "incomplete").out, "it has no cuInit"));
  CHECK(has(driftc_with("old", "doctor").out, "is too old"));
  CHECK(Json::parse(driftc_with("", "doctor --json -").out)["gpu"] ==
        "NVIDIA H200, compute capability 9.0");
}

TEST_CASE("cuda executor: the profile of a GPU") {
  auto name = [](const char* title, int major, int minor) {
    const auto profile = cuda::profile_of({title, major, minor, 1, 0});
    return profile.ok() ? profile->name : "error";
  };
  CHECK(name("NVIDIA H200", 9, 0) == "h200");
  CHECK(name("NVIDIA H100 80GB HBM3", 9, 0) == "h100");
  CHECK(name("NVIDIA A100-SXM4-80GB", 8, 0) == "a100");
  CHECK(name("NVIDIA GeForce RTX 4090", 8, 9) == "rtx4090");
  CHECK(name("NVIDIA L40S", 8, 9) == "l40s");
  CHECK(name("Tesla T4", 7, 5) == "t4");
  CHECK(name("NVIDIA A10", 8, 6) == "a100");  // the newest that is not newer
  CHECK(name("NVIDIA GH200 480GB", 9, 0) == "h200");
  CHECK(name("GeForce GTX 1080", 6, 1) == "error");
  // NVRTC 13 makes no code for it: its profile lends the model of its tensor cores only.
  CHECK(name("Tesla V100-SXM2-16GB", 7, 0) == "v100");
  CHECK(!cuda::runs_kernels_of({"Tesla V100-SXM2-16GB", 7, 0, 80, 0}, tests::device("v100")));
  CHECK(cuda::runs_kernels_of({"NVIDIA B200", 10, 0, 148, 0}, tests::device("h200")));
}
