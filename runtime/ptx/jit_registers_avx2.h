// What the translator of segments for AVX2 stands on: the frame of a unit's code, and values in
// registers. Code runs half a group, 8 lanes, at a time: a value is one vector register (two for 64
// bits), a predicate one of 0 or all ones per lane. Private to runtime/ptx.
//
// Only registers 0 to 15 and VEX encodings: with higher ones, or masks, xbyak would silently choose
// AVX-512.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/ptx/jit_accesses.h"
#include "runtime/ptx/jit_slow.h"

namespace driftc::runtime::ptx::avx2 {

using namespace Xbyak::util;
using segment::AccessPlan;
using segment::kPointers;
using Xbyak::Label;
using Xbyak::Xmm;
using Xbyak::Ymm;

inline constexpr std::size_t kCodeBytes = 512 * 1024;
inline constexpr int kLanes = 8;
inline constexpr int kVectors = 13;  // ymm0..ymm12 hold values, ymm13..ymm15 are temporaries

class Registers : public segment::Accesses {
 public:
  Registers(const BoundProgram& bound, UnitValues values, std::uint32_t first_access,
            std::vector<JitAccess>& accesses, std::uint8_t* buffer)
      : Accesses(bound, std::move(values), first_access, accesses,
                 {segment::RegisterPool{0, kVectors, static_cast<int>(2 * JitContext::kSpills)},
                  segment::RegisterPool{0, 0, 0}},
                 kLanes, kCodeBytes, buffer),
        opposite_(v_.values.size(), 0) {}

 protected:
  // ---- frame
  // r12 = the half group, r15 = its bytes in the file of a 32-bit register, r14 = active lanes that
  // the context was set up for.
  void prologue() override {
    for (const auto& r : {rbx, rbp, r12, r13, r14, r15}) push(r);
    sub(rsp, 8);
    mov(rbp, rdi);
    mov(rbx, ptr[rbp + CONTEXT(regs)]);
    mov(r13, ptr[rbp + CONTEXT(shared)]);
    mov(r12, ptr[rbp + CONTEXT(first)]);
    add(r12, r12);
    shl(qword[rbp + CONTEXT(last)], 1);
    mov(r15, r12);
    shl(r15, 5);
    xor_(r14d, r14d);
    before_groups();
    L(group_);
    mov(rax, ptr[rbp + CONTEXT(active)]);
    movzx(r10d, byte[rax + r12]);
    cmp(r10d, r14d);
    je(same_lanes_, T_NEAR);
    mov(r14d, r10d);
    test(r10d, r10d);
    jz(next_, T_NEAR);
    mov(ptr[rbp + CONTEXT(mask)], r10);
    vmovd(xmm13, r10d);
    vpbroadcastd(ymm13, xmm13);
    vpand(ymm13, ymm13, lane_bits());
    vpcmpeqd(ymm13, ymm13, lane_bits());
    vmovups(ptr[rbp + CONTEXT(active_lanes)], ymm13);
    bsf(eax, r10d);
    vmovd(xmm13, eax);
    vpbroadcastd(ymm13, xmm13);
    vmovups(ptr[rbp + CONTEXT(first_lane)], ymm13);
    Label run;
    jmp(run);
    L(same_lanes_);
    test(r10d, r10d);
    jz(next_, T_NEAR);
    L(run);
  }
  void epilogue() override {
    L(next_);
    if (!v_.uniform) {
      inc(r12);
      add(r15, 32);
      cmp(r12, ptr[rbp + CONTEXT(last)]);
      jb(group_, T_NEAR);
    }
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
    while (getSize() % 32 != 0) nop();  // the buffer itself is not where the code will run
    for (auto& [label, words] : tables_) {
      L(*label);
      for (std::uint32_t w : words) dd(w);
    }
  }
  // Saves everything the C++ function may use and calls it; edx = access.
  void slow_call() {
    L(slow_);
    for (int r = 0; r < kVectors; ++r) vmovups(ptr[rbp + CONTEXT(saved) + 64 * r], Ymm(r));
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
    for (int r = 0; r < kVectors; ++r) vmovups(Ymm(r), ptr[rbp + CONTEXT(saved) + 64 * r]);
    for (std::size_t n = 0; n < std::size(kPointers); ++n)
      mov(kPointers[n], ptr[rbp + (CONTEXT(saved_pointers) + 8 * static_cast<int>(n))]);
    mov(r10, ptr[rbp + CONTEXT(mask)]);
    test(eax, eax);
    ret();
  }

  // ---- constants, behind the code: 8 words
  Xbyak::Address table(std::vector<std::uint32_t> words) {
    for (auto& [label, have] : tables_)
      if (have == words) return ptr[rip + *label];
    tables_.emplace_back(std::make_unique<Label>(), std::move(words));
    return ptr[rip + *tables_.back().first];
  }
  Xbyak::Address constant(std::uint32_t bits) {
    return table(std::vector<std::uint32_t>(kLanes, bits));
  }
  Xbyak::Address lane_bits() { return table({1, 2, 4, 8, 16, 32, 64, 128}); }
  Xbyak::Address lane_steps(int log_step) {
    return Xbyak::util::ptr[rbp + (CONTEXT(lanes) + 64 * log_step)];
  }
  Xbyak::Address active_lanes() { return Xbyak::util::ptr[rbp + CONTEXT(active_lanes)]; }

  // ---- registers
  Xbyak::Address spill_at(int slot) {
    return Xbyak::util::ptr[rbp + (CONTEXT(spills) + 32 * slot)];
  }
  void store_spill(const segment::RegisterPool&, int reg, int slot) override {
    vmovups(spill_at(slot), Ymm(reg));
  }
  int free_vector() { return free_register(vectors_); }
  Ymm fresh(ValueId v, int half = 0) {
    const int r = free_vector();
    own(vectors_, v, half, r);
    return Ymm(r);
  }

  Xbyak::Address in_file(Reg r, int half = 0) {
    const Place p = file(r);
    const int at = static_cast<int>(p.offset);
    if (p.mask == 0) return ptr[rbx + (at + 32 * half)];
    if (code_.regs[r].kind == RegKind::kL) return ptr[rbx + r15 * 2 + (at + 32 * half)];
    return ptr[rbx + r15 + at];
  }
  Xbyak::Address predicate_in_file(Reg r) {
    const Place p = file(r);
    const int at = static_cast<int>(p.offset);
    return p.mask == 0 ? byte[rbx + at] : byte[rbx + r12 + at];
  }

  // The register that holds half of a value now; locked until the instruction ends.
  Ymm vec(ValueId v, int half = 0) {
    Location& l = place(v);
    if (l.reg[half] >= 0) {
      vectors_.lock(l.reg[half]);
      return Ymm(l.reg[half]);
    }
    const Ymm r(free_vector());
    const Value& x = value(v);
    if (l.spill[half] >= 0) {
      vmovups(r, spill_at(l.spill[half]));
    } else if (x.from == Value::From::kInst) {
      failed_ = true;  // never: a value of the unit is in a register or spilled until its last use
    } else if (x.kind == RegKind::kP) {
      vpbroadcastb(r, predicate_in_file(x.reg));
      vpand(r, r, lane_bits());
      vpcmpeqd(r, r, lane_bits());
    } else if (is_zero(v)) {
      vpxor(r, r, r);
    } else {
      vmovups(r, in_file(x.reg, half));
    }
    own(vectors_, v, half, r.getIdx());
    return r;
  }
  // The last source of an instruction: a register, or a uniform value in memory, where it is once
  // per lane.
  const Xbyak::Operand& source(ValueId v) {
    const Value& x = value(v);
    if (x.from == Value::From::kUniform && x.kind == RegKind::kW && place(v).reg[0] < 0) {
      operand_memory_ = in_file(x.reg);
      return operand_memory_;
    }
    operand_register_ = vec(v);
    return operand_register_;
  }

  // A register for a result. With a guard it holds the old value already. `last`: the instruction
  // has no more to ask of other values.
  Ymm result(const LocalInst& i, int d, bool last = false) {
    const ValueId v = i.dst[d], old = i.old[d];
    if (old == kNoValue) return fresh(v);
    const Value& x = value(old);
    if (x.from == Value::From::kUniform && x.kind == RegKind::kW && place(old).reg[0] < 0) {
      const Ymm r = fresh(v);
      if (is_zero(old))
        vpxor(r, r, r);
      else
        vmovups(r, in_file(x.reg));
      return r;
    }
    if (x.from == Value::From::kFile && x.kind == RegKind::kW && place(old).reg[0] < 0) {
      const Ymm r = fresh(v);
      vmovups(r, in_file(x.reg));
      return r;
    }
    const Ymm from = vec(old);
    if (last && old != i.guard && dies(old)) {
      const int r = from.getIdx();
      place(old).reg[0] = -1;
      drop(vectors_, old);
      own(vectors_, v, 0, r);
      return from;
    }
    const Ymm r = fresh(v);
    vmovaps(r, from);
    return r;
  }
  // Where AVX2 has only the opposite of a comparison, that is what the register holds.
  char& opposite(ValueId v) { return opposite_[static_cast<std::size_t>(v)]; }
  // Whether the register of the guard says which lanes do not run the instruction.
  bool guard_is_opposite(const LocalInst& i) {
    return i.inst->guard_negated != (opposite(i.guard) != 0);
  }
  // to = the guard allows ? now : to.
  void blend(const LocalInst& i, const Ymm& to, const Ymm& now) {
    const Ymm g = vec(i.guard);
    if (guard_is_opposite(i))
      vblendvps(to, now, to, g);
    else
      vblendvps(to, to, now, g);
  }
  // Lanes that make an access. A guarded one needs its guard's register.
  void lanes_of(const Ymm& into, const AccessPlan& a) {
    if (!a.guarded)
      vmovups(into, active_lanes());
    else if (a.negated)
      vandnps(into, Ymm(a.mask), active_lanes());
    else
      vandps(into, Ymm(a.mask), active_lanes());
  }
  // The same as bits; a temporary vector is lost.
  void lane_bits_of(const Xbyak::Reg32& into, const AccessPlan& a, const Ymm& temporary) {
    if (!a.guarded) {
      mov(into, r10d);
      return;
    }
    lanes_of(temporary, a);
    vmovmskps(into, temporary);
  }

  segment::RegisterPool& vectors_ = pools_[0];
  std::vector<char> opposite_;  // by value
  bool slow_used_ = false;
  Ymm operand_register_;
  Xbyak::Address operand_memory_ = ptr[rax];
  std::vector<std::pair<std::unique_ptr<Label>, std::vector<std::uint32_t>>> tables_;
  Label group_, same_lanes_, slow_, fault_;
};

}  // namespace driftc::runtime::ptx::avx2
