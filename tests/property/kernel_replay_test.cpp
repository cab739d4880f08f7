// kernel == replay: random kernels through NVRTC and the PTX executor against scalar loops that
// follow the declared order, bit for bit. Shapes are random, sources are few (emit_families.h).
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/unit/emit_families.h"

using namespace driftc;
using namespace driftc::test;

namespace {

// Every `step`-th family.
void replay(const char* name, std::span<const Family> families, std::uint64_t cases,
            std::size_t step = 1) {
  if (!kernels_available(name)) return;
  for (std::size_t i = 0; i < families.size(); i += step) {
    const Family& family = families[i];
    for (std::uint64_t seed = 1; seed <= cases; ++seed) {
      Draw draw(seed);
      const KernelCase test = family.make(draw);
      // One case in three with -0, subnormals, Inf and NaN; the last on integers.
      const bool integers = seed == cases && family.distribution == Distribution::kRandom;
      const auto fault = check_case(
          test, seed, integers ? Distribution::kIntegers : family.distribution, seed % 3 == 2);
      CHECK_MESSAGE(fault == std::optional<std::string>(""),
                    fmt::format("{}, seed {}: {}", family.name, seed, fault.value_or("no kernel")));
    }
  }
  const auto [kernels, compiled] = kernel_counts();
  MESSAGE("kernels so far: " << kernels << ", compiled by NVRTC: " << compiled);
}

}  // namespace

// A part of the families here, all of them in soak; networks of the other tests have the same kernels.
TEST_CASE("kernel == replay: convolutions") { replay("convolutions", conv_families(), 4, 4); }
TEST_CASE("kernel == replay: Winograd and im2col") {
  replay("Winograd and im2col", algorithm_families(), 6);
}
TEST_CASE("kernel == replay: matrix products") {
  replay("matrix products", matmul_families(), 4, 3);
}
TEST_CASE("kernel == replay: elementwise, copies, pools, means, softmax") {
  replay("elementwise and others", other_families(), 4, 5);
}

TEST_SUITE("soak") {
  TEST_CASE("kernel == replay: every family, 50 random shapes each" * doctest::skip()) {
    replay("convolutions", conv_families(), 50);
    replay("matrix products", matmul_families(), 50);
    replay("elementwise and others", other_families(), 50);
    replay("every algorithm", all_algorithm_families(), 50);
  }
}
