#include "runtime/study/captures.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "ir/support/half.h"
#include "runtime/study/mma_probe.h"
#include "runtime/sums/tensor_core_lanes.h"

namespace driftc::runtime::study {
namespace {

bool equal(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

// The shortest instruction of the format that holds k products.
int instruction_k(const Capture& capture) {
  if (capture.format == TcFormat::kTf32 || capture.arch == "sm_70") return capture.k <= 4 ? 4 : 8;
  return capture.k <= 8 ? 8 : 16;
}

}  // namespace

Result<CaptureResult> check_capture(const Capture& capture, ThreadPool& pool) {
  CaptureResult result;
  const std::int64_t rows = capture.rows();
  const auto k = static_cast<std::size_t>(capture.k);
  for (const TcAccumulator accumulator : {TcAccumulator::kF32, TcAccumulator::kF16}) {
    const bool half = accumulator == TcAccumulator::kF16;
    const std::vector<float>& wanted = half ? capture.d16 : capture.d32;
    if (wanted.empty()) continue;
    const auto core = tensor_core(capture.arch, capture.format, accumulator);
    if (!core)
      return input_error(fmt::format("{}: {} has no such tensor core", capture.file, capture.arch));
    std::vector<float> c = capture.c;
    if (half)
      for (float& v : c) v = f16_to_f32(f32_to_f16_rne(v));
    result.outputs += rows;

    // One row of the file is one output; the fast model takes 16 rows as the lanes of one chain
    // each, of which lane i counts for scalar row i.
    for (std::int64_t r0 = 0; r0 < rows; r0 += kTcLanes) {
      const std::int64_t count = std::min<std::int64_t>(kTcLanes, rows - r0);
      const auto side = static_cast<std::size_t>(count);
      std::vector<float> lanes(k * kTcLanes, 0.0f), row_values(k * side);
      std::vector<std::uint32_t> lane_codes(lanes.size()), row_codes(row_values.size());
      std::array<float, std::size_t{kTcLanes} * kTcLanes> acc{};
      for (std::int64_t j = 0; j < count; ++j) {
        const auto row = static_cast<std::size_t>(r0 + j);
        for (std::size_t i = 0; i < k; ++i) {
          lanes[i * kTcLanes + static_cast<std::size_t>(j)] = capture.a[row * k + i];
          row_values[i * side + static_cast<std::size_t>(j)] = capture.b[row * k + i];
        }
        acc[static_cast<std::size_t>(j * kTcLanes + j)] = c[row];
      }
      tensor_core_lanes(capture.format, capture.k * kTcLanes, lanes.data(), lane_codes.data());
      tensor_core_rows(capture.format, count, capture.k, row_values.data(), row_codes.data());
      TcTile tile;
      tile.lanes = lanes.data();
      tile.lane_codes = lane_codes.data();
      tile.row_values = row_values.data();
      tile.row_codes = row_codes.data();
      tile.rows = static_cast<int>(count);
      tile.steps = capture.k;
      tile.acc = acc.data();
      tensor_core_tile(*core, instruction_k(capture), tile);
      for (std::int64_t j = 0; j < count; ++j) {
        const auto row = static_cast<std::size_t>(r0 + j);
        const float scalar = tensor_core_chain(*core, instruction_k(capture), c[row],
                                               std::span(capture.a).subspan(row * k, k),
                                               std::span(capture.b).subspan(row * k, k))
                                 .value;
        result.wrong_scalar += equal(scalar, wanted[row]) ? 0 : 1;
        result.wrong_lanes +=
            equal(acc[static_cast<std::size_t>(j * kTcLanes + j)], wanted[row]) ? 0 : 1;
      }
    }

    // Eight rows of the file per instruction, on the diagonal of its result.
    MmaInstruction in{capture.arch, capture.format, accumulator, instruction_k(capture)};
    std::vector<MmaProblem> problems;
    const auto ik = static_cast<std::size_t>(in.k);
    for (std::int64_t r0 = 0; r0 < rows; r0 += 8) {
      MmaProblem p{std::vector<float>(16 * ik), std::vector<float>(8 * ik),
                   std::vector<float>(16 * 8)};
      for (std::size_t j = 0; j < 8 && r0 + static_cast<std::int64_t>(j) < rows; ++j) {
        const std::size_t row = static_cast<std::size_t>(r0) + j;
        for (std::size_t i = 0; i < k; ++i) {
          p.a[j * ik + i] = capture.a[row * k + i];
          p.b[i * 8 + j] = capture.b[row * k + i];
        }
        p.c[j * 8 + j] = c[row];
      }
      problems.push_back(std::move(p));
    }
    DRIFTC_TRY(made, run_mma(in, problems, pool));
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto j = static_cast<std::size_t>(row % 8);
      if (!equal(made[static_cast<std::size_t>(row / 8)][j * 8 + j],
                 wanted[static_cast<std::size_t>(row)]))
        ++result.wrong_mma;
    }
  }
  return result;
}

}  // namespace driftc::runtime::study
