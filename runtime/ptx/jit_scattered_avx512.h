// Accesses that are not one vector access: lanes that are not in line, at the edge of a buffer, or
// in a buffer not seen before. Out of the way of the code for the others. Private to runtime/ptx.
#pragma once

#include <vector>

#include "runtime/ptx/jit_registers_avx512.h"

namespace driftc::runtime::ptx::avx512 {

class ScatteredAccesses : public Registers {
 public:
  using Registers::Registers;

 protected:
  // The mask register of the lanes that make an access.
  static Opmask lanes(const AccessPlan& a) { return Opmask(a.mask); }

  // ecx = first active lane, rax = its address.
  void first_wide(const AccessPlan& a) {
    vmovups(ptr[rbp + CONTEXT(slow_address)], Zmm(a.low));
    vmovups(ptr[rbp + CONTEXT(slow_address) + 64], Zmm(a.high));
    bsf(ecx, r10d);
    mov(rax, ptr[rbp + rcx * 8 + CONTEXT(slow_address)]);
  }
  // ecx = lanes whose address equals the expected one.
  void equal_wide(const AccessPlan& a, const Zmm& low, const Zmm& high) {
    vpcmpeqq(k7, low, Zmm(a.low));
    kmovw(ecx, k7);
    vpcmpeqq(k7, high, Zmm(a.high));
    kmovw(edx, k7);
    shl(edx, 8);
    or_(ecx, edx);
  }
  void broadcast(const AccessPlan& a) override {
    for (int e = 0; e < a.count; ++e) {
      if (a.guarded)
        vbroadcastss(Zmm(a.data[e]) | lanes(a), memory_at(a, 4 * e));
      else
        vbroadcastss(Zmm(a.data[e]), memory_at(a, 4 * e));
    }
  }
  // Lanes that are not in line, or not in the buffer seen last.
  void scattered(const AccessPlan& a, const Label& back) override {
    Label slow, gather;
    if (a.guarded) {
      kmovw(r8d, lanes(a));
      test(r8d, r8d);
      jz(back, T_NEAR);
    } else {
      mov(r8d, r10d);
    }
    if (a.wide) return scattered_wide(a, back);
    index_vector(a);
    if (a.root != kNoValue && !a.store) {
      // One address for all?
      vpcompressd(zmm29 | k1 | T_z, Zmm(a.root_register));
      vpbroadcastd(zmm30, Xbyak::Xmm(29));
      vpcmpeqd(k7 | k1, zmm30, Zmm(a.root_register));
      kmovw(ecx, k7);
      cmp(ecx, r10d);
      jne(gather, T_NEAR);
      vmovd(eax, Xbyak::Xmm(29));
      add_terms(a);
      extended(a);
      check_single(a, slow);
      broadcast(a);
      jmp(back, T_NEAR);
    }
    L(gather);
    if (a.shared) {
      if (a.offset) {
        mov(eax, static_cast<int>(a.offset));
        vpbroadcastd(zmm30, eax);
        vpaddd(zmm29, zmm31, zmm30);
      } else {
        vmovdqa32(zmm29, zmm31);
      }
      vpcmpud(k7 | lanes(a), zmm29, ptr_b[rbp + CONTEXT(shared_bytes_places) + 4 * a.log_count], 1);
      kmovw(edx, k7);
      cmp(edx, r8d);
      jne(slow, T_NEAR);
      aligned_lanes(a, (4 << a.log_count) - 1, slow);
    } else if (a.shift == 2 && a.root != kNoValue) {
      xor_(eax, eax);
      AccessPlan base = a;
      base.addends.clear();
      base.constant = 0;
      extended(base);
      sub(rcx, ptr[rbp + cache_at(a) + static_cast<int>(offsetof(JitCache, begin))]);
      test(cl, 3);
      jnz(slow, T_NEAR);
      sar(rcx, 2);
      // Small enough that 32 bits tell a good index from a bad one.
      lea(rdx, ptr[rcx + 0x20000000]);
      cmp(rdx, 0x40000000);
      jae(slow, T_NEAR);
      vpbroadcastd(zmm30, ecx);
      vpaddd(zmm29, zmm31, zmm30);
      vpcmpud(k7 | lanes(a), zmm29,
              ptr_b[rbp + cache_at(a) + static_cast<int>(offsetof(JitCache, elements))], 1);
      kmovw(edx, k7);
      cmp(edx, r8d);
      jne(slow, T_NEAR);
      aligned_lanes(a, a.count - 1, slow);
      mov(rcx, ptr[rbp + cache_at(a) + static_cast<int>(offsetof(JitCache, begin))]);
    } else {
      jmp(slow, T_NEAR);
    }
    if (a.shared || (a.shift == 2 && a.root != kNoValue)) {
      for (int e = 0; e < a.count; ++e) {
        kmovw(k7, lanes(a));
        const auto at = a.shared ? ptr[r13 + zmm29 + 4 * e] : ptr[rcx + zmm29 * 4 + 4 * e];
        if (a.store)
          vpscatterdd(at | k7, Zmm(a.data[e]));
        else
          vpgatherdd(Zmm(a.data[e]) | k7, at);
      }
      jmp(back, T_NEAR);
    }
    L(slow);
    xor_(eax, eax);
    AccessPlan base = a;
    base.addends.clear();
    base.constant = 0;
    extended(base);
    mov(ptr[rbp + CONTEXT(slow_base)], rcx);
    vmovups(ptr[rbp + CONTEXT(slow_index)], zmm31);
    call_slow(a, back);
  }
  void scattered_wide(const AccessPlan& a, const Label& back) {
    Label slow, gather;
    if (!a.store) {
      first_wide(a);
      mov(r9, rax);
      vpbroadcastq(zmm30, rax);
      equal_wide(a, zmm30, zmm30);
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
    mov(rax, ptr[rbp + cache_at(a) + static_cast<int>(offsetof(JitCache, begin))]);
    if (a.offset) sub(rax, static_cast<int>(a.offset));
    vpbroadcastq(zmm30, rax);
    vpsubq(zmm29, Zmm(a.low), zmm30);
    vpsubq(zmm28, Zmm(a.high), zmm30);
    const auto places = ptr_b[rbp + cache_at(a) + static_cast<int>(offsetof(JitCache, bytes))];
    vpcmpuq(k7, zmm29, places, 1);
    kmovw(ecx, k7);
    vpcmpuq(k7, zmm28, places, 1);
    kmovw(edx, k7);
    shl(edx, 8);
    or_(ecx, edx);
    and_(ecx, r8d);
    cmp(ecx, r8d);
    jne(slow, T_NEAR);
    vpmovqd(Xbyak::Ymm(29), zmm29);
    vpmovqd(Xbyak::Ymm(28), zmm28);
    vinserti64x4(zmm29, zmm29, Xbyak::Ymm(28), 1);
    aligned_lanes(a, (4 << a.log_count) - 1, slow);
    mov(rcx, ptr[rbp + cache_at(a) + static_cast<int>(offsetof(JitCache, begin))]);
    for (int e = 0; e < a.count; ++e) {
      kmovw(k7, lanes(a));
      const auto at = ptr[rcx + zmm29 + 4 * e];
      if (a.store)
        vpscatterdd(at | k7, Zmm(a.data[e]));
      else
        vpgatherdd(Zmm(a.data[e]) | k7, at);
    }
    jmp(back, T_NEAR);
    L(slow);
    vmovups(ptr[rbp + CONTEXT(slow_address)], Zmm(a.low));
    vmovups(ptr[rbp + CONTEXT(slow_address) + 64], Zmm(a.high));
    call_slow(a, back);
  }
  // zmm31 = the lanes' 32-bit indices.
  void index_vector(const AccessPlan& a) {
    if (a.root != kNoValue)
      vmovdqa32(zmm31, Zmm(a.root_register));
    else
      vpxord(zmm31, zmm31, zmm31);
    for (Reg r : a.addends) vpaddd(zmm31, zmm31, ptr_b[rbx + static_cast<int>(file(r).offset)]);
    if (a.constant) {
      mov(eax, a.constant);
      vpbroadcastd(zmm30, eax);
      vpaddd(zmm31, zmm31, zmm30);
    }
  }
  void aligned_lanes(const AccessPlan& a, int bits, const Label& slow) {
    if (bits == 0) return;
    mov(eax, bits);
    vpbroadcastd(zmm30, eax);
    vptestmd(k7 | lanes(a), zmm29, zmm30);
    kortestw(k7, k7);
    jnz(slow, T_NEAR);
  }
  void call_slow(const AccessPlan& a, const Label& back) {
    slow_used_ = true;
    if (a.guarded) {
      kmovw(eax, lanes(a));
      mov(ptr[rbp + CONTEXT(slow_mask)], rax);
    } else {
      mov(ptr[rbp + CONTEXT(slow_mask)], r10);
    }
    if (a.store)
      for (int e = 0; e < a.count; ++e)
        vmovups(ptr[rbp + CONTEXT(slow_value) + 64 * e], Zmm(a.data[e]));
    mov(edx, a.id);
    call(slow_);
    jnz(fault_, T_NEAR);
    if (!a.store) {
      for (int e = 0; e < a.count; ++e) {
        const auto from = ptr[rbp + CONTEXT(slow_value) + 64 * e];
        if (a.guarded)
          vmovups(Zmm(a.data[e]) | lanes(a), from);
        else
          vmovups(Zmm(a.data[e]), from);
      }
    }
    jmp(back, T_NEAR);
  }
};

}  // namespace driftc::runtime::ptx::avx512
