// The time model: figures worked out by hand, and its launches held against those of code
// generation. No kernel is compiled.
#include "runtime/study/roofline.h"

#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "codegen/lower.h"
#include "codegen/resources.h"
#include "passes/kernel_choice.h"
#include "passes/tiling.h"
#include "runtime/study/compile.h"
#include "runtime/study/cost.h"
#include "tests/support/services.h"

using namespace driftc;
namespace study = runtime::study;

namespace {

study::Occupancy resident(const std::string& device, int threads, int registers,
                          std::int64_t shared) {
  return study::occupancy(tests::device(device), threads, registers, shared);
}

double clocks(const study::LaunchWork& launch, const std::string& device) {
  return (study::estimated_seconds(launch, tests::device(device)) - study::kLaunchSeconds) * 1e6 *
         tests::device(device).sm_clock_mhz;
}

ir::Graph small_convolution() {
  return tests::parse(R"(gir 1
graph @g(%x: f32[2,70,13,11]) {
  %w = constant f32[50,70,3,3] random(seed=1, he)
  %b = constant f32[50] random(seed=2, he)
  %c = conv2d %x, %w, %b {pad=[1,1,1,1]}
  %r = relu %c
  return %r
})");
}

}  // namespace

// By the rules of cuda_occupancy.h: registers in units of 256 a warp, a quarter of them per
// scheduler, shared memory in units of 128 (256 on T4) bytes and 1 KiB more per block from 8.0 on.
TEST_CASE("roofline: occupancy, by hand") {
  // 2048 threads / 256.
  CHECK(resident("h200", 256, 32, 0).blocks == 8);
  CHECK(resident("h200", 256, 32, 0).limit == "threads");
  // 33 registers: 1056 -> 1280 a warp, 16384 / 1280 = 12 warps a scheduler, 48 of 8 a block.
  CHECK(resident("h200", 256, 33, 0).blocks == 6);
  CHECK(resident("h200", 256, 33, 0).limit == "registers");
  // 4096 a warp: 4 warps a scheduler, 16 of 8 a block.
  CHECK(resident("a100", 256, 128, 0).blocks == 2);
  CHECK(resident("a100", 256, 255, 0).blocks == 1);
  // 255 registers: 8192 a warp, 2 a scheduler; 1024 threads have 32 warps.
  CHECK(resident("a100", 1024, 255, 0).blocks == 0);
  // 48 KiB + 1 KiB of 228, of 164, of 100; on a T4 48 of 64.
  CHECK(resident("h200", 128, 32, 48 << 10).blocks == 4);
  CHECK(resident("h200", 128, 32, 48 << 10).limit == "shared memory");
  CHECK(resident("a100", 128, 32, 48 << 10).blocks == 3);
  CHECK(resident("rtx4090", 128, 32, 48 << 10).blocks == 2);
  CHECK(resident("t4", 128, 32, 48 << 10).blocks == 1);
  CHECK(resident("t4", 32, 16, 0).blocks == 16);
  CHECK(resident("t4", 32, 16, 0).limit == "blocks");
  // Impossible ones.
  CHECK(resident("h200", 1025, 32, 0).blocks == 0);
  CHECK(resident("h200", 256, 256, 0).blocks == 0);
  CHECK(resident("t4", 256, 32, 65 << 10).blocks == 0);
}

TEST_CASE("roofline: waves, the tail, latency and bandwidth, by hand") {
  study::LaunchWork launch;
  launch.threads = 256;
  launch.registers = 128;     // two blocks on an SM of an h200
  launch.products = 128'000;  // 1000 clocks of the 128 fma
  launch.waits = 2;           // 1000 clocks
  // One wave of 132 SMs x 2 blocks: max(2 x 1000, 1000 + 1000).
  launch.blocks = 264;
  CHECK(clocks(launch, "h200") == doctest::Approx(2000));
  // One block on an SM: 1000 of waiting and 1000 of work. The 265th block is a wave of its own.
  launch.blocks = 132;
  CHECK(clocks(launch, "h200") == doctest::Approx(2000));
  launch.blocks = 265;
  CHECK(clocks(launch, "h200") == doctest::Approx(4000));
  // No latency to hide: twice the blocks, twice the time.
  launch.waits = 0;
  launch.blocks = 132;
  CHECK(clocks(launch, "h200") == doctest::Approx(1000));
  launch.blocks = 264;
  CHECK(clocks(launch, "h200") == doctest::Approx(2000));
  // 64 fma a clock on an A100, of f64 32; a T4 has 2 of them.
  launch.blocks = 108;
  CHECK(clocks(launch, "a100") == doctest::Approx(2000));
  launch.pipe = study::Pipe::kF64;
  CHECK(clocks(launch, "a100") == doctest::Approx(4000));
  launch.blocks = 40;
  CHECK(clocks(launch, "t4") == doctest::Approx(64'000));
  // Shared memory: 32 words a clock; L2: 32 bytes; issue: 128 instructions, 32 of a single warp.
  study::LaunchWork other;
  other.threads = 32;
  other.waits = 0;
  other.shared_words = 3200;
  CHECK(clocks(other, "h200") == doctest::Approx(100));
  other.l2_bytes = 6400;
  CHECK(clocks(other, "h200") == doctest::Approx(200));
  other.instructions = 9600;
  CHECK(clocks(other, "h200") == doctest::Approx(300));
  // 48 MB at 4800 GB/s are 10 us, and a launch.
  other.memory_bytes = 48e6;
  CHECK(study::estimated_seconds(other, tests::device()) == doctest::Approx(11e-6));
  // No tf32 on a T4; a block that does not fit.
  other.pipe = study::Pipe::kTensorTf32;
  CHECK(!std::isfinite(study::estimated_seconds(other, tests::device("t4"))));
  other.registers = 256;
  CHECK(!std::isfinite(study::estimated_seconds(other, tests::device())));
}

TEST_CASE("roofline: what ptxas says is read from NVRTC's log") {
  const auto found = codegen::resources_of(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'k' for 'sm_90'\n"
      "ptxas info    : Function properties for k\n"
      "ptxas         .     16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n"
      "ptxas info    : Used 26 registers, used 1 barriers, 4096 bytes smem\n");
  REQUIRE(found.has_value());
  CHECK(found->registers == 26);
  CHECK(found->shared_bytes == 4096);
  CHECK(found->spilled_bytes == 8);
  CHECK(!codegen::resources_of("").has_value());
  CHECK(!codegen::resources_of("ptxas info    : Used 26 registers").has_value());
}

TEST_CASE("roofline: its launches are those of code generation, for every algorithm") {
  const ir::Graph graph = small_convolution();
  const auto base =
      study::compile(graph, tests::settings("", "none,+fuse-epilogue"), tests::services());
  REQUIRE(base.ok());
  const study::PairSettings settings = tests::settings("max-autotune");
  const study::TuningRequest request{graph, base->graph, settings};
  const auto tasks = study::tuning_tasks(request);
  REQUIRE(tasks.size() == 1);
  const ir::Node& node = base->graph.node(tasks[0].node);
  std::vector<ir::TensorType> operands;
  for (const ir::ValueId v : node.operands) operands.push_back(base->graph.value(v).type);
  const auto candidates = study::candidates_of(request, tasks[0].node);
  CHECK(candidates.size() > 500);
  std::set<ir::Algorithm> seen;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    // Every algorithm, and a sample of tiles.
    if (!seen.insert(candidates[i].algorithm).second && i % 37 != 0) continue;
    CAPTURE(to_string(candidates[i]));
    const ir::Kernel kernel = passes::with_choice(*node.kernel, candidates[i]);
    ir::Graph whole = base->graph;
    whole.mutable_node(tasks[0].node).kernel = std::make_shared<const ir::Kernel>(kernel);
    const auto lowered = codegen::lower(whole, tasks[0].node);
    REQUIRE_MESSAGE(lowered.ok(), (lowered.ok() ? "" : lowered.error().render()));
    const auto works =
        study::launch_works(kernel, operands, base->graph.value(node.result).type, settings.device);
    REQUIRE(works.size() == lowered->launches.size());
    int sums = 0;
    double products = 0;
    for (std::size_t l = 0; l < works.size(); ++l) {
      const codegen::Launch& launch = lowered->launches[l];
      CAPTURE(launch.entry);
      CHECK(works[l].blocks == double(launch.grid[0]) * launch.grid[1] * launch.grid[2]);
      CHECK(works[l].threads ==
            static_cast<int>(launch.block[0] * launch.block[1] * launch.block[2]));
      sums += works[l].sums;
      products += works[l].blocks * works[l].products;
    }
    CHECK(sums == 1);
    // Tiles that reach over the edge do more than the problem, never less.
    const double needed = 2.0 * 13 * 11 * 50 * 70 * 9;
    const int tile = ir::winograd_tile(candidates[i].algorithm);
    CHECK(products >= (tile == 0 ? needed : needed / (tile == 2 ? 2.25 : 4)));
  }
  CHECK(seen.size() == 7);
}

TEST_CASE("roofline: strict says what it costs against default") {
  const ir::Graph graph = small_convolution();
  const study::PairSettings strict = tests::settings("strict");
  const auto compiled = study::compile(graph, strict, tests::services());
  REQUIRE(compiled.ok());
  const auto time = study::time_against_default(graph, compiled->graph, strict, tests::services());
  REQUIRE(time.ok());
  REQUIRE(time->has_value());
  const auto standard = study::compile(graph, tests::settings("default"), tests::services());
  CHECK((*time)->default_seconds ==
        study::estimated_seconds(standard->graph, strict.device).seconds);
  CHECK((*time)->seconds == study::estimated_seconds(compiled->graph, strict.device).seconds);
  CHECK((*time)->interpreted == 0);
  CHECK(!study::time_against_default(graph, standard->graph, tests::settings("default"),
                                     tests::services())
             ->has_value());
}
