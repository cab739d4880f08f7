// The accuracy of direct sums and of Winograd on known layers: measured anchors that were obtained
// by another program. `./dev accuracy` prints the table of docs/numerics.md.
#include "tests/support/conv_accuracy.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>

using namespace driftc;
using tests::ErrorSummary;
using tests::kVggLayers;
using tests::Layer;

namespace {

constexpr ir::Transform kDirect{}, kF2{2, ir::Precision::kF32}, kF4{4, ir::Precision::kF32};

// Max and mean error: direct (crs.fma), F(2,3), F(4,3). CPU runs of a program that shares no code
// with this one.
struct Anchor {
  ErrorSummary direct, f2, f4;
};
constexpr std::array kAnchors = {Anchor{{4.5e-5, 2.4e-6}, {1.5e-5, 1.6e-6}, {3.7e-4, 8.0e-6}},
                                 Anchor{{7.6e-5, 4.8e-6}, {2.3e-5, 3.1e-6}, {3.8e-4, 1.5e-5}},
                                 Anchor{{1.3e-4, 9.4e-6}, {4.3e-5, 6.0e-6}, {8.5e-4, 3.0e-5}},
                                 Anchor{{2.3e-4, 1.9e-5}, {6.7e-5, 1.2e-5}, {1.0e-3, 5.7e-5}},
                                 Anchor{{1.8e-4, 1.7e-5}, {7.4e-5, 1.2e-5}, {1.1e-3, 5.1e-5}}};

void hold(const std::string& what, const ErrorSummary& got, const ErrorSummary& anchor,
          double max_factor) {
  CAPTURE(what);
  CAPTURE(got.mean);
  CAPTURE(got.max);
  CHECK(std::abs(got.mean / anchor.mean - 1) <= 0.05);
  CHECK(got.max <= max_factor * anchor.max);
  CHECK(got.max >= anchor.max / max_factor);
}

std::string table(int seeds) {
  std::string out =
      "| layer, 3x3 | direct `crs.fma` | F(2,3) | F(4,3) | F(4,3), filters in f64 |\n"
      "|---|---|---|---|---|\n";
  auto cell = [](const ErrorSummary& e) { return fmt::format("{:.1e} / {:.2e}", e.max, e.mean); };
  for (std::size_t i = 0; i < kVggLayers.size(); ++i) {
    const Layer& layer = kVggLayers[i];
    const ErrorSummary direct = summarise(layer, kDirect, seeds), f2 = summarise(layer, kF2, seeds),
                       f4 = summarise(layer, kF4, seeds),
                       f4_f64 = summarise(layer, {4, ir::Precision::kF64}, seeds);
    const std::string name = fmt::format("C={}, {}x{}", layer.channels, layer.extent, layer.extent);
    hold(name + " direct", direct, kAnchors[i].direct, 1.5);
    hold(name + " F2", f2, kAnchors[i].f2, 1.5);
    hold(name + " F4", f4, kAnchors[i].f4, 1.5);
    CHECK(f2.mean < direct.mean);
    CHECK(direct.mean < f4.mean);
    CHECK(f2.max < direct.max);
    CHECK(direct.max < f4.max);
    out += fmt::format("| {} | {} | {} | {} | {} |\n", name, cell(direct), cell(f2), cell(f4),
                       cell(f4_f64));
  }
  return out;
}

std::string single_tiles(int seeds) {
  const auto mean = [&](int m, const ir::Transform& transform) {
    double sum = 0;
    for (int seed = 0; seed < seeds; ++seed)
      sum += tests::single_tile_error(m, transform, static_cast<std::uint64_t>(seed)) / seeds;
    return sum;
  };
  const double direct = mean(4, kDirect), f2 = mean(2, kF2), f4 = mean(4, kF4);
  CAPTURE(direct);
  CAPTURE(f2);
  CAPTURE(f4);
  CHECK(std::abs(direct / 4.64e-8 - 1) < 0.05);
  CHECK(std::abs(f2 / 7.66e-8 - 1) < 0.05);
  CHECK(std::abs(f4 / 4.06e-7 - 1) < 0.05);
  return fmt::format(
      "Single tiles, one channel, multiply and add rounded separately: direct {:.2e}, "
      "F(2,3) {:.2e}, F(4,3) {:.2e}.\n",
      direct, f2, f4);
}

}  // namespace

TEST_CASE("accuracy: direct, F(2,3) and F(4,3) on the smallest VGG layer, one seed") {
  const Layer layer = kVggLayers[4];
  const ErrorSummary direct = summarise(layer, kDirect, 1), f2 = summarise(layer, kF2, 1),
                     f4 = summarise(layer, kF4, 1);
  // The mean of 1568 outputs scatters more than that of a table row, and one seed's maximum too.
  hold("direct", direct, kAnchors[4].direct, 2);
  hold("F2", f2, kAnchors[4].f2, 2);
  hold("F4", f4, kAnchors[4].f4, 2);
  CHECK(f2.mean < direct.mean);
  CHECK(direct.mean < f4.mean);
  single_tiles(1);
}

TEST_SUITE("accuracy") {
  TEST_CASE("accuracy: the table of docs/numerics.md" * doctest::skip()) {
    const std::string text = table(5) + "\n" + single_tiles(4);
    std::cout << text;
    const std::string path = std::string(DRIFTC_SOURCE_DIR) + "/docs/numerics.md";
    std::ostringstream file;
    file << std::ifstream(path, std::ios::binary).rdbuf();
    std::string doc = file.str();
    const std::string begin = "<!-- ./dev accuracy -->\n", end = "<!-- end -->";
    const std::size_t at = doc.find(begin), stop = doc.find(end, at);
    REQUIRE(at != std::string::npos);
    REQUIRE(stop != std::string::npos);
    const std::string have = doc.substr(at + begin.size(), stop - at - begin.size());
    if (std::getenv("DRIFTC_BLESS") != nullptr) {
      doc.replace(at + begin.size(), have.size(), text);
      std::ofstream(path, std::ios::binary) << doc;
    } else {
      CHECK_MESSAGE(have == text,
                    "docs/numerics.md is stale; DRIFTC_BLESS=1 ./dev accuracy rewrites it");
    }
  }
}
