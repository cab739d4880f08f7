// Operations lane by lane: parameters, atomics, and what threads of a warp exchange.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/ptx/exec_warp.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)  // see exec_plain.cpp
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "ir/support/round.h"
#include "runtime/ptx/exec_access_inl.h"
#include "runtime/ptx/frame.h"

HWY_BEFORE_NAMESPACE();
namespace driftc::runtime::ptx::HWY_NAMESPACE {
namespace {

void LoadParam(const BoundInst& in, Frame& f, u32 g0, u32 g1) {
  for (std::size_t g = g0; g < g1; ++g)
    for (u32 rest = in.uniform ? kAll : mask_of(in, f, g); rest; rest &= rest - 1)
      load_element(in, f, 0, g * kGroupLanes + static_cast<std::size_t>(std::countr_zero(rest)),
                   f.params + in.imm);
}

// ---- atomics: lanes in ascending order

HWY_INLINE float flushed(float v) {
  u32 bits = bits_of(v);
  return (bits & 0x7F800000u) == 0 ? float_of(bits & 0x80000000u) : v;
}

template <class U, class S>
HWY_INLINE U combine(AtomicKind kind, U old, U v, U second) {
  switch (kind) {
    case AtomicKind::kAdd:
      return static_cast<U>(old + v);
    case AtomicKind::kMinS:
      return static_cast<S>(old) < static_cast<S>(v) ? old : v;
    case AtomicKind::kMinU:
      return old < v ? old : v;
    case AtomicKind::kMaxS:
      return static_cast<S>(old) > static_cast<S>(v) ? old : v;
    case AtomicKind::kMaxU:
      return old > v ? old : v;
    case AtomicKind::kAnd:
      return old & v;
    case AtomicKind::kOr:
      return old | v;
    case AtomicKind::kXor:
      return old ^ v;
    case AtomicKind::kExch:
      return v;
    case AtomicKind::kCas:
      return old == v ? second : old;
    case AtomicKind::kAddF32:
    case AtomicKind::kAddF64:
      break;
  }
  return old;
}

HWY_INLINE u32 add_f32(u32 old, u32 v, bool flush) {
  float a = float_of(old), b = float_of(v);
  if (flush) a = flushed(a), b = flushed(b);
  float r = add_rn(a, b);
  if (flush) r = flushed(r);
  return r != r ? kCanonicalNanBits : bits_of(r);
}

template <class U, class S>
HWY_INLINE void atomics(const BoundInst& in, Frame& f, u32 g0, u32 g1) {
  AtomicKind kind = static_cast<AtomicKind>(in.memory.count);
  bool shared = in.memory.space == Space::kShared;
  for (std::size_t g = g0; g < g1; ++g) {
    for (u32 rest = mask_of(in, f, g); rest; rest &= rest - 1) {
      std::size_t i = g * kGroupLanes + static_cast<std::size_t>(std::countr_zero(rest));
      std::byte* p;
      if (shared) {
        s64 address = shared_address(at<u32>(f, in.src[0])[lane(i, in.src[0])], in.imm);
        if (!check_shared(in, f, static_cast<u32>(i), address, sizeof(U), true)) return;
        p = f.shared + address;
      } else {
        u64 address = at<u64>(f, in.src[0])[lane(i, in.src[0])] + static_cast<u64>(in.imm);
        if (!check_host(in, f, static_cast<u32>(i), address, sizeof(U), true)) return;
        p = reinterpret_cast<std::byte*>(address);
      }
      U old = read<U>(p), v = at<U>(f, in.src[1])[lane(i, in.src[1])];
      U second = in.sources > 2 ? at<U>(f, in.src[2])[lane(i, in.src[2])] : U{0};
      U now;
      if (kind == AtomicKind::kAddF32) {
        now = add_f32(static_cast<u32>(old), static_cast<u32>(v),
                      !shared);  // global atomics flush subnormals
      } else if (kind == AtomicKind::kAddF64) {
        double r = add_rn(double_of(static_cast<u64>(old)), double_of(static_cast<u64>(v)));
        now = static_cast<U>(r != r ? u64{0x7FF8000000000000u} : bits_of(r));
      } else {
        now = combine<U, S>(kind, old, v, second);
      }
      std::memcpy(p, &now, sizeof now);
      at<U>(f, in.dst[0])[i] = old;
    }
  }
}
void Atomic(const BoundInst& in, Frame& f, u32 g0, u32 g1) {
  if (in.memory.bytes == 8)
    atomics<u64, s64>(in, f, g0, g1);
  else
    atomics<u32, std::int32_t>(in, f, g0, g1);
}

// ---- across a warp

void Shuffle(const BoundInst& in, Frame& f, u32 g0, u32 g1) {
  ShuffleKind kind = static_cast<ShuffleKind>(in.imm);
  const u32* a = at<u32>(f, in.src[0]);
  for (std::size_t warp = g0 / 2 * 32; warp < g1 * kGroupLanes; warp += 32) {
    u32 values[32];  // the source may be the destination
    std::size_t groups = std::min<std::size_t>(2, f.groups - warp / kGroupLanes);
    for (std::size_t j = 0; j < 32; ++j)
      values[j] = j < groups * kGroupLanes ? a[lane(warp + j, in.src[0])] : 0;
    for (std::size_t h = 0; h < groups; ++h) {
      std::size_t g = warp / kGroupLanes + h;
      for (u32 rest = mask_of(in, f, g); rest; rest &= rest - 1) {
        u32 j = static_cast<u32>(std::countr_zero(rest)), t = static_cast<u32>(h) * kGroupLanes + j;
        std::size_t i = warp + t;
        u32 b = at<u32>(f, in.src[1])[lane(i, in.src[1])] & 31,
            c = at<u32>(f, in.src[2])[lane(i, in.src[2])];
        u32 clamp = c & 31, segment = c >> 8 & 31;
        u32 max_lane = (t & segment) | (clamp & ~segment), min_lane = t & segment;
        std::int32_t from = 0;
        bool ok = false;
        switch (kind) {
          case ShuffleKind::kUp:
            from = static_cast<std::int32_t>(t) - static_cast<std::int32_t>(b);
            ok = from >= static_cast<std::int32_t>(max_lane);
            break;
          case ShuffleKind::kDown:
            from = static_cast<std::int32_t>(t + b);
            ok = from <= static_cast<std::int32_t>(max_lane);
            break;
          case ShuffleKind::kBfly:
            from = static_cast<std::int32_t>(t ^ b);
            ok = from <= static_cast<std::int32_t>(max_lane);
            break;
          case ShuffleKind::kIdx:
            from = static_cast<std::int32_t>(min_lane | (b & ~segment));
            ok = from <= static_cast<std::int32_t>(max_lane);
            break;
        }
        if (!ok) from = static_cast<std::int32_t>(t);
        at<u32>(f, in.dst[0])[i] = values[from & 31];
        if (in.destinations > 1) {
          u16& p = at<u16>(f, in.dst[1])[g];
          p = static_cast<u16>((p & ~(1u << j)) | (u32{ok} << j));
        }
      }
    }
  }
}

void Vote(const BoundInst& in, Frame& f, u32 g0, u32 g1) {
  VoteKind kind = static_cast<VoteKind>(in.imm);
  for (std::size_t first = g0 / 2 * 2; first < g1; first += 2) {
    u32 active = 0, votes = 0;
    for (std::size_t h = 0; h < 2 && first + h < f.groups; ++h) {
      active |= mask_of(in, f, first + h) << (kGroupLanes * h);
      votes |= u32{at<u16>(f, in.src[0])[lane(first + h, in.src[0])]} << (kGroupLanes * h);
    }
    for (u32 rest = active; rest; rest &= rest - 1) {
      u32 t = static_cast<u32>(std::countr_zero(rest));
      std::size_t i = first * kGroupLanes + t;
      u32 members = at<u32>(f, in.src[1])[lane(i, in.src[1])] & active, yes = votes & members;
      bool flag = kind == VoteKind::kAll   ? yes == members
                  : kind == VoteKind::kAny ? yes != 0
                                           : yes == 0 || yes == members;
      if (kind == VoteKind::kBallot) {
        at<u32>(f, in.dst[0])[i] = yes;
      } else {
        u16& p = at<u16>(f, in.dst[0])[i / kGroupLanes];
        u32 bit = 1u << (i % kGroupLanes);
        p = static_cast<u16>(flag ? p | bit : p & ~bit);
      }
    }
  }
}

void ActiveMask(const BoundInst& in, Frame& f, u32 g0, u32 g1) {
  for (std::size_t first = g0 / 2 * 2; first < g1; first += 2) {
    u32 active = 0;
    for (std::size_t h = 0; h < 2 && first + h < f.groups; ++h)
      active |= mask_of(in, f, first + h) << (kGroupLanes * h);
    for (u32 rest = active; rest; rest &= rest - 1)
      at<u32>(f,
              in.dst[0])[first * kGroupLanes + static_cast<std::size_t>(std::countr_zero(rest))] =
          active;
  }
}

void Trap(const BoundInst& in, Frame& f, u32 g0, u32 g1) {
  for (std::size_t g = g0; g < g1; ++g)
    if (u32 m = mask_of(in, f, g))
      return f.fail(FaultKind::kTrap, in.inst,
                    static_cast<u32>(g * kGroupLanes) + static_cast<u32>(std::countr_zero(m)), 0, 0,
                    false);
}

void Nothing(const BoundInst&, Frame&, u32, u32) {}

ExecFn Function(Op op) {
  switch (op) {
    case Op::kLoadParam:
      return &LoadParam;
    case Op::kAtomic:
      return &Atomic;
    case Op::kShuffle:
      return &Shuffle;
    case Op::kVote:
      return &Vote;
    case Op::kActiveMask:
      return &ActiveMask;
    case Op::kTrap:
      return &Trap;
    case Op::kAsyncCommit:
    case Op::kAsyncWait:  // copies are made at once
      return &Nothing;
    default:
      return nullptr;  // plain operations, barriers and regions are not executed through this table
  }
}

}  // namespace
}  // namespace driftc::runtime::ptx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace driftc::runtime::ptx {
HWY_EXPORT(Function);
ExecFn warp_function(Op op) { return HWY_DYNAMIC_DISPATCH(Function)(op); }

}  // namespace driftc::runtime::ptx
#endif
