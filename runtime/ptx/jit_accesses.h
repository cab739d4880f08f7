// Loads and stores of segments: whether the lanes are in line is proved, or looked at once per
// value that says how they differ; then one check of the place serves all lanes of a vector.
// Whatever the instruction set, which moves the data. Private to runtime/ptx.
#pragma once

#include <memory>
#include <vector>

#include "runtime/ptx/jit_divisors.h"

namespace driftc::runtime::ptx::segment {

class Accesses : public Divisors {
 public:
  using Divisors::Divisors;

 protected:
  // ---- what the instruction set does; rcx = the checked place
  // Fills in the registers of the address, of the data (of results, with what the guard keeps), and
  // of the mask.
  virtual void take_registers(const LocalInst& i, AccessPlan& a) = 0;
  virtual int register_of(ValueId v) = 0;
  // A slot as in_line(), for 64-bit addresses.
  virtual int look_wide(const AccessPlan& a) = 0;
  // Goes to `otherwise` unless all lanes make the access.
  virtual void whole_group(const AccessPlan& a, const Label& otherwise) = 0;
  virtual void move_window(const AccessPlan& a) = 0;
  virtual void broadcast(const AccessPlan& a) = 0;
  virtual void load_apart(const AccessPlan& a) = 0;  // lanes two elements apart
  // Checked lane by lane, or as a gather.
  virtual void scattered(const AccessPlan& a, const Label& back) = 0;
  // Data in the order of memory from one vector per element, and back, in the same registers.
  virtual void pack(const AccessPlan& a) = 0;
  virtual void unpack(const AccessPlan& a) = 0;
  // A load of the fast form: what lanes read that are off does no harm, and nobody sees it.
  virtual void fast_load(const LocalInst& i, const AccessPlan& a, bool splat, bool apart) = 0;

  void access(LocalInst& i) {
    AccessPlan a = plan_access(i, next_access_++);
    a.packed = packed_[static_cast<std::size_t>(now_)];
    Family* const together = family(a);
    accesses_[a.id] = {i.inst, static_cast<std::uint8_t>(a.shift), a.sign, a.store,
                       a.wide, together ? together->leader : a.id};
    if (a.offset != static_cast<std::int32_t>(a.offset)) {
      failed_ = true;
      return;
    }
    if (fast_ && together && fast_access(i, a, *together)) return;
    slot_in_rdx_ = -1;
    stores_made_ |= lasting(a);
    take_registers(i, a);
    if (a.wide && v_.uniform && !a.store) return uniform_wide(a);
    if (together && together->members > 1 && !together->proven && family_pointer(*together, a))
      return by_family(*together, a);
    auto back = std::make_shared<Label>(), otherwise = std::make_shared<Label>();
    int alone = -1;  // the look, where the access can be in place although its range is not
    if (!a.wide && (a.root == kNoValue || shape(a.root).is_splat())) {
      if (a.packed)
        jmp(*otherwise, T_NEAR);
      else
        one_place(a, *otherwise);
    } else {
      const int root =
          a.wide ? look_wide(a)
                 : in_line(a.root, a.shared ? 2 + a.log_count : a.log_count + 2 - a.shift);
      if (root >= 0 && a.shared && shared_pointer(a, root)) {
        alone = root;
        test(rcx, rcx);
        jz(*otherwise, T_NEAR);
        AccessPlan direct = a;
        direct.pointer = true;
        if (a.count > 1) whole_group(a, *otherwise);
        move_window(direct);
      } else if (root >= 0) {
        place_of_first(a, root, flag_slot(root), *otherwise);
        check_window(a, *otherwise);
        if (a.count > 1) whole_group(a, *otherwise);
        move_window(a);
        if (!a.store) note_ahead(a, a.count);
      } else {
        jmp(*otherwise, T_NEAR);
      }
    }
    L(*back);
    const int flag = alone < 0 ? -1 : flag_slot(alone);
    later_.push_back([this, a, alone, flag, back, otherwise] {
      L(*otherwise);
      // A tile's last pass is off for the groups whose place of it lies behind the tile.
      Label one_by_one;
      if (alone >= 0) {
        place_of_first(a, alone, flag, one_by_one);
        check_window(a, one_by_one);
        if (a.count > 1) whole_group(a, one_by_one);
        move_window(a);
        jmp(*back, T_NEAR);
      }
      L(one_by_one);
      if (!a.packed) {
        scattered(a, *back);
      } else if (a.store) {
        unpack(a);
        scattered(a, *back);
      } else {
        Label lanes;
        scattered(a, lanes);
        L(lanes);
        pack(a);
      }
      jmp(*back, T_NEAR);
    });
  }

 private:
  bool fast_access(const LocalInst& i, AccessPlan& a, Family& f) {
    if (!f.proven) {
      if (stores_made_) return false;
      a.root_register = register_of(a.root);
      if (!prove(f, a, missed_)) return false;
    }
    const bool splat = shape(a.root).is_splat();
    if (a.store && splat) return false;  // the last lane wins
    if (a.store) {
      stores_made_ = true;
      take_registers(i, a);
    }
    if (f.pointer < 0) mov(rcx, first_at(f.slot));
    const AccessPlan direct = member(f, a);
    if (a.store)
      move_window(direct);
    else
      fast_load(i, direct, splat, f.apart);
    if (!a.store && !splat) note_ahead(direct, 1);
    return true;
  }
  // A load by a 64-bit address that all lanes share.
  void uniform_wide(const AccessPlan& a) {
    auto back = std::make_shared<Label>(), otherwise = std::make_shared<Label>();
    vmovq(rcx, Xbyak::Xmm(a.low));
    if (a.offset) add(rcx, static_cast<int>(a.offset));
    check_single(a, *otherwise);
    broadcast(a);
    L(*back);
    later_.push_back([this, a, back, otherwise] {
      L(*otherwise);
      scattered(a, *back);
      jmp(*back, T_NEAR);
    });
  }
  void by_family(Family& f, const AccessPlan& a) {
    auto back = std::make_shared<Label>(), otherwise = std::make_shared<Label>();
    const bool splat = shape(a.root).is_splat();
    test(rcx, rcx);
    jz(*otherwise, T_NEAR);
    if (!splat) {
      const AccessPlan direct = member(f, a);
      move_window(direct);
      if (!a.store) note_ahead(direct, 1);
    } else if (a.store) {
      jmp(*otherwise, T_NEAR);  // the last lane wins
    } else {
      broadcast(member(f, a));
    }
    L(*back);
    const int flag = f.look >= 0 ? flag_slot(f.look) : -1;
    later_.push_back([this, f, a, splat, flag, back, otherwise] {
      Label alone, scattered_lanes;
      L(*otherwise);
      if (!splat && !a.store) {
        mov(rcx, second_at(f.slot));
        test(rcx, rcx);
        jz(alone, T_NEAR);
        slot_in_rdx_ = -1;
        load_apart(member(f, a));
        jmp(*back, T_NEAR);
      }
      L(alone);
      if (splat && !a.store) {
        one_place(a, scattered_lanes);
        jmp(*back, T_NEAR);
      } else if (f.look >= 0) {
        place_of_first(a, f.look, flag, scattered_lanes);
        check_window(a, scattered_lanes);
        move_window(a);
        jmp(*back, T_NEAR);
      }
      L(scattered_lanes);
      scattered(a, *back);
      jmp(*back, T_NEAR);
    });
  }
  // All lanes at one address.
  void one_place(const AccessPlan& a, const Label& otherwise) {
    if (a.store) {
      jmp(otherwise, T_NEAR);  // the last lane wins
      return;
    }
    if (a.root == kNoValue)
      xor_(eax, eax);
    else
      first_of(a.root_register, 0);
    add_terms(a);
    extended(a);
    check_single(a, otherwise);
    broadcast(a);
  }
};

}  // namespace driftc::runtime::ptx::segment
