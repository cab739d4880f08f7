// Which values of a unit are in machine registers, whatever the instruction set: values are spilled
// furthest next use first, and what can be read again from the register file costs no store.
// Private to runtime/ptx.
#pragma once

#include <xbyak/xbyak.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/ptx/jit_emit.h"

namespace driftc::runtime::ptx::segment {

#define CONTEXT(field) static_cast<int>(offsetof(JitContext, field))

// Machine registers of one kind and the memory that relieves them.
struct RegisterPool {
  RegisterPool(int first_register, int count, int most_spills)
      : first(first_register),
        limit(most_spills),
        owner(static_cast<std::size_t>(count), kNoValue) {}

  ValueId& owner_of(int reg) { return owner[static_cast<std::size_t>(reg - first)]; }
  int end() const { return first + static_cast<int>(owner.size()); }
  void lock(int reg) { locked |= 1u << reg; }

  int first, limit;
  std::vector<ValueId> owner;
  std::uint32_t locked = 0;  // registers that the running instruction holds
  std::vector<int> free_spills;
  int spills = 0;
};

class Allocation : public Xbyak::CodeGenerator {
 public:
  using Pools = std::array<RegisterPool, 2>;  // of vectors, and of predicates where they have one

  Allocation(const BoundProgram& bound, UnitValues values, const Pools& pools,
             std::size_t code_bytes, std::uint8_t* buffer)
      : Xbyak::CodeGenerator(code_bytes, buffer),
        bound_(bound),
        code_(bound.program->code),
        v_(std::move(values)),
        places_(v_.values.size()),
        pools_(pools) {}

 protected:
  struct Location {
    int reg[2] = {-1, -1};    // of the pool; the second one for the upper half of 64 bits
    int spill[2] = {-1, -1};  // slot that holds the same bits
    std::size_t next = 0;     // index into uses
  };

  // Code that stores a register to a slot of its pool.
  virtual void store_spill(const RegisterPool& pool, int reg, int slot) = 0;

  const Value& value(ValueId v) const { return v_.values[static_cast<std::size_t>(v)]; }
  Location& place(ValueId v) { return places_[static_cast<std::size_t>(v)]; }
  Place file(Reg r) const { return bound_.places[r]; }

  // Who is where; code that is written twice begins from the same state.
  struct State {
    std::vector<Location> places;
    Pools pools;
  };
  State state() const { return {places_, pools_}; }
  void set_state(const State& s) {
    places_ = s.places;
    pools_ = s.pools;
  }
  void begin_inst() {
    for (RegisterPool& pool : pools_) pool.locked = 0;
  }
  void end_inst() {
    for (RegisterPool& pool : pools_)
      for (ValueId v : std::vector<ValueId>(pool.owner))
        if (v != kNoValue && next_use(v) <= now_) drop(pool, v);
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
  bool dies(ValueId v) { return value(v).from == Value::From::kInst && next_use(v) <= now_; }

  void drop(RegisterPool& pool, ValueId v) {
    Location& l = place(v);
    for (int& r : l.reg) {
      if (r >= 0) pool.owner_of(r) = kNoValue;
      r = -1;
    }
    for (int& s : l.spill) {
      if (s >= 0) pool.free_spills.push_back(s);
      s = -1;
    }
  }
  int take_spill(RegisterPool& pool) {
    if (!pool.free_spills.empty()) {
      const int s = pool.free_spills.back();
      pool.free_spills.pop_back();
      return s;
    }
    if (pool.spills >= pool.limit) {
      failed_ = true;
      return 0;
    }
    return pool.spills++;
  }
  // A register for something new, held until the instruction ends.
  int free_register(RegisterPool& pool) {
    int best = -1, farthest = -2;
    for (int r = pool.first; r < pool.end(); ++r) {
      if (pool.locked >> r & 1) continue;
      const ValueId v = pool.owner_of(r);
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
      return pool.first;
    }
    if (const ValueId v = pool.owner_of(best); v != kNoValue) {
      Location& l = place(v);
      const int h = l.reg[0] == best ? 0 : 1;
      if (value(v).from == Value::From::kInst && l.spill[h] < 0 && next_use_from_now(v) >= 0) {
        l.spill[h] = take_spill(pool);
        store_spill(pool, best, l.spill[h]);
      }
      l.reg[h] = -1;
      pool.owner_of(best) = kNoValue;
    }
    pool.lock(best);
    return best;
  }
  // A uniform value that is read again and again, while there are registers to spare.
  bool worth_a_register(const RegisterPool& pool, ValueId v) const {
    const auto& uses = value(v).uses;
    const auto left = uses.end() - std::upper_bound(uses.begin(), uses.end(), now_);
    return left >= 2 && std::count(pool.owner.begin(), pool.owner.end(), kNoValue) >= 8;
  }
  void own(RegisterPool& pool, ValueId v, int half, int r) {
    place(v).reg[half] = r;
    pool.owner_of(r) = v;
  }
  // The shape as the form of the code that is being written may rely on it.
  Shape shape(ValueId v) const { return fast_ ? value(v).assumed : value(v).shape; }
  // Whether the register of the guard says which lanes do not run the instruction.
  bool guard_is_off(const LocalInst& i) const {
    return i.inst->guard_negated != value(i.guard).inverted;
  }
  // Uniform values have one register for both halves.
  int half_of(ValueId v, int half) const {
    return value(v).from == Value::From::kUniform ? 0 : half;
  }
  bool is_zero(ValueId v) const {
    const Value& x = value(v);
    return x.from == Value::From::kUniform && code_.regs[x.reg].is_constant &&
           code_.regs[x.reg].bits == 0;
  }

  const BoundProgram& bound_;
  const Code& code_;
  UnitValues v_;
  std::vector<Location> places_;
  Pools pools_;
  int now_ = 0;
  bool fast_ = false;  // the fast form is being written (jit_forms.h)
  bool failed_ = false;
};

}  // namespace driftc::runtime::ptx::segment
