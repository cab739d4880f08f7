// mma.sync and ldmatrix. An mma is computed warp by warp with outputs as registers hold them: lanes
// of a vector are threads 4 g + t, whose outputs need row g of A and column 2 t (or 2 t + 1) of B.
// So fragments are spread out once for neighbouring mma instructions that share them: A as vectors
// in which the four threads of a quad hold the same element, B as four columns that all quads
// share.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/ptx/exec_mma.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)  // see exec_plain.cpp
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "ir/support/half.h"
#include "runtime/ptx/frame.h"
#include "runtime/sums/tensor_core_block_inl.h"

HWY_BEFORE_NAMESPACE();
namespace driftc::runtime::ptx::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using s32 = std::int32_t;

namespace tc = driftc::runtime::HWY_NAMESPACE;
using tc::TcF;
using tc::TcI;
using tc::TcU;
using tc::VF;
using tc::VI;

constexpr u32 kColumns = 8, kMaxK = 16, kWarp = 32;

// The 16 lanes of one half of a warp of a register; a uniform register has equal halves.
HWY_INLINE const u32* half_of(const Frame& f, const Place& p, std::size_t warp, u32 half) {
  return reinterpret_cast<const u32*>(f.regs + p.offset) +
         (p.mask == 0 ? 0 : warp + half * kGroupLanes);
}
HWY_INLINE u32* half_of(Frame& f, const Place& p, std::size_t warp, u32 half) {
  return reinterpret_cast<u32*>(f.regs + p.offset) + warp + half * kGroupLanes;
}

// 16-bit operands in one half of `words`, widened exactly.
template <TcFormat kFormat>
HWY_INLINE VF widened(hn::Vec<TcU> words, bool high) {
  const TcU d;
  const TcF df;
  if (kFormat == TcFormat::kBf16)
    return hn::BitCast(df,
                       high ? hn::And(words, hn::Set(d, 0xFFFF0000u)) : hn::ShiftLeft<16>(words));
  const auto h = high ? hn::ShiftRight<16>(words) : words;
#if HWY_TARGET == HWY_AVX3
  return VF{_mm512_cvtph_ps(_mm512_cvtepi32_epi16(h.raw))};
#else
  const auto sign = hn::ShiftLeft<16>(hn::And(h, hn::Set(d, 0x8000u)));
  const auto magnitude = hn::ShiftLeft<13>(hn::And(h, hn::Set(d, 0x7FFFu)));
  // Exponents move by 127 - 15; a product with a power of two does so for subnormals too.
  auto wide = hn::BitCast(d, hn::Mul(hn::BitCast(df, magnitude), hn::Set(df, 0x1p112f)));
  const auto special =
      hn::Eq(hn::And(magnitude, hn::Set(d, 0x0F800000u)), hn::Set(d, 0x0F800000u));  // Inf and NaN
  wide = hn::Or(wide, hn::IfThenElseZero(special, hn::Set(d, 0x7F800000u)));
  return hn::BitCast(df, hn::Or(wide, sign));
#endif
}

// The operands in lanes [i, ...) of 16 registers' words: one for tf32, else the low and high
// halves.
template <TcFormat kFormat>
constexpr int kOperandsOfWord = kFormat == TcFormat::kTf32 ? 1 : 2;
template <TcFormat kFormat>
HWY_INLINE VF operand_of(const u32* lanes, std::size_t i, int part) {
  const auto words = hn::LoadU(TcU(), lanes + i);
  if (kFormat == TcFormat::kTf32) return tc::tc_operand<kFormat>(hn::BitCast(TcF(), words));
  return widened<kFormat>(words, part != 0);
}

// Element t of every quad of v, which are lanes from i on, in all four lanes of the quad, to
// to[t * kStep + i ...].
template <std::size_t kStep, class D, class T>
HWY_INLINE void store_quads(D d, hn::Vec<D> v, T* to, std::size_t i) {
#if HWY_TARGET == HWY_SCALAR
  for (std::size_t n = 0; n < 4; ++n) hn::StoreU(v, d, to + i % 4 * kStep + i / 4 * 4 + n);
#else
  hn::StoreU(hn::Broadcast<0>(v), d, to + i);
  hn::StoreU(hn::Broadcast<1>(v), d, to + kStep + i);
  hn::StoreU(hn::Broadcast<2>(v), d, to + 2 * kStep + i);
  hn::StoreU(hn::Broadcast<3>(v), d, to + 3 * kStep + i);
#endif
}

// One warp's fragments, spread out. Steps of k are numbered as the fragments give them, which keeps
// the blocks of the model together; the order inside a block means nothing.
struct SpreadA {
  alignas(64) float values[kMaxK][4][kGroupLanes];  // [k][i][thread 4 g + t]: row g + 4 i
  alignas(64) u32 codes[kMaxK][2][kGroupLanes];     // of i = 0 and 1, 2 and 3
  Place from[4];
  bool there = false;
};
struct SpreadB {
  alignas(64) float values[kMaxK][kColumns];  // columns 0, 2, 4, 6, 1, 3, 5, 7
  alignas(64) u32 codes[kMaxK][kColumns];
  Place from[2];
  bool there = false;
};
struct Spread {
  SpreadA a;
  // Kernels go through the columns of a warp for each of its rows.
  static constexpr u32 kKept = 4;
  SpreadB b[kKept];
  u32 oldest = 0;
  void forget() {
    a.there = false;
    for (SpreadB& kept : b) kept.there = false;
  }
};

bool same(const Place* a, const Place* b, int count) {
  for (int i = 0; i < count; ++i)
    if (a[i].offset != b[i].offset || a[i].mask != b[i].mask) return false;
  return true;
}

// Registers 2 h and 2 h + 1 hold rows g and g + 8 of four (pairs of) columns of A, thread 4 g + t
// column t.
template <TcFormat kFormat>
void spread_a(const BoundInst& in, const Frame& f, std::size_t warp, SpreadA& s) {
  const int regs = in.mma->a_regs;
  if (s.there && same(s.from, in.src, regs)) return;
  s.there = true;
  std::copy_n(in.src, regs, s.from);
  for (int reg = 0; reg < regs; ++reg)
    for (int part = 0; part < kOperandsOfWord<kFormat>; ++part) {
      const int k = 4 * (reg / 2 * kOperandsOfWord<kFormat> + part), pair = reg % 2;
      for (std::size_t i = 0; i < kGroupLanes; i += hn::Lanes(TcF())) {
        const VF low = operand_of<kFormat>(half_of(f, in.src[reg], warp, 0), i, part),
                 high = operand_of<kFormat>(half_of(f, in.src[reg], warp, 1), i, part);
        const VI code = tc::tc_row_word(tc::tc_code<kFormat>(low), tc::tc_code<kFormat>(high));
        constexpr std::size_t kValues = 4 * kGroupLanes, kCodes = 2 * kGroupLanes;  // of a step
        store_quads<kValues>(TcF(), low, s.values[k][2 * pair], i);
        store_quads<kValues>(TcF(), high, s.values[k][2 * pair + 1], i);
        store_quads<kCodes>(TcU(), hn::BitCast(TcU(), code), s.codes[k][pair], i);
      }
    }
}

template <TcFormat kFormat>
HWY_INLINE void put_columns(VF v, float* values, u32* codes) {
  hn::StoreU(v, TcF(), values);
  hn::StoreU(hn::BitCast(TcU(), tc::tc_lane_word(tc::tc_code<kFormat>(v))), TcU(), codes);
}

// Lane 4 g + t of the two halves is row t of column g: to[8 t + n] is row t of the n-th column in
// the order 0, 2, 4, 6, 1, 3, 5, 7.
template <TcFormat kFormat>
HWY_INLINE void transpose_columns(const u32* low, const u32* high, int part, float* values,
                                  u32* codes) {
#if HWY_TARGET == HWY_AVX3
  const VF a = operand_of<kFormat>(low, 0, part), b = operand_of<kFormat>(high, 0, part);
  alignas(64) static constexpr s32 kFrom[2][16] = {
      {0, 8, 16, 24, 4, 12, 20, 28, 1, 9, 17, 25, 5, 13, 21, 29},
      {2, 10, 18, 26, 6, 14, 22, 30, 3, 11, 19, 27, 7, 15, 23, 31}};
  for (int h = 0; h < 2; ++h)
    put_columns<kFormat>(VF{_mm512_permutex2var_ps(a.raw, hn::Load(TcI(), kFrom[h]).raw, b.raw)},
                         values + 16 * h, codes + 16 * h);
#else
  alignas(64) float columns[kColumns][4], rows[4][kColumns];
  for (std::size_t i = 0; i < kGroupLanes; i += hn::Lanes(TcF())) {
    hn::StoreU(operand_of<kFormat>(low, i, part), TcF(), columns[0] + i);
    hn::StoreU(operand_of<kFormat>(high, i, part), TcF(), columns[4] + i);
  }
  for (u32 n = 0; n < kColumns; ++n)
    for (u32 t = 0; t < 4; ++t) rows[t][n] = columns[2 * n % kColumns + n / 4][t];
  for (std::size_t i = 0; i < 2 * std::size_t{kGroupLanes}; i += hn::Lanes(TcF()))
    put_columns<kFormat>(hn::Load(TcF(), rows[0] + i), values + i, codes + i);
#endif
}

// Register h holds four (pairs of) rows of B, thread 4 g + t row t of column g.
template <TcFormat kFormat>
const SpreadB& spread_b(const BoundInst& in, const Frame& f, std::size_t warp, Spread& spread) {
  const MmaShape& shape = *in.mma;
  const Place* from = in.src + shape.a_regs;
  for (const SpreadB& kept : spread.b)
    if (kept.there && same(kept.from, from, shape.b_regs)) return kept;
  SpreadB& s = spread.b[spread.oldest];
  spread.oldest = (spread.oldest + 1) % Spread::kKept;
  s.there = true;
  std::copy_n(from, shape.b_regs, s.from);
  for (int reg = 0; reg < shape.b_regs; ++reg)
    for (int part = 0; part < kOperandsOfWord<kFormat>; ++part) {
      const int k = 4 * (reg * kOperandsOfWord<kFormat> + part);
      transpose_columns<kFormat>(half_of(f, from[reg], warp, 0), half_of(f, from[reg], warp, 1),
                                 part, s.values[k], s.codes[k]);
    }
  return s;
}

// Outputs of threads 4 g + t from lane `first` on: row r stands for row g + 4 (row + r) of the 16,
// column c for columns 2 t + odd + c.
template <int kSourceRows, int kSourceColumns, int kSourceSteps>
struct FragmentSource {
  static constexpr int kRows = kSourceRows, kColumns = kSourceColumns;
  static constexpr int kSteps = kSourceSteps;
  const SpreadA& a;
  const SpreadB& b;
  int odd, first, row;

  struct Steps {
    const float* columns;
    const u32* column_words;
    const float* rows;
    const u32* row_words;

    static HWY_INLINE bool skip(int) { return false; }
    HWY_INLINE VI column_codes(int i, int c) const {
      return hn::BitCast(TcI(), of_column(TcU(), column_words + 8 * i + 4 * c));
    }
    HWY_INLINE VF column_value(int i, int c) const {
      return of_column(TcF(), columns + 8 * i + 4 * c);
    }
    HWY_INLINE VI row_codes(int i, int pair) const {
      return hn::BitCast(TcI(), hn::Load(TcU(), row_words + (2 * i + pair) * int{kGroupLanes}));
    }
    HWY_INLINE VF row_value(int i, int r) const {
      return hn::Load(TcF(), rows + (4 * i + r) * int{kGroupLanes});
    }
    float column_at(int i, int c, int j) const { return columns[8 * i + 4 * c + j % 4]; }
    float row_at(int i, int r, int j) const { return rows[(4 * i + r) * int{kGroupLanes} + j]; }
  };
  HWY_INLINE Steps from(std::int64_t k0) const {
    // Of the four columns that quads share, a vector of one lane has one.
    const int column = 4 * odd + (hn::MaxLanes(TcF()) < 4 ? first % 4 : 0);
    return {b.values[k0] + column, b.codes[k0] + column, a.values[k0][row] + first,
            a.codes[k0][row / 2] + first};
  }

 private:
  template <class D, class T>
  static HWY_INLINE hn::Vec<D> of_column(D d, const T* four) {
#if HWY_TARGET == HWY_SCALAR
    return hn::Load(d, four);
#else
    return hn::LoadDup128(d, four);
#endif
  }
};

// Register c[2 i + odd] (f16: a half of c[i]) of thread 4 g + t is the sum of row g + 8 i, column
// 2 t + odd.
template <int kLength, int kSteps, bool kHalf, TcFormat kFormat>
void one_mma(const BoundInst& in, Frame& f, std::size_t warp, Spread& s) {
  const MmaShape& shape = *in.mma;
  spread_a<kFormat>(in, f, warp, s.a);
  const SpreadB& b = spread_b<kFormat>(in, f, warp, s);
  const Place* c = in.src + shape.a_regs + shape.b_regs;
  const TcF df;
  const TcU du;
  constexpr int kRows = 4;
  // All 4 x 2 vectors at once, or fewer.
  constexpr int kTogether = std::min(kRows, tc::kTcTogether),
                kColumnsTogether = tc::kTcTogether == 8 ? 2 : 1;
  using Source = FragmentSource<kTogether, kColumnsTogether, kSteps>;
  for (std::size_t first = 0; first < kGroupLanes; first += hn::Lanes(df)) {
    // Everything is read before anything is written: registers may change places.
    VF acc[2][kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
      for (int odd = 0; odd < 2; ++odd) {
        const Place& from = c[kHalf ? r / 2 : r / 2 * 2 + odd];
        const auto word = hn::LoadU(du, half_of(f, from, warp, static_cast<u32>(r % 2)) + first);
        acc[odd][r] = kHalf ? widened<TcFormat::kF16>(word, odd != 0) : hn::BitCast(df, word);
      }
#pragma GCC unroll 2
    for (int odd = 0; odd < 2; odd += kColumnsTogether)
#pragma GCC unroll 2
      for (int row = 0; row < kRows; row += kTogether) {
        const Source source{s.a, b, odd, static_cast<int>(first), row};
        constexpr int kOutputs = kTogether * kColumnsTogether;
        VF sums[kOutputs];
#pragma GCC unroll 8
        for (int o = 0; o < kOutputs; ++o) sums[o] = acc[odd + o / kTogether][row + o % kTogether];
        tc::TcBlocks<kLength, kHalf, Source>(shape.core, source).chain(kSteps, sums);
#pragma GCC unroll 8
        for (int o = 0; o < kOutputs; ++o) acc[odd + o / kTogether][row + o % kTogether] = sums[o];
      }
    if (kHalf) {
      alignas(64) float low[kGroupLanes], high[kGroupLanes];
      for (int r = 0; r < kRows; ++r) {
        hn::Store(acc[0][r], df, low);
        hn::Store(acc[1][r], df, high);
        u32* to = half_of(f, in.dst[r / 2], warp, static_cast<u32>(r % 2)) + first;
        for (std::size_t j = 0; j < hn::Lanes(df); ++j)
          to[j] = f32_to_f16_rne(low[j]) | static_cast<u32>(f32_to_f16_rne(high[j])) << 16;
      }
      continue;
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
      for (int odd = 0; odd < 2; ++odd)
        hn::StoreU(hn::BitCast(du, acc[odd][r]), du,
                   half_of(f, in.dst[r / 2 * 2 + odd], warp, static_cast<u32>(r % 2)) + first);
  }
  if (!in.mma_overwrites) return;
  // A destination may have taken the place of a fragment that nobody reads any more.
  const auto overwrites = [&](const Place* places, int count) {
    for (int d = 0; d < shape.acc_regs; ++d)
      for (int i = 0; i < count; ++i)
        if (places[i].mask != 0 && places[i].offset == in.dst[d].offset) return true;
    return false;
  };
  if (overwrites(s.a.from, shape.a_regs)) s.a.there = false;
  for (SpreadB& kept : s.b)
    if (kept.there && overwrites(kept.from, shape.b_regs)) kept.there = false;
}

using OneMma = void (*)(const BoundInst&, Frame&, std::size_t, Spread&);
// One block or two, as instructions have them.
template <int kLength, bool kHalf, TcFormat kFormat>
OneMma with_steps(int steps) {
  return steps == kLength ? &one_mma<kLength, kLength, kHalf, kFormat>
                          : &one_mma<kLength, 2 * kLength, kHalf, kFormat>;
}
OneMma one_mma_of(const MmaShape& shape) {
  const bool half = shape.core.accumulator == TcAccumulator::kF16;
  switch (shape.core.format) {
    case TcFormat::kTf32:
      if (shape.core.length == 4 || shape.k == 4)
        return with_steps<4, false, TcFormat::kTf32>(shape.k);
      return &one_mma<8, 8, false, TcFormat::kTf32>;
    case TcFormat::kBf16:
      if (shape.core.length == 8 || shape.k == 8)
        return with_steps<8, false, TcFormat::kBf16>(shape.k);
      return &one_mma<16, 16, false, TcFormat::kBf16>;
    case TcFormat::kF16:
      break;
  }
  if (shape.core.length == 8 || shape.k == 8)
    return half ? with_steps<8, true, TcFormat::kF16>(shape.k)
                : with_steps<8, false, TcFormat::kF16>(shape.k);
  return half ? &one_mma<16, 16, true, TcFormat::kF16> : &one_mma<16, 16, false, TcFormat::kF16>;
}

// Whether all threads of the warp execute; a warp of which none does is skipped by the caller.
HWY_INLINE bool whole_warp(const BoundInst& in, Frame& f, std::size_t warp) {
  const std::size_t g = warp / kGroupLanes;
  const u32 low = f.active[g], high = g + 1 < f.groups ? f.active[g + 1] : 0;
  const u32 all = low | high << 16;
  if (all == 0xFFFFFFFFu) return true;
  // A thread that is missing; of a block that ends within the warp, one that has no partner.
  u32 thread = static_cast<u32>(warp) + static_cast<u32>(std::countr_one(all));
  if (thread >= f.lanes) thread = static_cast<u32>(warp) + static_cast<u32>(std::countr_zero(all));
  if (all != 0) f.fail(FaultKind::kPartialWarp, in.inst, thread, 0, 0, false);
  return false;
}

void Mma(const BoundInst& in, Frame& f, u32 g0, u32 g1) {
  if (in.mma_run == 0) return;
  for (std::size_t warp = g0 / 2 * kWarp; warp < std::size_t{g1} * kGroupLanes; warp += kWarp) {
    if (!whole_warp(in, f, warp)) continue;
    Spread spread;
    for (u32 i = 0; i < in.mma_run; ++i) {
      const BoundInst& one = (&in)[i];
      if (one.mma->quad_pairs) {
        mma_of_quad_pairs(one, f, warp);
        spread.forget();
        continue;
      }
      // Another kind of mma has fragments of another form.
      if (i > 0 && (one.mma->k != (&in)[i - 1].mma->k ||
                    one.mma->core.format != (&in)[i - 1].mma->core.format))
        spread.forget();
      one_mma_of (*one.mma)(one, f, warp, spread);
    }
  }
}

// The report of the first row that does not lie in shared memory, or not on 16 bytes.
void bad_row(const BoundInst& in, Frame& f, std::size_t warp) {
  for (u32 i = 0; i < 8u * in.memory.count; ++i) {
    const u32 base = half_of(f, in.src[0], warp, i / kGroupLanes)[i % kGroupLanes];
    const std::int64_t address = std::int64_t{static_cast<s32>(base)} + in.imm;
    const bool inside = address >= 0 && address + 16 <= std::int64_t{f.shared_bytes};
    if (inside && address % 16 == 0) continue;
    return f.fail(inside ? FaultKind::kMisaligned : FaultKind::kOutOfBounds, in.inst,
                  static_cast<u32>(warp) + i, static_cast<std::uint64_t>(address), 16, false);
  }
}

// at[i] = where row i lies in shared memory. False when one does not, or not on 16 bytes.
HWY_INLINE bool row_offsets(const BoundInst& in, const Frame& f, std::size_t warp, u32* at) {
  const u32 rows = 8u * in.memory.count;
  if (f.shared_bytes < 16) return false;
  // Signed addresses plus an offset like this are below 2^32 as unsigned numbers, negative ones
  // above every size there is.
  constexpr std::int64_t kMostOffset = 1 << 30;
  if (in.imm < 0 || in.imm > kMostOffset) {
    for (u32 i = 0; i < rows; ++i) {
      const u32 base = half_of(f, in.src[0], warp, i / kGroupLanes)[i % kGroupLanes];
      const std::int64_t address = std::int64_t{static_cast<s32>(base)} + in.imm;
      if (address < 0 || address + 16 > std::int64_t{f.shared_bytes} || address % 16 != 0)
        return false;
      at[i] = static_cast<u32>(address);
    }
    return true;
  }
  const TcU d;
  const auto offset = hn::Set(d, static_cast<u32>(in.imm)), last = hn::Set(d, f.shared_bytes - 16),
             low_bits = hn::Set(d, 15u), zero = hn::Zero(d);
  auto bad = zero;
  for (u32 i = 0; i < rows; i += static_cast<u32>(hn::Lanes(d))) {
    const auto v = hn::Add(
        hn::LoadU(d, half_of(f, in.src[0], warp, i / kGroupLanes) + i % kGroupLanes), offset);
    hn::StoreU(v, d, at + i);
    // Of one matrix, half of a wide vector counts.
    const auto counts = hn::FirstN(d, rows - i);
    const auto too_far = hn::IfThenElseZero(hn::Gt(v, last), hn::Set(d, ~0u));
    bad = hn::Or(bad, hn::IfThenElseZero(counts, hn::Or(too_far, hn::And(v, low_bits))));
  }
  return hn::AllTrue(d, hn::Eq(bad, zero));
}

// Row r of matrix q comes from the address that thread 8 q + r gives; its 16 bytes are the words of
// threads 4 r to 4 r + 3.
void LoadMatrix(const BoundInst& in, Frame& f, u32 g0, u32 g1) {
  for (std::size_t warp = g0 / 2 * kWarp; warp < std::size_t{g1} * kGroupLanes; warp += kWarp) {
    if (!whole_warp(in, f, warp)) continue;
    alignas(64) u32 at[kWarp];
    if (!row_offsets(in, f, warp, at)) return bad_row(in, f, warp);
    const auto from = [&](u32 i) { return f.shared + at[i]; };
    for (u32 q = 0; q < in.memory.count; ++q) {
      auto* to = reinterpret_cast<std::byte*>(half_of(f, in.dst[q], warp, 0));
#pragma GCC unroll 8
      for (u32 r = 0; r < 8; ++r) std::memcpy(to + 16 * r, from(8 * q + r), 16);
    }
  }
}

ExecFn MmaFunction(Op op) { return op == Op::kMma ? &Mma : &LoadMatrix; }

}  // namespace
}  // namespace driftc::runtime::ptx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace driftc::runtime::ptx {
HWY_EXPORT(MmaFunction);
ExecFn mma_function(Op op) { return HWY_DYNAMIC_DISPATCH(MmaFunction)(op); }
}  // namespace driftc::runtime::ptx
#endif
