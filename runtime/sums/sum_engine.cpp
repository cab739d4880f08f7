#include "runtime/sums/sum_engine.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "ir/support/assert.h"
#include "ir/support/round.h"
#include "runtime/sums/tensor_core_lanes.h"

namespace driftc::runtime {
namespace {

float flush_subnormal(float x) {
  return std::abs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x;
}

// Slots of one tile should stay in the second-level cache.
constexpr std::int64_t kSlotBytes = 512 * 1024;

// Rows of one block interleaved, in the order of the plan's leaves.
template <int kRows, class T>
void pack(const std::vector<std::int32_t>& leaves, const T* a, const SumRows<T>& rows, T* to) {
  for (std::int32_t leaf : leaves) {
    if (leaf == ir::SumProgram::kZeroLeaf) {
      std::fill_n(to, kRows, T{0});
    } else {
      const T* from = a + leaf * rows.position_stride;
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) to[r] = from[r * rows.row_stride];
    }
    to += kRows;
  }
}

}  // namespace

template <class T>
const SumKernels<T>& SumEngine<T>::kernels() const {
  if constexpr (std::is_same_v<T, float>) {
    if (flush_) return flushing_sum_kernels();
  }
  return sum_kernels<T>();
}

template <class T>
SumEngine<T>::SumEngine(const SumPlan& plan, SumArith arith, bool flush, const SumRows<T>& rows,
                        ThreadPool& pool, const std::optional<MmaUnit>& mma)
    : plan_(plan),
      arith_(arith),
      flush_(flush),
      groups_(rows.groups),
      rows_(rows.rows),
      pool_(pool),
      mma_(mma) {
  int row_limit = kernels().max_rows(arith);
  vectors_ = SumKernels<T>::kMaxVectors;
  while (
      vectors_ > 1 &&
      kernels().table[static_cast<std::size_t>(arith)][0][static_cast<std::size_t>(vectors_ - 1)] ==
          nullptr)
    --vectors_;
  // Orders with very many chains alive at once get smaller tiles.
  const auto bytes = [&] {
    return static_cast<std::int64_t>(sizeof(T)) * plan.slots * row_limit * vectors_ *
           kernels().lanes;
  };
  while (bytes() > kSlotBytes && row_limit > 1) row_limit /= 2;
  if (bytes() > kSlotBytes) vectors_ = 1;

  std::size_t packed = 0, codes = 0;
  for (std::int64_t g = 0; g < groups_; ++g)
    for (std::int64_t row = 0; row < rows_;) {
      int size = row_limit;
      while (size > rows_ - row) size /= 2;
      blocks_.push_back({g, row, size, packed, codes});
      packed += static_cast<std::size_t>(size * leaves());
      codes += static_cast<std::size_t>(tensor_core_pairs(size) * leaves());
      row += size;
    }
  packed_ = Scratch<T>(packed);
  if (rows.a == nullptr) return;  // never read
  for_each(pool, static_cast<std::int64_t>(blocks_.size()), static_cast<std::int64_t>(packed),
           [&](std::size_t i, int) {
             const RowBlock& block = blocks_[i];
             const T* a = rows.a + block.group * rows.group_stride + block.row * rows.row_stride;
             T* to = packed_.data() + block.packed;
             switch (block.rows) {
               case 8:
                 return pack<8>(plan_.leaves, a, rows, to);
               case 4:
                 return pack<4>(plan_.leaves, a, rows, to);
               case 2:
                 return pack<2>(plan_.leaves, a, rows, to);
               default:
                 return pack<1>(plan_.leaves, a, rows, to);
             }
           });
  if constexpr (std::is_same_v<T, float>) {
    if (!mma_) return;
    packed_codes_ = Scratch<std::uint32_t>(codes);
    for_each(pool, static_cast<std::int64_t>(blocks_.size()), static_cast<std::int64_t>(packed),
             [&](std::size_t i, int) {
               const RowBlock& block = blocks_[i];
               tensor_core_rows(mma_->core.format, block.rows, leaves(),
                                packed_.data() + block.packed, packed_codes_.data() + block.codes);
             });
  }
}

// The leaves' operands of 16 columns are laid out side by side with their codes, once for all
// rows.
template <class T>
void SumEngine<T>::run_mma(const SumColumns<float>& columns, const SumStart<float>& start,
                           SumSink<float>& sink) const {
  if constexpr (std::is_same_v<T, float>) {
    const std::int64_t column_blocks = (columns.columns + kTcLanes - 1) / kTcLanes;
    const auto blocks_per_group = static_cast<std::int64_t>(blocks_.size()) / groups_;
    int largest = 1;
    for (const RowBlock& block : blocks_) largest = std::max(largest, block.rows);
    const auto panel = static_cast<std::size_t>(leaves() * kTcLanes);
    const auto slots = static_cast<std::size_t>(plan_.slots * largest * kTcLanes);
    const auto workers = static_cast<std::size_t>(pool_.threads());
    const Scratch<float> values((panel + slots + kTcLanes * 16) * workers);
    const Scratch<std::uint32_t> codes(panel * workers);
    const std::int64_t operations =
        groups_ * rows_ * columns.columns * std::max<std::int64_t>(1, leaves());
    for_each(pool_, groups_ * column_blocks, operations, [&](std::size_t index, int worker) {
      const std::int64_t group = static_cast<std::int64_t>(index) / column_blocks;
      const std::int64_t first = static_cast<std::int64_t>(index) % column_blocks * kTcLanes;
      const std::int64_t count = std::min<std::int64_t>(kTcLanes, columns.columns - first);
      float* lanes =
          values.data() + static_cast<std::size_t>(worker) * (panel + slots + kTcLanes * 16);
      float* sums = lanes + panel;
      std::uint32_t* lane_codes = codes.data() + static_cast<std::size_t>(worker) * panel;
      const float* b = columns.b + group * columns.group_stride + first;
      for (std::size_t i = 0; i < plan_.leaves.size(); ++i) {
        float* to = lanes + i * kTcLanes;
        if (plan_.leaves[i] == ir::SumProgram::kZeroLeaf)
          std::fill_n(to, kTcLanes, 0.0f);
        else
          std::copy_n(b + columns.offsets[static_cast<std::size_t>(plan_.leaves[i])], kTcLanes, to);
      }
      tensor_core_lanes(mma_->core.format, static_cast<std::int64_t>(panel), lanes, lane_codes);
      for (std::int64_t i = 0; i < blocks_per_group; ++i) {
        const RowBlock& block = blocks_[static_cast<std::size_t>(group * blocks_per_group + i)];
        const std::int64_t row = group * rows_ + block.row;
        const std::int64_t tile = std::int64_t{block.rows} * kTcLanes;
        TcTile job;
        job.rows = block.rows;
        for (const SumStep& step : plan_.steps) {
          float* slot = sums + step.slot * tile;
          if (step.kind == SumStep::Kind::kAdd) {
            const float* from = sums + step.from * tile;
            for (std::int64_t j = 0; j < tile; ++j)
              slot[j] =
                  step.flush
                      ? flush_subnormal(add_rn(flush_subnormal(slot[j]), flush_subnormal(from[j])))
                      : add_rn(slot[j], from[j]);
            continue;
          }
          const bool add = step.kind == SumStep::Kind::kChainAdd;
          float* acc = add ? sums + static_cast<std::int64_t>(slots) : slot;
          for (int r = 0; r < block.rows; ++r)
            for (std::int64_t c = 0; c < kTcLanes; ++c)
              acc[r * kTcLanes + c] =
                  step.starts_with_bias && start.bias != nullptr && c < count
                      ? start.bias[(row + r) * start.row_stride + (first + c) * start.column_stride]
                      : 0.0f;
          const auto begin = static_cast<std::size_t>(step.begin);
          job.lanes = lanes + begin * kTcLanes;
          job.lane_codes = lane_codes + begin * kTcLanes;
          job.row_values =
              packed_.data() + block.packed + begin * static_cast<std::size_t>(block.rows);
          job.row_codes = packed_codes_.data() + block.codes +
                          begin * static_cast<std::size_t>(tensor_core_pairs(block.rows));
          job.steps = step.end - step.begin;
          job.acc = acc;
          tensor_core_tile(mma_->core, mma_->k, job);
          if (add)
            for (std::int64_t j = 0; j < tile; ++j) slot[j] = add_rn(slot[j], acc[j]);
        }
        sink.store(row, first, {sums + plan_.result * tile, block.rows, count, kTcLanes});
      }
    });
  }
}

template <class T>
void SumEngine<T>::run(const SumColumns<T>& columns, const SumStart<T>& start,
                       SumSink<T>& sink) const {
  if (columns.columns == 0 || rows_ == 0) return;
  if constexpr (std::is_same_v<T, float>) {
    if (mma_) return run_mma(columns, start, sink);
  }
  const int lanes = kernels().lanes;
  // Blocks of equal width: 4 vectors are cut 2 + 2, since a tile of 1 is slow.
  const std::int64_t all_vectors = (columns.columns + lanes - 1) / lanes;
  const std::int64_t column_blocks = (all_vectors + vectors_ - 1) / vectors_;
  const std::int64_t width = (all_vectors + column_blocks - 1) / column_blocks * lanes;
  DRIFTC_ASSERT(width <= kColumnSlack, "tile wider than the slack behind b");

  // Rows are cut only when there are too few column blocks to share among the threads: with eight
  // jobs a thread, one too many for some of them is a ninth.
  const auto blocks_per_group = static_cast<std::int64_t>(blocks_.size()) / groups_;
  const std::int64_t jobs = groups_ * column_blocks;
  const std::int64_t wanted =
      pool_.threads() == 1 ? 1 : (std::int64_t{8} * pool_.threads() + jobs - 1) / jobs;
  const std::int64_t pieces = std::min(wanted, blocks_per_group);
  const std::int64_t per_piece = (blocks_per_group + pieces - 1) / pieces;

  std::vector<std::int64_t> offsets;
  offsets.reserve(plan_.leaves.size());
  for (std::int32_t leaf : plan_.leaves)
    offsets.push_back(
        leaf == ir::SumProgram::kZeroLeaf ? -1 : columns.offsets[static_cast<std::size_t>(leaf)]);

  const bool biased = start.bias != nullptr;
  int largest = 1;
  for (const RowBlock& block : blocks_) largest = std::max(largest, block.rows);
  const std::size_t tile = static_cast<std::size_t>(largest * width);
  const std::size_t per_worker = (static_cast<std::size_t>(plan_.slots) + 1) * tile;
  const Scratch<T> scratch(per_worker * static_cast<std::size_t>(pool_.threads()));
  const T zeros[kColumnSlack] = {};

  const std::int64_t operations =
      groups_ * rows_ * columns.columns * std::max<std::int64_t>(1, leaves());
  for_each(pool_, groups_ * column_blocks * pieces, operations, [&](std::size_t index, int worker) {
    const std::int64_t piece = static_cast<std::int64_t>(index) % pieces;
    const std::int64_t column_block = static_cast<std::int64_t>(index) / pieces % column_blocks;
    const std::int64_t group = static_cast<std::int64_t>(index) / pieces / column_blocks;
    const std::int64_t first = column_block * width;
    const std::int64_t count = std::min(width, columns.columns - first);
    if (count <= 0) return;
    const int vectors = static_cast<int>((count + lanes - 1) / lanes);
    T* slots = scratch.data() + static_cast<std::size_t>(worker) * per_worker;
    T* start_tile = slots + static_cast<std::size_t>(plan_.slots) * tile;

    SumTile<T> job;
    job.b = columns.b + group * columns.group_stride + first;
    job.offsets = offsets.data();
    job.zeros = zeros;
    job.steps = plan_.steps.data();
    job.step_count = static_cast<std::int32_t>(plan_.steps.size());
    job.slots = slots;
    job.start = biased ? start_tile : nullptr;
    const std::int64_t end = std::min(blocks_per_group, (piece + 1) * per_piece);
    for (std::int64_t i = piece * per_piece; i < end; ++i) {
      const RowBlock& block = blocks_[static_cast<std::size_t>(group * blocks_per_group + i)];
      const std::int64_t row = group * rows_ + block.row;
      const std::int64_t stride = vectors * lanes;
      if (biased)
        for (int r = 0; r < block.rows; ++r)
          for (std::int64_t c = 0; c < stride; ++c)
            start_tile[r * stride + c] =
                c < count
                    ? start.bias[(row + r) * start.row_stride + (first + c) * start.column_stride]
                    : T{0};
      job.a = packed_.data() + block.packed;
      kernels().get(arith_, block.rows, vectors)(job);
      sink.store(row, first,
                 {slots + plan_.result * block.rows * stride, block.rows, count, stride});
    }
  });
}

template class SumEngine<float>;
template class SumEngine<double>;

}  // namespace driftc::runtime
