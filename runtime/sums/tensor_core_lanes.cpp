// x86: AVX2 and AVX-512; other targets as Highway finds them. Scalable vectors are not needed.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/sums/tensor_core_lanes.cpp"
#include "runtime/sums/tensor_core_lanes.h"

#include <hwy/foreach_target.h>  // includes this file once per target
#include <hwy/highway.h>

#include <algorithm>

#include "ir/support/assert.h"
#include "runtime/sums/tensor_core_block_inl.h"

HWY_BEFORE_NAMESPACE();
namespace driftc::runtime::HWY_NAMESPACE {
namespace {

// fn(i, n, values, codes) for vectors of `values`, which become operands; the last has n elements.
template <TcFormat kFormat, class Fn>
HWY_INLINE void for_operands(std::int64_t count, float* values, const Fn& fn) {
  const TcF df;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(df));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const VF v = tc_operand<kFormat>(hn::LoadU(df, values + i));
    hn::StoreU(v, df, values + i);
    fn(i, lanes, tc_code<kFormat>(v));
  }
  if (i == count) return;
  HWY_ALIGN float rest[kTcLanes] = {};
  std::copy(values + i, values + count, rest);
  const VF v = tc_operand<kFormat>(hn::Load(df, rest));
  hn::Store(v, df, rest);
  std::copy_n(rest, count - i, values + i);
  fn(i, count - i, tc_code<kFormat>(v));
}

template <TcFormat kFormat>
void lanes_of(std::int64_t count, float* values, std::uint32_t* codes) {
  for_operands<kFormat>(count, values, [&](std::int64_t i, std::int64_t n, VI code) HWY_ATTR {
    const TcU du;
    const auto word = hn::BitCast(du, tc_lane_word(code));
    if (n == static_cast<std::int64_t>(hn::Lanes(du))) return hn::StoreU(word, du, codes + i);
    HWY_ALIGN std::uint32_t all[kTcLanes];
    hn::Store(word, du, all);
    std::copy_n(all, n, codes + i);
  });
}

template <TcFormat kFormat>
void rows_of(std::int64_t rows, std::int64_t steps, float* values, std::uint32_t* codes) {
  const std::int64_t pairs = tensor_core_pairs(rows);
  std::int64_t r = 0;
  const auto put = [&](std::int32_t code) {
    const auto half = static_cast<std::uint32_t>(code - 127) & 0xFFFF;
    std::uint32_t& word = codes[r / 2];
    word = r % 2 == 0 ? half | half << 16 : (word & 0xFFFF) | half << 16;
    if (++r < rows) return;
    r = 0;
    codes += pairs;
  };
  for_operands<kFormat>(rows * steps, values, [&](std::int64_t, std::int64_t n, VI code) HWY_ATTR {
    HWY_ALIGN std::int32_t all[kTcLanes];
    hn::Store(code, TcI(), all);
    for (std::int64_t j = 0; j < n; ++j) put(all[j]);
  });
}

void prepare_lanes(TcFormat format, std::int64_t count, float* values, std::uint32_t* codes) {
  if (format == TcFormat::kF16) return lanes_of<TcFormat::kF16>(count, values, codes);
  if (format == TcFormat::kBf16) return lanes_of<TcFormat::kBf16>(count, values, codes);
  return lanes_of<TcFormat::kTf32>(count, values, codes);
}
void prepare_rows(TcFormat format, std::int64_t rows, std::int64_t steps, float* values,
                  std::uint32_t* codes) {
  if (format == TcFormat::kF16) return rows_of<TcFormat::kF16>(rows, steps, values, codes);
  if (format == TcFormat::kBf16) return rows_of<TcFormat::kBf16>(rows, steps, values, codes);
  return rows_of<TcFormat::kTf32>(rows, steps, values, codes);
}

// Rows from `row` on and the vector of lanes from `lane` on.
template <int kSourceRows, bool kOffsets>
struct PanelSource {
  static constexpr int kRows = kSourceRows, kColumns = 1;
  static constexpr int kSteps = 0;
  const TcTile& tile;
  int row, lane;

  struct Steps {
    const float* lanes;
    const std::uint32_t* codes;
    const std::int64_t* offsets;  // or null
    const float* rows;
    const std::uint32_t* row_words;
    std::int64_t row_step, pair_step;

    HWY_INLINE std::int64_t offset(int i) const { return kOffsets ? offsets[i] : i * kTcLanes; }
    HWY_INLINE bool skip(int i) const { return kOffsets && offset(i) < 0; }
    HWY_INLINE VI column_codes(int i, int) const {
      return hn::BitCast(TcI(), hn::LoadU(TcU(), codes + offset(i)));
    }
    HWY_INLINE VF column_value(int i, int) const { return hn::LoadU(TcF(), lanes + offset(i)); }
    HWY_INLINE VI row_codes(int i, int pair) const {
      return hn::Set(TcI(), static_cast<std::int32_t>(row_words[i * pair_step + pair]));
    }
    HWY_INLINE VF row_value(int i, int r) const { return hn::Set(TcF(), rows[i * row_step + r]); }
    float column_at(int i, int, int j) const { return lanes[offset(i) + j]; }
    float row_at(int i, int r, int) const { return rows[i * row_step + r]; }
  };
  HWY_INLINE Steps from(std::int64_t k0) const {
    const std::int64_t first = lane + (kOffsets ? 0 : k0 * kTcLanes);
    const std::int64_t pairs = tensor_core_pairs(tile.rows);
    return {tile.lanes + first,
            tile.lane_codes + first,
            kOffsets ? tile.offsets + k0 : nullptr,
            tile.row_values + k0 * tile.rows + row,
            tile.row_codes + k0 * pairs + row / 2,
            tile.rows,
            pairs};
  }
};

template <int kLength, bool kOffsets, bool kHalf, int kRows>
void rows_of_tile(const TensorCore& core, const TcTile& tile, int row, int lane) {
  const TcF df;
  using Source = PanelSource<kRows, kOffsets>;
  const Source source{tile, row, lane};
  float* acc = tile.acc + row * tile.acc_step + lane;
  VF v[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) v[r] = hn::LoadU(df, acc + r * tile.acc_step);
  TcBlocks<kLength, kHalf, Source>(core, source).chain(tile.steps, v);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) hn::StoreU(v[r], df, acc + r * tile.acc_step);
}

template <int kLength, bool kOffsets, bool kHalf>
void tile_of(const TensorCore& core, const TcTile& tile) {
  for (int lane = 0; lane < kTcLanes; lane += static_cast<int>(hn::Lanes(TcF()))) {
    int row = 0;
    for (; row + kTcTogether <= tile.rows; row += kTcTogether)
      rows_of_tile<kLength, kOffsets, kHalf, kTcTogether>(core, tile, row, lane);
    for (; row + 2 <= tile.rows; row += 2)
      rows_of_tile<kLength, kOffsets, kHalf, 2>(core, tile, row, lane);
    if (row < tile.rows) rows_of_tile<kLength, kOffsets, kHalf, 1>(core, tile, row, lane);
  }
}

template <int kLength>
void with_length(const TensorCore& core, const TcTile& tile) {
  const bool half = core.accumulator == TcAccumulator::kF16;
  if (tile.offsets) {
    return half ? tile_of<kLength, true, true>(core, tile)
                : tile_of<kLength, true, false>(core, tile);
  }
  return half ? tile_of<kLength, false, true>(core, tile)
              : tile_of<kLength, false, false>(core, tile);
}

void run_tile(const TensorCore& core, int length, const TcTile& tile) {
  if (length == 4) return with_length<4>(core, tile);
  if (length == 8) return with_length<8>(core, tile);
  return with_length<16>(core, tile);
}

}  // namespace
}  // namespace driftc::runtime::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace driftc::runtime {

HWY_EXPORT(prepare_lanes);
HWY_EXPORT(prepare_rows);
HWY_EXPORT(run_tile);

void tensor_core_lanes(TcFormat format, std::int64_t count, float* values, std::uint32_t* codes) {
  HWY_DYNAMIC_DISPATCH(prepare_lanes)(format, count, values, codes);
}

void tensor_core_rows(TcFormat format, std::int64_t rows, std::int64_t steps, float* values,
                      std::uint32_t* codes) {
  HWY_DYNAMIC_DISPATCH(prepare_rows)(format, rows, steps, values, codes);
}

void tensor_core_tile(const TensorCore& core, int instruction_k, const TcTile& tile) {
  const int length = std::min(core.length, instruction_k);
  DRIFTC_ASSERT(length == 4 || length == 8 || length == 16, "length of a block");
  HWY_DYNAMIC_DISPATCH(run_tile)(core, length, tile);
}

}  // namespace driftc::runtime
#endif
