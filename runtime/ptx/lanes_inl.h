// The words in which code over lanes is written (exec_*.cpp, check_lanes.cpp): integer types,
// vectors of 64 bytes, and where a register lies. Compiled once per instruction set: included again
// for every one (Highway).
#if defined(DRIFTC_PTX_LANES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef DRIFTC_PTX_LANES_INL_H
#undef DRIFTC_PTX_LANES_INL_H
#else
#define DRIFTC_PTX_LANES_INL_H
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

#include "runtime/ptx/frame.h"

HWY_BEFORE_NAMESPACE();
namespace driftc::runtime::ptx::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using s32 = std::int32_t;
using u64 = std::uint64_t;
using s64 = std::int64_t;
template <class T>
using Tag = hn::CappedTag<T, 64 / sizeof(T)>;

constexpr u32 kAll = 0xFFFF;  // lanes of a group

template <class D>
HWY_INLINE hn::Mask<D> mask_of_bits(D d, u32 bits) {
  std::uint8_t bytes[8] = {};
  std::memcpy(bytes, &bits, sizeof bits);
  return hn::LoadMaskBits(d, bytes);
}
// to = the lanes of `m` of `from`, the others as they were. As two steps: GCC would make one store
// under a mask of them, which costs ten times a plain one on some machines.
template <class D>
HWY_INLINE void store_some(D d, hn::Mask<D> m, hn::Vec<D> from, hn::TFromD<D>* to) {
  auto v = hn::IfThenElse(m, from, hn::Load(d, to));
#if HWY_TARGET == HWY_AVX3
  asm("" : "+v"(v.raw));
#endif
  hn::Store(v, d, to);
}
template <class T>
HWY_INLINE T* at(const Frame& f, const Place& p) {
  return reinterpret_cast<T*>(f.regs + p.offset);
}

}  // namespace
}  // namespace driftc::runtime::ptx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
