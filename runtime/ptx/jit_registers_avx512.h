// What the translator of segments for AVX-512 stands on: the frame of a unit's code, and values in
// registers. A value of 16 lanes is one vector register (two for 64 bits), a predicate one mask
// register; what does not fit is spilled, furthest next use first. Private to runtime/ptx.
#pragma once

#include <xbyak/xbyak.h>

#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

#include "runtime/ptx/jit_accesses.h"
#include "runtime/ptx/jit_slow.h"

namespace driftc::runtime::ptx::avx512 {

using namespace Xbyak::util;
using Xbyak::Label;
using Xbyak::Opmask;
using Xbyak::Zmm;

inline constexpr std::size_t kCodeBytes = 256 * 1024;
inline constexpr int kVectors = 27;   // zmm0..zmm26 hold values, zmm27 picks even elements of two
                                      // vectors, the rest are temporaries
inline constexpr int kFirstMask = 2;  // k2..k6 hold predicates, k1 the active lanes
inline constexpr int kMasks = 5;      // k7 is a temporary

using segment::AccessPlan;
using segment::kPointers;

class Registers : public segment::Accesses {
 public:
  Registers(const BoundProgram& bound, UnitValues values, std::uint32_t first_access,
            std::vector<JitAccess>& accesses, std::uint8_t* buffer)
      : Accesses(bound, std::move(values), first_access, accesses,
                 {segment::RegisterPool{0, kVectors, static_cast<int>(JitContext::kSpills)},
                  segment::RegisterPool{kFirstMask, kMasks,
                                        static_cast<int>(JitContext::kPredicateSpills)}},
                 16, kCodeBytes, buffer) {}

 protected:
  // ---- frame
  void prologue() override {
    for (const auto& r : {rbx, rbp, r12, r13, r14, r15}) push(r);
    sub(rsp, 8);
    mov(rbp, rdi);
    mov(rbx, ptr[rbp + CONTEXT(regs)]);
    mov(r13, ptr[rbp + CONTEXT(shared)]);
    mov(r12, ptr[rbp + CONTEXT(first)]);
    lea(r14, ptr[r12 * 2]);
    mov(r15, r12);
    shl(r15, 6);
    vmovups(zmm27, ptr[rbp + CONTEXT(interleave)]);
    before_groups();
    L(group_);
    mov(rax, ptr[rbp + CONTEXT(active)]);
    movzx(r10d, word[rax + r14]);
    test(r10d, r10d);
    jz(next_, T_NEAR);
    mov(ptr[rbp + CONTEXT(mask)], r10);
    kmovw(k1, r10d);
  }
  void epilogue() override {
    L(next_);
    inc(r12);
    add(r14, 2);
    add(r15, 64);
    cmp(r12, ptr[rbp + CONTEXT(last)]);
    jb(group_, T_NEAR);
    xor_(eax, eax);
    Label leave;
    L(leave);
    add(rsp, 8);
    for (const auto& r : {r15, r14, r13, r12, rbp, rbx}) pop(r);
    vzeroupper();
    ret();
    // Code out of line may put more there.
    for (std::size_t n = 0; n < later_.size(); ++n) {
      const auto out_of_line = std::move(later_[n]);
      out_of_line();
    }
    if (slow_used_) {
      L(fault_);
      mov(eax, 1);
      jmp(leave, T_NEAR);
      slow_call();
    }
  }
  // Saves everything the C++ function may use and calls it; edx = access.
  void slow_call() {
    L(slow_);
    for (int r = 0; r < kVectors; ++r) vmovups(ptr[rbp + CONTEXT(saved) + 64 * r], Zmm(r));
    for (int k = 1; k < kFirstMask + kMasks; ++k)
      kmovw(ptr[rbp + CONTEXT(saved_masks) + 8 * k], Opmask(k));
    mov(ptr[rbp + CONTEXT(slow_group)], r12);
    for (std::size_t n = 0; n < std::size(kPointers); ++n)
      mov(ptr[rbp + (CONTEXT(saved_pointers) + 8 * static_cast<int>(n))], kPointers[n]);
    mov(rdi, rbp);
    mov(esi, edx);
    mov(rax, reinterpret_cast<std::uint64_t>(&driftc_ptx_jit_slow));
    sub(rsp, 8);
    vzeroupper();
    call(rax);
    add(rsp, 8);
    for (int r = 0; r < kVectors; ++r) vmovups(Zmm(r), ptr[rbp + CONTEXT(saved) + 64 * r]);
    vmovups(zmm27, ptr[rbp + CONTEXT(interleave)]);
    for (int k = 1; k < kFirstMask + kMasks; ++k)
      kmovw(Opmask(k), ptr[rbp + CONTEXT(saved_masks) + 8 * k]);
    for (std::size_t n = 0; n < std::size(kPointers); ++n)
      mov(kPointers[n], ptr[rbp + (CONTEXT(saved_pointers) + 8 * static_cast<int>(n))]);
    mov(r10, ptr[rbp + CONTEXT(mask)]);
    test(eax, eax);
    ret();
  }

  // ---- registers
  auto spill_at(int slot) { return ptr[rbp + CONTEXT(spills) + 64 * slot]; }
  auto mask_spill_at(int slot) { return ptr[rbp + CONTEXT(predicates) + 8 * slot]; }
  void store_spill(const segment::RegisterPool& pool, int reg, int slot) override {
    if (&pool == &masks_)
      kmovw(mask_spill_at(slot), Opmask(reg));
    else
      vmovups(spill_at(slot), Zmm(reg));
  }

  int free_vector() { return free_register(vectors_); }
  int free_mask() { return free_register(masks_); }
  void own(ValueId v, int half, int r) { Allocation::own(vectors_, v, half, r); }

  Xbyak::Address in_file(Reg r, int half = 0) {
    const Place p = file(r);
    const int at = static_cast<int>(p.offset);
    if (p.mask == 0) return ptr[rbx + (at + 64 * half)];
    if (code_.regs[r].kind == RegKind::kL) return ptr[rbx + r15 * 2 + (at + 64 * half)];
    return ptr[rbx + r15 + at];
  }
  Xbyak::Address predicate_in_file(Reg r) {
    const Place p = file(r);
    const int at = static_cast<int>(p.offset);
    return p.mask == 0 ? word[rbx + at] : word[rbx + r14 + at];
  }

  // The register that holds half of a value now; locked until the instruction ends.
  Zmm vec(ValueId v, int half = 0) {
    Location& l = place(v);
    if (l.reg[half] >= 0) {
      vectors_.lock(l.reg[half]);
      return Zmm(l.reg[half]);
    }
    const int r = free_vector();
    const Value& x = value(v);
    if (l.spill[half] >= 0) {
      vmovups(Zmm(r), spill_at(l.spill[half]));
    } else if (x.from == Value::From::kUniform) {
      if (x.kind == RegKind::kL)
        vpbroadcastq(Zmm(r), in_file(x.reg));
      else
        vpbroadcastd(Zmm(r), in_file(x.reg));
    } else if (x.from == Value::From::kFile) {
      vmovups(Zmm(r), in_file(x.reg, half));
    } else {
      failed_ = true;  // never: a value of the unit is in a register or spilled until its last use
    }
    own(v, half, r);
    return Zmm(r);
  }
  Opmask mask(ValueId v) {
    Location& l = place(v);
    if (l.reg[0] >= 0) {
      masks_.lock(l.reg[0]);
      return Opmask(l.reg[0]);
    }
    const int r = free_mask();
    const Value& x = value(v);
    if (l.spill[0] >= 0)
      kmovw(Opmask(r), mask_spill_at(l.spill[0]));
    else if (x.from != Value::From::kInst)
      kmovw(Opmask(r), predicate_in_file(x.reg));
    else
      failed_ = true;
    Allocation::own(masks_, v, 0, r);
    return Opmask(r);
  }
  // The last source of an instruction: a register, or a uniform value in memory, broadcast.
  const Xbyak::Operand& source(ValueId v) {
    const Value& x = value(v);
    if (x.from == Value::From::kUniform && place(v).reg[0] < 0 && !worth_a_register(vectors_, v)) {
      operand_memory_ = ptr_b[rbx + static_cast<int>(file(x.reg).offset)];
      return operand_memory_;
    }
    operand_register_ = vec(v);
    return operand_register_;
  }
  // A register for a result. With a guard it holds the old value already.
  Zmm result(const LocalInst& i, int d, int half = 0) {
    const ValueId v = i.dst[d], old = i.old[d];
    if (old == kNoValue) {
      const int r = free_vector();
      own(v, half, r);
      return Zmm(r);
    }
    const Value& x = value(old);
    if (x.from == Value::From::kUniform) {
      const int r = free_vector();
      if (code_.regs[x.reg].is_constant && code_.regs[x.reg].bits == 0)
        vpxord(Zmm(r), Zmm(r), Zmm(r));
      else
        vpbroadcastd(Zmm(r), in_file(x.reg));
      own(v, half, r);
      return Zmm(r);
    }
    const Zmm from = vec(old, half);
    const int r = free_vector();
    vmovdqa32(Zmm(r), from);
    own(v, half, r);
    return Zmm(r);
  }
  Opmask mask_result(ValueId v) {
    const int r = free_mask();
    Allocation::own(masks_, v, 0, r);
    return Opmask(r);
  }
  // The lanes for which the guard holds: its own register, or one until the instruction ends.
  Opmask guard(const LocalInst& i) {
    const Opmask g = mask(i.guard);
    if (!guard_is_off(i)) return g;
    const Opmask on(free_mask());
    knotw(on, g);
    return on;
  }
  // Lanes that make the access, until the instruction ends.
  Opmask access_mask(const LocalInst& i) {
    if (i.guard == kNoValue) return k1;
    const Opmask g = mask(i.guard);
    const Opmask on(free_mask());
    if (guard_is_off(i))
      kandnw(on, g, k1);
    else
      kandw(on, g, k1);
    return on;
  }

  segment::RegisterPool& vectors_ = pools_[0];
  segment::RegisterPool& masks_ = pools_[1];
  bool slow_used_ = false;
  Zmm operand_register_;
  Xbyak::Address operand_memory_ = ptr[rax];
  Label group_, slow_, fault_;
};

}  // namespace driftc::runtime::ptx::avx512
