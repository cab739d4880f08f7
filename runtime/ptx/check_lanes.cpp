#include "runtime/ptx/check_lanes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/ptx/check_lanes.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)  // see exec_plain.cpp
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "runtime/ptx/lanes_inl.h"

HWY_BEFORE_NAMESPACE();
namespace driftc::runtime::ptx::HWY_NAMESPACE {
namespace {

// S orders as the addresses do: shared ones are signed, and no host address has its top bit set
// unless it is wrong, which the extent then shows.
template <class S>
HWY_INLINE LaneExtent extent(const S* addresses, const u16* masks, u32 first, u32 last, u32 width) {
  const Tag<S> d;
  auto low = hn::Set(d, std::numeric_limits<S>::max());
  auto high = hn::Set(d, std::numeric_limits<S>::min());
  auto bits = hn::Zero(d);
  bool whole = false;
  LaneExtent out{std::numeric_limits<s64>::max(), std::numeric_limits<s64>::min(), true};
  for (u32 g = first; g < last; ++g) {
    const S* a = addresses + std::size_t{g} * kGroupLanes;
    if (masks[g] == kAll) {
      whole = true;
      for (std::size_t k = 0; k < kGroupLanes; k += hn::Lanes(d)) {
        const auto v = hn::Load(d, a + k);
        low = hn::Min(low, v);
        high = hn::Max(high, v);
        bits = hn::Or(bits, v);
      }
      continue;
    }
    if (masks[g] == 0) continue;
    whole = true;
    const auto some = hn::Set(d, a[std::countr_zero(masks[g])]);  // stands for lanes that are off
    for (std::size_t k = 0; k < kGroupLanes; k += hn::Lanes(d)) {
      const auto v = hn::IfThenElse(mask_of_bits(d, u32{masks[g]} >> k), hn::Load(d, a + k), some);
      low = hn::Min(low, v);
      high = hn::Max(high, v);
      bits = hn::Or(bits, v);
    }
  }
  if (whole) {
    out.low = std::min<s64>(out.low, hn::GetLane(hn::MinOfLanes(d, low)));
    out.high = std::max<s64>(out.high, hn::GetLane(hn::MaxOfLanes(d, high)));
    const auto rest = hn::And(bits, hn::Set(d, static_cast<S>(width - 1)));
    out.aligned &= hn::AllTrue(d, hn::Eq(rest, hn::Zero(d)));
  }
  return out;
}
LaneExtent Extent32(const u32* a, const u16* masks, u32 first, u32 last, u32 width) {
  return extent(reinterpret_cast<const s32*>(a), masks, first, last, width);
}
LaneExtent Extent64(const u64* a, const u16* masks, u32 first, u32 last, u32 width) {
  return extent(reinterpret_cast<const s64*>(a), masks, first, last, width);
}

// Stamps are compared as signed numbers, all moved by 2^31.
HWY_INLINE s32 moved(u32 v) { return static_cast<s32>(v ^ 0x80000000u); }

bool Within(const u32* stamps, std::size_t count, u32 low, u32 high) {
  const Tag<s32> d;
  const auto flip = hn::Set(d, std::numeric_limits<s32>::min());
  const auto least = hn::Set(d, moved(low)), end = hn::Set(d, moved(high));
  const std::size_t step = hn::Lanes(d);
  const auto* p = reinterpret_cast<const s32*>(stamps);
  std::size_t i = 0;
  auto bad = hn::Lt(hn::Zero(d), hn::Zero(d));
  for (; i + step <= count; i += step) {
    const auto v = hn::Xor(hn::LoadU(d, p + i), flip);
    bad = hn::Or(bad, hn::Or(hn::Lt(v, least), hn::Not(hn::Lt(v, end))));
  }
  if (!hn::AllFalse(d, bad)) return false;
  for (; i < count; ++i)
    if (stamps[i] < low || stamps[i] >= high) return false;
  return true;
}

template <class T>
HWY_INLINE bool in_line(const T* a, T step) {
  const Tag<T> d;
  const T first = a[0];
  bool same = true;
  for (std::size_t k = 0; k < kGroupLanes; k += hn::Lanes(d)) {
    // Steps are powers of two, which a shift multiplies by on every target.
    const auto expected =
        hn::Add(hn::Set(d, first),
                hn::ShiftLeftSame(hn::Iota(d, static_cast<T>(k)), std::countr_zero(step)));
    same &= hn::AllTrue(d, hn::Eq(hn::Load(d, a + k), expected));
  }
  return same;
}
bool InLine(const u64* a, u64 step) { return in_line(a, step); }

HWY_INLINE bool all_below(const u32* stamps, std::size_t count, u32 now) {
  const Tag<s32> d;
  const auto flip = hn::Set(d, std::numeric_limits<s32>::min());
  const auto end = hn::Set(d, moved(now));
  bool below = true;
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const auto v = hn::LoadU(d, reinterpret_cast<const s32*>(stamps) + i);
    below &= hn::AllTrue(d, hn::Lt(hn::Xor(v, flip), end));
  }
  return below;
}

u32 StampRows(u32* stamps, const u32* addresses, const u16* masks, u32 first, u32 last, s64 offset,
              u32 shift, u32 log_each, u32 now) {
  const Tag<u32> d;
  const std::size_t count = std::size_t{kGroupLanes} << log_each;
  for (u32 g = first; g < last; ++g) {
    const u32* const a = addresses + std::size_t{g} * kGroupLanes;
    if (masks[g] != kAll || !in_line(a, u32{1} << (shift + log_each))) return g;
    u32* const row = stamps + (static_cast<u64>(s64{static_cast<s32>(a[0])} + offset) >> shift);
    if (!all_below(row, count, now)) return g;
    const auto base = hn::Set(d, now | g * kGroupLanes);  // the threads of a group differ below
    for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
      const auto lane =
          hn::ShiftRightSame(hn::Iota(d, static_cast<u32>(i)), static_cast<int>(log_each));
      hn::StoreU(hn::Or(base, lane), d, row + i);
    }
  }
  return last;
}

const LaneFunctions* Functions() {
  static constexpr LaneFunctions kFunctions = {&Extent32, &Extent64, &Within, &InLine, &StampRows};
  return &kFunctions;
}

}  // namespace
}  // namespace driftc::runtime::ptx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace driftc::runtime::ptx {
HWY_EXPORT(Functions);
const LaneFunctions& lane_functions() { return *HWY_DYNAMIC_DISPATCH(Functions)(); }
}  // namespace driftc::runtime::ptx
#endif
