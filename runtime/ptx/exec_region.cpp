// Outer-product regions (region.h): 16 lanes at a time, a tile of accumulators in machine registers
// through all steps. Multiplicands are used where they lie when the lanes of a group read one
// element or 16 consecutive ones; that is seen from the addresses at run time, so nothing has to be
// proved about them. Others are gathered first.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/ptx/exec_region.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)  // see exec_plain.cpp
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ir/support/round.h"
#include "runtime/ptx/frame.h"

HWY_BEFORE_NAMESPACE();
namespace driftc::runtime::ptx::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using u32 = std::uint32_t;
using s64 = std::int64_t;
using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;

HWY_INLINE V fma(V a, V b, V c) {
#if HWY_NATIVE_FMA
  return hn::MulAdd(a, b, c);
#else
  const D d;  // one lane: std::fma is one rounding on any machine
  return hn::Set(d, std::fma(hn::GetLane(a), hn::GetLane(b), hn::GetLane(c)));
#endif
}

// The loops over rows and columns must be unrolled completely, or the accumulators would live in
// memory.
#define DRIFTC_UNROLL _Pragma("GCC unroll 16")

enum class Form { kSplat, kVector };  // one element for all lanes, or an element per lane

template <Form kForm>
HWY_INLINE V multiplicand(const std::byte* p, std::size_t k) {
  const D d;
  if constexpr (kForm == Form::kSplat) {
    float v;
    std::memcpy(&v, p, sizeof v);
    return hn::Set(d, v);
  } else {
    return hn::LoadU(d, reinterpret_cast<const float*>(p) + k);
  }
}

struct TileRun {
  const BoundRegion::Tile* tile;
  Frame* frame;
  std::size_t group;
  const std::byte* const* a;  // linear: one pointer per row; else one per step and row
  const std::byte* const* b;
  bool linear;
};

template <u32 R, u32 C, Form FA, Form FB, bool kLinear>
HWY_INLINE void steps(const TileRun& run, std::size_t k, V (&acc)[R * C]) {
  const BoundRegion::Tile& tile = *run.tile;
  const std::byte *a[R], *b[C];
  if constexpr (kLinear) {
    DRIFTC_UNROLL for (u32 i = 0; i < R; ++i) a[i] = run.a[i];
    DRIFTC_UNROLL for (u32 j = 0; j < C; ++j) b[j] = run.b[j];
  }
  const std::ptrdiff_t stride_a = tile.a.stride, stride_b = tile.b.stride;
  for (u32 s = 0; s < tile.steps; ++s) {
    if constexpr (!kLinear) {
      DRIFTC_UNROLL for (u32 i = 0; i < R; ++i) a[i] = run.a[s * R + i];
      DRIFTC_UNROLL for (u32 j = 0; j < C; ++j) b[j] = run.b[s * C + j];
    }
    V x[R];
    DRIFTC_UNROLL for (u32 i = 0; i < R; ++i) x[i] = multiplicand<FA>(a[i], k);
    DRIFTC_UNROLL for (u32 j = 0; j < C; ++j) {
      V y = multiplicand<FB>(b[j], k);
      DRIFTC_UNROLL for (u32 i = 0; i < R; ++i) acc[i * C + j] = fma(x[i], y, acc[i * C + j]);
    }
    if constexpr (kLinear) {
      DRIFTC_UNROLL for (u32 i = 0; i < R; ++i) a[i] += stride_a;
      DRIFTC_UNROLL for (u32 j = 0; j < C; ++j) b[j] += stride_b;
    }
  }
}

template <u32 R, u32 C, Form FA, Form FB>
void RunTile(const TileRun& run) {
  const D d;
  const BoundRegion::Tile& tile = *run.tile;
  const V nan = hn::BitCast(d, hn::Set(hn::RebindToUnsigned<D>(), kCanonicalNanBits));
  for (std::size_t k = 0; k < kGroupLanes; k += hn::Lanes(d)) {
    std::size_t i0 = run.group * kGroupLanes + k;
    V acc[R * C];
    DRIFTC_UNROLL for (u32 n = 0; n < R * C; ++n) {
      const Place& p = tile.in[n];
      acc[n] = hn::Load(
          d, reinterpret_cast<const float*>(run.frame->regs + p.offset) + (p.mask ? i0 : 0));
    }
    if (run.linear)
      steps<R, C, FA, FB, true>(run, k, acc);
    else
      steps<R, C, FA, FB, false>(run, k, acc);
    DRIFTC_UNROLL for (u32 n = 0; n < R * C; ++n) {
      // A NaN stays a NaN through the rest of its chain, so its bits can be made canonical at the
      // end.
      V v = hn::IfThenElse(hn::IsNaN(acc[n]), nan, acc[n]);
      hn::Store(v, d, reinterpret_cast<float*>(run.frame->regs + tile.out[n].offset) + i0);
    }
  }
}

using TileFn = void (*)(const TileRun&);

template <u32 R, u32 C>
TileFn pick_form(Form a, Form b) {
  if (a == Form::kSplat)
    return b == Form::kSplat ? &RunTile<R, C, Form::kSplat, Form::kSplat>
                             : &RunTile<R, C, Form::kSplat, Form::kVector>;
  return b == Form::kSplat ? &RunTile<R, C, Form::kVector, Form::kSplat>
                           : &RunTile<R, C, Form::kVector, Form::kVector>;
}
template <u32 R>
TileFn pick_columns(u32 columns, Form a, Form b) {
  switch (columns) {
    case 4:
      return pick_form<R, 4>(a, b);
    case 3:
      return pick_form<R, 3>(a, b);
    case 2:
      return pick_form<R, 2>(a, b);
    default:
      return pick_form<R, 1>(a, b);
  }
}
TileFn pick(u32 rows, u32 columns, Form a, Form b) {
  switch (rows) {
    case 4:
      return pick_columns<4>(columns, a, b);
    case 3:
      return pick_columns<3>(columns, a, b);
    case 2:
      return pick_columns<2>(columns, a, b);
    default:
      return pick_columns<1>(columns, a, b);
  }
}

// How the lanes of the current group see a base.
struct Seen {
  Form form = Form::kVector;
  const std::byte* pointer =
      nullptr;  // of the element at offset 0 (lane 0); null: must be gathered
  bool gathered = false;
};

class GroupRun {
 public:
  GroupRun(const BoundRegion& region, Frame& frame) : region_(region), f_(frame) {}

  bool run(std::size_t group) {
    group_ = group;
    for (std::size_t b = 0; b < region_.bases.size(); ++b)
      if (!look(region_.bases[b], seen_[b])) return false;
    for (const BoundRegion::Tile& tile : region_.tiles) {
      Form fa = form_of(tile.a), fb = form_of(tile.b);
      const std::byte** table = f_.region_pointers;
      bool linear = tile.a.linear && tile.b.linear && in_place(tile.a, fa) && in_place(tile.b, fb);
      const std::byte** b_table = table + (linear ? tile.rows : tile.rows * tile.steps);
      fill(tile.a, tile.rows, fa, linear, table);
      fill(tile.b, tile.columns, fb, linear, b_table);
      pick(tile.rows, tile.columns, fa, fb)({&tile, &f_, group_, table, b_table, linear});
    }
    return true;
  }

 private:
  bool look(const BoundRegion::Base& base, Seen& seen) {
    seen = {};
    const std::byte* slot = f_.regs + base.place.offset;
    if (!base.is_address) {
      seen.form = base.place.mask == 0 ? Form::kSplat : Form::kVector;
      seen.pointer = base.place.mask == 0 ? slot : slot + group_ * kGroupLanes * 4;
      return true;
    }
    const u32* a =
        reinterpret_cast<const u32*>(slot) + (base.place.mask == 0 ? 0 : group_ * kGroupLanes);
    const u32 first = a[0];
    bool same = true, consecutive = true;
    const hn::RebindToUnsigned<D> du;
    for (std::size_t k = 0; k < kGroupLanes; k += hn::Lanes(du)) {
      auto v = hn::Load(du, a + k);
      same &= hn::AllTrue(du, hn::Eq(v, hn::Set(du, first)));
      auto run = hn::Add(hn::Set(du, first), hn::ShiftLeft<2>(hn::Iota(du, static_cast<u32>(k))));
      consecutive &= hn::AllTrue(du, hn::Eq(v, run));
    }
    // Addresses wrap at 32 bits, so a negative one may be made good by the loads' offsets.
    auto wrapped = [](u32 v) { return s64{static_cast<std::int32_t>(v)}; };
    s64 low = wrapped(first), high = low + (consecutive ? 4 * (kGroupLanes - 1) : 0);
    u32 low_bits = first;
    if (!same && !consecutive) {
      for (u32 j = 0; j < kGroupLanes; ++j) {
        low = std::min(low, wrapped(a[j]));
        high = std::max(high, wrapped(a[j]));
        low_bits |= a[j];
      }
    }
    if (low + base.min_offset < 0 || high + base.max_offset + 4 > s64{f_.shared_bytes} ||
        ((low_bits | base.offset_bits) & 3))
      return false;
    seen.form = same ? Form::kSplat : Form::kVector;
    if (same || consecutive)
      seen.pointer = f_.shared + wrapped(first);
    else
      seen.pointer = nullptr;
    addresses_ = a;
    if (!seen.pointer) gather(base, seen);
    return true;
  }

  float* scratch(u32 operand) const {
    return reinterpret_cast<float*>(f_.region_scratch) + std::size_t{operand} * kGroupLanes;
  }

  void gather(const BoundRegion::Base& base, Seen& seen) {
    const D d;
    const hn::RebindToSigned<D> di;
    const u32* a = addresses_;
    for (u32 o : *base.operands) {
      const float* p = reinterpret_cast<const float*>(f_.shared + region_.operands[o].offset);
      for (std::size_t k = 0; k < kGroupLanes; k += hn::Lanes(d))
        hn::Store(
            hn::GatherOffset(d, p, hn::Load(di, reinterpret_cast<const std::int32_t*>(a) + k)), d,
            scratch(o) + k);
    }
    seen.gathered = true;
  }

  // One kernel handles rows of one form; a side with both spreads the splat ones.
  Form form_of(const BoundRegion::Side& side) const {
    bool all_splat = true;
    for (u32 b : side.bases_used) all_splat = all_splat && seen_[b].form == Form::kSplat;
    return all_splat ? Form::kSplat : Form::kVector;
  }

  bool in_place(const BoundRegion::Side& side, Form form) const {
    for (u32 b : side.bases_used)
      if (seen_[b].gathered || seen_[b].form != form) return false;
    return true;
  }

  void fill(const BoundRegion::Side& side, u32 width, Form form, bool linear,
            const std::byte** out) {
    if (linear) {
      for (u32 i = 0; i < width; ++i) out[i] = seen_[side.base[i]].pointer + side.first[i];
      return;
    }
    for (std::size_t n = 0; n < side.operands.size(); ++n) {
      u32 o = side.operands[n];
      const Region::Operand& operand = region_.operands[o];
      const Seen& seen = seen_[operand.base];
      if (!seen.gathered && seen.form == Form::kSplat && form == Form::kVector) {
        const D d;
        float v;
        std::memcpy(&v, seen.pointer + operand.offset, sizeof v);
        for (std::size_t k = 0; k < kGroupLanes; k += hn::Lanes(d))
          hn::Store(hn::Set(d, v), d, scratch(o) + k);
        out[n] = reinterpret_cast<const std::byte*>(scratch(o));
      } else {
        out[n] = seen.gathered ? reinterpret_cast<const std::byte*>(scratch(o))
                               : seen.pointer + operand.offset;
      }
    }
  }

  const BoundRegion& region_;
  Frame& f_;
  std::size_t group_ = 0;
  const u32* addresses_ = nullptr;
  Seen seen_[Region::kMaxBases];
};

bool Run(const BoundRegion& region, Frame& frame, u32 first, u32 last) {
  GroupRun run(region, frame);
  for (std::size_t g = first; g < last; ++g)
    if (!run.run(g)) return false;
  return true;
}

}  // namespace
}  // namespace driftc::runtime::ptx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace driftc::runtime::ptx {
HWY_EXPORT(Run);
RegionFn region_function() { return HWY_DYNAMIC_DISPATCH(Run); }
}  // namespace driftc::runtime::ptx
#endif
