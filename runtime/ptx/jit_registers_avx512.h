// What the translator of segments for AVX-512 stands on: the frame of a unit's code, and values in
// registers. A value of 16 lanes is one vector register (two for 64 bits), a predicate one mask
// register; what does not fit is spilled, furthest next use first. Private to runtime/ptx.
#pragma once

#include <xbyak/xbyak.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <utility>
#include <vector>

#include "runtime/ptx/jit_emit.h"
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

// Hold addresses through a group's run.
inline const Xbyak::Reg64 kPointers[] = {rsi, rdi, r11};

#define CONTEXT(field) static_cast<int>(offsetof(JitContext, field))

class Registers : public Xbyak::CodeGenerator {
 public:
  Registers(const BoundProgram& bound, UnitValues values, std::uint8_t* buffer)
      : Xbyak::CodeGenerator(kCodeBytes, buffer),
        bound_(bound),
        code_(bound.program->code),
        v_(std::move(values)),
        places_(v_.values.size()) {}

 protected:
  struct Location {
    int reg[2] = {-1, -1};    // zmm, or k of a predicate
    int spill[2] = {-1, -1};  // slot that holds the same bits
    std::size_t next = 0;     // index into uses
  };

  const Value& value(ValueId v) const { return v_.values[static_cast<std::size_t>(v)]; }
  Location& place(ValueId v) { return places_[static_cast<std::size_t>(v)]; }
  Place file(Reg r) const { return bound_.places[r]; }

  // ---- frame
  // What does not change from group to group.
  virtual void before_groups() {}

  void prologue() {
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
  void epilogue() {
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
  struct Allocation {
    std::vector<Location> places;
    std::vector<ValueId> owner, mask_owner;
    std::vector<int> free_spills, free_mask_spills;
    int spills, mask_spills;
  };
  Allocation allocation() const {
    return {places_, owner_, mask_owner_, free_spills_, free_mask_spills_, spills_, mask_spills_};
  }
  void set_allocation(const Allocation& a) {
    places_ = a.places;
    owner_ = a.owner;
    mask_owner_ = a.mask_owner;
    free_spills_ = a.free_spills;
    free_mask_spills_ = a.free_mask_spills;
    spills_ = a.spills;
    mask_spills_ = a.mask_spills;
  }

  void begin_inst() {
    locked_vectors_ = 0;
    locked_masks_ = 0;
  }
  void end_inst() {
    for (ValueId& v : owner_)
      if (v != kNoValue && next_use(v) <= now_) drop(v, false);
    for (ValueId& v : mask_owner_)
      if (v != kNoValue && next_use(v) <= now_) drop(v, true);
  }
  // Position of the next use after now, -1: none.
  int next_use(ValueId v) {
    Location& l = place(v);
    const auto& uses = value(v).uses;
    while (l.next < uses.size() && uses[l.next] <= now_) ++l.next;
    return l.next < uses.size() ? uses[l.next] : -1;
  }
  // The same with the running instruction, whose operands may not be in registers yet.
  int next_use_from_now(ValueId v) {
    const auto& uses = value(v).uses;
    return std::binary_search(uses.begin(), uses.end(), now_) ? now_ : next_use(v);
  }
  void drop(ValueId v, bool mask) {
    Location& l = place(v);
    for (int h = 0; h < 2; ++h) {
      if (l.reg[h] < 0) continue;
      const std::size_t r = static_cast<std::size_t>(l.reg[h]);
      l.reg[h] = -1;
      if (mask)
        mask_owner_[r - kFirstMask] = kNoValue;
      else
        owner_[r] = kNoValue;
    }
    for (int h = 0; h < 2; ++h) {
      if (l.spill[h] >= 0) (mask ? free_mask_spills_ : free_spills_).push_back(l.spill[h]);
      l.spill[h] = -1;
    }
  }
  int take_spill(bool mask) {
    auto& list = mask ? free_mask_spills_ : free_spills_;
    int& count = mask ? mask_spills_ : spills_;
    if (!list.empty()) {
      const int s = list.back();
      list.pop_back();
      return s;
    }
    const int limit = static_cast<int>(mask ? JitContext::kPredicateSpills : JitContext::kSpills);
    if (count >= limit) {
      failed_ = true;
      return 0;
    }
    return count++;
  }
  auto spill_at(int slot) { return ptr[rbp + CONTEXT(spills) + 64 * slot]; }
  auto mask_spill_at(int slot) { return ptr[rbp + CONTEXT(predicates) + 8 * slot]; }

  int free_vector() {
    int best = -1, farthest = -2;
    for (int r = 0; r < kVectors; ++r) {
      if (locked_vectors_ >> r & 1) continue;
      const ValueId v = owner_[static_cast<std::size_t>(r)];
      if (v == kNoValue) {
        best = r;
        break;
      }
      int use = next_use_from_now(v);
      if (use < 0) use = 1 << 30;
      // What can be read again costs no store.
      if (value(v).from != Value::From::kInst) use += 64;
      if (use > farthest) farthest = use, best = r;
    }
    if (best < 0) {
      failed_ = true;
      return 0;
    }
    if (const ValueId v = owner_[static_cast<std::size_t>(best)]; v != kNoValue) {
      Location& l = place(v);
      const int h = l.reg[0] == best ? 0 : 1;
      if (value(v).from == Value::From::kInst && l.spill[h] < 0 && next_use_from_now(v) >= 0) {
        l.spill[h] = take_spill(false);
        vmovups(spill_at(l.spill[h]), Zmm(best));
      }
      l.reg[h] = -1;
      owner_[static_cast<std::size_t>(best)] = kNoValue;
    }
    locked_vectors_ |= 1u << best;
    return best;
  }
  int free_mask() {
    int best = -1, farthest = -2;
    for (int r = kFirstMask; r < kFirstMask + kMasks; ++r) {
      if (locked_masks_ >> r & 1) continue;
      const ValueId v = mask_owner_[static_cast<std::size_t>(r - kFirstMask)];
      if (v == kNoValue) {
        best = r;
        break;
      }
      int use = next_use_from_now(v);
      if (use < 0) use = 1 << 30;
      if (use > farthest) farthest = use, best = r;
    }
    if (best < 0) {
      failed_ = true;
      return kFirstMask;
    }
    if (const ValueId v = mask_owner_[static_cast<std::size_t>(best - kFirstMask)]; v != kNoValue) {
      Location& l = place(v);
      if (value(v).from == Value::From::kInst && l.spill[0] < 0 && next_use_from_now(v) >= 0) {
        l.spill[0] = take_spill(true);
        kmovw(mask_spill_at(l.spill[0]), Opmask(best));
      }
      l.reg[0] = -1;
      mask_owner_[static_cast<std::size_t>(best - kFirstMask)] = kNoValue;
    }
    locked_masks_ |= 1u << best;
    return best;
  }
  void own(ValueId v, int half, int r) {
    place(v).reg[half] = r;
    owner_[static_cast<std::size_t>(r)] = v;
  }

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
      locked_vectors_ |= 1u << l.reg[half];
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
      locked_masks_ |= 1u << l.reg[0];
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
    l.reg[0] = r;
    mask_owner_[static_cast<std::size_t>(r - kFirstMask)] = v;
    return Opmask(r);
  }
  // The shape as the form of the code that is being written may rely on it.
  Shape shape(ValueId v) const { return fast_ ? value(v).assumed : value(v).shape; }
  // The last source of an instruction: a register, or a uniform value in memory, broadcast.
  const Xbyak::Operand& source(ValueId v) {
    const Value& x = value(v);
    if (x.from == Value::From::kUniform && place(v).reg[0] < 0) {
      operand_memory_ = ptr_b[rbx + static_cast<int>(file(x.reg).offset)];
      return operand_memory_;
    }
    operand_register_ = vec(v);
    return operand_register_;
  }
  bool dies(ValueId v) { return value(v).from == Value::From::kInst && next_use(v) <= now_; }

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
    place(v).reg[0] = r;
    mask_owner_[static_cast<std::size_t>(r - kFirstMask)] = v;
    return Opmask(r);
  }
  // Whether the mask register of the guard says which lanes do not run the instruction.
  bool guard_is_off(const LocalInst& i) const {
    return i.inst->guard_negated != value(i.guard).inverted;
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
  // Uniform values have one register for both halves.
  int half_of(ValueId v, int half) const {
    return value(v).from == Value::From::kUniform ? 0 : half;
  }

  const BoundProgram& bound_;
  const Code& code_;
  UnitValues v_;
  std::vector<Location> places_;
  int now_ = 0;
  bool fast_ = false;  // the fast form is being written (jit_access_avx512.h)
  bool failed_ = false, slow_used_ = false;
  std::vector<ValueId> owner_ = std::vector<ValueId>(kVectors, kNoValue);
  std::vector<ValueId> mask_owner_ = std::vector<ValueId>(kMasks, kNoValue);
  std::uint32_t locked_vectors_ = 0, locked_masks_ = 0;
  std::vector<int> free_spills_, free_mask_spills_;
  int spills_ = 0, mask_spills_ = 0;
  std::vector<std::function<void()>> later_;  // code behind the loop over groups
  Zmm operand_register_;
  Xbyak::Address operand_memory_ = ptr[rax];
  Label group_, next_, slow_, fault_;
};

}  // namespace driftc::runtime::ptx::avx512
