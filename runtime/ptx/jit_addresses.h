// Addresses of a segment's accesses in scalar registers, whatever the instruction set: what all
// lanes share is added up for the first lane, and compared with the buffer hit last. Private to
// runtime/ptx.
//
// rbp = context, rbx = register file, r13 = shared memory, r10 = the group's active lanes. rax,
// rcx, rdx, r8 and r9 are temporaries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "runtime/ptx/jit_allocation.h"

namespace driftc::runtime::ptx::segment {

using namespace Xbyak::util;
using Xbyak::Label;

// What an access does, for the code that is put out of line.
struct AccessPlan {
  std::uint32_t id = 0;
  bool shared = false, store = false;
  bool wide = false;         // 64-bit addresses per lane
  ValueId index = kNoValue;  // 32-bit value, or none
  ValueId root = kNoValue;
  bool sign = true;
  int shift = 0;
  std::vector<Reg> addends;  // 32 bits, of the index
  std::uint32_t constant = 0;
  std::vector<Reg> bases;  // 64 bits
  std::int64_t offset = 0;
  int count = 1, log_count = 0;
  bool guarded = false, negated = false;
  int mask = -1;        // mask register of its lanes; where predicates are vectors, of its guard
  bool packed = false;  // vectors in the order of memory, not one per element
  int data[4] = {};     // vector registers
  int root_register = -1;
  bool pointer = false;          // rcx holds the checked place in this process, without `offset`
  Xbyak::Reg64 at = rcx;         // the register, where it is not rcx
  bool indexed = false;          // and rdx is to be added to it
  ValueId wide_root = kNoValue;  // 64-bit addresses
  int low = 0, high = 0;         // registers of its halves
};

class Addresses : public Allocation {
 public:
  // `lanes`: of a group, as the code runs them.
  Addresses(const BoundProgram& bound, UnitValues values, const Pools& pools, int lanes,
            std::size_t code_bytes, std::uint8_t* buffer)
      : Allocation(bound, std::move(values), pools, code_bytes, buffer), lanes_(lanes) {}

 protected:
  // What an instruction says about its access; registers are still to be filled in.
  AccessPlan plan_access(const LocalInst& i, std::uint32_t id) const {
    AccessPlan a;
    a.id = id;
    a.store = i.inst->op == Op::kStore;
    a.shared = i.inst->memory.space == Space::kShared;
    a.count = i.inst->memory.count;
    a.log_count = a.count == 4 ? 2 : a.count - 1;
    a.offset = i.inst->imm;
    a.guarded = i.guard != kNoValue;
    a.negated = i.inst->guard_negated;
    const Value& address = value(i.src[0]);
    if (a.shared) {
      a.index = i.src[0];
    } else if (address.is_address) {
      a.index = address.index;
      a.sign = address.sign;
      a.shift = address.shift;
      a.bases = address.bases;
      a.offset += address.offset;
    } else {
      a.wide = true;
    }
    if (a.index != kNoValue) {
      const Value& x = value(a.index);
      a.root = x.root;
      a.addends = x.addends;
      a.constant = x.constant;
      if (value(a.root).from == Value::From::kUniform) {
        a.addends.push_back(value(a.root).reg);
        a.root = kNoValue;
      }
    }
    return a;
  }

  // ---- slots of context.roots: of values that were looked at, or of other things
  // -1: all are taken.
  int take_slot() {
    if (looked_.size() == JitContext::kRoots) return -1;
    looked_.emplace_back(kNoValue, 0);
    return static_cast<int>(looked_.size()) - 1;
  }
  static int slot_at(int slot) {
    return CONTEXT(roots) + slot * static_cast<int>(sizeof(JitContext::Root));
  }
  Xbyak::Address first_at(int slot) const { return Xbyak::util::ptr[rbp + slot_at(slot)]; }
  Xbyak::Address second_at(int slot) const { return Xbyak::util::ptr[rbp + (slot_at(slot) + 8)]; }
  // The slot whose second word says whether the lanes of a look are in line; -1: they are by proof.
  int flag_slot(int root) const {
    const auto at = flag_of_.find(root);
    return at == flag_of_.end() ? root : at->second;
  }

  // eax = the first word of a slot, which may have been put there just now.
  void first_word(int slot) {
    if (slot != slot_in_eax_ || getSize() != eax_written_at_) mov(eax, dword[rbp + slot_at(slot)]);
  }
  void in_eax(int slot) {
    slot_in_eax_ = slot;
    eax_written_at_ = getSize();
  }

  // ---- addresses
  // eax = index of lane 0 with what is added to its root.
  void add_terms(const AccessPlan& a) {
    for (Reg r : a.addends) add(eax, dword[rbx + static_cast<int>(file(r).offset)]);
    if (a.constant) add(eax, static_cast<int>(a.constant));
  }
  // rcx = base + (extended eax << shift) + offset.
  void extended(const AccessPlan& a) {
    if (a.sign)
      movsxd(rcx, eax);
    else
      mov(ecx, eax);
    if (a.shared) {
      if (a.offset) add(rcx, static_cast<int>(a.offset));
      return;
    }
    if (!a.bases.empty() && a.shift <= 3) {
      mov(rdx, ptr[rbx + static_cast<int>(file(a.bases[0]).offset)]);
      lea(rcx, ptr[rdx + rcx * (1 << a.shift) + static_cast<int>(a.offset)]);
      for (std::size_t n = 1; n < a.bases.size(); ++n)
        add(rcx, ptr[rbx + static_cast<int>(file(a.bases[n]).offset)]);
      return;
    }
    if (a.shift) shl(rcx, a.shift);
    for (Reg r : a.bases) add(rcx, ptr[rbx + static_cast<int>(file(r).offset)]);
    if (a.offset) add(rcx, static_cast<int>(a.offset));
  }
  // rcx = address (global), offset (shared) of lane 0's access; -1 when the lanes are not in line.
  // `flag`: the look's flag_slot(), which code out of line has to ask for beforehand.
  void place_of_first(const AccessPlan& a, int root, int flag, const Label& otherwise) {
    if (a.wide) {
      mov(rcx, first_at(root));
      if (a.offset) add(rcx, static_cast<int>(a.offset));
    } else {
      first_word(root);
      add_terms(a);
      if (!a.shared) {
        // The index of the last lane must not wrap, or it would be extended to something else.
        const int reach = (lanes_ - 1) << (a.log_count + 2 - a.shift);
        if (a.sign) {
          cmp(eax, 0x7FFFFFFF - reach);
          jg(otherwise, T_NEAR);
        } else {
          cmp(eax, static_cast<int>(0xFFFFFFFFu - static_cast<std::uint32_t>(reach)));
          ja(otherwise, T_NEAR);
        }
      }
      extended(a);
    }
    if (flag >= 0) or_(rcx, second_at(flag));
  }
  static int cache_field(std::uint32_t id, std::size_t field) {
    return static_cast<int>(sizeof(JitContext) + id * sizeof(JitCache) + field);
  }
  static int cache_at(const AccessPlan& a) { return cache_field(a.id, 0); }
  // Goes to `otherwise` unless the access of one lane at rcx is inside the buffer, and aligned.
  void check_single(const AccessPlan& a, const Label& otherwise) {
    check_place(a, CONTEXT(shared_single), offsetof(JitCache, single), otherwise);
  }
  // The same for all lanes, the first of them at rcx.
  void check_window(const AccessPlan& a, const Label& otherwise) {
    check_place(a, CONTEXT(shared_window), offsetof(JitCache, window), otherwise);
  }
  Xbyak::Address memory_at(const AccessPlan& a, int displacement) {
    const int at = static_cast<int>(a.offset) + displacement;
    if (a.pointer) return a.indexed ? ptr[a.at + rdx + at] : ptr[a.at + at];
    return a.shared ? ptr[r13 + rcx + displacement] : ptr[rcx + displacement];
  }

  const int lanes_;
  int slot_in_eax_ = -1;                         // by the code up to
  std::size_t eax_written_at_ = 0;               // here
  std::vector<std::pair<ValueId, int>> looked_;  // by slot
  std::map<int, int> flag_of_;  // root -> the root whose flag it shares, -1: in line by proof

 private:
  void check_place(const AccessPlan& a, int shared_places, std::size_t places,
                   const Label& otherwise) {
    mov(rdx, rcx);
    if (a.shared) {
      ror(rdx, 2 + a.log_count);
      cmp(rdx, ptr[rbp + shared_places + 8 * a.log_count]);
    } else {
      sub(rdx, ptr[rbp + cache_field(a.id, offsetof(JitCache, begin))]);
      ror(rdx, 2 + a.log_count);
      cmp(rdx, ptr[rbp + cache_field(a.id, places)]);
    }
    jae(otherwise, T_NEAR);
  }
};

}  // namespace driftc::runtime::ptx::segment
