// What a unit will read when it runs next. In a loop the addresses of a group's loads move on by
// one distance; as they moved since the run before, so they will again. Tiles of filters come from
// memory that is further away than instructions can wait for, so loads of large buffers note the
// lines that far ahead, and the next region, which leaves memory alone, brings them into the second
// cache, some for every group. A guess that nothing depends on. Private to runtime/ptx.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/ptx/jit_families.h"

namespace driftc::runtime::ptx::segment {

class Ahead : public Families {
 public:
  using Families::Families;

 protected:
  // Once per run of the unit, behind find_families(): the buffers whose loads come in numbers.
  void find_distances() {
    if (v_.uniform || bound_.regions.empty()) return;
    std::uint32_t next = first_id_;
    for (const LocalInst& i : v_.insts) {
      if (i.inst->op != Op::kLoad && i.inst->op != Op::kStore) continue;
      const AccessPlan a = plan_access(i, next++);
      const Family* f = family(a);
      const bool many = a.count == 4 || (f && f->members > 1);
      if (!many || a.store || a.shared || a.wide || a.root == kNoValue || a.bases.empty() ||
          distance(a))
        continue;
      const int slot = take_slot();
      if (slot < 0) return;
      distances_.push_back({a.bases, a.id, f ? f->leader : a.id, a.log_count, slot});
      mov(qword[rbp + slot_at(slot)], 0);
    }
  }
  // Behind the load of `vectors` windows that memory_at(a, ...) gives: notes the lines ahead of
  // them. Changes rdx, r8 and r9.
  void note_ahead(const AccessPlan& a, int vectors) {
    const Distance* d = distance(a);
    if (!d) return;
    slot_in_rdx_ = -1;
    Label none;
    const int bytes = 4 * lanes_ * vectors;
    if (bytes < kLine) {  // the other half of the line is the next group's
      test(r12d, 1);
      jnz(none, T_NEAR);
    }
    lea(rdx, a.indexed ? ptr[a.at + rdx] : a.pointer ? ptr[a.at] : ptr[rcx]);
    if (a.pointer && a.offset) add(rdx, static_cast<int>(a.offset));
    if (a.id == d->first) {
      Label far, near;
      const auto vectors_in_block = static_cast<int>(bound_.groups * kGroupLanes) / lanes_;
      const int last = static_cast<int>(d->first * sizeof(std::uint64_t)) * vectors_in_block;
      mov(r9, ptr[rbp + CONTEXT(ahead_last)]);
      mov(r8, rdx);
      sub(r8, ptr[r9 + r12 * 8 + last]);
      mov(ptr[r9 + r12 * 8 + last], rdx);
      lea(r9, ptr[r8 + kFar]);
      cmp(r9, 2 * kFar);
      jae(far);
      cmp(qword[rbp + cache_field(d->cache, offsetof(JitCache, window))],
          kNearBytes >> (2 + d->log_count));
      ja(near);
      L(far);
      xor_(r8d, r8d);
      L(near);
      mov(first_at(d->slot), r8);
    } else {
      mov(r8, first_at(d->slot));
    }
    const int lines = (bytes + kLine - 1) / kLine;
    test(r8, r8);
    jz(none, T_NEAR);
    mov(r9, ptr[rbp + CONTEXT(ahead_count)]);
    cmp(r9, static_cast<int>(JitContext::kAhead) - lines);
    ja(none, T_NEAR);
    add(r8, rdx);
    for (int n = 0; n < lines; ++n) {
      if (n) add(r8, kLine);
      mov(ptr[rbp + r9 * 8 + (CONTEXT(ahead) + 8 * n)], r8);
    }
    add(r9, lines);
    mov(ptr[rbp + CONTEXT(ahead_count)], r9);
    L(none);
  }

 private:
  static constexpr int kLine = 64;
  static constexpr int kFar = 1 << 24;        // bytes; a step of a loop is less
  static constexpr int kNearBytes = 1 << 20;  // buffers that stay in the second cache by themselves

  struct Distance {
    std::vector<Reg> bases;
    std::uint32_t first;  // the access that it is measured by
    std::uint32_t cache;  // the access whose cache holds the buffer
    int log_count;        // elements of its places
    int slot;             // bytes; 0: says nothing
  };
  const Distance* distance(const AccessPlan& a) const {
    for (const Distance& d : distances_)
      if (d.bases == a.bases) return &d;
    return nullptr;
  }
  std::vector<Distance> distances_;
};

}  // namespace driftc::runtime::ptx::segment
