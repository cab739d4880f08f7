// Accesses that are not one vector access, for AVX2: lanes that are not in line, at the edge of a
// buffer, or in a buffer not seen before. Out of the way of the code for the others. Private to
// runtime/ptx.
#pragma once

#include "runtime/ptx/jit_looks_avx2.h"

namespace driftc::runtime::ptx::avx2 {

class ScatteredAccesses : public Looks {
 public:
  using Looks::Looks;

 protected:
  // What was loaded goes to the lanes that the guard allows.
  void take(const AccessPlan& a, int e, const Ymm& loaded) {
    const Ymm d(a.data[e]), g(a.mask);
    if (!a.guarded)
      vmovaps(d, loaded);
    else if (a.negated)
      vblendvps(d, loaded, d, g);
    else
      vblendvps(d, d, loaded, g);
  }
  // One element from memory for every lane.
  void broadcast(const AccessPlan& a) override {
    for (int e = 0; e < a.count; ++e) {
      if (!a.guarded) {
        vbroadcastss(Ymm(a.data[e]), memory_at(a, 4 * e));
      } else {
        vbroadcastss(ymm13, memory_at(a, 4 * e));
        take(a, e, ymm13);
      }
    }
  }

  void scattered(const AccessPlan& a, const Label& back) override {
    Label slow, gather;
    if (a.guarded) {
      lane_bits_of(r8d, a, ymm13);
      test(r8d, r8d);
      jz(back, T_NEAR);
    } else {
      mov(r8d, r10d);
    }
    if (a.wide) return scattered_wide(a, back);
    if (a.root != kNoValue && !a.store) {
      // One address for all?
      const Ymm root(a.root_register);
      broadcast_first(ymm14, root);
      equal_lanes(ymm14, root);
      cmp(ecx, r10d);
      jne(gather, T_NEAR);
      vmovd(eax, xmm14);
      add_terms(a);
      extended(a);
      check_single(a, slow);
      broadcast(a);
      jmp(back, T_NEAR);
    }
    L(gather);
    // ymm14 = the lanes' offsets in shared memory, or their elements in the buffer.
    if (a.shared) {
      index_vector(a, ymm14);
      if (a.offset) vpaddd(ymm14, ymm14, constant(static_cast<std::uint32_t>(a.offset)));
      vpbroadcastd(ymm13, ptr[rbp + CONTEXT(shared_bytes_places) + 4 * a.log_count]);
      below(ymm14, ymm13, slow);
      aligned_lanes((4 << a.log_count) - 1, slow);
      lane_by_lane(a, r13, 1, back);
    } else if (a.shift == 2 && a.root != kNoValue) {
      index_vector(a, ymm14);
      place_without_terms(a);
      sub(rcx, ptr[rbp + cache_field(a.id, offsetof(JitCache, begin))]);
      test(cl, 3);
      jnz(slow, T_NEAR);
      sar(rcx, 2);
      // Small enough that 32 bits tell a good index from a bad one.
      lea(rdx, ptr[rcx + 0x20000000]);
      cmp(rdx, 0x40000000);
      jae(slow, T_NEAR);
      vmovd(xmm13, ecx);
      vpbroadcastd(ymm13, xmm13);
      vpaddd(ymm14, ymm14, ymm13);
      vpbroadcastd(ymm13, ptr[rbp + cache_field(a.id, offsetof(JitCache, elements))]);
      below(ymm14, ymm13, slow);
      aligned_lanes(a.count - 1, slow);
      mov(rcx, ptr[rbp + cache_field(a.id, offsetof(JitCache, begin))]);
      lane_by_lane(a, rcx, 4, back);
    }
    L(slow);
    place_without_terms(a);
    mov(ptr[rbp + CONTEXT(slow_base)], rcx);
    index_vector(a, ymm14);
    vmovups(ptr[rbp + CONTEXT(slow_index)], ymm14);
    call_slow(a, back);
  }

 private:
  void scattered_wide(const AccessPlan& a, const Label& back) {
    Label slow, gather;
    const Ymm low(a.low), high(a.high);
    if (!a.store) {
      first_wide(a);
      mov(r9, rax);
      vmovq(xmm13, rax);
      vpbroadcastq(ymm13, xmm13);
      equal_wide(a, ymm13, ymm13);
      and_(ecx, r10d);
      cmp(ecx, r10d);
      jne(gather, T_NEAR);
      lea(rcx, ptr[r9 + static_cast<int>(a.offset)]);
      check_single(a, slow);
      broadcast(a);
      jmp(back, T_NEAR);
    }
    L(gather);
    // Offsets from the begin of the buffer, in range and aligned.
    mov(rax, ptr[rbp + cache_field(a.id, offsetof(JitCache, begin))]);
    if (a.offset) sub(rax, static_cast<int>(a.offset));
    vmovq(xmm15, rax);
    vpbroadcastq(ymm15, xmm15);
    vpsubq(ymm14, low, ymm15);
    vpsubq(ymm13, high, ymm15);
    // Below the number of places, which is small, and not negative.
    vpbroadcastq(ymm15, ptr[rbp + cache_field(a.id, offsetof(JitCache, bytes))]);
    vmovmskpd(eax, ymm13);
    vpcmpgtq(ymm13, ymm15, ymm13);
    vmovmskpd(ecx, ymm13);
    not_(eax);
    and_(ecx, eax);
    vmovmskpd(eax, ymm14);
    vpcmpgtq(ymm15, ymm15, ymm14);
    vmovmskpd(edx, ymm15);
    not_(eax);
    and_(edx, eax);
    shl(ecx, 4);
    or_(ecx, edx);
    and_(ecx, r8d);
    cmp(ecx, r8d);
    jne(slow, T_NEAR);
    mov(rax, ptr[rbp + cache_field(a.id, offsetof(JitCache, begin))]);
    if (a.offset) sub(rax, static_cast<int>(a.offset));
    vmovq(xmm15, rax);
    vpbroadcastq(ymm15, xmm15);
    vpsubq(ymm13, high, ymm15);
    narrow_halves(ymm14, ymm14, ymm13);
    aligned_lanes((4 << a.log_count) - 1, slow);
    mov(rcx, ptr[rbp + cache_field(a.id, offsetof(JitCache, begin))]);
    lane_by_lane(a, rcx, 1, back);
    L(slow);
    vmovups(ptr[rbp + CONTEXT(slow_address)], low);
    vmovups(ptr[rbp + CONTEXT(slow_address) + 32], high);
    call_slow(a, back);
  }

 protected:
  // The low words of two vectors of four.
  void narrow_halves(const Ymm& into, const Ymm& low, const Ymm& high) {
    vshufps(into, low, high, 0x88);
    vpermq(into, into, 0xD8);
  }

 private:
  // rcx = what the lanes' indices are added to.
  void place_without_terms(const AccessPlan& a) {
    AccessPlan base = a;
    base.addends.clear();
    base.constant = 0;
    xor_(eax, eax);
    extended(base);
  }
  // The lanes' 32-bit indices.
  void index_vector(const AccessPlan& a, const Ymm& into) {
    if (a.root != kNoValue)
      vmovaps(into, Ymm(a.root_register));
    else
      vpxor(into, into, into);
    for (Reg r : a.addends) vpaddd(into, into, in_file(r));
    if (a.constant) vpaddd(into, into, constant(a.constant));
  }
  // Goes to `slow` unless lanes are below the limit, unsigned; r8 = lanes that count.
  void below(const Ymm& lanes, const Ymm& limit, const Label& slow) {
    vpmaxud(ymm15, lanes, limit);
    vpcmpeqd(ymm15, ymm15, lanes);
    vmovmskps(edx, ymm15);
    test(edx, r8d);
    jnz(slow, T_NEAR);
  }
  // The same unless these bits of ymm14 are zero.
  void aligned_lanes(int bits, const Label& slow) {
    if (bits == 0) return;
    vpand(ymm15, ymm14, constant(static_cast<std::uint32_t>(bits)));
    vpxor(ymm13, ymm13, ymm13);
    vpcmpeqd(ymm15, ymm15, ymm13);
    vmovmskps(edx, ymm15);
    not_(edx);
    test(edx, r8d);
    jnz(slow, T_NEAR);
  }
  // The checked access of the lanes in r8 at base + ymm14 * scale.
  void lane_by_lane(const AccessPlan& a, const Xbyak::Reg64& base, int scale, const Label& back) {
    if (!a.store) {
      for (int e = 0; e < a.count; ++e) {
        lanes_of(ymm15, a);
        vgatherdps(Ymm(a.data[e]), ptr[base + ymm14 * scale + 4 * e], ymm15);
      }
      jmp(back, T_NEAR);
      return;
    }
    // In the order of lanes: where two have one address, the later one wins.
    vmovups(ptr[rbp + CONTEXT(slow_index)], ymm14);
    for (int e = 0; e < a.count; ++e)
      vmovups(ptr[rbp + CONTEXT(slow_value) + 64 * e], Ymm(a.data[e]));
    Label next;
    L(next);
    bsf(edx, r8d);
    mov(eax, ptr[rbp + rdx * 4 + CONTEXT(slow_index)]);
    if (scale == 4) shl(rax, 2);
    for (int e = 0; e < a.count; ++e) {
      mov(r9d, ptr[rbp + rdx * 4 + (CONTEXT(slow_value) + 64 * e)]);
      mov(dword[base + rax + 4 * e], r9d);
    }
    lea(edx, ptr[r8 - 1]);
    and_(r8d, edx);
    jnz(next, T_NEAR);
    jmp(back, T_NEAR);
  }
  void call_slow(const AccessPlan& a, const Label& back) {
    slow_used_ = true;
    mov(ptr[rbp + CONTEXT(slow_mask)], r8);
    if (a.store)
      for (int e = 0; e < a.count; ++e)
        vmovups(ptr[rbp + CONTEXT(slow_value) + 64 * e], Ymm(a.data[e]));
    mov(edx, a.id);
    call(slow_);
    jnz(fault_, T_NEAR);
    if (!a.store)
      for (int e = 0; e < a.count; ++e) {
        vmovups(ymm13, ptr[rbp + CONTEXT(slow_value) + 64 * e]);
        take(a, e, ymm13);
      }
    jmp(back, T_NEAR);
  }
};

}  // namespace driftc::runtime::ptx::avx2
