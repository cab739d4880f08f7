// mma.sync and ldmatrix. An mma is computed warp by warp: fragments are spread out as a panel of A
// (16 rows side by side for every k) and rows of B, the block model runs over 16 rows at a time
// (runtime/sums/tensor_core_lanes.h), and the result goes back into fragments. Neighbouring mma
// instructions run together, so that fragments they share are spread out once.
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
#include "runtime/sums/tensor_core_lanes.h"

HWY_BEFORE_NAMESPACE();
namespace driftc::runtime::ptx::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using s32 = std::int32_t;

constexpr u32 kRows = 16, kColumns = 8, kMaxK = 16, kWarp = 32;

// The 16 lanes of one half of a warp of a register; a uniform register has equal halves.
HWY_INLINE const u32* half_of(const Frame& f, const Place& p, std::size_t warp, u32 half) {
  return reinterpret_cast<const u32*>(f.regs + p.offset) +
         (p.mask == 0 ? 0 : warp + half * kGroupLanes);
}
HWY_INLINE u32* half_of(Frame& f, const Place& p, std::size_t warp, u32 half) {
  return reinterpret_cast<u32*>(f.regs + p.offset) + warp + half * kGroupLanes;
}

// Lane 4 b + j of out[t] = lane 4 b + t of in[j]: the 4 x 4 matrix of every block of 4 lanes,
// transposed. Its own inverse. With in = {low half of register r, high half of r, low half of s,
// high half of s}, lane 4 b + j of out[t] is what thread (g, t) of a fragment holds, where g + 8
// [register s] = b + 4 j: the 16 rows of column t, in an order that is the same for A and C.
HWY_INLINE void transpose(const u32* const in[4], u32* const out[4]) {
#if HWY_TARGET == HWY_SCALAR
  u32 all[4][kGroupLanes];
  for (u32 j = 0; j < 4; ++j) std::memcpy(all[j], in[j], sizeof all[j]);
  for (u32 t = 0; t < 4; ++t)
    for (u32 b = 0; b < 4; ++b)
      for (u32 j = 0; j < 4; ++j) out[t][4 * b + j] = all[j][4 * b + t];
#else
  const hn::CappedTag<u32, kGroupLanes> d;
  const hn::RepartitionToWide<decltype(d)> wide;
  for (std::size_t i = 0; i < kGroupLanes; i += hn::Lanes(d)) {
    const auto a = hn::LoadU(d, in[0] + i), b = hn::LoadU(d, in[1] + i),
               c = hn::LoadU(d, in[2] + i), e = hn::LoadU(d, in[3] + i);
    const auto low_ab = hn::BitCast(wide, hn::InterleaveLower(d, a, b)),
               low_ce = hn::BitCast(wide, hn::InterleaveLower(d, c, e)),
               high_ab = hn::BitCast(wide, hn::InterleaveUpper(d, a, b)),
               high_ce = hn::BitCast(wide, hn::InterleaveUpper(d, c, e));
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(wide, low_ab, low_ce)), d, out[0] + i);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(wide, low_ab, low_ce)), d, out[1] + i);
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(wide, high_ab, high_ce)), d, out[2] + i);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(wide, high_ab, high_ce)), d, out[3] + i);
  }
#endif
}

// 16-bit operands in the low halves of `words`, widened exactly.
HWY_INLINE void widen(TcFormat format, const u32* words, int shift, float* out) {
  const hn::CappedTag<u32, kGroupLanes> d;
  const hn::Rebind<float, decltype(d)> df;
  for (std::size_t i = 0; i < kGroupLanes; i += hn::Lanes(d)) {
    auto h = hn::LoadU(d, words + i);
    if (format == TcFormat::kBf16) {
      h = shift ? hn::And(h, hn::Set(d, 0xFFFF0000u)) : hn::ShiftLeft<16>(h);
      hn::StoreU(hn::BitCast(df, h), df, out + i);
      continue;
    }
    if (shift) h = hn::ShiftRight<16>(h);
    const auto sign = hn::ShiftLeft<16>(hn::And(h, hn::Set(d, 0x8000u)));
    const auto magnitude = hn::ShiftLeft<13>(hn::And(h, hn::Set(d, 0x7FFFu)));
    // Exponents move by 127 - 15; a product with a power of two does so for subnormals too.
    auto wide = hn::BitCast(d, hn::Mul(hn::BitCast(df, magnitude), hn::Set(df, 0x1p112f)));
    const auto special = hn::Eq(hn::And(magnitude, hn::Set(d, 0x0F800000u)),
                                hn::Set(d, 0x0F800000u));  // Inf and NaN
    wide = hn::Or(wide, hn::IfThenElseZero(special, hn::Set(d, 0x7F800000u)));
    hn::StoreU(hn::BitCast(df, hn::Or(wide, sign)), df, out + i);
  }
}

// One warp's fragments, spread out. Columns of k are numbered as the fragments give them, which
// keeps the blocks of the model together; the order inside a block means nothing.
struct SpreadB {
  alignas(64) float values[kColumns * kMaxK];  // [column][k], k as the instruction has
  alignas(64) s32 exponents[kColumns * kMaxK];
  Place from[2];
  bool there = false;
};
struct Spread {
  alignas(64) float a[kMaxK][kRows];
  alignas(64) s32 a_exponents[kMaxK][kRows];
  Place a_from[4];
  bool has_a = false;
  // Kernels go through the columns of a warp for each of its rows.
  static constexpr u32 kKept = 4;
  SpreadB b[kKept];
  u32 oldest = 0;
  void forget() {
    has_a = false;
    for (SpreadB& kept : b) kept.there = false;
  }
};

bool same(const Place* a, const Place* b, int count) {
  for (int i = 0; i < count; ++i)
    if (a[i].offset != b[i].offset || a[i].mask != b[i].mask) return false;
  return true;
}

void spread_a(const BoundInst& in, const Frame& f, std::size_t warp, Spread& s) {
  const MmaShape& shape = *in.mma;
  if (s.has_a && same(s.a_from, in.src, shape.a_regs)) return;
  s.has_a = true;
  std::copy_n(in.src, shape.a_regs, s.a_from);
  const bool words = shape.core.format == TcFormat::kTf32;
  for (int h = 0; h < shape.a_regs / 2; ++h) {
    const Place &r = in.src[2 * h], &q = in.src[2 * h + 1];
    const u32* from[4] = {half_of(f, r, warp, 0), half_of(f, r, warp, 1), half_of(f, q, warp, 0),
                          half_of(f, q, warp, 1)};
    if (words) {
      u32* to[4];
      for (int t = 0; t < 4; ++t) to[t] = reinterpret_cast<u32*>(s.a[4 * h + t]);
      transpose(from, to);
      continue;
    }
    alignas(64) u32 pairs[4][kGroupLanes];
    u32* to[4] = {pairs[0], pairs[1], pairs[2], pairs[3]};
    transpose(from, to);
    for (int t = 0; t < 4; ++t) {
      widen(shape.core.format, pairs[t], 0, s.a[8 * h + t]);
      widen(shape.core.format, pairs[t], 16, s.a[8 * h + 4 + t]);
    }
  }
  tensor_core_operands(shape.core.format, s.a[0], shape.k * std::int64_t{kRows}, s.a[0],
                       s.a_exponents[0]);
}

const SpreadB& spread_b(const BoundInst& in, const Frame& f, std::size_t warp, Spread& spread) {
  const MmaShape& shape = *in.mma;
  const Place* from = in.src + shape.a_regs;
  for (const SpreadB& kept : spread.b)
    if (kept.there && same(kept.from, from, shape.b_regs)) return kept;
  SpreadB& s = spread.b[spread.oldest];
  spread.oldest = (spread.oldest + 1) % Spread::kKept;
  s.there = true;
  std::copy_n(from, shape.b_regs, s.from);
  const auto k = static_cast<u32>(shape.k);
  const bool words = shape.core.format == TcFormat::kTf32;
  for (int h = 0; h < shape.b_regs; ++h)
    for (u32 half = 0; half < 2; ++half) {
      const u32* lanes = half_of(f, from[h], warp, half);
      if (words) {
        for (u32 g = 0; g < 4; ++g)
          std::memcpy(&s.values[(4 * half + g) * k + 4 * h], lanes + 4 * g, 4 * sizeof(u32));
        continue;
      }
      alignas(64) float low[kGroupLanes], high[kGroupLanes];
      widen(shape.core.format, lanes, 0, low);
      widen(shape.core.format, lanes, 16, high);
      for (u32 g = 0; g < 4; ++g) {
        float* to = &s.values[(4 * half + g) * k + 8 * h];
        std::memcpy(to, low + 4 * g, 4 * sizeof(float));
        std::memcpy(to + 4, high + 4 * g, 4 * sizeof(float));
      }
    }
  tensor_core_operands(shape.core.format, s.values, std::int64_t{kColumns} * k, s.values,
                       s.exponents);
  return s;
}

void one_mma(const BoundInst& in, Frame& f, std::size_t warp, Spread& s) {
  const MmaShape& shape = *in.mma;
  spread_a(in, f, warp, s);
  const SpreadB& b = spread_b(in, f, warp, s);
  const Place* c = in.src + shape.a_regs + shape.b_regs;
  alignas(64) float acc[kColumns][kRows];
  u32* even[4];
  u32* odd[4];
  for (int t = 0; t < 4; ++t) {
    even[t] = reinterpret_cast<u32*>(acc[2 * t]);
    odd[t] = reinterpret_cast<u32*>(acc[2 * t + 1]);
  }
  const bool half = shape.core.accumulator == TcAccumulator::kF16;
  alignas(64) u32 pairs[4][kGroupLanes];
  u32* packed[4] = {pairs[0], pairs[1], pairs[2], pairs[3]};
  if (half) {
    const u32* from[4] = {half_of(f, c[0], warp, 0), half_of(f, c[0], warp, 1),
                          half_of(f, c[1], warp, 0), half_of(f, c[1], warp, 1)};
    transpose(from, packed);
    for (int t = 0; t < 4; ++t) {
      widen(TcFormat::kF16, pairs[t], 0, acc[2 * t]);
      widen(TcFormat::kF16, pairs[t], 16, acc[2 * t + 1]);
    }
  } else {
    for (u32 i = 0; i < 2; ++i) {
      const u32* from[4] = {half_of(f, c[i], warp, 0), half_of(f, c[i], warp, 1),
                            half_of(f, c[i + 2], warp, 0), half_of(f, c[i + 2], warp, 1)};
      transpose(from, i == 0 ? even : odd);
    }
  }

  TcTile tile;
  tile.lanes = s.a[0];
  tile.lane_exponents = s.a_exponents[0];
  tile.scalars = b.values;
  tile.scalar_exponents = b.exponents;
  tile.row_step = shape.k;
  tile.rows = kColumns;
  tile.steps = shape.k;
  tile.acc = acc[0];
  tensor_core_tile(shape.core, shape.k, tile);

  if (half) {
    for (int t = 0; t < 4; ++t)
      for (u32 j = 0; j < kGroupLanes; ++j)
        pairs[t][j] = f32_to_f16_rne(acc[2 * t][j]) |
                      static_cast<u32>(f32_to_f16_rne(acc[2 * t + 1][j])) << 16;
    u32* to[4] = {half_of(f, in.dst[0], warp, 0), half_of(f, in.dst[0], warp, 1),
                  half_of(f, in.dst[1], warp, 0), half_of(f, in.dst[1], warp, 1)};
    transpose(packed, to);
  } else {
    for (u32 i = 0; i < 2; ++i) {
      u32* to[4] = {half_of(f, in.dst[i], warp, 0), half_of(f, in.dst[i], warp, 1),
                    half_of(f, in.dst[i + 2], warp, 0), half_of(f, in.dst[i + 2], warp, 1)};
      transpose(i == 0 ? even : odd, to);
    }
  }
  if (!in.mma_overwrites) return;
  // A destination may have taken the place of a fragment that nobody reads any more.
  const auto overwrites = [&](const Place* places, int count) {
    for (int d = 0; d < shape.acc_regs; ++d)
      for (int i = 0; i < count; ++i)
        if (places[i].mask != 0 && places[i].offset == in.dst[d].offset) return true;
    return false;
  };
  if (overwrites(s.a_from, shape.a_regs)) s.has_a = false;
  for (SpreadB& kept : s.b)
    if (kept.there && overwrites(kept.from, shape.b_regs)) kept.there = false;
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
      one_mma(one, f, warp, spread);
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

// Row r of matrix q comes from the address that thread 8 q + r gives; its 16 bytes are the words of
// threads 4 r to 4 r + 3.
void LoadMatrix(const BoundInst& in, Frame& f, u32 g0, u32 g1) {
  for (std::size_t warp = g0 / 2 * kWarp; warp < std::size_t{g1} * kGroupLanes; warp += kWarp) {
    if (!whole_warp(in, f, warp)) continue;
    const u32 rows = 8u * in.memory.count;
    // Offsets into shared memory, as loads; a negative one is a large one.
    std::uint64_t at[kWarp], bits = 0, highest = 0;
    for (u32 half = 0; half * kGroupLanes < rows; ++half) {
      const u32* base = half_of(f, in.src[0], warp, half);
      for (u32 j = 0; j < kGroupLanes; ++j)
        at[half * kGroupLanes + j] =
            static_cast<std::uint64_t>(std::int64_t{static_cast<s32>(base[j])} + in.imm);
    }
    for (u32 i = 0; i < rows; ++i) {
      bits |= at[i];
      highest = std::max(highest, at[i]);
    }
    if (bits % 16 != 0 || highest >= f.shared_bytes || highest + 16 > f.shared_bytes)
      return bad_row(in, f, warp);
    for (u32 q = 0; q < in.memory.count; ++q) {
      auto* to = reinterpret_cast<std::byte*>(half_of(f, in.dst[q], warp, 0));
      for (u32 r = 0; r < 8; ++r) std::memcpy(to + 16 * r, f.shared + at[8 * q + r], 16);
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
