// x86: scalar (software fma is the limit there), AVX2, AVX-512. Scalable vectors cannot be held in
// arrays.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/sums/sum_kernel.cpp"
#include "runtime/sums/sum_kernel.h"

#include <hwy/foreach_target.h>  // includes this file once per target
#include <hwy/highway.h>

#include <limits>

#include "ir/support/round.h"

#define DRIFTC_UNROLL _Pragma("GCC unroll 8")

HWY_BEFORE_NAMESPACE();
namespace driftc::runtime::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// a * b + c with one rounding, on every target.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V fma_lanes(D d, V a, V b, V c) {
#if HWY_NATIVE_FMA
  (void)d;
  return hn::MulAdd(a, b, c);
#else
  using T = hn::TFromD<D>;
  HWY_ALIGN T x[HWY_MAX_BYTES / sizeof(T)], y[HWY_MAX_BYTES / sizeof(T)],
      z[HWY_MAX_BYTES / sizeof(T)];
  hn::Store(a, d, x);
  hn::Store(b, d, y);
  hn::Store(c, d, z);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) z[i] = fma_rn(x[i], y[i], z[i]);
  return hn::Load(d, z);
#endif
}

// Subnormal -> zero of the same sign.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V flushed_lanes(D d, V v) {
  using T = hn::TFromD<D>;
  const V least = hn::Set(d, std::numeric_limits<T>::min());
  return hn::IfThenElse(hn::Lt(hn::Abs(v), least), hn::CopySign(hn::Zero(d), v), v);
}

// One leaf of a chain: sum (and its Kahan error) after adding a * b, or b where the arithmetic has
// no products.
template <SumArith kArith, class D, class V = hn::Vec<D>>
HWY_INLINE void leaf(D d, V a, V b, V& sum, V& error) {
  if constexpr (kArith == SumArith::kFma) {
    sum = fma_lanes(d, a, b, sum);
  } else if constexpr (kArith == SumArith::kMulAdd) {
    sum = hn::Add(sum, hn::Mul(a, b));
  } else if constexpr (kArith == SumArith::kAdd) {
    sum = hn::Add(sum, b);
  } else {
    V product = b;
    if constexpr (kArith == SumArith::kKahan) product = hn::Mul(a, b);
    const V y = hn::Sub(product, error);
    const V t = hn::Add(sum, y);
    error = hn::Sub(hn::Sub(t, sum), y);
    sum = t;
  }
}

template <class T, SumArith kArith, int kRows, int kVectors>
void run_tile(const SumTile<T>& tile) {
  constexpr bool kKahan = kArith == SumArith::kKahan || kArith == SumArith::kKahanAdd;
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const std::size_t lanes = hn::Lanes(d), width = kVectors * lanes;
  for (std::int32_t s = 0; s < tile.step_count; ++s) {
    const SumStep& step = tile.steps[s];
    T* slot = tile.slots + static_cast<std::size_t>(step.slot) * kRows * width;
    if (step.kind == SumStep::Kind::kAdd) {
      const T* from = tile.slots + static_cast<std::size_t>(step.from) * kRows * width;
      if (step.flush) {
        for (std::size_t i = 0; i < kRows * width; i += lanes)
          hn::Store(flushed_lanes(d, hn::Add(flushed_lanes(d, hn::Load(d, slot + i)),
                                             flushed_lanes(d, hn::Load(d, from + i)))),
                    d, slot + i);
        continue;
      }
      for (std::size_t i = 0; i < kRows * width; i += lanes)
        hn::Store(hn::Add(hn::Load(d, slot + i), hn::Load(d, from + i)), d, slot + i);
      continue;
    }
    V sum[kRows][kVectors], error[kRows][kVectors];
    const T* start = step.starts_with_bias ? tile.start : nullptr;
    DRIFTC_UNROLL
    for (int r = 0; r < kRows; ++r) {
      DRIFTC_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        sum[r][v] = start ? hn::Load(d, start + r * width + v * lanes) : hn::Zero(d);
        if constexpr (kKahan) error[r][v] = hn::Zero(d);
      }
    }
    const T* a = tile.a + static_cast<std::size_t>(step.begin) * kRows;
    for (std::int32_t i = step.begin; i < step.end; ++i, a += kRows) {
      const std::int64_t offset = tile.offsets[i];
      const T* b = offset >= 0 ? tile.b + offset : tile.zeros;
      V column[kVectors];
      DRIFTC_UNROLL
      for (int v = 0; v < kVectors; ++v) column[v] = hn::LoadU(d, b + v * lanes);
      DRIFTC_UNROLL
      for (int r = 0; r < kRows; ++r) {
        V weight = hn::Zero(d);
        if constexpr (kArith != SumArith::kAdd && kArith != SumArith::kKahanAdd)
          weight = hn::Set(d, a[r]);
        DRIFTC_UNROLL
        for (int v = 0; v < kVectors; ++v)
          leaf<kArith>(d, weight, column[v], sum[r][v], error[r][v]);
      }
    }
    const bool add = step.kind == SumStep::Kind::kChainAdd;
    DRIFTC_UNROLL
    for (int r = 0; r < kRows; ++r) {
      DRIFTC_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        T* to = slot + r * width + v * lanes;
        hn::Store(add ? hn::Add(hn::Load(d, to), sum[r][v]) : sum[r][v], d, to);
      }
    }
  }
}

template <class T, SumArith kArith, int kRows>
void fill_rows(SumKernels<T>& kernels, int size) {
  auto& row = kernels.table[static_cast<std::size_t>(kArith)][static_cast<std::size_t>(size)];
  row[0] = run_tile<T, kArith, kRows, 1>;
  row[1] = run_tile<T, kArith, kRows, 2>;
  row[2] = run_tile<T, kArith, kRows, 3>;
}

template <class T>
SumKernels<T> make_kernels() {
  // Accumulators that fit the registers: 24 + inputs of 32, or 12 + inputs of 16.
  constexpr bool kManyRegisters = HWY_TARGET == HWY_AVX3 || !HWY_ARCH_X86;
  SumKernels<T> kernels;
  kernels.lanes = static_cast<int>(hn::Lanes(hn::ScalableTag<T>()));
  fill_rows<T, SumArith::kFma, 1>(kernels, 0);
  fill_rows<T, SumArith::kFma, 2>(kernels, 1);
  fill_rows<T, SumArith::kFma, 4>(kernels, 2);
  fill_rows<T, SumArith::kMulAdd, 1>(kernels, 0);
  fill_rows<T, SumArith::kMulAdd, 2>(kernels, 1);
  fill_rows<T, SumArith::kMulAdd, 4>(kernels, 2);
  fill_rows<T, SumArith::kKahan, 1>(kernels, 0);
  fill_rows<T, SumArith::kKahan, 2>(kernels, 1);
  fill_rows<T, SumArith::kAdd, 1>(kernels, 0);
  fill_rows<T, SumArith::kKahanAdd, 1>(kernels, 0);
  if constexpr (kManyRegisters) {
    fill_rows<T, SumArith::kFma, 8>(kernels, 3);
    fill_rows<T, SumArith::kMulAdd, 8>(kernels, 3);
    fill_rows<T, SumArith::kKahan, 4>(kernels, 2);
  }
  return kernels;
}

const SumKernels<float>* kernels_f32() {
  static const SumKernels<float> kernels = make_kernels<float>();
  return &kernels;
}
const SumKernels<double>* kernels_f64() {
  static const SumKernels<double> kernels = make_kernels<double>();
  return &kernels;
}

void finish_row_lanes(const float* sums, std::int64_t count, const float* bias, float* to) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto nan = hn::Set(d, canonical_nan());
  const auto addend = hn::Set(d, bias != nullptr ? *bias : 0.0f);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    auto value = hn::LoadU(d, sums + i);
    if (bias != nullptr) value = hn::Add(value, addend);
    hn::StoreU(hn::IfThenElse(hn::IsNaN(value), nan, value), d, to + i);
  }
  for (; i < count; ++i) {
    const float value = bias != nullptr ? add_rn(sums[i], *bias) : sums[i];
    to[i] = value == value ? value : canonical_nan();
  }
}

}  // namespace driftc::runtime::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <bit>
#include <cmath>

#include "ir/support/assert.h"

namespace driftc::runtime {

HWY_EXPORT(kernels_f32);
HWY_EXPORT(kernels_f64);
HWY_EXPORT(finish_row_lanes);

void finish_row(const float* sums, std::int64_t count, const float* bias, float* to) {
  HWY_DYNAMIC_DISPATCH(finish_row_lanes)(sums, count, bias, to);
}

template <>
const SumKernels<float>& sum_kernels<float>() {
  return *HWY_DYNAMIC_DISPATCH(kernels_f32)();
}
template <>
const SumKernels<double>& sum_kernels<double>() {
  return *HWY_DYNAMIC_DISPATCH(kernels_f64)();
}

template <class T>
typename SumKernels<T>::Function SumKernels<T>::get(SumArith arith, int rows, int vectors) const {
  const auto size = static_cast<std::size_t>(std::countr_zero(static_cast<unsigned>(rows)));
  const Function f =
      table[static_cast<std::size_t>(arith)][size][static_cast<std::size_t>(vectors - 1)];
  DRIFTC_ASSERT(f != nullptr, "no kernel of this tile size");
  return f;
}
template <class T>
int SumKernels<T>::max_rows(SumArith arith) const {
  int rows = 1;
  for (int i = 1; i < kRowSizes; ++i)
    if (table[static_cast<std::size_t>(arith)][static_cast<std::size_t>(i)][0] != nullptr)
      rows = 1 << i;
  return rows;
}
template struct SumKernels<float>;
template struct SumKernels<double>;

namespace {

float flush(float x) {
  return std::abs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x;
}

constexpr int kFlushingLanes = 16;

template <SumArith kArith>
void run_flushing_tile(const SumTile<float>& tile) {
  for (std::int32_t s = 0; s < tile.step_count; ++s) {
    const SumStep& step = tile.steps[s];
    for (int j = 0; j < kFlushingLanes; ++j) {
      float& slot = tile.slots[step.slot * kFlushingLanes + j];
      if (step.kind == SumStep::Kind::kAdd) {
        slot = flush(add_rn(flush(slot), flush(tile.slots[step.from * kFlushingLanes + j])));
        continue;
      }
      float sum = step.starts_with_bias && tile.start ? tile.start[j] : 0.0f, error = 0.0f;
      for (std::int32_t i = step.begin; i < step.end; ++i) {
        const std::int64_t offset = tile.offsets[i];
        const float b = flush(offset >= 0 ? tile.b[offset + j] : 0.0f);
        if constexpr (kArith == SumArith::kFma) {
          sum = flush(fma_rn(flush(tile.a[i]), b, flush(sum)));
        } else if constexpr (kArith == SumArith::kMulAdd) {
          sum = flush(add_rn(flush(sum), flush(mul_rn(flush(tile.a[i]), b))));
        } else if constexpr (kArith == SumArith::kAdd) {
          sum = flush(add_rn(flush(sum), b));
        } else {
          float product = b;
          if constexpr (kArith == SumArith::kKahan) product = flush(mul_rn(flush(tile.a[i]), b));
          const float y = flush(sub_rn(product, error));
          const float t = flush(add_rn(flush(sum), y));
          error = flush(sub_rn(flush(sub_rn(t, flush(sum))), y));
          sum = t;
        }
      }
      slot = step.kind == SumStep::Kind::kChainAdd ? flush(add_rn(flush(slot), flush(sum))) : sum;
    }
  }
}

SumKernels<float> make_flushing_kernels() {
  SumKernels<float> kernels;
  kernels.lanes = kFlushingLanes;
  const auto set = [&](SumArith arith, SumKernels<float>::Function f) {
    kernels.table[static_cast<std::size_t>(arith)][0].fill(nullptr);
    kernels.table[static_cast<std::size_t>(arith)][0][0] = f;
  };
  set(SumArith::kFma, run_flushing_tile<SumArith::kFma>);
  set(SumArith::kMulAdd, run_flushing_tile<SumArith::kMulAdd>);
  set(SumArith::kKahan, run_flushing_tile<SumArith::kKahan>);
  set(SumArith::kAdd, run_flushing_tile<SumArith::kAdd>);
  set(SumArith::kKahanAdd, run_flushing_tile<SumArith::kKahanAdd>);
  return kernels;
}

}  // namespace

const SumKernels<float>& flushing_sum_kernels() {
  static const SumKernels<float> kernels = make_flushing_kernels();
  return kernels;
}

}  // namespace driftc::runtime
#endif
