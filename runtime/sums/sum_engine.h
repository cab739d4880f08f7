// Evaluates many sums that share one plan: out[row][column] = sum over leaves p of a[row][p] *
// b[p][column]. Convolution, matmul, pooling, means and softmax all come here; what differs is how
// they lay out `b`. Bits are those of the plan, whatever the tile, target and thread count.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "runtime/sums/parallel.h"
#include "runtime/sums/sum_kernel.h"
#include "runtime/sums/sum_plan.h"
#include "runtime/sums/tensor_core.h"

namespace driftc::runtime {

// Columns that may be read behind the last one: every b buffer ends with this many readable
// elements.
inline constexpr std::int64_t kColumnSlack = 64;

// The rows: weights. Groups have rows of their own and columns of their own.
template <class T>
struct SumRows {
  const T* a = nullptr;  // null for arithmetics without products
  std::int64_t groups = 1, rows = 1;
  std::int64_t group_stride = 0, row_stride = 0, position_stride = 1;
};

// The columns. Element (position, column) of group g is b[g * group_stride + offsets[position] +
// column].
template <class T>
struct SumColumns {
  const T* b = nullptr;
  std::int64_t columns = 0, group_stride = 0;
  std::span<const std::int64_t> offsets;
};

// Start value of chains with a bias; rows count through all groups. Null: +0.
template <class T>
struct SumStart {
  const T* bias = nullptr;
  std::int64_t row_stride = 0, column_stride = 0;
};

// A tile of finished sums: rows x columns, rows `stride` apart.
template <class T>
struct SumBlock {
  const T* sums = nullptr;
  std::int64_t rows = 0, columns = 0, stride = 0;
  const T* row(std::int64_t r) const { return sums + r * stride; }
};

// Receives the sums; called from several threads, never twice for the same element.
template <class T>
class SumSink {
 public:
  virtual ~SumSink() = default;
  // The block's first element is (row, column); rows count through all groups.
  virtual void store(std::int64_t row, std::int64_t column, const SumBlock<T>& block) = 0;
};

// Chains of an mma order: leaves in blocks of a tensor core (f32 only; operands already rounded to
// its format).
struct MmaUnit {
  TensorCore core;
  int k = 0;  // of the instruction
};

template <class T>
class SumEngine {
 public:
  // Packs the rows. `plan` must outlive the engine. `flush`: subnormals become zero (f32 only).
  // `mma`: chains run on that tensor core instead of `arith`.
  SumEngine(const SumPlan& plan, SumArith arith, bool flush, const SumRows<T>& rows,
            ThreadPool& pool, const std::optional<MmaUnit>& mma = std::nullopt);
  void run(const SumColumns<T>& columns, const SumStart<T>& start, SumSink<T>& sink) const;

 private:
  struct RowBlock {
    std::int64_t group, row;  // row within the group
    int rows;
    std::size_t packed;  // offset into packed_
    std::size_t codes;   // offset into packed_codes_
  };
  const SumKernels<T>& kernels() const;
  void run_mma(const SumColumns<float>& columns, const SumStart<float>& start,
               SumSink<float>& sink) const;
  std::int64_t leaves() const { return static_cast<std::int64_t>(plan_.leaves.size()); }

  const SumPlan& plan_;
  SumArith arith_;
  bool flush_;
  std::int64_t groups_, rows_;
  ThreadPool& pool_;
  int vectors_ = 1;
  std::vector<RowBlock> blocks_;
  std::optional<MmaUnit> mma_;
  Scratch<T> packed_;
  Scratch<std::uint32_t> packed_codes_;  // mma only
};

extern template class SumEngine<float>;
extern template class SumEngine<double>;

}  // namespace driftc::runtime
