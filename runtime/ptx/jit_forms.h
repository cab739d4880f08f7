// What a segment's accesses have in common beside families, whatever the instruction set: the fast
// and the general form of a unit's code, shared accesses that are checked together, and vectors
// that stay in the order of memory. Private to runtime/ptx.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/ptx/jit_ahead.h"

namespace driftc::runtime::ptx::segment {

class Forms : public Ahead {
 public:
  Forms(const BoundProgram& bound, UnitValues values, std::uint32_t first_access,
        std::vector<JitAccess>& accesses, const Pools& pools, int lanes, std::size_t code_bytes,
        std::uint8_t* buffer)
      : Ahead(bound, std::move(values), pools, lanes, code_bytes, buffer),
        next_access_(first_access),
        accesses_(accesses) {
    first_id_ = first_access;
  }

  // The unit's code; false: it is too large for the registers and tables there are.
  bool run() {
    find_ranges();
    find_packed();
    find_families();
    has_fast_form_ = wants_fast_form();
    halves_ = has_fast_form_ && 2 * lanes_ == static_cast<int>(kGroupLanes) &&
              std::any_of(families_.begin(), families_.end(),
                          [&](const Family& f) { return value(f.root).assumed.is_linear(); });
    prologue();
    if (has_fast_form_) {
      const State start = state();
      const std::vector<Family> families = families_;
      begin_fast();
      body();
      end_fast();
      later_.insert(later_.begin(), [this, start, families] {
        general_entry();
        set_state(start);
        families_ = families;
        restart_accesses();
        body();
        jmp(next_, T_NEAR);
      });
    } else {
      body();
    }
    epilogue();
    return !failed_;
  }

 protected:
  // ---- what the instruction set does
  // Code up to a group's first instruction, and from next_, for the next group, on.
  virtual void prologue() = 0;
  virtual void epilogue() = 0;
  virtual void instruction(LocalInst& i) = 0;
  virtual void write_outputs() = 0;

  void body() {
    for (now_ = 0; now_ < static_cast<int>(v_.insts.size()) && !failed_; ++now_) {
      LocalInst& i = v_.insts[static_cast<std::size_t>(now_)];
      if (!i.emit) continue;
      begin_inst();
      instruction(i);
      end_inst();
    }
    if (failed_) return;
    now_ = static_cast<int>(v_.insts.size()) - 1;
    write_outputs();
  }

  // ---- the fast form
  // A unit's code for groups whose accesses all are as when it was translated: the proof of a
  // family goes to the general form when it fails, which begins the group again. That is possible
  // as long as the group has stored nothing, or only what it does not read: that is stored again.
  // One access for itself costs about as much in either form, unless its lanes are two apart.
  bool wants_fast_form() {
    if (v_.uniform) return false;
    rereads_shared_ = std::any_of(v_.insts.begin(), v_.insts.end(), [](const LocalInst& i) {
      return i.inst->op == Op::kLoad && i.inst->memory.space == Space::kShared;
    });
    if (families_.size() > 1) return true;
    return std::any_of(families_.begin(), families_.end(), [&](const Family& f) {
      const Shape guess = value(f.root).guess;
      return f.members > 1 || (guess.is_linear() && guess.step == 2 && !f.store);
    });
  }
  bool lasting(const AccessPlan& a) const { return a.store && (!a.shared || rereads_shared_); }
  void begin_fast() {
    fast_ = true;
    looked_before_ = looked_.size();
    cmp(dword[rbp + misses_at()], 0);
    jne(careful_, T_NEAR);
    L(try_);
    test(r10d, 1);  // the first lane stands for all
    jz(general_, T_NEAR);
    if (halves_) {  // a second half needs what was proved for the first one
      Label first;
      test(r12d, 1);
      jz(first);
      cmp(r12, ptr[rbp + CONTEXT(proved_half)]);
      jne(general_, T_NEAR);
      L(first);
    }
  }
  void end_fast() {
    fast_ = false;
    if (halves_) {
      lea(rax, ptr[r12 + 1]);
      mov(ptr[rbp + CONTEXT(proved_half)], rax);
    }
    jmp(next_, T_NEAR);
  }
  // Groups that do not fit cost a part of the fast form, so it is left alone for a while when more
  // than one in six did not.
  void general_entry() {
    L(careful_);
    dec(dword[rbp + misses_at()]);
    cmp(dword[rbp + misses_at()], 32);
    jb(try_, T_NEAR);
    jmp(general_, T_NEAR);
    L(missed_);
    add(dword[rbp + misses_at()], 5);
    L(general_);
  }
  void restart_accesses() {
    next_access_ = first_id_;
    looked_.resize(looked_before_);
    flag_of_.clear();
    for (Range& r : ranges_) r.slot = -1;
    stores_made_ = false;
    pointers_used_ = 0;
    slot_in_rdx_ = -1;
  }
  // Once per run of the unit: where what was assumed does not hold, the general form is for all
  // groups. The counter of misses says so, and is put back when the assumptions hold again.
  void check_assumptions() {
    if (v_.assumptions.empty()) return;
    constexpr int kNever = 1 << 30;
    Label differ, done;
    for (const Assumption& a : v_.assumptions) {
      cmp(dword[rbx + static_cast<int>(file(a.reg).offset)], static_cast<int>(a.bits));
      jne(differ, T_NEAR);
    }
    cmp(dword[rbp + misses_at()], kNever / 2);
    jb(done);
    mov(dword[rbp + misses_at()], 0);
    jmp(done);
    L(differ);
    mov(dword[rbp + misses_at()], kNever);
    L(done);
  }
  int misses_at() const {
    return static_cast<int>(sizeof(JitContext) + own_access() * sizeof(JitCache) +
                            offsetof(JitCache, misses));
  }
  std::size_t own_access() const { return first_id_ + family_of_.size(); }

  // ---- shared memory
  struct Range {
    ValueId index_root;
    std::vector<Reg> addends;
    std::uint32_t constant;
    int log_count;
    std::int64_t low, high;
    std::uint64_t bits = 0;
    int count = 0;
    int slot = -1;
  };

  // Shared accesses that differ in their constant offset only are checked together, once: rcx = the
  // place in this process that the first lane's address stands for, 0 when one of them may not be
  // made as a window. False: they have no common pointer.
  bool shared_pointer(const AccessPlan& a, int root) {
    const Range* range = nullptr;
    for (const Range& r : ranges_)
      if (r.index_root == a.root && r.addends == a.addends && r.constant == a.constant &&
          r.log_count == a.log_count)
        range = &r;
    const int bytes = 4 << a.log_count;
    if (!range || range->count < 2 || (range->bits & (bytes - 1)) != 0) return false;
    const auto n = static_cast<std::size_t>(range - ranges_.data());
    if (ranges_[n].slot >= 0) {
      mov(rcx, first_at(range->slot));
      return true;
    }
    ranges_[n].slot = take_slot();
    if (ranges_[n].slot < 0) return false;
    AccessPlan base = a;
    base.offset = 0;
    Label bad, good;
    place_of_first(base, root, flag_slot(root), bad);
    for (const std::int64_t offset : {range->low, range->high}) {
      lea(rdx, ptr[rcx + static_cast<int>(offset)]);
      ror(rdx, 2 + a.log_count);
      cmp(rdx, ptr[rbp + CONTEXT(shared_window) + 8 * a.log_count]);
      jae(bad);
    }
    add(rcx, r13);
    jmp(good);
    L(bad);
    xor_(ecx, ecx);
    L(good);
    mov(first_at(ranges_[n].slot), rcx);
    return true;
  }
  // What shared_pointer() needs to know before the first access.
  void find_ranges() {
    for (const LocalInst& i : v_.insts) {
      if (!i.emit || (i.inst->op != Op::kLoad && i.inst->op != Op::kStore) ||
          i.inst->memory.space != Space::kShared)
        continue;
      const Value& x = value(i.src[0]);
      if (value(x.root).from == Value::From::kUniform) continue;
      const int log_count = i.inst->memory.count == 4 ? 2 : i.inst->memory.count - 1;
      if (i.inst->imm < -(1 << 20) || i.inst->imm > (1 << 20)) continue;
      Range* found = nullptr;
      for (Range& r : ranges_)
        if (r.index_root == x.root && r.addends == x.addends && r.constant == x.constant &&
            r.log_count == log_count)
          found = &r;
      if (!found) {
        ranges_.push_back({x.root, x.addends, x.constant, log_count, i.inst->imm, i.inst->imm});
        found = &ranges_.back();
      }
      found->low = std::min(found->low, i.inst->imm);
      found->high = std::max(found->high, i.inst->imm);
      found->bits |= static_cast<std::uint64_t>(i.inst->imm);
      ++found->count;
    }
  }

  // ---- vectors of four
  // Vectors of four that are only stored again, as they were loaded, stay in the order of memory.
  void find_packed() {
    packed_.assign(v_.insts.size(), 0);
    for (std::size_t n = 0; n < v_.insts.size(); ++n) {
      const LocalInst& load = v_.insts[n];
      if (load.inst->op != Op::kLoad || load.inst->memory.count != 4) continue;
      const auto& uses = value(load.dst[0]).uses;
      if (uses.size() != 1 || uses[0] >= static_cast<std::int32_t>(v_.insts.size())) continue;
      const auto at = static_cast<std::size_t>(uses[0]);
      const LocalInst& store = v_.insts[at];
      bool same = store.inst->op == Op::kStore && store.inst->memory.count == 4;
      for (int e = 0; same && e < 4; ++e)
        same = store.src[1 + e] == load.dst[e] && value(load.dst[e]).uses == uses;
      if (same) packed_[n] = packed_[at] = 1;
    }
  }
  bool has_fast_form_ = false;
  bool stores_made_ = false;  // lasting ones, before the running instruction
  bool rereads_shared_ = false;
  std::size_t looked_before_ = 0;
  Label next_;  // group
  Label careful_, try_, missed_, general_;
  std::uint32_t next_access_;
  std::vector<JitAccess>& accesses_;
  std::vector<Range> ranges_;
  std::vector<char> packed_;  // by instruction
};

}  // namespace driftc::runtime::ptx::segment
