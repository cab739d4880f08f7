// Loops over the lanes of plain operations (exec_plain.cpp): where operands lie, element by element
// or vector by vector, and predicates.
// Compiled once per instruction set: included again for every one (Highway).
#if defined(DRIFTC_PTX_EXEC_PLAIN_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef DRIFTC_PTX_EXEC_PLAIN_INL_H
#undef DRIFTC_PTX_EXEC_PLAIN_INL_H
#else
#define DRIFTC_PTX_EXEC_PLAIN_INL_H
#endif

#include <hwy/highway.h>

#include <cmath>
#include <cstring>

#include "ir/support/round.h"
#include "runtime/ptx/frame.h"
#include "runtime/ptx/lanes_inl.h"

HWY_BEFORE_NAMESPACE();
namespace driftc::runtime::ptx::HWY_NAMESPACE {
namespace {

constexpr u64 kNan64 =
    0x7FF8000000000000u;  // the quiet NaN; what NVIDIA hardware writes for f64 is not specified

// A uniform register holds one group of equal lanes. The position inside the group is kept, because
// an instruction may write the register it reads: the second vector of a group must not see what
// the first one stored.
HWY_INLINE std::size_t lane(std::size_t i, const Place& p) {
  return i & (p.mask == 0 ? kGroupLanes - 1 : ~std::size_t{0});
}

// The same for predicates, which have one element per group; a uniform one has only the first.
HWY_INLINE std::size_t group(std::size_t g, const Place& p) { return p.mask == 0 ? 0 : g; }

// ---- lane by lane, in runs of 16 that the compiler can vectorise

template <class D, class A, class F>
HWY_INLINE void loop1(const BoundInst& in, Frame& f, u32 g0, u32 g1, F fn) {
  D* d = at<D>(f, in.dst[0]);
  for (std::size_t i = g0 * kGroupLanes; i < g1 * kGroupLanes; i += kGroupLanes) {
    const A* a = at<A>(f, in.src[0]) + lane(i, in.src[0]);
    D r[kGroupLanes];
    for (std::size_t j = 0; j < kGroupLanes; ++j) r[j] = fn(a[j]);
    std::memcpy(d + i, r, sizeof r);
  }
}
template <class D, class A, class B, class F>
HWY_INLINE void loop2(const BoundInst& in, Frame& f, u32 g0, u32 g1, F fn) {
  D* d = at<D>(f, in.dst[0]);
  for (std::size_t i = g0 * kGroupLanes; i < g1 * kGroupLanes; i += kGroupLanes) {
    const A* a = at<A>(f, in.src[0]) + lane(i, in.src[0]);
    const B* b = at<B>(f, in.src[1]) + lane(i, in.src[1]);
    D r[kGroupLanes];
    for (std::size_t j = 0; j < kGroupLanes; ++j) r[j] = fn(a[j], b[j]);
    std::memcpy(d + i, r, sizeof r);
  }
}
template <class D, class A, class B, class C, class F>
HWY_INLINE void loop3(const BoundInst& in, Frame& f, u32 g0, u32 g1, F fn) {
  D* d = at<D>(f, in.dst[0]);
  for (std::size_t i = g0 * kGroupLanes; i < g1 * kGroupLanes; i += kGroupLanes) {
    const A* a = at<A>(f, in.src[0]) + lane(i, in.src[0]);
    const B* b = at<B>(f, in.src[1]) + lane(i, in.src[1]);
    const C* c = at<C>(f, in.src[2]) + lane(i, in.src[2]);
    D r[kGroupLanes];
    for (std::size_t j = 0; j < kGroupLanes; ++j) r[j] = fn(a[j], b[j], c[j]);
    std::memcpy(d + i, r, sizeof r);
  }
}

// ---- whole vectors

template <class T, class F>
HWY_INLINE void map1(const BoundInst& in, Frame& f, u32 g0, u32 g1, F fn) {
  const Tag<T> d;
  T* out = at<T>(f, in.dst[0]);
  const T* a = at<T>(f, in.src[0]);
  for (std::size_t i = g0 * kGroupLanes; i < g1 * kGroupLanes; i += hn::Lanes(d))
    hn::Store(fn(hn::Load(d, a + lane(i, in.src[0]))), d, out + i);
}
template <class T, class F>
HWY_INLINE void map2(const BoundInst& in, Frame& f, u32 g0, u32 g1, F fn) {
  const Tag<T> d;
  T* out = at<T>(f, in.dst[0]);
  const T *a = at<T>(f, in.src[0]), *b = at<T>(f, in.src[1]);
  for (std::size_t i = g0 * kGroupLanes; i < g1 * kGroupLanes; i += hn::Lanes(d))
    hn::Store(fn(hn::Load(d, a + lane(i, in.src[0])), hn::Load(d, b + lane(i, in.src[1]))), d,
              out + i);
}
template <class T, class F>
HWY_INLINE void map3(const BoundInst& in, Frame& f, u32 g0, u32 g1, F fn) {
  const Tag<T> d;
  T* out = at<T>(f, in.dst[0]);
  const T *a = at<T>(f, in.src[0]), *b = at<T>(f, in.src[1]), *c = at<T>(f, in.src[2]);
  for (std::size_t i = g0 * kGroupLanes; i < g1 * kGroupLanes; i += hn::Lanes(d))
    hn::Store(fn(hn::Load(d, a + lane(i, in.src[0])), hn::Load(d, b + lane(i, in.src[1])),
                 hn::Load(d, c + lane(i, in.src[2]))),
              d, out + i);
}

// Every NaN that arithmetic produces is the canonical one.
template <class V>
HWY_INLINE V canonical(V v) {
  const hn::DFromV<V> d;
  using T = hn::TFromV<V>;
  if constexpr (sizeof(T) == 4) {
    const hn::RebindToUnsigned<decltype(d)> du;
    return hn::IfThenElse(hn::IsNaN(v), hn::BitCast(d, hn::Set(du, kCanonicalNanBits)), v);
  } else {
    const hn::RebindToUnsigned<decltype(d)> du;
    return hn::IfThenElse(hn::IsNaN(v), hn::BitCast(d, hn::Set(du, kNan64)), v);
  }
}
HWY_INLINE float canonical_of(float v) { return v != v ? float_of(kCanonicalNanBits) : v; }
HWY_INLINE double canonical_of(double v) { return v != v ? double_of(kNan64) : v; }

template <class T>
HWY_INLINE void fma(const BoundInst& in, Frame& f, u32 g0, u32 g1) {
#if HWY_NATIVE_FMA
  map3<T>(in, f, g0, g1, [](auto a, auto b, auto c) { return canonical(hn::MulAdd(a, b, c)); });
#else
  loop3<T, T, T, T>(in, f, g0, g1, [](T a, T b, T c) { return canonical_of(std::fma(a, b, c)); });
#endif
}
// ---- predicates: 16 bits per group

template <class D, class M>
HWY_INLINE u32 bits_of_mask(D d, M m) {
  std::uint8_t bytes[8] = {};
  hn::StoreMaskBits(d, m, bytes);
  u32 out;
  std::memcpy(&out, bytes, sizeof out);
  return hn::Lanes(d) >= 32 ? out : out & ((u32{1} << hn::Lanes(d)) - 1);
}
}  // namespace
}  // namespace driftc::runtime::ptx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
